"""The limits on weir's engine that are no ratios: how late it sends, and how much memory it takes."""

import statistics

from comparisons import OPEN_RATE_PER_S, judged
from hosts import ATTEMPTS_MAX, DISTURBED_SHARE, HostWatch
from loads import Shape, Site, weir
from servers import Servers

LATENESS_US_MAX, LATENESS_US_WANTED = 250, 100
MEMORY_MIB_MAX = 20
CONNECTION_BYTES_MAX = 4096
CONNECTIONS = [32, 1032, 4032]


class Limits:
    """Measures weir alone, against an nginx that answers itself on another core."""

    def __init__(self, processes, binaries, work, seconds, cpus):
        self.processes, self.seconds = processes, seconds
        self.site = Site(processes, binaries, work, cpus[1])
        self.port = Servers(processes, binaries, work).nginx_origin(cpus[0]).port

    def lateness(self):
        """p99 of the lateness in attempts on a free core; Markdown lines, and whether the gate holds."""
        lines = [f"### Lateness at {OPEN_RATE_PER_S:,}/s", ""]
        lines += ["| | lateness p50 us | p99 us | others' share of the host | |", "|---|---|---|---|---|"]
        medians = {}
        for spin in (False, True):
            name = "weir load --spin" if spin else "weir load"
            quiet = []
            for attempt in range(1, ATTEMPTS_MAX + 1):
                p50_us, p99_us, share = self.one_lateness(spin)
                disturbed = share > DISTURBED_SHARE
                quiet += [] if disturbed else [p99_us]
                word = "disturbed" if disturbed else "counts"
                lines.append(f"| {name}, attempt {attempt} | {p50_us:.0f} | {p99_us:.0f} | {share:.1%} | {word} |")
                print(f"  {lines[-1]}", flush=True)
            medians[name] = statistics.median(quiet) if quiet else None
        lines += ["", "| median p99 of the undisturbed attempts | us | at most | | wanted | |", "|---|---|---|---|---|---|"]
        for name, median_us in medians.items():
            gated = median_us is not None and name == "weir load"
            limits = (LATENESS_US_MAX, LATENESS_US_WANTED) if gated else (None, None)
            shown = "every attempt was disturbed" if median_us is None else f"{median_us:.0f}"
            lines.append(f"| {name} | {shown} | {' | '.join(judged(median_us, limit) for limit in limits)} |")
        ours_us = medians["weir load"]
        return [*lines, ""], ours_us is not None and ours_us <= LATENESS_US_MAX

    def one_lateness(self, spin):
        shape = Shape(32, OPEN_RATE_PER_S, spin=spin)
        watch = HostWatch(self.processes)
        load = weir(self.site, shape, shape.url(self.port), self.seconds)
        share = watch.share()
        lateness = load.result["lateness_ns"]
        return lateness["p50"] / 1e3, lateness["p99"] / 1e3, share

    def memory(self, rounds):
        """The peak of the resident memory over connections; Markdown lines, and whether the gates hold."""
        peaks = {connections: [] for connections in CONNECTIONS}
        for number in range(1, rounds + 1):
            for connections in CONNECTIONS:
                shape = Shape(connections)
                load = weir(self.site, shape, shape.url(self.port), self.seconds, watch_memory=True)
                peaks[connections].append(load.memory_bytes_peak)
            shown = ", ".join(f"{count}: {peaks[count][-1] / 2**20:.2f} MiB" for count in CONNECTIONS)
            print(f"  round {number}: {shown}", flush=True)
        middle = {connections: statistics.median(values) for connections, values in peaks.items()}
        first = CONNECTIONS[0]
        lines = ["### Memory", "", "| connections | peak MiB, median of rounds | lowest | highest | at most | |"]
        lines.append("|---|---|---|---|---|---|")
        good = middle[first] <= MEMORY_MIB_MAX * 2**20
        for connections, values in peaks.items():
            mib = " | ".join(f"{value / 2**20:.2f}" for value in (middle[connections], min(values), max(values)))
            limit = judged(middle[connections] / 2**20, MEMORY_MIB_MAX if connections == first else None)
            lines.append(f"| {connections:,} | {mib} | {limit} |")
        lines += ["", "| further connections | bytes each, medians | at most | |", "|---|---|---|---|"]
        for connections in CONNECTIONS[1:]:
            each = (middle[connections] - middle[first]) / (connections - first)
            good = good and each <= CONNECTION_BYTES_MAX
            lines.append(f"| {first:,} to {connections:,} | {each:,.0f} | {judged(each, CONNECTION_BYTES_MAX)} |")
        return [*lines, ""], good
