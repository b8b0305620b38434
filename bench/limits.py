"""Absolute limits on weir's engine: lateness and memory."""

import statistics

from comparisons import Bench
from engines import OPEN_RATE_PER_S
from gates import Gate, Table, Verdict, limits, passed
from hosts import ATTEMPTS_MAX, DISTURBED_SHARE, HostWatch
from loads import Shape, weir

LATENESS_US = Gate(250, 100)
MEMORY_MIB = Gate(20)
CONNECTION_BYTES = Gate(4096)
CONNECTIONS = [32, 1032, 4032]


class Limits(Bench):
    """Measures weir against an nginx on another core."""

    def lateness(self):
        """p99 of the lateness on a free core, in several attempts."""
        port = self.servers.nginx_origin(self.server_cpu).port
        lines = [f"### Lateness at {OPEN_RATE_PER_S:,}/s", ""]
        lines += ["| | lateness p50 us | p99 us | host noise | |", "|---|---|---|---|---|"]
        medians = {}
        for spin in (False, True):
            name = "weir load --spin" if spin else "weir load"
            quiet = []
            for attempt in range(1, ATTEMPTS_MAX + 1):
                p50_us, p99_us, share = self.one_lateness(port, spin)
                disturbed = share > DISTURBED_SHARE
                quiet += [] if disturbed else [p99_us]
                word = "invalid" if disturbed else "valid"
                lines.append(f"| {name}, attempt {attempt} | {p50_us:.0f} | {p99_us:.0f} | {share:.1%} | {word} |")
                print(f"  {lines[-1]}", flush=True)
            medians[name] = statistics.median(quiet) if quiet else None
        lines += ["", "| median p99 of the valid attempts | us | gate | | goal | |", "|---|---|---|---|---|---|"]
        for name, median_us in medians.items():
            gate = LATENESS_US if name == "weir load" and median_us is not None else Gate(None)
            shown = "host noise in every attempt" if median_us is None else f"{median_us:.0f}"
            lines.append(f"| {name} | {shown} | {limits(median_us, gate)} |")
        title = f"lateness p99 at {OPEN_RATE_PER_S:,}/s"
        yield Table(lines, [Verdict(title, medians["weir load"], LATENESS_US, " us")])

    def one_lateness(self, port, spin):
        shape = Shape(32, OPEN_RATE_PER_S, spin=spin)
        watch = HostWatch(self.processes)
        load = weir(self.site, shape, shape.url(port), self.seconds)
        share = watch.share()
        lateness = load.result["lateness_ns"]
        return lateness["p50"] / 1e3, lateness["p99"] / 1e3, share

    def memory(self):
        """Peak resident memory by number of connections."""
        port = self.servers.nginx_origin(self.server_cpu).port
        peaks = {connections: [] for connections in CONNECTIONS}
        for number in range(1, min(3, self.rounds) + 1):
            for connections in CONNECTIONS:
                shape = Shape(connections)
                load = weir(self.site, shape, shape.url(port), self.seconds, watch_memory=True)
                peaks[connections].append(load.memory_bytes_peak)
            shown = ", ".join(f"{count}: {peaks[count][-1] / 2**20:.2f} MiB" for count in CONNECTIONS)
            print(f"  round {number}: {shown}", flush=True)
        middle = {connections: statistics.median(values) for connections, values in peaks.items()}
        first = CONNECTIONS[0]
        lines = ["### Memory", "", "| connections | peak MiB, median of rounds | lowest | highest | gate | |"]
        lines.append("|---|---|---|---|---|---|")
        verdicts = [Verdict(f"memory at {first} connections", middle[first] / 2**20, MEMORY_MIB, " MiB")]
        for connections, values in peaks.items():
            mib = " | ".join(f"{value / 2**20:.2f}" for value in (middle[connections], min(values), max(values)))
            limit = passed(middle[connections] / 2**20, MEMORY_MIB.at_most if connections == first else None)
            lines.append(f"| {connections:,} | {mib} | {limit} |")
        lines += ["", "| connections | bytes per added connection, median | gate | |", "|---|---|---|---|"]
        for connections in CONNECTIONS[1:]:
            each = round((middle[connections] - middle[first]) / (connections - first))
            verdict = Verdict(f"memory per added connection, from {first:,} to {connections:,}", each, CONNECTION_BYTES, " B")
            verdicts.append(verdict)
            lines.append(f"| {first:,} to {connections:,} | {each:,} | {passed(each, CONNECTION_BYTES.at_most)} |")
        yield Table(lines, verdicts)
