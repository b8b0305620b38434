#!/usr/bin/env python3
"""Produces host noise in known patterns.

Each pattern is one or more processes of this program. They have a time limit, and end with this process.

    tests/acceptance/noise.py --list
    tests/acceptance/noise.py steady-10 --seconds 60
"""

import argparse
import contextlib
import ctypes
import dataclasses
import functools
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time

from checks import ROOT  # noqa: F401  First: it adds bench/ to the search path.

from processes import tree_cpu_s

SECONDS_MAX = 3_600
PR_SET_PDEATHSIG = 1


def burn(until_s):
    """Uses one core until `until_s` of the monotonic clock."""
    number = 1
    while time.monotonic() < until_s:
        for _ in range(200):
            number = (number * 1_103_515_245 + 12_345) & 0x7FFF_FFFF


def steady(share, end_s, generator, periods_s=(0.005, 0.015)):
    """Uses `share` of a core, in periods of 10 ms on average."""
    while (now := time.monotonic()) < end_s:
        period = generator.uniform(*periods_s)
        burn(now + share * period)
        time.sleep(max(0.0, now + period - time.monotonic()))


def bursts(share, end_s, _):
    """Uses a core for the first `share` of each clock second. Several processes do so at the same time."""
    while (now := time.monotonic()) < end_s:
        second = int(now)
        burn(min(end_s, second + share))
        time.sleep(max(0.0, second + 1 - time.monotonic()))


def compiling(share, end_s, generator):
    """Uses CPU, memory and files for some seconds, like a compiler, then pauses. Works for `share` of the time."""
    with tempfile.TemporaryFile() as file:
        while (now := time.monotonic()) < end_s:
            working = generator.uniform(1.0, 4.0)
            kept = []
            while (left := now + working - time.monotonic()) > 0 and time.monotonic() < end_s:
                kept.append(bytearray(os.urandom(64 << 10)))
                burn(min(end_s, time.monotonic() + min(left, 0.05)))
                file.seek(0)
                file.write(kept[-1])
                if len(kept) > 256:
                    kept.clear()
            time.sleep(max(0.0, min(end_s - time.monotonic(), working * (1 - share) / share)))


def memory(share, end_s, generator):
    """Copies more memory than fits into the caches, for `share` of the time."""
    source, target = bytearray(os.urandom(1 << 20) * 64), bytearray(64 << 20)
    while (now := time.monotonic()) < end_s:
        target[:] = source
        took = time.monotonic() - now
        time.sleep(generator.uniform(0.5, 1.5) * took * (1 - share) / share)


# Wakes up about 2,500 times per second. If the share is 5 %, it works for about 20 us each time.
timers = functools.partial(steady, periods_s=(0.0002, 0.0006))


@dataclasses.dataclass(frozen=True)
class Pattern:
    """A kind of noise."""

    name: str
    work: object
    share: float
    processes: int
    words: str


PATTERNS = [
    Pattern("steady-5", steady, 0.05, 1, "5 % of one core"),
    Pattern("steady-10", steady, 0.10, 1, "10 % of one core"),
    Pattern("steady-25", steady, 0.25, 1, "25 % of one core"),
    Pattern("steady-25-both", steady, 0.25, 2, "25 % of two cores"),
    Pattern("bursts-one", bursts, 0.10, 1, "100 ms of each second on one core"),
    Pattern("bursts-both", bursts, 0.10, 2, "100 ms of each second on two cores, at the same time"),
    Pattern("compile", compiling, 0.40, 2, "some seconds like a compiler on two cores, then a pause"),
    Pattern("memory", memory, 0.25, 1, "copies of 64 MiB, a quarter of the time"),
    Pattern("timers", timers, 0.05, 2, "thousands of short timers on two cores"),
]


def named(name):
    """The pattern with this name."""
    for pattern in PATTERNS:
        if pattern.name == name:
            return pattern
    raise ValueError(f"unknown pattern `{name}`; known: {', '.join(pattern.name for pattern in PATTERNS)}")


def _run(pattern, end_s, seed, parent):
    # The kernel kills this process when its parent ends for any reason.
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == parent:
        pattern.work(pattern.share, end_s, random.Random(seed))


@contextlib.contextmanager
def running(name, seed=1, seconds=SECONDS_MAX):
    """Context with noise of this pattern. Yields the IDs of its processes."""
    pattern = named(name)
    end_s = time.monotonic() + min(seconds, SECONDS_MAX)
    context = multiprocessing.get_context("fork")
    workers = [
        context.Process(target=_run, args=(pattern, end_s, seed * 1_000 + number, os.getpid()), daemon=True)
        for number in range(pattern.processes)
    ]
    for worker in workers:
        worker.start()
    try:
        yield [worker.pid for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.join()


def main():
    """Runs one pattern, and prints its CPU usage."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pattern", nargs="?", help="see --list")
    parser.add_argument("--seconds", type=float, default=10.0, help=f"at most {SECONDS_MAX} [default: 10]")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--list", action="store_true", help="print the patterns and exit")
    arguments = parser.parse_args()
    if arguments.list:
        for pattern in PATTERNS:
            print(f"{pattern.name:15} {pattern.words}")
        return 0
    try:
        pattern = named(arguments.pattern)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    seconds = min(arguments.seconds, SECONDS_MAX)
    began, started = time.monotonic(), tree_cpu_s(os.getpid())
    with running(pattern.name, arguments.seed, seconds) as pids:
        time.sleep(seconds)
        used, own = (sum(map(tree_cpu_s, of)) for of in (pids, [os.getpid()]))
    wall = time.monotonic() - began
    own -= used + started
    print(f"{pattern.name}: {used / wall:.3f} cores in {len(pids)} processes; this program itself {own / wall:.3f} cores")
    return 0


if __name__ == "__main__":
    sys.exit(main())
