"""What each feature of weir-gateway costs where it is switched on: CPU time of a request over that of a plain route.

All routes stand in one process and are asked in turn, each by a host of its own. Requests differ in nothing but that
name, and carry for all of them what some of the features look at.
"""

import json
from statistics import median

from comparisons import DISTURBED, Bench, Comparison
from loads import Shape
from processes import Failed
from servers import certify, fetched, free_port, written

PLAIN = "plain"
TOKEN = "0123456789abcdef0123456789abcdef"
PATH = "/a/1?preview=1"
FIELDS = [("X-Version", "2"), ("Origin", "https://app.test"), ("Authorization", f"Bearer {TOKEN}")]
SEVERAL = {
    "request_headers": {"set": {"X-Tier": "gold"}},
    "response_headers": {"set": {"Server": "weir"}},
    "cors": {"origins": ["https://app.test"]},
    "timeouts": {"request": "10s", "backend": "5s"},
}
# What stands in the route in place of, or beside, `path: /` and `backend: origin`.
FEATURES = {
    PLAIN: {},
    "exact path": {"path": None, "exact": "/a/1"},
    "regular expression": {"path": None, "regex": "/a/[0-9]+"},
    "method": {"methods": ["GET"]},
    "header by value": {"headers": {"x-version": "2"}},
    "header by pattern": {"headers": {"x-version": {"regex": "[0-9]"}}},
    "query parameter": {"query": {"preview": "1"}},
    "bearer tokens": {"tokens": "tokens.lst"},
    "request header set": {"request_headers": {"set": {"X-Tier": "gold"}}},
    "request header removed": {"request_headers": {"remove": ["X-Version"]}},
    "response header set": {"response_headers": {"set": {"X-Tier": "gold"}}},
    "prefix rewritten": {"path": "/a", "rewrite": "/b"},
    "host rewritten": {"rewrite": {"host": "up.test"}},
    "CORS, origin allowed": {"cors": {"origins": ["https://app.test"]}},
    "two backends by weight": {"backend": None, "backends": [{"backend": "origin", "weight": 9}, {"backend": "other"}]},
    "timeouts of the route": {"timeouts": {"request": "10s", "backend": "5s"}},
    "several of these together": SEVERAL,
    "mirror, 10 % of requests": {"mirror": {"backend": "copies", "share": "10%"}},
    "mirror, all requests": {"mirror": {"backend": "copies"}},
    "TLS with the upstream": {"backend": "sealed"},
    "answer of its own": {"backend": None, "respond": {"body": "x" * 64}},
}
OVER_TLS = "TLS with clients"


class Prices(Bench):
    """Makes the comparison; nothing in it is gated."""

    def all(self):
        admin = free_port()
        server = self.gateway(admin)
        candidates = {name: self.asked(server, server.port, name) for name in FEATURES}
        candidates[OVER_TLS] = self.asked(server, server.secure_port, PLAIN, tls=True)
        note = "one worker, 32 kept connections, driven by wrk; the same request for all but for its host"
        comparison = Priced("Prices of features", note, candidates, {}, reference=PLAIN)
        comparison.admin = admin
        yield comparison

    def asked(self, server, port, name, tls=False):
        shape = Shape(32, tls=tls, fields=[("Host", host_of(name)), *FIELDS])
        return self.served(server, self.driven("wrk", shape, port, PATH))

    def gateway(self, admin):
        """One gateway with a route for each feature."""
        origin = self.servers.nginx_origin(self.load_cpu)
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
                    {"address": f"127.0.0.1:{port}"},
                    {"address": f"127.0.0.1:{secure_port}", "tls": {"certificate": str(certificate), "key": str(key)}},
                ],
                "workers": 1,
                "drain": {"delay": "0s"},
                # The first is for whoever looks whether it is there.
                "routes": [{"hosts": ["127.0.0.1"], "path": "/", "backend": "origin"}, *map(route_of, FEATURES)],
                "backends": {
                    **{name: plain for name in ("origin", "other", "copies")},
                    "sealed": {"endpoints": [f"127.0.0.1:{sealed.port}"], "tls": tls},
                },
            }
            file = written(folder, "weir.json", json.dumps(configuration, indent=1))
            return [self.binaries["weir-gateway"], "--config", file, "--admin", f"127.0.0.1:{admin}"]

        server = self.servers.start("weir-gateway", self.server_cpu, command)
        server.secure_port = secure_port
        return server


class Priced(Comparison):
    """A comparison that tells differences, too, and what became of the copies, by the gateway's counters at `admin`."""

    admin = None

    def lines(self):
        lines = [f"### {self.title}", "", f"{self.note[0].upper()}{self.note[1:]}.", ""]
        lines.append(f"| feature | {self.unit}, median | over {PLAIN}, median of rounds | lowest | highest | ratio |")
        lines.append("|---|---|---|---|---|---|")
        for name in self.candidates:
            differences = [value - plain for value, plain in zip(self.values(name), self.values(PLAIN))]
            ratio = "" if name == PLAIN else f"{median(self.ratios(name)):.2f}"
            over = " |  | " if name == PLAIN else signed(differences)
            lines.append(f"| {name} | {median(self.values(name)):.2f} | {over} | {ratio} |")
        lines += ["", copies(self.admin)]
        if self.is_disturbed():
            lines += ["", DISTURBED]
        return [*lines, ""]


def host_of(name):
    """The host of a feature's route; all are of one length."""
    return f"f{list(FEATURES).index(name):02}.test"


def route_of(name):
    route = {"hosts": [host_of(name)], "path": "/", "backend": "origin", **FEATURES[name]}
    return {field: value for field, value in route.items() if value is not None}


def copies(admin):
    """How many copies the mirrors got: where some were dropped, the price is less than that of all."""
    _, stats = fetched(admin, "/stats")
    mirror = json.loads(stats)["upstream"]["mirror"]
    if not mirror["copies"]:
        raise Failed(f"the mirrors got no copies: {mirror}")
    dropped = mirror["crowded"] + mirror["too_long"]
    return f"The mirrors got {mirror['copies']:,} copies; {dropped:,} were dropped, as too many were on their way."


def signed(differences):
    """The middle, the least and the greatest, as three cells."""
    return " | ".join(f"{value:+.2f}" for value in (median(differences), min(differences), max(differences)))
