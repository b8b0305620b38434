#!/usr/bin/env python3
"""Forwards bytes between clients and the origin, and holds bytes from clients for a known time.

    relay.py HOLD_NS LISTEN ORIGIN

Timers of kernels and proxies are too coarse for this, so the relay polls the clock without pause while it holds bytes.
On SIGTERM it prints how long it really held them.
"""

import collections
import os
import select
import signal
import socket
import sys
import time

PIECE_BYTES = 1 << 16


class Relay:
    """Both ends of every connection, and held bytes in order of arrival."""

    def __init__(self, hold_ns, listen, origin):
        self.hold_ns, self.origin = hold_ns, origin
        self.peers, self.from_clients, self.held = {}, set(), collections.deque()
        self.count, self.held_ns = 0, 0
        self.poll = select.epoll()
        self.server = socket.create_server(listen, backlog=512)
        self.poll.register(self.server, select.EPOLLIN)

    def run(self):
        while True:
            for number, _ in self.poll.poll(0 if self.held else -1):
                if number == self.server.fileno():
                    self.accept()
                elif number in self.peers:
                    self.read(number)
            while self.held and time.monotonic_ns() >= self.held[0][0] + self.hold_ns:
                self.let_go(*self.held.popleft())

    def accept(self):
        client, _ = self.server.accept()
        origin = socket.create_connection(self.origin)
        for one, other in ((client, origin), (origin, client)):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.peers[one.fileno()] = (one, other)
            self.poll.register(one, select.EPOLLIN)
        self.from_clients.add(client.fileno())

    def read(self, number):
        one, other = self.peers[number]
        try:
            piece = one.recv(PIECE_BYTES)
        except ConnectionResetError:
            piece = b""
        if not piece:
            self.close(one, other)
        elif number in self.from_clients:
            self.held.append((time.monotonic_ns(), other, piece))
        else:
            other.sendall(piece)

    def let_go(self, since_ns, to, piece):
        if to.fileno() < 0:
            return
        self.count += 1
        self.held_ns += time.monotonic_ns() - since_ns
        to.sendall(piece)

    def close(self, *ends):
        for end in ends:
            if end.fileno() >= 0:
                self.poll.unregister(end)
                self.peers.pop(end.fileno())
                self.from_clients.discard(end.fileno())
                end.close()

    def report(self, *_):
        mean_ns = self.held_ns / self.count if self.count else 0
        os.write(1, f"held {self.count} requests for {mean_ns:.0f} ns in the mean\n".encode())
        os._exit(0)


def parse(address):
    host, _, port = address.rpartition(":")
    return host, int(port)


def main():
    if sys.argv[1:] == ["--version"]:
        print("relay/1.0")
        return
    hold_ns, listen, origin = sys.argv[1:]
    relay = Relay(int(hold_ns), parse(listen), parse(origin))
    signal.signal(signal.SIGTERM, relay.report)
    relay.run()


main()
