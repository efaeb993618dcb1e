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

    def do_GET(self):
        time.sleep(float(sys.argv[2]))
        with open(Path(sys.argv[1]) / self.path.lstrip("/"), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
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

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


server = Server(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
