"""What is compared in one run: candidates that take turns within rounds, and the gates on their ratios."""

import random
import statistics

from hosts import DISTURBED_SHARE, HostWatch
from loads import TOOLS, Shape, Site
from processes import Failed, tree_cpu_s
from request_sizes import equal_paths
from servers import Servers

GATEWAYS = ["weir-gateway", "nginx", "haproxy", "haproxy tcp", "envoy"]
OPEN_RATE_PER_S = 20_000


class Gate:
    """The ratio that may not be passed, and the one that is wanted."""

    def __init__(self, at_most, wanted=None):
        self.at_most, self.wanted = at_most, wanted


class Figure:
    """One measurement of one candidate."""

    def __init__(self, cpu_us, rate_per_s, disturbed_share):
        self.cpu_us, self.rate_per_s, self.disturbed_share = cpu_us, rate_per_s, disturbed_share


class Comparison:
    """Candidates that are measured in the same rounds; the first is ours."""

    def __init__(self, title, note, candidates, gates):
        self.title, self.note, self.candidates, self.gates = title, note, candidates, gates
        self.rounds = []

    def measure(self, rounds):
        """Measures every candidate once per round, each round in another order."""
        self.rounds = []
        for number in range(1, rounds + 1):
            order = list(self.candidates)
            random.Random(number).shuffle(order)
            figures = {name: self.candidates[name]() for name in order}
            self.rounds.append(figures)
            shown = ", ".join(f"{name} {figures[name].cpu_us:.2f}" for name in self.candidates)
            disturbed = max(figure.disturbed_share for figure in figures.values())
            print(f"  round {number}: {shown} us/request; others took up to {disturbed:.1%}", flush=True)

    def ours(self):
        return next(iter(self.candidates))

    def ratios(self, other):
        return [figures[self.ours()].cpu_us / figures[other].cpu_us for figures in self.rounds]

    def failed_gates(self):
        return [other for other, gate in self.gates.items() if statistics.median(self.ratios(other)) > gate.at_most]

    def is_disturbed(self):
        shares = [figure.disturbed_share for figures in self.rounds for figure in figures.values()]
        return statistics.median(shares) > DISTURBED_SHARE or sum(s > DISTURBED_SHARE for s in shares) * 4 > len(shares)


class Comparisons:
    """Makes the comparisons; each starts the servers that it needs."""

    def __init__(self, processes, binaries, work, seconds, cpus):
        self.processes, self.seconds = processes, seconds
        self.server_cpu, self.load_cpu = cpus
        self.servers = Servers(processes, binaries, work)
        self.site = Site(processes, binaries, work, self.load_cpu)

    def closed(self):
        """HTTP/1.1 at the number of connections where generators are usually compared."""
        gates = {"wrk": Gate(1.0, 0.9), "oha": Gate(0.6, 0.5)}
        return self.engine("HTTP/1.1 closed, 32 connections", Shape(32), ["wrk", "oha"], gates)

    def closed_256(self):
        gates = {"wrk": Gate(1.0, 0.9)}
        return self.engine("HTTP/1.1 closed, 256 connections", Shape(256), ["wrk"], gates)

    def closed_1(self):
        """Not gated: with one connection the figure is mostly that of going to sleep and waking up."""
        return self.engine("HTTP/1.1 closed, 1 connection (not gated)", Shape(1), ["wrk"], {})

    def open(self):
        shape, spinning = (Shape(32, OPEN_RATE_PER_S, spin=spin) for spin in (False, True))
        title = f"HTTP/1.1 open at {OPEN_RATE_PER_S:,}/s, 32 connections"
        comparison = self.engine(title, shape, ["oha"], {"oha": Gate(0.5, 0.35)})
        comparison.note += "; oha with `--latency-correction`; `--spin` burns its core by design and is not gated"
        path = self.paths["weir load"]
        comparison.candidates["weir load --spin"] = self.engine_candidate("weir load", spinning, self.port, path)
        return comparison

    def tls(self):
        server = self.servers.nginx_tls(self.server_cpu, http2=False)
        shape = Shape(32, tls=True)
        suite = self.same_suite(server, shape, ["weir load", "wrk"])
        candidates = {name: self.engine_candidate(name, shape, server.port) for name in ("weir load", "wrk")}
        note = f"closed loop against an nginx that answers itself; seen by it from both: {suite}"
        return Comparison("TLS keep-alive, 32 connections", note, candidates, {"wrk": Gate(1.0, 0.9)})

    def http2(self):
        server = self.servers.nginx_tls(self.server_cpu, http2=True)
        shape = Shape(8, streams=16, tls=True)
        suite = self.same_suite(server, shape, ["weir load", "h2load"])
        candidates = {name: self.engine_candidate(name, shape, server.port) for name in ("weir load", "h2load")}
        note = f"closed loop against an nginx that answers itself; seen by it from both: {suite}"
        title = "HTTP/2 over TLS, 8 connections x 16 streams"
        return Comparison(title, note, candidates, {"h2load": Gate(1.3, 1.0)})

    def same_suite(self, server, shape, names):
        """What nginx saw the tools use; it must be the same for both."""
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
        """weir against load tools over HTTP/1.1, with requests of the same size."""
        self.port = self.servers.nginx_origin(self.server_cpu).port
        names = ["weir load", *others]
        self.paths, request_bytes = equal_paths(self.site, Shape(1, shape.rate_per_s and 100), names)
        candidates = {name: self.engine_candidate(name, shape, self.port, self.paths[name]) for name in names}
        model = "open loop" if shape.rate_per_s else "closed loop"
        note = f"{model} against an nginx that answers itself; requests of {request_bytes} bytes from all"
        return Comparison(title, note, candidates, gates)

    def engine_candidate(self, name, shape, port, path="/"):
        def measure():
            TOOLS[name](self.site, shape, shape.url(port, path), 1)
            watch = HostWatch(self.processes)
            load = TOOLS[name](self.site, shape, shape.url(port, path), self.seconds)
            return Figure(load.cpu_us(), load.rate_per_s, watch.share())

        return measure

    def origin(self):
        servers = {
            "weir origin": self.servers.weir_origin(self.server_cpu),
            "nginx": self.servers.nginx_origin(self.server_cpu),
        }
        return self.compare_servers("Origin", "answering by itself, driven by wrk", servers, {"nginx": Gate(1.0)})

    def gateway(self):
        origin = self.servers.nginx_origin(self.load_cpu)
        servers = {name: self.servers.gateway(name, self.server_cpu, origin) for name in GATEWAYS}
        note = "in front of an nginx that answers itself, keep-alive on both sides, no access log, driven by wrk"
        return self.compare_servers("Gateway", note, servers, {"nginx": Gate(1.0)})

    def compare_servers(self, title, note, servers, gates):
        shape = Shape(32)

        def candidate(server):
            def measure():
                TOOLS["wrk"](self.site, shape, shape.url(server.port), 1)
                watch = HostWatch(self.processes)
                before_s = tree_cpu_s(server.process.pid)
                load = TOOLS["wrk"](self.site, shape, shape.url(server.port), self.seconds)
                cpu_s = tree_cpu_s(server.process.pid) - before_s
                return Figure(cpu_s * 1e6 / load.requests, load.rate_per_s, watch.share())

            return measure

        return Comparison(title, note, {name: candidate(server) for name, server in servers.items()}, gates)


def spread(values):
    return f"{statistics.median(values):.2f} | {min(values):.2f} | {max(values):.2f}"


def report(comparison):
    """The result as Markdown lines."""
    note = comparison.note[0].upper() + comparison.note[1:]
    lines = [f"### {comparison.title}", "", f"{note}.", ""]
    lines += ["| | CPU us/request, median | lowest | highest | requests/s, median |", "|---|---|---|---|---|"]
    for name in comparison.candidates:
        cpu_us = [figures[name].cpu_us for figures in comparison.rounds]
        rate = statistics.median(figures[name].rate_per_s for figures in comparison.rounds)
        lines.append(f"| {name} | {spread(cpu_us)} | {rate:,.0f} |")
    lines += ["", "| ratio within a round | median | lowest | highest | at most | | wanted | |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for other in list(comparison.candidates)[1:]:
        ratios = comparison.ratios(other)
        gate = comparison.gates.get(other, Gate(None))
        middle = statistics.median(ratios)
        verdicts = f"{judged(middle, gate.at_most)} | {judged(middle, gate.wanted)}"
        lines.append(f"| {comparison.ours()} / {other} | {spread(ratios)} | {verdicts} |")
    if comparison.is_disturbed():
        lines += ["", "The host was disturbed during this: more than 2 % of it went to others."]
    return [*lines, ""]


def judged(value, limit):
    """A limit and whether it is kept, as two cells."""
    return " | " if limit is None else f"{limit} | {'missed' if value > limit else 'met'}"
