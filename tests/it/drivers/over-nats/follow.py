"""Follows routes over NATS: `router.register` adds a server to a URI, `router.unregister` removes it."""

import json
import socket
import time


def follow(arguments, on_ready, add, remove):
    """Follows both subjects, and connects again while NATS is away. The arguments are the server's address, and `keeps`
    or `forgets`: what becomes of the routes meanwhile."""
    address, way = arguments
    known = set()

    def learn(uri, server):
        known.add((uri, server))
        add(uri, server)

    while True:
        try:
            follow_once(address, on_ready, learn, remove)
        except OSError:
            pass
        if way == "forgets":
            for uri, server in known:
                remove(uri, server)
            known.clear()
        time.sleep(0.02)


def follow_once(address, on_ready, add, remove):
    """Follows both subjects by NATS's own text protocol until the server closes the connection."""
    host, port = address.rsplit(":", 1)
    stream = socket.create_connection((host, int(port))).makefile("rwb")
    stream.readline()
    stream.write(b'CONNECT {"verbose":false}\r\nSUB router.register 1\r\nSUB router.unregister 2\r\nPING\r\n')
    stream.flush()
    for line in stream:
        words = line.split()
        if words[:1] == [b"PING"]:
            stream.write(b"PONG\r\n")
            stream.flush()
        elif words[:1] == [b"PONG"]:
            on_ready()
        elif words[:1] == [b"MSG"]:
            message = json.loads(stream.read(int(words[-1]) + 2))
            act = add if words[1] == b"router.register" else remove
            for uri in message["uris"]:
                act(uri, (message["host"], message["port"]))
