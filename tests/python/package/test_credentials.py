"""The AWS credentials that requests are signed with, compared with those that botocore finds."""

import http.server
import os
import subprocess
import threading
from pathlib import Path

import botocore.session
import pytest

KEYS = "aws_access_key_id = {}\naws_secret_access_key = s\n"
ROLE = "role_arn = arn:aws:iam::123456789012:role/r\n"
SSO = "sso_account_id = 1\nsso_role_name = r\nsso_region = us-east-1\n"
PROCESS = "credential_process = echo '{{\"Version\": 1, \"AccessKeyId\": \"{}\", \"SecretAccessKey\": \"s\"}}'\n"
#: Variables, configuration, file of credentials, and a part of the message if botocore finds an error.
CASES = [
    ({}, "", "", None),
    ({"AWS_SECRET_ACCESS_KEY": "s"}, "", "", None),
    ({"AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/r"}, "", "", None),
    ({"AWS_ACCESS_KEY_ID": "ENV", "AWS_SECRET_ACCESS_KEY": "s"}, "[default]\n" + KEYS.format("CONFIG"), "", None),
    ({}, "[default]\n" + KEYS.format("CONFIG"), "", None),
    ({}, "[default]\n" + KEYS.format("CONFIG") + PROCESS.format("PROCESS"), "", None),
    ({}, "[default]\n" + PROCESS.format("PROCESS"), "[default]\n" + KEYS.format("FILE"), None),
    ({}, "[default]\n" + PROCESS.format("P Q"), "", None),
    ({"AWS_PROFILE": "a b"}, '[profile "a b"]\n' + KEYS.format("QUOTED"), "", None),
    ({"AWS_PROFILE": "a"}, "[profile a]\n" + KEYS.format("A"), "[a]\n" + KEYS.format("B"), None),
    ({"AWS_PROFILE": "a", "AWS_DEFAULT_PROFILE": "b"}, "[profile a]\n" + KEYS.format("A") + "[profile b]\n" + KEYS.format("B"), "", None),
    ({"AWS_PROFILE": "none"}, "[default]\n" + KEYS.format("CONFIG"), "", 'the profile "none"'),
    ({"AWS_PROFILE": "a"}, "[a]\n" + KEYS.format("A"), "", 'the profile "a"'),
    ({"AWS_PROFILE": "none", "AWS_ACCESS_KEY_ID": "ENV", "AWS_SECRET_ACCESS_KEY": "s"}, "", "", 'the profile "none"'),
    ({"AWS_ACCESS_KEY_ID": "ENV"}, "[default]\n" + KEYS.format("CONFIG"), "", "AWS_SECRET_ACCESS_KEY"),
    ({}, "", "[default]\naws_access_key_id = HALF\n", "no aws_secret_access_key"),
    ({}, "[default]\ncredential_process = false\n", "", "fails with the status 1"),
    ({}, "[default]\ncredential_process = /none/at/all\n", "", "/none/at/all"),
    ({}, "[default]\ncredential_process = echo no\n", "", "no credentials in JSON"),
    ({}, "[default]\n" + ROLE, "", "neither source_profile nor credential_source"),
    ({}, "[default]\n" + ROLE + "source_profile = none\n", "", 'source_profile "none"'),
    ({}, "[default]\n" + ROLE + "source_profile = default\n", "", "its own source_profile"),
    ({}, "[default]\n" + ROLE + "credential_source = Environment\n", "", "AWS_ACCESS_KEY_ID is not set"),
    ({}, "[default]\nsso_start_url = http://sso\n", "", None),
    ({}, "[default]\nsso_start_url = http://sso\nsso_role_name = r\n", "", "has no sso_account_id"),
    ({}, "[default]\nsso_start_url = http://sso\n" + SSO, "", "aws sso login --profile default"),
    ({}, "[default]\nsso_session = none\n" + SSO, "", 'sso-session "none"'),
    ({"AWS_WEB_IDENTITY_TOKEN_FILE": "/none"}, "", "", "AWS_ROLE_ARN"),
    ({"AWS_WEB_IDENTITY_TOKEN_FILE": "/none", "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/r"}, "", "", "/none"),
    ({"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:1/x"}, "", "", "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
]


class Bucket:
    """A server that keeps the access keys of requests. It refuses those in `expired`."""

    def __init__(self):
        self.keys, self.expired, self.on_refusal = [], set(), lambda: None
        bucket = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                signature = self.headers.get("Authorization", "")
                key = signature.partition("Credential=")[2].partition("/")[0] or None
                bucket.keys.append(key)
                code, status = ("ExpiredToken", 400) if key in bucket.expired else ("NoSuchKey", 404)
                if key in bucket.expired:
                    bucket.on_refusal()
                body = f"<Error><Code>{code}</Code></Error>".encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/xml")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def bucket():
    bucket = Bucket()
    yield bucket
    bucket.server.shutdown()


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("AWS_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    (tmp_path / ".aws").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return tmp_path / ".aws"


def list_key(bucket):
    """Asks for an object; returns the program's messages."""
    arguments = ["asdf-mount", "--ls", "-o", f"endpoint={bucket.url}", "s3://bucket/a.asdf"]
    output = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert output.returncode != 0
    return output.stderr


@pytest.mark.parametrize(("variables", "config", "credentials", "message"), CASES)
def test_credentials_are_those_of_botocore(bucket, home: Path, monkeypatch, variables, config, credentials, message):
    (home / "config").write_text(config)
    (home / "credentials").write_text(credentials)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    try:
        found = botocore.session.Session().get_credentials()
        expected = None if found is None else found.get_frozen_credentials().access_key
    except Exception:
        assert message is not None
        said = list_key(bucket)
        assert message in said and "-o anonymous" in said, said
        assert bucket.keys == []
    else:
        assert message is None
        list_key(bucket)
        assert set(bucket.keys) == {expected}


@pytest.mark.parametrize("key", ["mfa_serial", "login_session"])
def test_a_setting_that_is_not_supported_is_named(bucket, home, key):
    role = ROLE + "source_profile = keys\n" if key == "mfa_serial" else ""
    (home / "config").write_text(f"[default]\n{role}{key} = x\n[profile keys]\n" + KEYS.format("A"))
    said = list_key(bucket)
    assert key in said and "aws configure export-credentials --profile default" in said, said
    assert bucket.keys == []


def test_a_file_that_can_not_be_read_is_an_error(bucket, home):
    (home / "config").mkdir()
    said = list_key(bucket)
    assert ".aws/config" in said and bucket.keys == [], said


def test_rewritten_keys_are_read_again_after_a_refusal(bucket, home):
    file = home / "credentials"
    file.write_text("[default]\n" + KEYS.format("OLD"))
    bucket.expired.add("OLD")
    bucket.on_refusal = lambda: file.write_text("[default]\n" + KEYS.format("NEW"))
    list_key(bucket)
    assert bucket.keys[:2] == ["OLD", "NEW"] and set(bucket.keys[2:]) <= {"NEW"}
