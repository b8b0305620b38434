#!/usr/bin/env python3
"""Compares the reports of load tools with the known delays of an origin: writes docs/accuracy.md and its picture.

First it finds the ceiling of each protocol: the highest open rate at which weir sends every request on time. Then it
runs every tool at 5 %, 50 % and 90 % of it, with every delay. Tools run on the last CPU, the origin on the first.
"""

import argparse
import tempfile
import time
from pathlib import Path

import accuracy_page
import accuracy_picture
import surroundings
from delays import CONSTANT, INDEPENDENT, given, stalled
from hosts import HostWatch, is_disturbed, placement
from loads import Shape, Site, TOOLS
from processes import Failed, Processes
from reporters import OPEN_MODEL, QUANTILES, REPORTERS, Case, NotApplicable
from servers import Servers
from theory import Stalled

PROTOCOLS = ["HTTP/1.1", "HTTP/2", "TLS"]
# Stalls are short, so that high rates do not need thousands of connections. The origin is stalled a fifth of the time.
STALLS = stalled(20, 100)
DELAYS = [*INDEPENDENT, STALLS]
LOAD_POINTS = [0.05, 0.5, 0.9]
LATENESS_NS_MAX = 250_000
FIRST_RATE_PER_S, RATE_STEP, BISECTIONS = 4_000, 1.3, 3
ATTEMPTS = 3
# The search for the ceiling uses many short trials, because pauses of the host would spoil the p99 of long ones.
TRIAL_S, TRIALS = 0.5, 6


class Finding:
    """The report of one tool in one case, and the origin's record."""

    def __init__(self, tool, quantiles_s=None, stats=None, share=0.0, reason=None):
        self.tool, self.quantiles_s, self.share, self.reason = tool, quantiles_s, share, reason
        self.given_s = stats and {name: stats["delays"][f"{name}_ns"] / 1e9 for name in QUANTILES}
        self.requests = stats and stats["requests"]

    def errors(self, truth_s):
        """The relative error of the report, by quantile."""
        return {name: self.quantiles_s[name] / truth_s[name] - 1 for name in QUANTILES}


class Comparison:
    """All tools in one case."""

    def __init__(self, case, load_point):
        self.case, self.load_point = case, load_point
        self.findings, self.reference_s = {}, None

    def truth_s(self, finding):
        """The delays that the origin recorded in this run, or in the reference run if the tool waits during stalls."""
        if self.reference_s and finding.tool not in OPEN_MODEL:
            return self.reference_s
        return finding.given_s

    def errors(self, finding):
        return finding.errors(self.truth_s(finding))

    def worst(self, finding):
        return max(abs(error) for error in self.errors(finding).values())

    def reported(self):
        return [finding for finding in self.findings.values() if finding.quantiles_s]

    def sent_share(self, finding):
        return finding.requests / (self.case.rate_per_s * self.case.seconds)


class Accuracy:
    """Runs the load tools. Each run gets a new origin."""

    def __init__(self, processes, binaries, work, seconds):
        self.processes, self.seconds = processes, seconds
        self.server_cpu, load_cpu = placement()
        self.servers = Servers(processes, binaries, work)
        self.site = Site(processes, binaries, work, load_cpu)
        self.repeats_left = 40

    def ceiling(self, protocol):
        """The highest rate at which weir sends every request on time."""
        low, high, rate_per_s = None, None, FIRST_RATE_PER_S
        while high is None or (low and high / low > RATE_STEP ** (1 / 2**BISECTIONS) * 1.001):
            if self.carries(protocol, round(rate_per_s)):
                low = rate_per_s
            elif low is None and rate_per_s < FIRST_RATE_PER_S / 8:
                raise Failed(f"weir sends late at every rate over {protocol}: the host is too busy; try again later")
            else:
                high = rate_per_s
            if low is None:
                rate_per_s, high = rate_per_s / 2, None
            else:
                rate_per_s = low * RATE_STEP if high is None else (low * high) ** 0.5
        return round(low)

    def carries(self, protocol, rate_per_s):
        """Whether weir is on time at this rate in at least one trial: pauses of the host can only add lateness."""
        case = Case(protocol, CONSTANT, rate_per_s, TRIAL_S)
        shape = Shape(case.connections(), rate_per_s, case.streams, case.tls)
        for _ in range(TRIALS):
            origin = self.origin(case)
            watch = HostWatch(self.processes)
            try:
                result = TOOLS["weir load"](self.site, shape, case.url(origin.port), case.seconds).result
            except Failed:
                return False
            finally:
                self.processes.end(origin.process)
            share = watch.share()
            requests, late_ns = result["requests"], result["lateness_ns"]["p99"]
            complete = requests["sent"] == requests["scheduled"] == requests["completed"]
            good = complete and late_ns is not None and late_ns <= LATENESS_NS_MAX
            shown = f"{protocol} at {rate_per_s:,}/s: lateness p99 {(late_ns or 0) / 1e3:.0f} us"
            print(f"  {shown}, {'all' if complete else 'not all'} sent and completed; host noise {share:.1%}", flush=True)
            if good:
                return True
        return False

    def origin(self, case):
        return self.servers.weir_origin(self.server_cpu, *case.origin_options(), tls=case.tls, asked=False)

    def compared(self, case, load_point):
        """Runs every tool in this case."""
        comparison = Comparison(case, load_point)
        if isinstance(case.delay.distribution, Stalled):
            comparison.reference_s = self.reference(case)
        for tool in REPORTERS:
            finding = self.finding(tool, case)
            comparison.findings[tool] = finding
            print(f"  {tool:7} {accuracy_page.errors_cell(comparison, finding)}", flush=True)
        return comparison

    def finding(self, tool, case):
        """Runs one tool. After host noise, retries a few times and returns the run with the least noise."""
        best = None
        for _ in range(ATTEMPTS):
            origin = self.origin(case)
            watch = HostWatch(self.processes)
            try:
                report = REPORTERS[tool](self.site, case, origin.port)
                found = Finding(tool, report.quantiles_s, given(origin.port, case.tls), watch.share())
            except NotApplicable as why:
                return Finding(tool, reason=str(why))
            except Failed as failure:
                found = Finding(tool, share=watch.share(), reason=f"failed: {str(failure).splitlines()[0].rstrip(':')}")
            finally:
                self.processes.end(origin.process)
            if best is None or (found.quantiles_s and (not best.quantiles_s or found.share < best.share)):
                best = found
            if not is_disturbed(found.share) or self.repeats_left == 0:
                break
            self.repeats_left -= 1
        return best

    def reference(self, case):
        """The origin's record of an open load with evenly spaced arrivals, which cover all parts of a stall equally."""
        origin = self.origin(case)
        shape = Shape(case.connections(), case.rate_per_s, case.streams, case.tls)
        TOOLS["weir load"](self.site, shape, case.url(origin.port), case.seconds, even=True)
        stats = given(origin.port, case.tls)
        self.processes.end(origin.process)
        return {name: stats["delays"][f"{name}_ns"] / 1e9 for name in QUANTILES}


def rate_at(ceiling_per_s, load_point):
    """A load point's rate: no multiple of the stalls' rate, so evenly spaced arrivals hit all parts of a stall."""
    return round(ceiling_per_s * load_point) // 10 * 10 + 3


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--bin-dir", type=Path, default=surroundings.BUILT, help="folder of weir's programs")
    parser.add_argument("--out", type=Path, default=surroundings.ROOT / "docs", help="folder of accuracy.md")
    parser.add_argument("--seconds", type=int, default=3, help="length of each run (default 3)")
    parser.add_argument("--protocol", choices=PROTOCOLS, action="append", help="only this; may be said again")
    parser.add_argument("--delay", metavar="WORD", help="only delays with this in their name")
    parser.add_argument("--quick", action="store_true", help="runs of a second, one load point, for a first look")
    parser.add_argument("--ceiling", type=int, metavar="RATE", help="for trying: don't measure the ceiling; nothing is written")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    seconds = 1 if arguments.quick else arguments.seconds
    load_points = [0.5] if arguments.quick else LOAD_POINTS
    delays = [delay for delay in DELAYS if not arguments.delay or arguments.delay in delay.name]
    binaries = surroundings.find_binaries(arguments.bin_dir, REPORTERS)
    environment = surroundings.environment(binaries)
    print(environment, flush=True)
    began_s, comparisons, ceilings = time.monotonic(), [], {}
    with tempfile.TemporaryDirectory(prefix="weir-accuracy-") as work, Processes() as processes:
        accuracy = Accuracy(processes, binaries, Path(work), seconds)
        for protocol in arguments.protocol or PROTOCOLS:
            ceilings[protocol] = arguments.ceiling or accuracy.ceiling(protocol)
            print(f"{protocol}: weir's ceiling is {ceilings[protocol]:,}/s", flush=True)
            for delay in delays:
                for load_point in load_points:
                    case = Case(protocol, delay, rate_at(ceilings[protocol], load_point), seconds)
                    print(f"{protocol}, {delay.name}, {case.rate_per_s:,}/s ({load_point:.0%})", flush=True)
                    comparisons.append(accuracy.compared(case, load_point))
    minutes = (time.monotonic() - began_s) / 60
    page = accuracy_page.page(comparisons, ceilings, environment, seconds, minutes)
    picture = accuracy_picture.picture([found for found in comparisons if found.case.protocol == PROTOCOLS[0]])
    if arguments.ceiling:
        print(page)
        print("nothing written: the ceiling was not measured")
        return 0
    (arguments.out / "accuracy.md").write_text(page)
    (arguments.out / "accuracy.svg").write_text(picture)
    print(f"written: {arguments.out / 'accuracy.md'}, accuracy.svg")
    return 0


if __name__ == "__main__":
    surroundings.run_main(main, "accuracy")
