#!/usr/bin/env python3
"""Measures weir's cost: the engine compared with wrk, oha and h2load, the origin with nginx, the gateway with others.

All candidates run on this host, alternating in the same rounds. Ratios are computed within a round, so that host noise
affects both values. Servers are bound to the first CPU, load tools and origins behind gateways to the last. Exit code 1
if the median of a gated value exceeds its gate.
"""

import argparse
import tempfile
from pathlib import Path

import gates
import surroundings
from comparisons import Comparison
from domains import Domains
from engines import Engines
from gateways import Gateways
from hosts import placement
from limits import Limits
from prices import Prices
from processes import Failed, Processes
from scaling import Scaling

ATTEMPTS = 3


class Part:
    """Measurements that share no process with other parts. `needs`: the programs required besides weir and nginx."""

    def __init__(self, owner, method, needs):
        self.owner, self.method, self.needs = owner, method, needs


PARTS = {
    "closed": Part(Engines, "closed", ["wrk", "oha"]),
    "closed_256": Part(Engines, "closed_256", ["wrk"]),
    "closed_1": Part(Engines, "closed_1", ["wrk"]),
    "open": Part(Engines, "open", ["oha"]),
    "tls": Part(Engines, "tls", ["wrk"]),
    "http2": Part(Engines, "http2", ["h2load"]),
    "lateness": Part(Limits, "lateness", []),
    "memory": Part(Limits, "memory", []),
    "origin": Part(Engines, "origin", ["wrk"]),
    "gateway": Part(Gateways, "kept", ["wrk", "weir-gateway", "haproxy", "envoy"]),
    "gateway_256": Part(Gateways, "kept_256", ["wrk", "weir-gateway", "haproxy", "envoy"]),
    "bodies": Part(Gateways, "bodies", ["wrk", "weir-gateway", "haproxy"]),
    "latency": Part(Gateways, "latency", ["weir-gateway", "haproxy"]),
    "idle": Part(Gateways, "idle", ["weir-gateway"]),
    "start": Part(Domains, "start", ["weir-gateway", "haproxy", "envoy"]),
    "domains": Part(Domains, "loaded", ["weir-gateway", "haproxy", "envoy"]),
    "scale": Part(Scaling, "all", ["weir-gateway", "changes"]),
    "prices": Part(Prices, "all", ["wrk", "weir-gateway"]),
}


def attempt(comparison, rounds):
    """Measures until all gates hold, the host is quiet, or the attempts are used up."""
    for number in range(1, ATTEMPTS + 1):
        print(f"{comparison.title}: attempt {number}", flush=True)
        comparison.measure(rounds)
        missed = [verdict for verdict in comparison.verdicts() if not verdict.is_good()]
        if not missed:
            return
        print(f"  MISSED: {', '.join(f'{verdict.what} at {verdict.gate.at_most}' for verdict in missed)}", flush=True)
        if not comparison.is_disturbed():
            print("  the host was quiet: no further attempt", flush=True)
            return


def measured(part, binaries, folder, arguments):
    """Yields Markdown lines and verdicts of a part, measurement by measurement."""
    # Programs of other parts are stopped, so that they use no CPU time.
    with Processes() as processes:
        owner = part.owner(processes, binaries, folder, arguments, placement())
        for found in getattr(owner, part.method)():
            if isinstance(found, Comparison):
                attempt(found, arguments.rounds)
            yield found.lines(), found.verdicts()


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--bin-dir", type=Path, default=surroundings.BUILT, help="folder of weir's programs")
    parser.add_argument("--only", choices=PARTS, action="append", help="only this part; may be repeated")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each candidate (default 5)")
    parser.add_argument("--seconds", type=int, default=5, help="length of each measurement (default 5)")
    quick = "3 rounds of 2 seconds, fewer changes and idle connections, for a first look"
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the tables to a file")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds, arguments.seconds = 3, 2
    if arguments.rounds < 1 or arguments.seconds < 1:
        parser.error("--rounds and --seconds must be at least 1")
    return arguments


def main():
    arguments = parse_arguments()
    parts = {name: PARTS[name] for name in arguments.only or PARTS}
    needed = dict.fromkeys(["weir", "nginx", *(name for part in parts.values() for name in part.needs)])
    binaries = surroundings.find_binaries(arguments.bin_dir, needed)
    header = (
        "Unless a table says otherwise: bodies of 64 B, one worker per program, loopback, nginx as upstream. "
        f"{arguments.rounds} rounds of {arguments.seconds} s per program.\n{surroundings.environment(binaries)}"
    )
    print(header, flush=True)
    lines, verdicts, failed = [], [], []
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as work:
        for name, part in parts.items():
            folder = Path(work) / name
            folder.mkdir()
            try:
                for table, gated in measured(part, binaries, folder, arguments):
                    lines += table
                    verdicts += gated
                    # Written after each table, so that a later failure loses nothing.
                    if arguments.markdown:
                        arguments.markdown.write_text("\n".join([header, *gates.summary(verdicts), *lines]))
            except Failed as failure:
                print(f"  {failure}", flush=True)
                lines += [f"### {name}: not measured", "", str(failure).splitlines()[0], ""]
                failed.append(name)
    text = "\n".join([header, *gates.summary(verdicts), *lines])
    if arguments.markdown:
        arguments.markdown.write_text(text)
    print("\n" + text)
    missed = [verdict.what for verdict in verdicts if not verdict.is_good()]
    for what, names in (("not measured", failed), ("MISSED", missed)):
        print(f"{what}: {'; '.join(names)}" if names else f"{what}: none")
    return 1 if missed or failed else 0


if __name__ == "__main__":
    surroundings.run_main(main, "bench")
