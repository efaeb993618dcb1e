"""Serves the files in FOLDER with ranges, each reply DELAY seconds late. Prints its port.

    web_server.py FOLDER DELAY
"""

import os
import re
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Otherwise a short reply waits for the client's acknowledgement of its header, which real servers avoid.
    disable_nagle_algorithm = True

    def do_GET(self):
        time.sleep(float(sys.argv[2]))
        with open(Path(sys.argv[1]) / self.path.lstrip("/"), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            asked = self.headers.get("Range", "")
            if re.fullmatch(r"bytes=\d+-\d+(,\d+-\d+)+", asked):
                return self.send_parts(file, size, [tuple(map(int, part.split("-"))) for part in asked[6:].split(",")])
            wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", asked)
            first, last = (int(wanted[1]), min(int(wanted[2] or size - 1), size - 1)) if wanted else (0, size - 1)
            self.send_response(206 if wanted else 200)
            if wanted:
                self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
            self.send_header("ETag", '"one"')
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("Content-Length", str(last + 1 - first))
            self.end_headers()
            self.wfile.flush()
            if self.command == "GET":
                self.connection.settimeout(60)
                file.seek(first)
                self.connection.sendfile(file, first, last + 1 - first)

    def send_parts(self, file, size, ranges):
        """Sends several ranges, as nginx does."""
        body = b""
        for first, last in ranges:
            last = min(last, size - 1)
            file.seek(first)
            body += b"\r\n--part\r\nContent-Range: bytes %d-%d/%d\r\n\r\n" % (first, last, size)
            body += file.read(last + 1 - first)
        body += b"\r\n--part--\r\n"
        self.send_response(206)
        self.send_header("Content-Type", "multipart/byteranges; boundary=part")
        self.send_header("ETag", '"one"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


server = Server(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
