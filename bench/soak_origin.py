#!/usr/bin/env python3
"""An origin for unusual clients that can be killed and restarted: `soak_origin.py ADDRESS PORT`.

The last two segments of a path select the response: `bytes/N` is a body of N bytes, `paced/N` the same body in small
pieces, `wait/MS` a delayed response. The response to a request body is its length and checksum. `Upgrade: echo`
switches to a connection that echoes received bytes.
"""

import sys
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PATTERN = bytes(range(256)) * 4096
PACE_BYTES, PACE_S = 64 << 10, 0.02
BLOCK_BYTES = 64 << 10


def pattern(size):
    """The blocks of a body of this size."""
    for at in range(0, size, len(PATTERN)):
        yield PATTERN[: size - at]


def checksum(blocks):
    """Length and CRC-32 of a body, as text."""
    length = crc = 0
    for block in blocks:
        length, crc = length + len(block), zlib.crc32(block, crc)
    return f"{length} {crc:08x}"


def head(length):
    """Status line and headers of a response with a body of this length."""
    return f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n".encode()


class Truncated(Exception):
    """The request body is incomplete."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    # Large bodies are sent in pieces, which must not wait for acknowledgements.
    disable_nagle_algorithm = True

    def do_GET(self):
        if self.headers.get("Upgrade") == "echo":
            self.echo()
            return
        word, number = self.path.split("/")[-2:]
        number = int(number)
        if word == "wait":
            time.sleep(number / 1000)
            self.answer(b"waited")
            return
        self.wfile.write(head(number))
        for block in pattern(number):
            for at in range(0, len(block), PACE_BYTES):
                self.wfile.write(block[at : at + PACE_BYTES])
                if word == "paced":
                    time.sleep(PACE_S)

    def do_POST(self):
        try:
            body = checksum(self.body()).encode()
        except Truncated:
            self.close_connection = True
            return
        word, number = self.path.split("/")[-2:]
        if word == "wait":
            time.sleep(int(number) / 1000)
        self.answer(body)

    do_PUT = do_POST

    def answer(self, body):
        # A single write, so that a killed origin has sent the whole response or nothing.
        self.wfile.write(head(len(body)) + body)

    def body(self):
        """The blocks of the request's body."""
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            yield from self.exactly(int(self.headers.get("Content-Length", 0)))
            return
        while size := int(self.line().split(b";")[0], 16):
            yield from self.exactly(size)
            self.line()
        while self.line():
            pass

    def exactly(self, left):
        while left:
            block = self.rfile.read1(min(left, BLOCK_BYTES))
            if not block:
                raise Truncated
            left -= len(block)
            yield block

    def line(self):
        line = self.rfile.readline(BLOCK_BYTES)
        if not line.endswith(b"\n"):
            raise Truncated
        return line.strip()

    def echo(self):
        self.wfile.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
        while block := self.rfile.read1(BLOCK_BYTES):
            self.wfile.write(block)
        self.close_connection = True

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    """A thread per connection."""

    daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, request, client_address):
        # Clients that disconnect are expected here; every other error is reported.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


if __name__ == "__main__":
    Server((sys.argv[1], int(sys.argv[2])), Handler).serve_forever()
