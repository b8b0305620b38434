#!/usr/bin/env python3
"""What weir costs: the engine against wrk, oha and h2load, the origin against nginx, the gateway against the others.

All that is compared runs on this host, in turn, in the same rounds; a ratio is taken within a round, so that what
disturbs the host disturbs both. Servers are bound to the first CPU, the load tool and the origin behind a gateway
to the last. Exit code 1 when the median of a gated figure is beyond its gate.
"""

import argparse
import tempfile
from pathlib import Path

import surroundings
from comparisons import Comparisons, report
from hosts import placement
from limits import Limits
from processes import Failed, Processes

ATTEMPTS = 3
# What each part needs besides weir and nginx.
PARTS = {
    "closed": ["wrk", "oha"],
    "closed_256": ["wrk"],
    "closed_1": ["wrk"],
    "open": ["oha"],
    "tls": ["wrk"],
    "http2": ["h2load"],
    "lateness": [],
    "memory": [],
    "origin": ["wrk"],
    "gateway": ["wrk", "weir-gateway", "haproxy", "envoy"],
}


def attempt(comparison, rounds):
    """Measures until the gates hold, the host was quiet, or the attempts are used up; whether they hold."""
    for number in range(1, ATTEMPTS + 1):
        print(f"{comparison.title}: attempt {number}", flush=True)
        comparison.measure(rounds)
        failed = comparison.failed_gates()
        if not failed:
            return True
        print(f"  missed: {', '.join(f'{other} at {comparison.gates[other].at_most}' for other in failed)}", flush=True)
        if not comparison.is_disturbed():
            print("  the host was quiet, so another attempt would show the same", flush=True)
            return False
    return False


def measure(part, processes, binaries, folder, arguments):
    """Markdown lines of one part, and whether its gates hold."""
    common = (processes, binaries, folder, arguments.seconds, placement())
    if part == "lateness":
        print("Lateness:", flush=True)
        return Limits(*common).lateness()
    if part == "memory":
        print("Memory:", flush=True)
        return Limits(*common).memory(min(3, arguments.rounds))
    comparison = getattr(Comparisons(*common), part)()
    good = attempt(comparison, arguments.rounds)
    return report(comparison), good


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--bin-dir", type=Path, default=surroundings.BUILT, help="where weir was built")
    parser.add_argument("--only", choices=PARTS, action="append", help="one part; may be said again")
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


def main():
    arguments = parse_arguments()
    parts = arguments.only or list(PARTS)
    needed = dict.fromkeys(["weir", "nginx", *(name for part in parts for name in PARTS[part])])
    binaries = surroundings.find_binaries(arguments.bin_dir, needed)
    header = (
        f"64 B bodies, one worker each, loopback; {arguments.rounds} rounds of {arguments.seconds} s.\n"
        f"{surroundings.environment(binaries)}"
    )
    print(header, flush=True)
    lines, missed = [], []
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as work:
        for part in parts:
            folder = Path(work) / part
            folder.mkdir()
            # Each part has its programs for itself: what idles beside it costs nothing then.
            try:
                with Processes() as processes:
                    table, good = measure(part, processes, binaries, folder, arguments)
            except Failed as failure:
                print(f"  {failure}", flush=True)
                table, good = [f"### {part}: not measured", "", str(failure).splitlines()[0], ""], False
            lines += table
            missed += [] if good else [part]
            # After each part, so that what comes later loses nothing.
            if arguments.markdown:
                arguments.markdown.write_text(header + "\n" + "\n".join(lines))
    print("\n" + "\n".join(lines))
    print(f"missed: {', '.join(missed)}" if missed else "every gate is met")
    return 1 if missed else 0


if __name__ == "__main__":
    surroundings.run_main(main, "bench")
