"""The programs that answer: configurations of the gateways and origins, equal as far as they can be."""

import os
import socket
import time

from processes import Failed

BODY = "x" * 64

NGINX = """
daemon off;
worker_processes 1;
{user}
pid {dir}/nginx.pid;
error_log stderr crit;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    keepalive_timeout 3600s;
    keepalive_requests 1000000000;
    client_body_temp_path {dir}/body;
    proxy_temp_path {dir}/proxy;
    fastcgi_temp_path {dir}/fastcgi;
    uwsgi_temp_path {dir}/uwsgi;
    scgi_temp_path {dir}/scgi;
    {http}
}}
"""

NGINX_ORIGIN = """
    server {{
        listen 127.0.0.1:{port};
        location / {{ return 200 "{body}"; }}
    }}
"""

NGINX_GATEWAY = """
    upstream origin {{
        server 127.0.0.1:{origin};
        keepalive 64;
        keepalive_timeout 3600s;
        keepalive_requests 1000000000;
    }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
            proxy_pass http://origin;
        }}
    }}
"""

HAPROXY = """
global
    nbthread 1
    maxconn 4096
defaults
    mode {mode}
    timeout connect 5s
    timeout client 3600s
    timeout server 3600s
    {keep_alive}
frontend in
    bind 127.0.0.1:{port}
    default_backend out
backend out
    server origin 127.0.0.1:{origin}
"""

ENVOY = """
static_resources:
  listeners:
  - address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: in
          codec_type: HTTP1
          generate_request_id: false
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes: [{{ match: {{ prefix: "/" }}, route: {{ cluster: origin }} }}]
          http_filters:
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
  clusters:
  - name: origin
    type: STATIC
    load_assignment:
      cluster_name: origin
      endpoints:
      - lb_endpoints:
        - endpoint: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {origin} }} }} }}
"""

WEIR = """
listeners: [{{ address: 127.0.0.1:{port} }}]
workers: 1
routes:
  - {{ hosts: ["127.0.0.1"], path: /, backend: origin }}
backends: {{ origin: {{ endpoints: ["127.0.0.1:{origin}"] }} }}
"""


class Server:
    """A running program that answers on `port`."""

    def __init__(self, name, process, port):
        self.name, self.process, self.port = name, process, port


class Servers:
    """Starts servers; each has a folder of its own for its configuration and log."""

    def __init__(self, processes, binaries, work):
        self.processes, self.binaries, self.work = processes, binaries, work

    def nginx_origin(self, cpu):
        def command(folder, port):
            return self.nginx(folder, NGINX_ORIGIN.format(port=port, body=BODY))

        return self.start("nginx-origin", cpu, command)

    def weir_origin(self, cpu):
        def command(_folder, port):
            return [self.binaries["weir"], "origin", "--listen", f"127.0.0.1:{port}", "--body", f"{len(BODY)}B"]

        return self.start("weir-origin", cpu, command)

    def gateway(self, name, cpu, origin):
        def command(folder, port):
            if name == "nginx":
                return self.nginx(folder, NGINX_GATEWAY.format(port=port, origin=origin.port))
            if name == "envoy":
                file = written(folder, "envoy.yaml", ENVOY.format(port=port, origin=origin.port))
                options = ["--concurrency", "1", "--log-level", "warning", "--use-dynamic-base-id"]
                return [self.binaries["envoy"], "-c", file, *options, "--disable-hot-restart"]
            if name == "weir-gateway":
                file = written(folder, "weir.yaml", WEIR.format(port=port, origin=origin.port))
                return [self.binaries["weir-gateway"], "--config", file]
            http = name == "haproxy"
            keep_alive = "option http-keep-alive\n    http-reuse always" if http else ""
            text = HAPROXY.format(
                mode="http" if http else "tcp", keep_alive=keep_alive, port=port, origin=origin.port
            )
            # In the foreground, without a master: one process.
            return [self.binaries["haproxy"], "-db", "-f", written(folder, "haproxy.cfg", text)]

        return self.start(name.replace(" ", "-"), cpu, command)

    def nginx(self, folder, http):
        user = "user root;" if os.geteuid() == 0 else ""
        file = written(folder, "nginx.conf", NGINX.format(dir=folder, user=user, http=http))
        return [self.binaries["nginx"], "-p", folder, "-c", file, "-e", "stderr"]

    def start(self, name, cpu, command):
        folder = self.work / name
        folder.mkdir()
        port = free_port()
        log_path = folder / "log"
        with open(log_path, "wb") as log:
            process = self.processes.start(command(folder, port), cpu, log)
        deadline = time.monotonic() + 20
        while not answers(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"{name} does not answer:\n{log_path.read_text(errors='replace')}")
            time.sleep(0.02)
        return Server(name, process, port)


def written(folder, name, text):
    path = folder / name
    path.write_text(text)
    return path


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(port):
    """Whether a request gets the 64 bytes that are wanted."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as client:
            client.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode())
            received = b""
            while piece := client.recv(65536):
                received += piece
    except OSError:
        return False
    return received.startswith(b"HTTP/1.1 200") and len(received.partition(b"\r\n\r\n")[2]) == len(BODY)
