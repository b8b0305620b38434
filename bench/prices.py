"""Cost of each feature of weir-gateway: CPU time per request compared with a gateway without the feature.

One process has all features of routes and backends, each on its own host. The load requests one host at a time. Requests
differ only in the host, and always have the header fields that some features use. Each setting of the whole process
(the access log, latencies, forwarding, health checks including their own cost) has a separate process. It is compared
with a process without settings.
"""

import json
import re
from statistics import median

from comparisons import DISTURBED, Bench, Comparison
from loads import Shape
from processes import Failed
from servers import certify, connected, fetched, free_port, written

PLAIN = "plain"
NOTHING = "all off"
TOKEN = "0123456789abcdef0123456789abcdef"
PATH = "/a/1?preview=1"
FIELDS = [
    ("X-Version", "2"),
    ("Origin", "https://app.test"),
    ("Authorization", f"Bearer {TOKEN}"),
    ("Accept-Encoding", "gzip, br"),
]
AGAIN = {"attempts": 2, "on": ["connect", "reset", 502, 503]}
SEVERAL = {
    "request_headers": {"set": {"X-Tier": "gold"}},
    "response_headers": {"set": {"Server": "weir"}},
    "cors": {"origins": ["https://app.test"]},
    "timeouts": {"request": "10s", "backend": "5s"},
}
# name -> fields of the route, which replace or extend `path: /` and `backend: origin`
FEATURES = {
    PLAIN: {},
    "exact path": {"path": None, "exact": "/a/1"},
    "regular expression": {"path": None, "regex": "/a/[0-9]+"},
    "method": {"methods": ["GET"]},
    "header by value": {"headers": {"x-version": "2"}},
    "header by pattern": {"headers": {"x-version": {"regex": "[0-9]"}}},
    "query parameter": {"query": {"preview": "1"}},
    "query parameter by pattern": {"query": {"preview": {"regex": "[0-9]"}}},
    "limited to one listener": {"listeners": ["plain"]},
    "bearer tokens": {"tokens": "tokens.lst"},
    "request header set": {"request_headers": {"set": {"X-Tier": "gold"}}},
    "request header added": {"request_headers": {"add": {"X-Version": "3"}}},
    "request header removed": {"request_headers": {"remove": ["X-Version"]}},
    "response header set": {"response_headers": {"set": {"X-Tier": "gold"}}},
    "response header added": {"response_headers": {"add": {"X-Tier": "gold"}}},
    "response header removed": {"response_headers": {"remove": ["Server"]}},
    "prefix rewritten": {"path": "/a", "rewrite": "/b"},
    "host rewritten": {"rewrite": {"host": "up.test"}},
    "CORS, origin allowed": {"cors": {"origins": ["https://app.test"]}},
    "compression, response too small": {"compress": {}},
    "gzip of 64 bytes": {"compress": {"types": ["*/*"], "min_size": "0B", "gzip": 5}},
    "brotli of 64 bytes": {"compress": {"types": ["*/*"], "min_size": "0B", "brotli": 4}},
    "two backends by weight": {"backend": None, "backends": [{"backend": "origin", "weight": 9}, {"backend": "other"}]},
    "timeouts of the route": {"timeouts": {"request": "10s", "backend": "5s"}},
    "retries": {"retries": AGAIN},
    "several of these together": SEVERAL,
    "mirror, 10 % of requests": {"mirror": {"backend": "copies", "share": "10%"}},
    "mirror, all requests": {"mirror": {"backend": "copies"}},
    "TLS with the upstream": {"backend": "sealed"},
    "fixed response": {"backend": None, "respond": {"body": "x" * 64}},
    "redirect": {"backend": None, "redirect": {"host": "away.test"}},
}
OVER_TLS = "TLS with clients"
# name -> fields of the backend; its route sets only host, path and backend. `endpoints`: the number of endpoints, or a
# list of their weights
BACKENDS = {
    "limits of the backend": {"limits": {"connections": 1_000, "pending": 1_000, "requests": 1_000}},
    "ejection": {"ejection": {}},
    "limits on the lifetime of connections": {"keepalive": {"requests": 1_000_000, "time": "1h"}},
    "three endpoints, round robin": {"endpoints": 3},
    "three endpoints, weights": {"endpoints": [3, 2, 1]},
    "three endpoints, slow start": {"endpoints": 3, "slow_start": "1s"},
    "three endpoints, least requests": {"endpoints": 3, "balance": "least_requests"},
    "three endpoints, at random": {"endpoints": 3, "balance": "random"},
    "three endpoints, hash of a header": {"endpoints": 3, "balance": {"hash": {"header": "X-Version"}}},
    "three endpoints, hash of a cookie": {"endpoints": 3, "balance": {"hash": {"cookie": "stay"}}},
    "three endpoints, hash of the address": {"endpoints": 3, "balance": {"hash": "client_address"}},
    "three endpoints, sticky cookie, known client": {"endpoints": 3, "balance": {"sticky": {"cookie": "stay"}}},
    "three endpoints, sticky cookie, new client": {"endpoints": 3, "balance": {"sticky": {"cookie": "new"}}},
}
KNOWN = "three endpoints, sticky cookie, known client"
COMBINED = '$remote_addr - - [$time_local] "$request" $status $bytes_sent "$http_referer" "$http_user_agent"'
LOG_FILE = "access.log"
# name -> configuration of a separate process
SETTINGS = {
    NOTHING: {},
    "access log, JSON": {"access_log": {"file": LOG_FILE}},
    "access log, nginx's combined": {"access_log": {"file": LOG_FILE, "format": COMBINED}},
    "access log, 1 % of requests": {"access_log": {"file": LOG_FILE, "sample": "1%"}},
    "latency buckets": {"metrics": {"latency": True}},
    "X-Forwarded-*": {"forwarding": {"x_forwarded": True}},
    "Forwarded": {"forwarding": {"forwarded": True}},
    "X-Request-Id created": {"forwarding": {"request_id": "make"}},
    "traceparent created": {"forwarding": {"trace": {"w3c": True}}},
    "traceparent and b3 created": {"forwarding": {"trace": {"w3c": True, "b3": "single"}}},
    "health checks by HTTP, each second": {"health": {"path": "/", "interval": "1s"}},
    "encoded slashes redirected, path parameters stripped": {"paths": {"escaped_slashes": "redirect", "path_parameters": "strip"}},
    "connection limits": {"limits": {"connections": 10_000, "connections_per_address": 10_000}},
    "overload": {"overload": {"memory": "95%"}},
    "all of these": {
        "access_log": {"file": LOG_FILE},
        "metrics": {"latency": True},
        "forwarding": {
            "x_forwarded": True, "forwarded": True, "request_id": "make", "trace": {"w3c": True, "b3": "single"},
        },
        "health": {"path": "/", "interval": "1s"},
    },
}


class Prices(Bench):
    """Makes the comparisons. No gates limit their ratios."""

    def all(self):
        origins = [self.servers.nginx_origin(self.load_cpu) for _ in range(3)]
        yield self.features(origins)
        yield self.settings(origins[0])

    def features(self, origins):
        admin = free_port()
        server = self.gateway(admin, origins)
        cookie = stay(server.port)
        candidates = {name: self.asked(server, server.port, name, cookie) for name in (*FEATURES, *BACKENDS)}
        candidates[OVER_TLS] = self.asked(server, server.secure_port, PLAIN, cookie, tls=True)
        note = "32 keep-alive connections. wrk sends the load. Requests differ only in their host"
        comparison = Priced("Prices of features of routes and backends", note, candidates, {}, reference=PLAIN)
        comparison.admin = admin
        return comparison

    def settings(self, origin):
        candidates = {name: self.with_setting(name, setting, origin) for name, setting in SETTINGS.items()}
        note = "one process per setting, each with one route and 32 keep-alive connections. wrk sends the load"
        return Priced("Prices of settings", note, candidates, {}, reference=NOTHING)

    def with_setting(self, name, setting, origin):
        """A candidate: a separate gateway with this setting."""

        def command(folder, port):
            text = json.dumps(configuration_of(setting, port, origin.port), indent=1)
            return [self.binaries["weir-gateway"], "--config", written(folder, "weir.json", text)]

        server = self.servers.start(f"weir-gateway-{list(SETTINGS).index(name)}", self.server_cpu, command)
        measure = self.served(server, self.driven("wrk", Shape(32, fields=FIELDS), server.port, PATH))

        def measure_with_room():
            # The logs of all rounds would fill the disk.
            if (log := server.folder / LOG_FILE).exists():
                log.write_bytes(b"")
            return measure()

        return measure_with_room

    def asked(self, server, port, name, cookie, tls=False):
        shape = Shape(32, tls=tls, fields=[("Host", host_of(name)), ("Cookie", cookie), *FIELDS])
        return self.served(server, self.driven("wrk", shape, port, PATH))

    def gateway(self, admin, origins):
        """One gateway with one route for each entry of `FEATURES` and `BACKENDS`."""
        origin = origins[0]
        authority = self.work / "authority.pem"
        sealed = self.servers.weir_origin(self.load_cpu, "--ca-out", authority, tls=True)
        secure_port = free_port()

        def command(folder, port):
            certificate, key = certify(self.processes, folder)
            written(folder, "tokens.lst", f"{TOKEN}\n")
            plain = {"endpoints": [f"127.0.0.1:{origin.port}"]}
            tls = {"ca": str(authority), "sni": "localhost"}
            configuration = {
                "listeners": [
                    {"address": f"127.0.0.1:{port}", "name": "plain"},
                    {"address": f"127.0.0.1:{secure_port}", "tls": {"certificate": str(certificate), "key": str(key)}},
                ],
                "workers": 1,
                "drain": {"delay": "0s"},
                # The first route is for the readiness check.
                "routes": [
                    {"hosts": ["127.0.0.1"], "path": "/", "backend": "origin"},
                    *map(route_of, FEATURES),
                    *({"hosts": [host_of(name)], "path": "/", "backend": name} for name in BACKENDS),
                ],
                "backends": {
                    **{name: plain for name in ("origin", "other", "copies")},
                    "sealed": {"endpoints": [f"127.0.0.1:{sealed.port}"], "tls": tls},
                    **{name: backend_of(name, [origin.port for origin in origins]) for name in BACKENDS},
                },
            }
            file = written(folder, "weir.json", json.dumps(configuration, indent=1))
            return [self.binaries["weir-gateway"], "--config", file, "--admin", f"127.0.0.1:{admin}"]

        server = self.servers.start("weir-gateway", self.server_cpu, command)
        server.secure_port = secure_port
        return server


class Priced(Comparison):
    """A comparison that also prints differences and, with `admin`, the gateway's counters of mirrored copies."""

    admin = None

    def lines(self):
        lines = [f"### {self.title}", "", f"{self.note[0].upper()}{self.note[1:]}.", ""]
        base = self.base()
        lines.append(f"| feature | {self.unit}, median | difference to {base}, median of rounds | lowest | highest | ratio |")
        lines.append("|---|---|---|---|---|---|")
        for name in self.candidates:
            differences = [value - plain for value, plain in zip(self.values(name), self.values(base))]
            ratio = "" if name == base else f"{median(self.ratios(name)):.2f}"
            over = " |  | " if name == base else signed(differences)
            lines.append(f"| {name} | {median(self.values(name)):.2f} | {over} | {ratio} |")
        if self.admin:
            lines += ["", copies(self.admin)]
        if self.is_disturbed():
            lines += ["", DISTURBED]
        return [*lines, ""]


def host_of(name):
    """The host of a feature's route. All have the same length."""
    return f"f{[*FEATURES, *BACKENDS].index(name):02}.test"


def route_of(name):
    route = {"hosts": [host_of(name)], "path": "/", "backend": "origin", **FEATURES[name]}
    return {field: value for field, value in route.items() if value is not None}


def backend_of(name, ports):
    """A backend with this feature. If it has N endpoints, they use the first N ports."""
    backend = dict(BACKENDS[name])
    wanted = backend.pop("endpoints", 1)
    weights = wanted if isinstance(wanted, list) else [1] * wanted
    each = [{"address": f"127.0.0.1:{port}", "weight": weight} for port, weight in zip(ports, weights)]
    return {"endpoints": each, **backend}


def configuration_of(setting, port, origin_port):
    """The configuration of a gateway with one route and this setting. `health` is a setting of the backend."""
    setting = dict(setting)
    health = {"health": setting.pop("health")} if "health" in setting else {}
    return {
        "listeners": [{"address": f"127.0.0.1:{port}"}],
        "workers": 1,
        "drain": {"delay": "0s"},
        # Latency metrics are on by default. They are off here, because their cost is measured as a setting.
        "metrics": {"latency": False},
        "routes": [{"path": "/", "backend": "origin"}],
        "backends": {"origin": {"endpoints": [f"127.0.0.1:{origin_port}"], **health}},
        **setting,
    }


def stay(port):
    """The sticky cookie that the gateway sets on the first response."""
    with connected(port, tls=False) as client:
        client.sendall(f"GET / HTTP/1.1\r\nHost: {host_of(KNOWN)}\r\nConnection: close\r\n\r\n".encode())
        received = b"".join(iter(lambda: client.recv(65536), b"")).decode()
    found = re.search(r"^Set-Cookie: (stay=[0-9a-f]+)", received, re.MULTILINE)
    if not found:
        raise Failed(f"the gateway sets no cookie:\n{received}")
    return found[1]


def copies(admin):
    """A sentence on mirrored copies of requests. If the gateway drops copies, the measured cost is too low."""
    _, stats = fetched(admin, "/stats")
    mirror = json.loads(stats)["upstream"]["mirror"]
    if not mirror["copies"]:
        raise Failed(f"the mirrors got no copies: {mirror}")
    dropped = mirror["crowded"] + mirror["too_long"]
    return f"The mirrors got {mirror['copies']:,} copies. The gateway drops copies if too many are in flight; here it dropped {dropped:,}."


def signed(differences):
    """Median, minimum and maximum, as three cells."""
    return " | ".join(f"{value:+.2f}" for value in (median(differences), min(differences), max(differences)))
