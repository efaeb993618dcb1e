"""Files on a web server on this machine, without delay and with 50 ms a request."""

import http.client
import os
import socket
import subprocess
import time

from .files import block_header
from .machine import BINARY, GIB, MIB, PYTHON, ROOT, Mount, median, noise, ratio, row, seconds

DELAY = 0.05
SMALL = MIB
"""Size of the block that Python reads, in requests of a few KiB."""
PEERS = ROOT / "scripts/benches/peers"
HEAD = b"""#ASDF 1.0.0
#ASDF_STANDARD 1.6.0
%%YAML 1.1
%%TAG ! tag:stsci.edu:asdf/
--- !core/asdf-1.1.0
big: !core/ndarray-1.1.0 {source: 0, datatype: uint8, byteorder: big, shape: [%d]}
...
"""
SINGLE = 128 << 10
"""Length of a request of a client that sends them one after the other, as FUSE file systems without read-ahead do."""
SINGLES = 100


class SlowServer:
    """A web server that delays each reply, for the duration of a `with` block, which returns the URL of its root."""

    def __init__(self, folder, delay):
        self.command = [PYTHON, PEERS / "web_server.py", folder, str(delay)]

    def __enter__(self):
        self.process = subprocess.Popen([str(word) for word in self.command], stdout=subprocess.PIPE)
        return f"http://127.0.0.1:{int(self.process.stdout.readline())}"

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


class Nginx:
    """nginx, for the duration of a `with` block, which returns the URL of its root. It keeps its files in `folder`."""

    def __init__(self, www, folder):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = free.getsockname()
        folder.mkdir(exist_ok=True)
        paths = "".join(f"{name}_temp_path {folder}/{name}; " for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        settings = (f"daemon off; pid {folder}/pid; error_log {folder}/log; worker_processes 1; user root; events {{}}\n"
                    f"http {{ access_log off; sendfile on; {paths}\n"
                    f"server {{ listen 127.0.0.1:{self.address[1]}; root {www}; }} }}\n")
        self.settings = folder / "nginx.conf"
        self.settings.write_text(settings)

    def __enter__(self):
        self.process = subprocess.Popen(["nginx", "-c", str(self.settings)], stderr=subprocess.DEVNULL)
        for _ in range(100):
            try:
                socket.create_connection(self.address).close()
                return f"http://127.0.0.1:{self.address[1]}"
            except OSError:
                time.sleep(0.05)
        raise SystemExit("nginx does not start")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def singles(url):
    """Returns the bytes a second of single requests."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"))
    begun = time.perf_counter()
    for n in range(SINGLES):
        connection.request("GET", "/large.asdf", headers={"Range": f"bytes={n * SINGLE}-{(n + 1) * SINGLE - 1}"})
        assert len(connection.getresponse().read()) == SINGLE
    return SINGLES * SINGLE / (time.perf_counter() - begun)


def bench_servers(here, repeats):
    """Measures a stored block of 1 GiB."""
    www = here / "www"
    www.mkdir()
    noise_bytes = os.urandom(16 * MIB)
    for name, size in (("large", GIB), ("small", SMALL)):
        with open(www / f"{name}.asdf", "wb") as out:
            out.write(HEAD % size + block_header(size))
            for _ in range(0, size, len(noise_bytes)):
                out.write(noise_bytes[:size])
    figures = {name: [] for name in ("curl", "singles", "python", "first", "last")}
    for _ in range(repeats):
        with Nginx(www.resolve(), here.resolve() / "nginx") as url:
            curl = seconds("curl", "-sf", "-o", "/dev/null", f"{url}/large.asdf")
            with mounted(here, url) as point:
                figures["curl"].append(curl / seconds("dd", f"if={point}/blocks/0.bin", "of=/dev/null", "bs=1M"))
        with SlowServer(www, DELAY) as url:
            begun = time.perf_counter()
            with mounted(here, url) as point:
                with open(point / "tree.yaml", "rb") as tree:
                    tree.read(1)
                figures["first"].append(time.perf_counter() - begun)
                begun = time.perf_counter()
                with open(point / "blocks/0.bin", "rb", buffering=0) as block:
                    block.seek(GIB - 4096)
                    assert len(block.read(4096)) == 4096
                figures["last"].append(time.perf_counter() - begun)
            with mounted(here, url) as point:
                speed = GIB / seconds("dd", f"if={point}/blocks/0.bin", "of=/dev/null", "bs=1M")
            figures["singles"].append(speed / singles(url))
            peer = subprocess.run([PYTHON, PEERS / "fsspec_peer.py", f"{url}/small.asdf"], check=True, capture_output=True)
            figures["python"].append(speed / (SMALL / float(peer.stdout)))
    first, last = (median(figures[name]) * 1e3 for name in ("first", "last"))
    row("a file on a web server, 50 ms a request: mount to first byte of tree.yaml", f"{first:.0f} ms", f"goal ≤ 120; {noise()}")
    row("… last 4 KiB of a stored block of 1 GiB", f"{last:.0f} ms", "goal ≤ 1 request")
    row("… read from end to end, times as fast as requests of 128 KiB one after the other", ratio(figures["singles"]), "goal ≥ 4")
    row("… times as fast as Python asdf over fsspec", ratio(figures["python"]), "")
    row("… from nginx without delay, of `curl`", ratio(figures["curl"]), "goal ≥ 0.7")


def mounted(here, url, name="large"):
    """Returns a mount without a cache on disk."""
    return Mount([BINARY, "-o", "anonymous", f"{url}/{name}.asdf", here / "m"], here / "m")


def sparse_arrays(path, count, has_index):
    """Writes a file of `count` blocks of 8 MiB, whose data are holes."""
    lines = "".join(f"a{n}: !core/ndarray-1.1.0 {{source: {n}, datatype: uint8, byteorder: big, shape: [{8 * MIB}]}}\n"
                    for n in range(count))
    offsets = []
    with open(path, "wb") as out:
        out.write(b"\n".join(HEAD.split(b"\n")[:5]).replace(b"%%", b"%") + b"\n" + lines.encode() + b"...\n")
        for _ in range(count):
            offsets.append(out.tell())
            out.write(block_header(8 * MIB))
            out.seek(8 * MIB, os.SEEK_CUR)
        if has_index:
            out.write(b"#ASDF BLOCK INDEX\n%YAML 1.1\n---\n")
            out.write("".join(f"- {offset}\n" for offset in offsets).encode() + b"...\n")
        else:
            out.truncate()


def bench_small_reads(here, repeats):
    """Measures small facts of large files on a server that answers after 100 ms."""
    www = here / "www-small"
    www.mkdir()
    sparse_arrays(www / "ten.asdf", 10, True)
    sparse_arrays(www / "many.asdf", 300, True)
    sparse_arrays(www / "very-many.asdf", 10_000, True)
    sparse_arrays(www / "chain.asdf", 300, False)
    with open(www / "random.asdf", "wb") as out:
        out.write(HEAD % GIB + block_header(GIB))
        out.truncate(out.tell() + GIB)
    for name, last, what in (("ten", 9, "10 blocks and an index"), ("many", 299, "300 blocks and an index"),
                             ("very-many", 9999, "10 000 blocks and an index"),
                             ("chain", 299, "300 blocks of equal length without an index")):
        times, counts = [], None
        for _ in range(repeats):
            with SlowServer(www, 2 * DELAY) as url, mounted(here, url, name) as point:
                begun = time.perf_counter()
                with open(point / f"arrays/a{last}.npy", "rb", buffering=0) as array:
                    assert len(array.read(4096)) == 4096
                times.append(time.perf_counter() - begun)
                counts = requests(point)
        row(f"a file of {what}, 100 ms a request: 4 KiB of the last array", f"{median(times):.2f} s",
            f"{counts}; {noise()}")
    write = ("import asdf, numpy, sys; asdf.AsdfFile({'a': numpy.random.default_rng(1).normal(size=1 << 26).astype('f4')})"
             ".write_to(sys.argv[1], all_array_compression='lz4')")
    subprocess.run([PYTHON, "-c", write, www / "lz4.asdf"], check=True)
    times = []
    for _ in range(repeats):
        with SlowServer(www, 2 * DELAY) as url, mounted(here, url, "lz4") as point:
            begun = time.perf_counter()
            with open(point / "blocks/0.bin", "rb", buffering=0) as block:
                block.seek(256 * MIB // 10 * 9)
                assert len(block.read(4096)) == 4096
            times.append(time.perf_counter() - begun)
            counts = requests(point)
    row("4 KiB at 90 % of an lz4 block of 256 MiB, 100 ms a request", f"{median(times):.2f} s", f"{counts}; {noise()}")
    times = []
    for _ in range(repeats):
        with SlowServer(www, 2 * DELAY) as url, mounted(here, url, "random") as point:
            begun = time.perf_counter()
            with open(point / "blocks/0.bin", "rb", buffering=0) as block:
                for n in range(1, 21):
                    block.seek(n * 50 * MIB)
                    assert len(block.read(4096)) == 4096
            times.append(time.perf_counter() - begun)
            counts = requests(point)
    row("20 random reads of 4 KiB in a block of 1 GiB, 100 ms a request", f"{median(times):.2f} s", f"{counts}; {noise()}")


def requests(point):
    """Returns the requests and bytes of a mount so far."""
    lines = dict(line.split(": ", 1) for line in (point / ".asdf-mount/stats.yaml").read_text().splitlines() if ": " in line)
    return f"{lines['requests']} requests, {int(lines['bytes']) / 1e6:.1f} MB"
