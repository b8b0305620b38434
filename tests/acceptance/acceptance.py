#!/usr/bin/env python3
"""Measured acceptance: checks the values and counts of real runs.

If a check that depends on time fails, and host noise exceeds 0.5 % of the host's CPU time, the check is retried: at
most five attempts. Noise of 0.5 % can delay half of the requests beyond a p99. Host noise is steal and the CPU time of
other processes. Every attempt is printed. Counts are never checked again: they must hold on any machine. Exit code 1 if
a check fails.
"""

import argparse
import pathlib
import shutil
import tempfile

from checks import Rig, passes  # First: it adds bench/ to the search path.

import added_latency
import agents
import arrivals
import capacity
import chart
import cluster
import comparing
import matrix
import noisy_hosts
import other_tools
import remote
import robustness
import services
import surroundings
import verdicts
import whole_runs
from processes import Processes

PROGRAMS = ["weir", "weir-gateway", "nginx", "prometheus"]
# Load tools that only some checks need.
OTHER_TOOLS = ["wrk", "oha", "h2load"]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin-dir", type=pathlib.Path, default=surroundings.BUILT, help="folder of weir's programs")
    parser.add_argument("--only", action="append", metavar="WORD", help="only checks and rows whose name contains WORD; may be repeated")
    parser.add_argument("--quick", action="store_true", help="shorter runs, for a first look")
    parser.add_argument("--patterns", type=lambda names: names.split(","), metavar="A,B", help="patterns of noise for `noise_is_bounded`")
    parser.add_argument("--list", action="store_true", help="print the names and exit")
    return parser.parse_args()


def main():
    """Runs all checks and rows, or the selected ones."""
    arguments = parse_arguments()

    def wanted(name):
        return not arguments.only or any(word.lower() in name.lower() for word in arguments.only)

    named = [(check.__name__, check) for check in (*whole_runs.CHECKS, *verdicts.CHECKS, *arrivals.CHECKS, *other_tools.CHECKS, *capacity.CHECKS, *robustness.CHECKS, *remote.CHECKS, *added_latency.CHECKS, *comparing.CHECKS, *noisy_hosts.CHECKS, *agents.CHECKS)]
    # No registry has the programs of these checks, so they run only if selected by name or if the program is on PATH.
    found = [check for program, check in services.CHECKS.items() if arguments.only or shutil.which(program)]
    # The first run builds Kubernetes, Contour and Istio, so these checks run only if selected by name.
    found += [*cluster.CHECKS, *chart.CHECKS] if arguments.only else []
    named += [(check.__name__, check) for check in found]
    checks = [(name, check) for name, check in named if wanted(name)]
    rows = [row for row in matrix.rows() if wanted(row.name)]
    if arguments.list:
        print("\n".join([name for name, _ in checks] + [row.name for row in rows]))
        return 0
    compares = any(check in other_tools.CHECKS for _, check in checks)
    binaries = surroundings.find_binaries(arguments.bin_dir, PROGRAMS + (OTHER_TOOLS if compares else []))
    print(surroundings.environment(binaries), flush=True)
    failed = []
    with tempfile.TemporaryDirectory(prefix="weir-acceptance-") as folder, Processes() as processes:
        rig = Rig(processes, binaries, pathlib.Path(folder), arguments.quick, arguments.patterns)
        for name, check in checks:
            if not passes(name, check.__doc__.splitlines()[0], check, rig)[0]:
                failed.append(name)
        for row in rows:
            row.passed, row.attempts, row.share = passes(row.name, "latency and counts", row.check, rig)
            if not row.passed:
                failed.append(row.name)
    if rows:
        print("\n" + matrix.table(rows) + "\n")
    total = len(checks) + len(rows)
    print(f"{total - len(failed)} passed, {len(failed)} failed{': ' + '; '.join(failed) if failed else ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    surroundings.run_main(main, "acceptance")
