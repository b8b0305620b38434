"""A reverse proxy whose routes come over NATS: `router.register` adds a server to a URI, `router.unregister` removes it.

    gateway.py IP PORT ADMIN_PORT NATS_ADDRESS
"""

import http.client
import itertools
import json
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ip, port, admin_port, nats = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
routes, counts = {}, itertools.count(1)
requests, registered = 0, 0
is_connected = threading.Event()
own = threading.local()


def listen_to_nats():
    """Follows both subjects by NATS's own text protocol."""
    global registered
    host, nats_port = nats.rsplit(":", 1)
    stream = socket.create_connection((host, int(nats_port))).makefile("rwb")
    stream.readline()
    stream.write(b'CONNECT {"verbose":false}\r\nSUB router.register 1\r\nSUB router.unregister 2\r\nPING\r\n')
    stream.flush()
    for line in stream:
        words = line.split()
        if words[:1] == [b"PING"]:
            stream.write(b"PONG\r\n")
            stream.flush()
        elif words[:1] == [b"PONG"]:
            is_connected.set()
        elif words[:1] == [b"MSG"]:
            message = json.loads(stream.read(int(words[-1]) + 2))
            server = (message["host"], message["port"])
            for uri in message["uris"]:
                others = [known for known in routes.get(uri, []) if known != server]
                routes[uri] = others + [server] if words[1] == b"router.register" else others
            registered += words[1] == b"router.register"


class Gateway(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def do_GET(self):
        global requests
        requests += 1
        servers = routes.get(self.headers["Host"].split(":")[0] + self.path, [])
        if not servers:
            return self.answer(404, b"no route")
        address = servers[next(counts) % len(servers)]
        connections = own.__dict__.setdefault("connections", dict())
        connection = connections.setdefault(address, http.client.HTTPConnection(*address))
        try:
            connection.request("GET", self.path, headers=dict(Host=self.headers["Host"]))
            response = connection.getresponse()
            self.answer(response.status, response.read())
        except OSError:
            connection.close()
            self.answer(502, b"no answer")

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, *_):
        pass


class Admin(Gateway):
    def do_GET(self):
        is_ready = is_connected.is_set()
        stats = dict(requests=requests, registered=registered, routes=sum(map(bool, list(routes.values()))))
        self.answer(200 if is_ready else 503, json.dumps(stats).encode())


threading.Thread(target=listen_to_nats, daemon=True).start()
threading.Thread(target=ThreadingHTTPServer((ip, admin_port), Admin).serve_forever, daemon=True).start()
ThreadingHTTPServer((ip, port), Gateway).serve_forever()
