"""Follows routes over NATS: `router.register` adds a server to a URI, `router.unregister` removes it."""

import json
import socket


def follow(arguments, on_ready, add, remove):
    """Follows both subjects by NATS's own text protocol; the argument is the server's address."""
    host, port = arguments[0].rsplit(":", 1)
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
