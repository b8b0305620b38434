#!/usr/bin/env python3
"""Profiles weir's load engine with `perf`, closed and open loop, and prints grouped symbols as Markdown."""

import argparse
import re
import shutil
import tempfile
from pathlib import Path

import surroundings
from engines import OPEN_RATE_PER_S
from hosts import placement
from loads import Shape, Site, weir_options, weir_result
from processes import Failed, Processes
from servers import Servers

SYMBOLS_SHOWN = 12
SAMPLES_PER_S = 1999
# Words in names of kernel symbols. A symbol belongs to the first group that contains a word of its name.
KERNEL_GROUPS = {
    "kernel: scheduling, timers, polling": set(
        "task switch schedule sched hrtimer timer timerqueue ktime clock clockevents epoll ep eventpoll poll wake "
        "wakeup wait rq enqueue dequeue idle nohz tick fair entity vruntime ttwu futex preempt cfs pvclock "
        "irqrestore irq".split()
    ),
    "kernel: TCP, IP, sockets": set(
        "tcp skb skbs sk inet ip ipv4 sock sockfd socket net netif loopback dev recvfrom recv recvmsg sendto send sendmsg "
        "xmit nf napi fib csum bbr cubic datagram qdisc rx tx established dst neigh eth".split()
    ),
}


class Share:
    """One symbol's share of the samples."""

    def __init__(self, percent, library, symbol, is_kernel):
        self.percent, self.library, self.symbol, self.is_kernel = percent, library, symbol, is_kernel

    def group(self):
        if self.is_kernel:
            words = set(re.split(r"[_.0-9]+", self.symbol.lower()))
            names = (name for name, known in KERNEL_GROUPS.items() if words & known)
            return next(names, "kernel: system calls, memory, rest")
        return "weir" if self.library == "weir" else "libraries"


def recorded(processes, binaries, site, shape, port, seconds, folder):
    """Returns the shares of a run under `perf record`, and weir's result."""
    data = folder / "perf.data"
    options = ["record", "-q", "-e", "cpu-clock", "-F", SAMPLES_PER_S, "-o", data, "--"]
    load = ["load", shape.url(port), *weir_options(shape), "--duration", f"{seconds}s"]
    done = site.run("perf", [*options, binaries["weir"], *load], seconds)
    result = weir_result(done)
    options = ["report", "-q", "-i", data, "--stdio", "-t", "\t", "--sort", "dso,symbol", "--percent-limit", "0"]
    report = processes.run([binaries["perf"], *options], None, folder / "perf.txt", 60)
    if report.code != 0:
        raise Failed(f"perf report failed:\n{report.said()}")
    return parsed(report.output), result


def parsed(text):
    """Parses lines of `percent TAB library TAB [k] symbol`."""
    shares = []
    for line in text.splitlines():
        found = re.match(r"\s*([\d.]+)%?\s*\t\s*(\S+)\s*\t\s*\[(.)\]\s+([^\t]*)", line)
        if found:
            shares.append(Share(float(found[1]), found[2], found[4].strip(), found[3] == "k"))
    if not shares:
        raise Failed(f"perf recorded no samples:\n{text[:500]}")
    return shares


def tables(title, shares, result):
    """The groups and the largest symbols of one run, as Markdown lines."""
    requests = result["requests"]["completed"]
    cpu_us = (result["cpu_s"]["user"] + result["cpu_s"]["system"]) * 1e6 / requests
    lines = [f"### {title}", "", f"{requests:,} requests. CPU time per request under `perf`: {cpu_us:.2f} us.", ""]
    lines += ["| part | share of the samples |", "|---|---|"]
    groups = {}
    for share in shares:
        groups[share.group()] = groups.get(share.group(), 0) + share.percent
    lines += [f"| {name} | {percent:.1f} % |" for name, percent in sorted(groups.items(), key=lambda item: -item[1])]
    lines += ["", "| symbol | part | share |", "|---|---|---|"]
    largest = sorted(shares, key=lambda share: -share.percent)[:SYMBOLS_SHOWN]
    lines += [f"| `{share.symbol[:70]}` | {share.group()} | {share.percent:.1f} % |" for share in largest]
    return [*lines, ""]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--bin-dir", type=Path, default=surroundings.BUILT, help="folder of weir's programs")
    parser.add_argument("--seconds", type=int, default=10, help="length of each run (default 10)")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the tables to a file")
    arguments = parser.parse_args()
    if not shutil.which("perf"):
        raise Failed("perf is missing; on Debian, install the package linux-perf")
    binaries = surroundings.find_binaries(arguments.bin_dir, ["weir", "nginx"])
    binaries["perf"] = Path(shutil.which("perf"))
    shapes = {
        "Closed loop, 32 connections": Shape(32),
        f"Open loop, {OPEN_RATE_PER_S:,}/s": Shape(32, OPEN_RATE_PER_S),
    }
    lines = []
    with tempfile.TemporaryDirectory(prefix="weir-profile-") as work, Processes() as processes:
        server_cpu, load_cpu = placement()
        site = Site(processes, binaries, Path(work), load_cpu)
        port = Servers(processes, binaries, Path(work)).nginx_origin(server_cpu).port
        for title, shape in shapes.items():
            shares, result = recorded(processes, binaries, site, shape, port, arguments.seconds, Path(work))
            lines += tables(title, shares, result)
    text = "\n".join(lines)
    print(text)
    if arguments.markdown:
        arguments.markdown.write_text(text)
    return 0


if __name__ == "__main__":
    surroundings.run_main(main, "profile")
