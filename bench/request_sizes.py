"""Requests of the same size from every tool: padded paths, from what a listener sees of each."""

import contextlib
import socket
import threading

from loads import TOOLS
from processes import Failed


def equal_paths(site, shape, names):
    """Paths with which all these tools send requests of the same size, and that size in bytes."""
    sizes = {name: request_bytes(site, shape, TOOLS[name]) for name in names}
    longest = max(sizes.values())
    return {name: "/" + "x" * (longest - size) for name, size in sizes.items()}, longest


def request_bytes(site, shape, tool):
    """The size of a request for `/`, as a listener sees it."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1024)
        sizes = []
        answering = threading.Thread(target=answer_all, args=(listener, sizes))
        answering.start()
        try:
            tool(site, shape, shape.url(listener.getsockname()[1]), 1)
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            answering.join()
    if len(set(sizes)) != 1:
        raise Failed(f"requests of different sizes: {sorted(set(sizes))}")
    return sizes[0]


def answer_all(listener, sizes):
    """Answers every connection in a thread of its own until the listener is shut down."""

    def serve(client):
        # A load tool drops its connections at its end.
        with client, contextlib.suppress(OSError):
            while request := client.recv(65536):
                if not request.endswith(b"\r\n\r\n"):
                    return
                sizes.append(len(request))
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=serve, args=(client,), daemon=True).start()
