"""Makes the requests of all tools equally large. A listener measures them, and smaller ones get a longer path."""

import contextlib
import socket
import threading

from loads import TOOLS
from processes import Failed


def equal_paths(site, shape, names):
    """(Path by tool, size in bytes). With these paths, all tools send requests of this size."""
    sizes = {name: request_bytes(site, shape, TOOLS[name]) for name in names}
    longest = max(sizes.values())
    return {name: "/" + "x" * (longest - size) for name, size in sizes.items()}, longest


def request_bytes(site, shape, tool):
    """The size of a tool's request for `/`, measured by a listener."""
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
    """Serves every connection in its own thread until the listener is shut down."""

    def serve(client):
        # A load tool drops its connections when it ends.
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
