"""Comparisons within one run: candidates alternate within rounds, and gates limit their ratios."""

import random
import statistics

from gates import Gate, Verdict, limits, spread
from hosts import DISTURBED_SHARE, HostWatch
from loads import TOOLS, Shape, Site
from processes import tree_cpu_s
from servers import Servers


DISTURBED = "Host noise above 2 % during this measurement."


class Figure:
    """One measurement of one candidate."""

    def __init__(self, value, rate_per_s, disturbed_share):
        self.value, self.rate_per_s, self.disturbed_share = value, rate_per_s, disturbed_share


class Comparison:
    """Candidates that are measured in the same rounds.

    A ratio is the first candidate divided by another one. With a `reference`, it is the other candidate divided by the
    reference. The key of a gate names the other candidate. If it names several, the one with the lowest median is used.
    """

    def __init__(self, title, note, candidates, gates, unit="CPU us/request", reference=None):
        self.title, self.note, self.candidates, self.gates = title, note, candidates, gates
        self.unit, self.reference = unit, reference
        self.rounds = []

    def measure(self, rounds):
        """Measures every candidate once per round, each round in another order."""
        self.rounds = []
        for number in range(1, rounds + 1):
            order = list(self.candidates)
            random.Random(number).shuffle(order)
            figures = {name: self.candidates[name]() for name in order}
            self.rounds.append(figures)
            shown = ", ".join(f"{name} {figures[name].value:.2f}" for name in self.candidates)
            disturbed = max(figure.disturbed_share for figure in figures.values())
            print(f"  round {number}: {shown} {self.unit}; host noise up to {disturbed:.1%}", flush=True)

    def base(self):
        return self.reference or next(iter(self.candidates))

    def others(self):
        """Keys of the ratios to `base`: all other candidates, then the groups that have a gate."""
        groups = [other for other in self.gates if isinstance(other, tuple)]
        return [name for name in self.candidates if name != self.base()] + groups

    def values(self, name):
        return [figures[name].value for figures in self.rounds]

    def ratios(self, other):
        """The ratio of each round."""
        if isinstance(other, tuple):
            other = min(other, key=lambda name: statistics.median(self.values(name)))
        above, below = (other, self.base()) if self.reference else (self.base(), other)
        return [upper / lower for upper, lower in zip(self.values(above), self.values(below))]

    def label(self, other):
        other = f"the best of {', '.join(other)}" if isinstance(other, tuple) else other
        above, below = (other, self.base()) if self.reference else (self.base(), other)
        return f"{above} / {below}"

    def verdicts(self):
        title = self.title.removesuffix(" (not gated)")
        made = {other: statistics.median(self.ratios(other)) for other in self.gates}
        return [Verdict(f"{title}: {self.label(other)}", value, self.gates[other]) for other, value in made.items()]

    def is_disturbed(self):
        return are_disturbed([figure.disturbed_share for figures in self.rounds for figure in figures.values()])

    def lines(self):
        """The result as Markdown lines."""
        note = self.note[0].upper() + self.note[1:]
        lines = [f"### {self.title}", "", f"{note}.", ""]
        lines += [f"| | {self.unit}, median | lowest | highest | requests/s, median |", "|---|---|---|---|---|"]
        for name in self.candidates:
            rate = statistics.median(figures[name].rate_per_s for figures in self.rounds)
            lines.append(f"| {name} | {spread(self.values(name))} | {rate:,.0f} |")
        lines += ["", "| ratio within a round | median | lowest | highest | gate | | goal | |"]
        lines.append("|---|---|---|---|---|---|---|---|")
        for other in self.others():
            ratios = self.ratios(other)
            gate = self.gates.get(other, Gate(None))
            middle = statistics.median(ratios)
            lines.append(f"| {self.label(other)} | {spread(ratios)} | {limits(middle, gate)} |")
        if self.is_disturbed():
            lines += ["", DISTURBED]
        return [*lines, ""]


def are_disturbed(shares):
    """Whether host noise is too high: in the median, or in more than a quarter of the measurements."""
    return statistics.median(shares) > DISTURBED_SHARE or sum(s > DISTURBED_SHARE for s in shares) * 4 > len(shares)


class Bench:
    """The programs of one part of the benchmark: servers run on one CPU, load tools and upstreams on another."""

    def __init__(self, processes, binaries, work, arguments, cpus):
        self.processes, self.binaries, self.work = processes, binaries, work
        self.seconds, self.rounds, self.is_quick = arguments.seconds, arguments.rounds, arguments.quick
        self.server_cpu, self.load_cpu = cpus
        self.servers = Servers(processes, binaries, work)
        self.site = Site(processes, binaries, work, self.load_cpu)

    def watched(self, measure):
        """(Result of `measure`, host noise meanwhile)."""
        watch = HostWatch(self.processes)
        made = measure()
        return made, watch.share()

    def served(self, server, load, value=None):
        """A candidate that measures the CPU time of its server. `load(seconds)` runs once as warm-up.

        `value` computes the result from CPU seconds and load; the default is microseconds per request.
        """
        value = value or (lambda cpu_s, done: cpu_s * 1e6 / done.requests)

        def measure():
            load(1)
            watch = HostWatch(self.processes)
            before_s = tree_cpu_s(server.process.pid)
            done = load(self.seconds)
            cpu_s = tree_cpu_s(server.process.pid) - before_s
            return Figure(value(cpu_s, done), done.rate_per_s, watch.share())

        return measure

    def driven(self, tool, shape, port, path="/"):
        """A function that runs a tool's load on a port."""
        return lambda seconds: TOOLS[tool](self.site, shape, shape.url(port, path), seconds)

    def compare_servers(self, title, note, servers, gates, connections=32):
        shape = Shape(connections)
        candidates = {name: self.served(server, self.driven("wrk", shape, server.port)) for name, server in servers.items()}
        return Comparison(title, note, candidates, gates)
