"""The programs that ask: wrk and weir's engine, with the requests that they counted and the CPU they took."""

import contextlib
import json
import re
import socket
import threading

from processes import Failed

CONNECTIONS = 32


class Load:
    """What one load did."""

    def __init__(self, requests, rate_per_s, cpu_s):
        self.requests, self.rate_per_s, self.cpu_s = requests, rate_per_s, cpu_s


def wrk(processes, binaries, work, cpu, port, seconds, path="/"):
    command = [binaries["wrk"], "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", f"http://127.0.0.1:{port}{path}"]
    code, output, cpu_s = processes.run(command, cpu, work / "wrk.log", seconds + 20)
    requests = re.search(r"(\d+) requests in", output)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", output)
    if code != 0 or not requests or not rate or "Non-2xx" in output or "Socket errors" in output:
        raise Failed(f"wrk did not get its answers (exit {code}):\n{output}")
    return Load(int(requests[1]), float(rate[1]), cpu_s)


def engine(processes, binaries, work, cpu, port, seconds, path="/"):
    url = f"http://127.0.0.1:{port}{path}"
    options = ["--connections", CONNECTIONS, "--workers", 1, "--duration", f"{seconds}s", "--json"]
    command = [binaries["weir"], "load", url, *options]
    code, output, cpu_s = processes.run(command, cpu, work / "weir-load.log", seconds + 30)
    start = output.find("{")
    if code != 0 or start < 0:
        raise Failed(f"weir load did not get its answers (exit {code}):\n{output}")
    result = json.loads(output[start:])
    requests = result["requests"]
    if requests["failed"] or requests["timed_out"] or requests["unexpected"] or not requests["completed"]:
        raise Failed(f"weir load had errors: {requests}, {result['errors']}")
    return Load(requests["completed"], result["rate_per_s"], cpu_s)


TOOLS = {"weir load": engine, "wrk": wrk}


def equal_paths(processes, binaries, work, cpu):
    """Paths with which both tools send requests of the same size, and that size in bytes."""
    sizes = {name: request_bytes(tool, processes, binaries, work, cpu) for name, tool in TOOLS.items()}
    longest = max(sizes.values())
    return {name: "/" + "x" * (longest - size) for name, size in sizes.items()}, longest


def request_bytes(tool, processes, binaries, work, cpu):
    """The size of a request for `/`, as a listener sees it."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1024)
        sizes = []
        answering = threading.Thread(target=answer_all, args=(listener, sizes))
        answering.start()
        try:
            tool(processes, binaries, work, cpu, listener.getsockname()[1], 1)
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
