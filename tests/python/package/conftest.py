"""Makes asdf_mount importable from the sources, with its entry points, unless it is installed.

Program and native module are then those of the debug build. ASDF_MOUNT names another program, beside its module.
"""

import functools
import http.server
import importlib.util
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from from_sources import ROOT, lay_out

#: The requests to the web server: path and range.
ASKED = []
SOURCES = None


def search_first(place):
    """Lets this process and those that it starts import from a directory."""
    sys.path.insert(0, str(place))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(place), *filter(None, [os.environ.get("PYTHONPATH")])])


search_first(ROOT / "tests/python")
if importlib.util.find_spec("asdf_mount") is None:
    import tempfile

    program = os.environ.get("ASDF_MOUNT") or os.path.join(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"), "debug/asdf-mount")
    SOURCES = tempfile.TemporaryDirectory(prefix="asdf-mount-package-")
    place = Path(SOURCES.name)
    lay_out(place, Path(program))
    search_first(place)
    os.environ["PATH"] = os.pathsep.join([str(place / "bin"), os.environ["PATH"]])


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """A directory with files of each codec; the arrays are in `ARRAYS`."""
    from write import write_files

    folder = tmp_path_factory.mktemp("files")
    write_files(folder)
    return folder


@pytest.fixture(scope="session")
def server(files):
    """A web server with ranges; its address."""

    class Ranges(http.server.SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self, with_body=True):
            ASKED.append((self.path, self.headers.get("Range")))
            try:
                data = Path(self.translate_path(self.path)).read_bytes()
            except OSError:
                return self.send_error(404)
            asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
            start, end = 0, len(data)
            if asked and asked[1]:
                start, end = int(asked[1]), min(end, int(asked[2] or end) + 1)
            elif asked:
                start = max(0, len(data) - int(asked[2]))
            self.send_response(206 if asked else 200)
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("ETag", f'"{len(data)}"')
            if asked:
                self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(data)}")
            self.send_header("Content-Length", str(end - start))
            self.end_headers()
            if with_body:
                self.wfile.write(data[start:end])

        def do_HEAD(self):
            self.do_GET(with_body=False)

        def log_message(self, *_):
            pass

    handler = functools.partial(Ranges, directory=files)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()


@pytest.fixture(scope="session")
def bucket(files):
    """A server of S3 with the files in the bucket `roman`, which checks signatures; its address, key and secret."""
    command = [sys.executable, ROOT / "tests/python/serve_s3.py", files]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        yield [server.stdout.readline().strip() for _ in range(3)]
        server.stdin.close()
