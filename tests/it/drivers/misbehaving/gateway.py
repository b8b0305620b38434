#!/usr/bin/env python3
"""A small HTTP/1.1 gateway that misbehaves in the way that its first argument names.

    gateway.py WAY LISTEN ORIGIN
"""

import os
import signal
import socket
import sys
import threading

# Number of bytes that "shouting" gateways print at their start.
SHOUTED_BYTES = 64 << 20
# The ways "quitting" and "eating" start at this number of requests. Readiness checks send fewer, a phase sends more.
PATIENCE = 100
# Prefix of the argument WAY: the gateway also listens on the address that follows the prefix.
ALSO = "listening also on "


class Gateway:
    """Forwards every request to the origin, over one upstream connection per client connection."""

    def __init__(self, way, origin):
        self.way, self.origin = way, origin
        self.served, self.eaten = 0, []
        self.lock = threading.Lock()

    def serve(self, client):
        with client, socket.create_connection(self.origin) as origin:
            for stream in (client, origin):
                stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            from_client, from_origin = client.makefile("rb"), origin.makefile("rb")
            while head := read_head(from_client):
                origin.sendall(head + from_client.read(length_of(head)))
                answer = read_head(from_origin)
                client.sendall(answer + from_origin.read(length_of(answer)))
                self.after_a_request()

    def after_a_request(self):
        with self.lock:
            self.served += 1
        if self.served < PATIENCE:
            return
        if self.way == "quitting":
            print("I have had enough", file=sys.stderr, flush=True)
            os._exit(7)
        while self.way == "eating":
            self.eaten.append(b"x" * (4 << 20))
        if self.way == "shouting":
            print("a request was served, and one cannot say so often enough " * 64, flush=True)


def read_head(stream):
    """Start line and headers up to the empty line; empty at the end of the stream."""
    head = b""
    while line := stream.readline():
        head += line
        if line == b"\r\n":
            return head
    return b""


def length_of(head):
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return 0


def listener(address):
    return socket.create_server(parse(address), backlog=128)


def parse(address):
    host, _, port = address.rpartition(":")
    return host, int(port)


def go_away():
    """Daemonizes: fork, new session, fork again. The process that weir started exits with 0."""
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)


def main():
    if sys.argv[1:] == ["--version"]:
        # The version stands between unprintable bytes and a long tail.
        sys.stdout.buffer.write(b"\x1b[31m\xff\x00 gateway/0.1 \x1b[0m\n" + b"\x00\xfe" * 10_000 + b"\n")
        return
    way, listen, origin = sys.argv[1:]
    if way == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if way == "going away":
        go_away()
    if way == "shouting":
        line = b"I am about to listen, and will say so until everybody knows\n" * 1024
        for _ in range(SHOUTED_BYTES // len(line)):
            sys.stderr.buffer.write(line)
    # Listens on the extra address first: once the expected address accepts connections, both do.
    servers = [listener(way.removeprefix(ALSO))] if way.startswith(ALSO) else []
    servers.append(listener(listen))
    gateway = Gateway(way, parse(origin))
    while True:
        client, _ = servers[-1].accept()
        threading.Thread(target=gateway.serve, args=[client], daemon=True).start()


main()
