#!/usr/bin/env python3
"""CPU time per request: the engine against wrk, the origin against nginx, the gateway against the others.

All that is compared runs on this host, in turn, in the same rounds; a ratio is taken within a round, so that what
disturbs the host disturbs both. Servers are bound to one CPU, the load tool and the origin behind a gateway to
another. Exit code 1 when the median of a gated ratio is above its gate.
"""

import argparse
import os
import platform
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import loads
from processes import Failed, HostWatch, Processes, tree_cpu_s
from servers import Servers

ROOT = Path(__file__).resolve().parent.parent
# METHOD: a figure is disturbed when steal and the CPU time of others exceed this share of the host.
DISTURBED_SHARE = 0.02
ATTEMPTS = 3
GATEWAYS = ["weir-gateway", "nginx", "haproxy", "haproxy tcp", "envoy"]


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

    def ratios(self, other):
        ours = next(iter(self.candidates))
        return [figures[ours].cpu_us / figures[other].cpu_us for figures in self.rounds]

    def failed_gates(self):
        return [other for other, gate in self.gates.items() if statistics.median(self.ratios(other)) > gate]

    def is_disturbed(self):
        shares = [figure.disturbed_share for figures in self.rounds for figure in figures.values()]
        return statistics.median(shares) > DISTURBED_SHARE or sum(s > DISTURBED_SHARE for s in shares) * 4 > len(shares)


class Bench:
    """The comparisons, over programs that are already running."""

    def __init__(self, processes, binaries, work, seconds):
        self.processes, self.binaries, self.work, self.seconds = processes, binaries, work, seconds
        self.servers = Servers(processes, binaries, work)
        cpus = sorted(os.sched_getaffinity(0))
        # With a single CPU all share it; ratios stay meaningful, rates don't.
        self.server_cpu, self.load_cpu = cpus[0], cpus[-1]

    def engine(self):
        origin = self.servers.nginx_origin(self.server_cpu)
        paths, request_bytes = loads.equal_paths(self.processes, self.binaries, self.work, self.load_cpu)

        def candidate(name):
            def measure():
                self.load(name, origin.port, 1, paths[name])
                watch = HostWatch(self.processes)
                load = self.load(name, origin.port, self.seconds, paths[name])
                return Figure(load.cpu_s * 1e6 / load.requests, load.rate_per_s, watch.share())

            return measure

        return Comparison(
            "Load engine",
            f"closed loop against an nginx that answers itself; requests of {request_bytes} bytes from both",
            {name: candidate(name) for name in loads.TOOLS},
            {"wrk": 1.1},
        )

    def origin(self):
        servers = {
            "weir origin": self.servers.weir_origin(self.server_cpu),
            "nginx": self.servers.nginx_origin(self.server_cpu),
        }
        return self.compare_servers("Origin", "answering by itself, driven by wrk", servers, {"nginx": 1.0})

    def gateway(self):
        origin = self.servers.nginx_origin(self.load_cpu)
        servers = {name: self.servers.gateway(name, self.server_cpu, origin) for name in GATEWAYS}
        note = "in front of an nginx that answers itself, keep-alive on both sides, no access log, driven by wrk"
        return self.compare_servers("Gateway", note, servers, {"nginx": 1.0})

    def compare_servers(self, title, note, servers, gates):
        def candidate(server):
            def measure():
                self.load("wrk", server.port, 1)
                watch = HostWatch(self.processes)
                before_s = tree_cpu_s(server.process.pid)
                load = self.load("wrk", server.port, self.seconds)
                cpu_s = tree_cpu_s(server.process.pid) - before_s
                return Figure(cpu_s * 1e6 / load.requests, load.rate_per_s, watch.share())

            return measure

        return Comparison(title, note, {name: candidate(server) for name, server in servers.items()}, gates)

    def load(self, tool, port, seconds, path="/"):
        return loads.TOOLS[tool](self.processes, self.binaries, self.work, self.load_cpu, port, seconds, path)


def report(comparisons):
    """The results as Markdown."""
    lines = []
    for comparison in comparisons:
        lines += [f"### {comparison.title}", "", comparison.note[0].upper() + comparison.note[1:] + ".", ""]
        lines += ["| | CPU us/request, median | lowest | highest | requests/s, median |", "|---|---|---|---|---|"]
        for name in comparison.candidates:
            cpu_us = [figures[name].cpu_us for figures in comparison.rounds]
            rate = statistics.median(figures[name].rate_per_s for figures in comparison.rounds)
            lines.append(f"| {name} | {spread(cpu_us)} | {rate:,.0f} |")
        ours, *others = comparison.candidates
        lines += ["", "| ratio within a round | median | lowest | highest | at most | |", "|---|---|---|---|---|---|"]
        for other in others:
            ratios = comparison.ratios(other)
            gate = comparison.gates.get(other)
            verdict = "" if gate is None else "missed" if statistics.median(ratios) > gate else "met"
            lines.append(f"| {ours} / {other} | {spread(ratios)} | {gate or ''} | {verdict} |")
        if comparison.is_disturbed():
            lines += ["", "The host was disturbed during this: more than 2 % of it went to others."]
        lines.append("")
    return "\n".join(lines)


def spread(values):
    return f"{statistics.median(values):.2f} | {min(values):.2f} | {max(values):.2f}"


def environment(binaries, rounds, seconds):
    """What the figures were made with, as Markdown."""
    cpu = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    arguments = {"nginx": "-v", "haproxy": "-v", "wrk": "-v"}
    versions = "; ".join(version_of(path, arguments.get(name, "--version")) for name, path in binaries.items())
    return (
        f"{loads.CONNECTIONS} connections, 64 B bodies, one worker each, loopback; {rounds} rounds of {seconds} s.\n"
        f"Linux {platform.release()}, {cpu[1] if cpu else platform.machine()}, {os.cpu_count()} CPUs.\n"
        f"{versions}.\n"
    )


def version_of(path, argument):
    done = subprocess.run([path, argument], capture_output=True, text=True, timeout=20, check=False)
    first = (done.stdout + done.stderr).strip().splitlines()[0].strip()
    # Envoy begins with its path, nginx with its name twice.
    first = re.sub(r"^nginx version: nginx/", "nginx ", re.sub(r"^.*version: [0-9a-f]+/", "envoy ", first))
    return re.split(r" Copyright| - https| \d{4}/|/Clean", first)[0].replace(" version", "")


def find_binaries(bin_dir, names):
    """Our own from the build, the peers from target/peers or PATH."""
    found = {}
    for name in names:
        ours = name in ("weir", "weir-gateway")
        path = bin_dir / name if ours else ROOT / "target/peers/bin" / name
        if not path.exists() and not ours:
            path = shutil.which(name) and Path(shutil.which(name))
        if not path or not path.exists():
            how = "cargo build --release -p weir -p weir-gateway" if ours else "make peers"
            raise Failed(f"{name} is missing; get it with `{how}`")
        found[name] = path
    return found


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--bin-dir", type=Path, default=ROOT / "target/release", help="where weir was built")
    parser.add_argument("--only", choices=["engine", "origin", "gateway"], action="append", help="one comparison")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each candidate (default 5)")
    parser.add_argument("--seconds", type=int, default=5, help="length of each measurement (default 5)")
    parser.add_argument("--quick", action="store_true", help="3 rounds of 2 seconds, for a first look")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables to a file too")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds, arguments.seconds = 3, 2
    if arguments.rounds < 1 or arguments.seconds < 1:
        parser.error("--rounds and --seconds are 1 or more")
    return arguments


def attempt(comparison, rounds):
    """Measures until the gates hold, the host was quiet, or the attempts are used up; whether they hold."""
    for number in range(1, ATTEMPTS + 1):
        print(f"{comparison.title}: attempt {number}", flush=True)
        comparison.measure(rounds)
        failed = comparison.failed_gates()
        if not failed:
            return True
        print(f"  missed: {', '.join(f'{other} at {comparison.gates[other]}' for other in failed)}", flush=True)
        if not comparison.is_disturbed():
            print("  the host was quiet, so another attempt would show the same", flush=True)
            return False
    return False


def main():
    arguments = parse_arguments()
    only = arguments.only or ["engine", "origin", "gateway"]
    names = ["weir", "nginx", "wrk"] + (["weir-gateway", "haproxy", "envoy"] if "gateway" in only else [])
    binaries = find_binaries(arguments.bin_dir, names)
    header = environment(binaries, arguments.rounds, arguments.seconds)
    print(header, flush=True)
    comparisons, good = [], True
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as work:
        for kind in only:
            folder = Path(work) / kind
            folder.mkdir()
            # Each comparison has its programs for itself: what idles beside it costs nothing then.
            with Processes() as processes:
                comparison = getattr(Bench(processes, binaries, folder, arguments.seconds), kind)()
                good = attempt(comparison, arguments.rounds) and good
            comparisons.append(comparison)
    tables = report(comparisons)
    print("\n" + tables)
    if arguments.markdown:
        arguments.markdown.write_text(header + "\n" + tables)
    return 0 if good else 1


def stop(*_):
    raise KeyboardInterrupt


if __name__ == "__main__":
    # Set for Ctrl-C too: a shell starts its background jobs with that ignored.
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    try:
        sys.exit(main())
    except Failed as failure:
        print(f"bench: {failure}", file=sys.stderr)
        sys.exit(3)
    except KeyboardInterrupt:
        sys.exit(130)
