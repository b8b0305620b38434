"""Starts gateways and origins, and waits until they respond."""

import os
import socket
import ssl
import time

import configurations
from processes import Failed

BODY = "x" * 64

class Server:
    """A running server on `port`."""

    def __init__(self, name, process, port, folder):
        self.name, self.process, self.port, self.folder = name, process, port, folder


class Servers:
    """Starts servers. Each has its own folder for configuration and log."""

    def __init__(self, processes, binaries, work):
        self.processes, self.binaries, self.work = processes, binaries, work
        self.count = 0

    def nginx_origin(self, cpu):
        def command(folder, port):
            return self.nginx(folder, configurations.NGINX_ORIGIN.format(port=port, body=BODY))

        return self.start("nginx-origin", cpu, command)

    def nginx_tls(self, cpu, http2):
        """nginx with TLS 1.3 and one cipher. On `logged_port` it logs protocol, cipher and group of each request."""
        logged = free_port()
        name = "nginx-http2" if http2 else "nginx-tls"

        def command(folder, port):
            certificate, key = certify(self.processes, folder)
            text = configurations.NGINX_TLS.format(
                port=port, logged=logged, body=BODY, dir=folder, certificate=certificate, key=key,
                http2=" http2" if http2 else "",
            )
            return self.nginx(folder, text)

        server = self.start(name, cpu, command, tls=True)
        server.logged_port = logged
        return server

    def nginx_compressing(self, cpu):
        """nginx that compresses its page for each request that accepts gzip."""
        page = "".join(f"{number * number} is the square of {number}\n" for number in range(400))

        def command(folder, port):
            written(folder, "page", page)
            return self.nginx(folder, configurations.NGINX_COMPRESSING.format(port=port, dir=folder))

        return self.start("nginx-compressing", cpu, command, body_bytes=len(page))

    def nginx_counting(self, cpu):
        """nginx with HTTP/2 over TLS, and its request counter on `status_port`."""
        status = free_port()

        def command(folder, port):
            certificate, key = certify(self.processes, folder)
            text = configurations.NGINX_COUNTING.format(port=port, status=status, body=BODY, certificate=certificate, key=key)
            return self.nginx(folder, text)

        server = self.start("nginx-counting", cpu, command, tls=True)
        server.status_port = status
        return server

    def weir_origin(self, cpu, *options, tls=False, asked=True, port=None):
        """weir's origin. With `asked=False` it gets no readiness request, so that its counters start at zero."""

        def command(folder, port):
            size = ["--listen", f"127.0.0.1:{port}", "--body", f"{len(BODY)}B"]
            return [self.binaries["weir"], "origin", *size, *options, *["--tls"] * tls]

        return self.start("weir-origin", cpu, command, tls, asked, port)

    def nginx_large(self, cpu, body_bytes):
        """nginx that responds to every request with a file of this size."""

        def command(folder, port):
            written(folder, "large", "x" * body_bytes)
            return self.nginx(folder, configurations.NGINX_LARGE.format(port=port, dir=folder))

        return self.start("nginx-large", cpu, command, body_bytes=body_bytes)

    def gateway(self, name, cpu, origin, body_bytes=len(BODY)):
        def command(folder, port):
            if name == "nginx":
                return self.nginx(folder, configurations.NGINX_GATEWAY.format(port=port, origin=origin.port))
            if name == "envoy":
                file = written(folder, "envoy.yaml", configurations.ENVOY.format(port=port, origin=origin.port))
                options = ["--concurrency", "1", "--log-level", "warning", "--use-dynamic-base-id"]
                return [self.binaries["envoy"], "-c", file, *options, "--disable-hot-restart"]
            if name == "weir-gateway":
                file = written(folder, "weir.yaml", configurations.WEIR.format(port=port, origin=origin.port))
                return [self.binaries["weir-gateway"], "--config", file]
            http = name == "haproxy"
            keep_alive = "option http-keep-alive\n    http-reuse always" if http else ""
            text = configurations.HAPROXY.format(
                mode="http" if http else "tcp", keep_alive=keep_alive, port=port, origin=origin.port
            )
            # `-db` runs one process in the foreground, without a master.
            return [self.binaries["haproxy"], "-db", "-f", written(folder, "haproxy.cfg", text)]

        return self.start(name.replace(" ", "-"), cpu, command, body_bytes=body_bytes)

    def nginx(self, folder, http):
        user = "user root;" if os.geteuid() == 0 else ""
        file = written(folder, "nginx.conf", configurations.NGINX.format(dir=folder, user=user, http=http))
        return [self.binaries["nginx"], "-p", folder, "-c", file, "-e", "stderr"]

    def start(self, name, cpu, command, tls=False, asked=True, port=None, body_bytes=len(BODY), path="/"):
        self.count += 1
        folder = self.work / f"{self.count}-{name}"
        folder.mkdir()
        port = port or free_port()
        log_path = folder / "log"
        with open(log_path, "wb") as log:
            process = self.processes.start(command(folder, port), cpu, log)
        deadline = time.monotonic() + 20
        while not (answers(port, tls, body_bytes, path) if asked else "listening" in log_path.read_text(errors="replace")):
            if process.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"{name} does not respond:\n{log_path.read_text(errors='replace')}")
            time.sleep(0.02)
        return Server(name, process, port, folder)


def written(folder, name, text):
    path = folder / name
    path.write_text(text)
    return path


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def certify(processes, folder):
    """Makes a self-signed certificate with a P-256 key. Returns (certificate, key)."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command = ["openssl", "req", "-x509", *curve, "-days", "2", *subject, "-keyout", key, "-out", certificate]
    done = processes.run(command, None, folder / "openssl.log", 20)
    if done.code != 0:
        raise Failed(f"openssl cannot make a certificate:\n{done.said()}")
    return certificate, key


def connected(port, tls):
    """A connection to a local server. Its self-signed certificate is not verified."""
    plain = socket.create_connection(("127.0.0.1", port), timeout=5)
    if not tls:
        return plain
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["http/1.1"])
    return context.wrap_socket(plain)


def fetched(port, path="/", tls=False):
    """(Response headers, body) of a GET."""
    with connected(port, tls) as client:
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode())
        received = b"".join(iter(lambda: client.recv(65536), b""))
    head, _, body = received.partition(b"\r\n\r\n")
    return head, body


def answers(port, tls=False, body_bytes=len(BODY), path="/"):
    """Whether a GET returns status 200 and a body of this size."""
    try:
        head, body = fetched(port, path, tls)
    except OSError:
        return False
    return head.startswith(b"HTTP/1.1 200") and len(body) == body_bytes
