"""CPU time per request of weir's engine and origin, compared with load tools and nginx."""

from comparisons import Bench, Comparison, Figure
from gates import Gate
from hosts import HostWatch
from loads import TOOLS, Shape
from processes import Failed
from request_sizes import equal_paths

OPEN_RATE_PER_S = 20_000


class Engines(Bench):
    """Makes the comparisons. Each starts its own servers."""

    def closed(self):
        """HTTP/1.1 with the number of connections that comparisons of load generators usually have."""
        gates = {"wrk": Gate(1.0, 0.9), "oha": Gate(0.6, 0.5)}
        yield self.engine("HTTP/1.1 closed, 32 connections", Shape(32), ["wrk", "oha"], gates)

    def closed_256(self):
        gates = {"wrk": Gate(1.0, 0.9)}
        yield self.engine("HTTP/1.1 closed, 256 connections", Shape(256), ["wrk"], gates)

    def closed_1(self):
        """Not gated: with one connection, sleeping and waking up take most of the CPU time."""
        yield self.engine("HTTP/1.1 closed, 1 connection (not gated)", Shape(1), ["wrk"], {})

    def open(self):
        shape, spinning = (Shape(32, OPEN_RATE_PER_S, spin=spin) for spin in (False, True))
        title = f"HTTP/1.1 open at {OPEN_RATE_PER_S:,}/s, 32 connections"
        comparison = self.engine(title, shape, ["oha"], {"oha": Gate(0.5, 0.35)})
        comparison.note += ". oha runs with `--latency-correction`. `--spin` uses a whole core by design, so it has no gate"
        path = self.paths["weir load"]
        comparison.candidates["weir load --spin"] = self.engine_candidate("weir load", spinning, self.port, path)
        yield comparison

    def tls(self):
        server = self.servers.nginx_tls(self.server_cpu, http2=False)
        shape = Shape(32, tls=True)
        suite = self.same_suite(server, shape, ["weir load", "wrk"])
        candidates = {name: self.engine_candidate(name, shape, server.port) for name in ("weir load", "wrk")}
        note = f"closed loop. nginx logged {suite} for both tools"
        yield Comparison("TLS keep-alive, 32 connections", note, candidates, {"wrk": Gate(1.0, 0.9)})

    def http2(self):
        server = self.servers.nginx_tls(self.server_cpu, http2=True)
        shape = Shape(8, streams=16, tls=True)
        suite = self.same_suite(server, shape, ["weir load", "h2load"])
        candidates = {name: self.engine_candidate(name, shape, server.port) for name in ("weir load", "h2load")}
        note = f"closed loop. nginx logged {suite} for both tools"
        title = "HTTP/2 over TLS, 8 connections x 16 streams"
        yield Comparison(title, note, candidates, {"h2load": Gate(1.3, 1.0)})

    def origin(self):
        servers = {
            "weir origin": self.servers.weir_origin(self.server_cpu),
            "nginx": self.servers.nginx_origin(self.server_cpu),
        }
        note = "both programs respond themselves, without an upstream. wrk sends the load"
        yield self.compare_servers("Origin", note, servers, {"nginx": Gate(1.0)})

    def same_suite(self, server, shape, names):
        """Protocol, cipher and group that nginx logged. All tools must use the same."""
        log = next(server.folder.glob("suites.log"))
        seen = {}
        for name in names:
            skip = len(log.read_text().splitlines())
            TOOLS[name](self.site, shape, shape.url(server.logged_port), 1)
            seen[name] = set(log.read_text().splitlines()[skip:])
        if len(set.union(*seen.values())) != 1:
            raise Failed(f"the tools do not use the same protocol, cipher and group: {seen}")
        return next(iter(seen[names[0]]))

    def engine(self, title, shape, others, gates):
        """Compares weir with load tools over HTTP/1.1, with requests of the same size."""
        self.port = self.servers.nginx_origin(self.server_cpu).port
        names = ["weir load", *others]
        self.paths, request_bytes = equal_paths(self.site, Shape(1, shape.rate_per_s and 100), names)
        candidates = {name: self.engine_candidate(name, shape, self.port, self.paths[name]) for name in names}
        model = "open loop" if shape.rate_per_s else "closed loop"
        note = f"{model}, requests of {request_bytes} bytes"
        return Comparison(title, note, candidates, gates)

    def engine_candidate(self, name, shape, port, path="/"):
        def measure():
            TOOLS[name](self.site, shape, shape.url(port, path), 1)
            watch = HostWatch(self.processes)
            load = TOOLS[name](self.site, shape, shape.url(port, path), self.seconds)
            return Figure(load.cpu_us(), load.rate_per_s, watch.share())

        return measure
