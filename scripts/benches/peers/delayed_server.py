"""Serves FILE under every name, each reply DELAY seconds late, at little cost. Prints its port.

    delayed_server.py FILE DELAY
"""

import asyncio
import re
import sys
from pathlib import Path

DATA = memoryview(Path(sys.argv[1]).read_bytes())
DELAY = float(sys.argv[2])


class Replies(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
        self.received = b""

    def data_received(self, data):
        self.received += data
        *requests, self.received = self.received.split(b"\r\n\r\n")
        for request in requests:
            asyncio.get_running_loop().call_later(DELAY, self.reply, request)

    def reply(self, request):
        first, last = map(int, re.search(rb"(?i)\nrange: bytes=(\d+)-(\d+)", request).groups())
        last = min(last, len(DATA) - 1)
        self.transport.write(b"HTTP/1.1 206 Partial Content\r\nETag: \"one\"\r\nContent-Range: bytes %d-%d/%d\r\n"
                             b"Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: %d\r\n\r\n"
                             % (first, last, len(DATA), last + 1 - first))
        self.transport.write(DATA[first:last + 1])


async def serve():
    server = await asyncio.get_running_loop().create_server(Replies, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(serve())
