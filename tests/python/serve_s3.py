"""Serves the files in FOLDER as the bucket `roman` of an S3 server (moto), which checks signatures. Prints its URL, an
access key and its secret, a line each. For each line of input, NAME FILE, replaces the object NAME by FILE and answers
with a line; ends with the input."""

import sys
from pathlib import Path

import boto3
from moto import settings
from moto.server import ThreadedMotoServer

folder = Path(sys.argv[1])
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
url = f"http://{host}:{port}"
setup = {"endpoint_url": url, "region_name": "us-east-1", "aws_access_key_id": "setup", "aws_secret_access_key": "setup"}
s3, iam = boto3.client("s3", **setup), boto3.client("iam", **setup)
s3.create_bucket(Bucket="roman")
for file in sorted(folder.rglob("*")):
    if file.is_file():
        s3.upload_file(str(file), "roman", str(file.relative_to(folder)))
iam.create_user(UserName="reader")
policy = '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"*"}]}'
iam.put_user_policy(UserName="reader", PolicyName="all", PolicyDocument=policy)
key = iam.create_access_key(UserName="reader")["AccessKey"]
reader = {**setup, "aws_access_key_id": key["AccessKeyId"], "aws_secret_access_key": key["SecretAccessKey"]}
# From here on each request needs a right signature.
settings.INITIAL_NO_AUTH_ACTION_COUNT = 0
with_key = boto3.client("s3", **reader)
print(url, key["AccessKeyId"], key["SecretAccessKey"], sep="\n", flush=True)
for line in sys.stdin:
    name, file = line.split()
    with_key.upload_file(file, "roman", name)
    print("done", flush=True)
