#!/usr/bin/env python3
"""Loads one gateway with weir, k6 and Locust, as if from four machines. Writes the table in docs/from-k6-and-locust.md.

All run on this host: four agents of weir, four execution segments of k6, a Locust master with four workers. The origin
behind the gateway records its delays.
"""

import argparse
import json
import re
import statistics
import tempfile
from pathlib import Path

import surroundings
from delays import LOGNORMAL, given
from loads import Site, complete, weir_result
from processes import Failed, Processes
from reporters import K6_SCRIPT, LOCUST_SCRIPT, QUANTILES, Case
from servers import Servers

PAGE = surroundings.ROOT / "docs/from-k6-and-locust.md"
BEGIN, END = "<!-- measured by bench/machines.py -->", "<!-- end of measured table -->"
MACHINES, SECONDS, RATE_PER_S = 4, 20, 400


class Result:
    """A tool's result for the load of all machines. Times are in seconds."""

    def __init__(self, tool, how, sent, quantiles_s):
        self.tool, self.how, self.sent, self.quantiles_s = tool, how, sent, quantiles_s


def weir(site, case, port):
    options = ["load", case.url(port), "--on", f"local:{MACHINES}", "--connections", case.in_flight, "--json"]
    options += ["--rate", f"{case.rate_per_s}/s", "--duration", f"{case.seconds}s", "--warmup", "0s"]
    done = site.run("weir", options, case.seconds + 20)
    load = complete(done, weir_result(done))
    latency = load.result["latency_ns"]
    found = {name: latency[name] / 1e9 for name in QUANTILES}
    return [Result("weir `--on local:4`", "histograms added", load.result["requests"]["sent"], found)]


def k6(site, case, port):
    """Each segment has its own report; k6 cannot merge them."""
    script = site.work / "k6.js"
    users = case.in_flight
    script.write_text(K6_SCRIPT.format(rate=case.rate_per_s, seconds=case.seconds, users=users, url=case.url(port)))
    edges = [f"{number}/{MACHINES}" for number in range(1, MACHINES)]
    edges = ["0", *edges, "1"]
    started = []
    for number, (low, high) in enumerate(zip(edges, edges[1:])):
        log = site.work / f"k6-{number}.log"
        segment = ["--execution-segment", f"{low}:{high}", "--execution-segment-sequence", ",".join(edges)]
        command = [site.binaries["k6"], "run", "--address", "", "--quiet", "--no-usage-report", *segment, script]
        with open(log, "wb") as output:
            started.append((site.processes.start(command, None, output), log))
    values = []
    for process, log in started:
        process.wait(case.seconds + 60)
        found = re.search(r"\{[^{}]*\"p\(99\)\"[^{}]*\}", log.read_text(errors="replace"))
        if process.returncode or not found:
            raise Failed(f"a segment of k6 printed no quantiles:\n{log.read_text(errors='replace')[-2000:]}")
        values.append(json.loads(found[0]))
    sent = given(case.origin_port)["requests"]
    of = lambda pick: {name: pick(value[f"p({name[1:]})"] for value in values) / 1e3 for name in QUANTILES}
    name = "k6, four segments"
    return [Result(name, "mean of the four", sent, of(statistics.fmean)), Result(name, "greatest of the four", sent, of(max))]


def locust(site, case, port):
    users = case.in_flight
    script = site.work / "locustfile.py"
    script.write_text(LOCUST_SCRIPT.format(rate_each=case.rate_per_s / users))
    options = ["-f", script, "--headless", "--only-summary", "--host", case.url(port).rstrip("/"), "--loglevel", "ERROR"]
    options += ["-u", users, "-r", users, "-t", f"{case.seconds}s", "--processes", MACHINES]
    done = site.run("locust", options, case.seconds + 30)
    found = re.search(r"Aggregated((?: +\d+){12})", done.said().partition("Response time percentiles")[2])
    if not found:
        raise Failed(f"Locust printed no quantiles:\n{done.said()[-2000:]}")
    values = [int(value) / 1e3 for value in found[1].split()]
    quantiles = {"p50": values[0], "p90": values[4], "p99": values[7]}
    return [Result("Locust, master and four workers", "rounded times added", given(case.origin_port)["requests"], quantiles)]


TOOLS = {"weir": weir, "k6": k6, "locust": locust}


def measured(processes, binaries, work):
    """Yields (result of a tool, the origin's record of the same load)."""
    servers, site = Servers(processes, binaries, work), Site(processes, binaries, work, None)
    for tool, run in TOOLS.items():
        case = Case("HTTP/1.1", LOGNORMAL, RATE_PER_S, SECONDS)
        origin = servers.weir_origin(None, *case.origin_options()[:-1])
        gateway = servers.gateway("weir-gateway", None, origin)
        case.origin_port = origin.port
        before = given(origin.port)["requests"]
        results = run(site, case, gateway.port)
        stats = given(origin.port)
        for server in (gateway, origin):
            processes.end(server.process)
        for result in results:
            if tool != "weir":
                result.sent -= before
            yield result, {name: stats["delays"][f"{name}_ns"] / 1e9 for name in QUANTILES}


def table(rows):
    lines = ["| | results merged as | requests | p50 | p90 | p99 |", "|---|---|---|---|---|---|"]
    for result, truth in rows:
        shown = [f"{result.quantiles_s[name] * 1e3:.2f} ms ({result.quantiles_s[name] / truth[name] - 1:+.0%})" for name in QUANTILES]
        lines.append(f"| {result.tool} | {result.how} | {result.sent:,} | {' | '.join(shown)} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin-dir", type=Path, default=surroundings.BUILT)
    parser.add_argument("--print", action="store_true", help="only print the table")
    arguments = parser.parse_args()
    binaries = surroundings.find_binaries(arguments.bin_dir, ["weir", "weir-gateway", "k6", "locust"])
    with tempfile.TemporaryDirectory() as folder, Processes() as processes:
        shown = table(measured(processes, binaries, Path(folder)))
    shown = f"{surroundings.environment(binaries)}\n{shown}"
    print(shown)
    if not arguments.print:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        _, _, after = rest.partition(END)
        PAGE.write_text(f"{before}{BEGIN}\n{shown}\n{END}{after}")
    return 0


if __name__ == "__main__":
    surroundings.run_main(main, "machines")
