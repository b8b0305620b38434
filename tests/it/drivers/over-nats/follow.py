"""Follows routes over NATS: `router.register` adds a server to a URI, `router.unregister` removes it."""

import json
import socket
import threading
import time


def follow(arguments, on_ready, add, remove):
    """Follows both subjects and reconnects after NATS fails.

    Arguments: the server's address; what happens to routes while NATS is unavailable (`keeps` or `forgets`); the
    seconds after which a route is dropped if it is not published again.
    """
    address, way, seconds = arguments
    known = {}

    def learn(uri, server):
        known[uri, server] = time.monotonic()
        add(uri, server)

    def forget(older_than_s):
        for (uri, server), at in list(known.items()):
            if time.monotonic() - at >= older_than_s:
                remove(uri, server)
                known.pop((uri, server), None)

    def expire():
        while True:
            forget(float(seconds))
            time.sleep(0.05)

    threading.Thread(target=expire, daemon=True).start()
    while True:
        try:
            follow_once(address, on_ready, learn, remove)
        except OSError:
            pass
        if way == "forgets":
            forget(0)
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
