"""A reverse proxy that learns its routes from `follow.py`.

    gateway.py IP PORT ADMIN_PORT ARGUMENTS_OF_FOLLOW
"""

import http.client
import itertools
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import follow

ip, port, admin_port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
routes, counts = {}, itertools.count(1)
requests, registered = 0, 0
is_connected = threading.Event()
own = threading.local()


def add(uri, server):
    """Adds a server to a URI."""
    global registered
    routes[uri] = [known for known in routes.get(uri, []) if known != server] + [server]
    registered += 1


def remove(uri, server):
    """Removes a server from a URI."""
    routes[uri] = [known for known in routes.get(uri, []) if known != server]


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


threading.Thread(target=follow.follow, args=(sys.argv[4:], is_connected.set, add, remove), daemon=True).start()
threading.Thread(target=ThreadingHTTPServer((ip, admin_port), Admin).serve_forever, daemon=True).start()
ThreadingHTTPServer((ip, port), Gateway).serve_forever()
