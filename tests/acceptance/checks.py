"""Basis of all checks: expectations, attempts on a shared host, the programs under test."""

import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))

from hosts import ATTEMPTS_MAX, DISTURBED_SHARE_OF_P99, HostWatch, is_disturbed, placement  # noqa: E402
from loads import Site  # noqa: E402
from processes import Failed  # noqa: E402
from servers import Servers  # noqa: E402

__all__ = ["ATTEMPTS_MAX", "Disagreement", "Rig", "ROOT", "balanced", "expect", "passes"]


class Disagreement(Exception):
    """A value or a count is wrong."""


def expect(condition, sentence):
    """Prints the sentence. Fails the check if the condition is false."""
    print(f"    {'ok  ' if condition else 'NOT '} {sentence}", flush=True)
    if not condition:
        raise Disagreement(sentence)


def balanced(requests):
    """Whether every scheduled request has exactly one outcome."""
    return requests["scheduled"] == sum(
        requests[name] for name in ("completed", "failed", "timed_out", "dropped", "in_flight")
    )


class Rig:
    """The programs under test, with servers on the first CPU and tools on the last, and a folder for their files."""

    def __init__(self, processes, binaries, folder, quick, patterns=None):
        self.processes, self.binaries, self.folder = processes, binaries, folder
        self.quick, self.patterns = quick, patterns
        self.weir = str(binaries["weir"])
        self.server_cpu, self.load_cpu = placement()
        self.servers = Servers(processes, binaries, folder)
        self.site = Site(processes, binaries, folder, self.load_cpu)

    def origin(self, *options, tls=False):
        """Starts an origin without sending it a readiness check, so that its counters are zero."""
        return self.servers.weir_origin(self.server_cpu, *options, tls=tls, asked=False)

    def watch(self):
        return HostWatch(self.processes)

    def end(self, server):
        self.processes.end(server.process)

    def end_all(self):
        for process in reversed(list(self.processes.started)):
            self.processes.end(process)


def passes(name, purpose, check, rig):
    """Runs a check. Expectations before its `yield` must hold in every attempt. If an expectation after it fails under
    host noise, the check runs again.

    Returns (passed, number of attempts, host noise in the last attempt).
    """
    print(f"{name}: {purpose}", flush=True)
    for attempt in range(1, ATTEMPTS_MAX + 1):
        began_s, watch, share = time.monotonic(), rig.watch(), None
        try:
            steps = check(rig)
            next(steps)
            share = watch.share()
            for _ in steps:
                pass
            took_s = time.monotonic() - began_s
            print(f"    attempt {attempt}: passed in {took_s:.0f} s; host noise {share:.1%}", flush=True)
            return True, attempt, share
        except Disagreement as disagreement:
            if share is None:
                print(f"    failed: {disagreement}", flush=True)
                return False, attempt, watch.share()
            if not is_disturbed(share, DISTURBED_SHARE_OF_P99):
                print(f"    attempt {attempt}: failed on a quiet host (host noise {share:.1%})", flush=True)
                return False, attempt, share
            print(f"    attempt {attempt}: host noise {share:.1%}; retrying", flush=True)
        except Failed as failure:
            print(f"    failed: {failure}", flush=True)
            return False, attempt, watch.share()
        finally:
            rig.end_all()
    print(f"    undecided: host noise in all {ATTEMPTS_MAX} attempts", flush=True)
    return False, ATTEMPTS_MAX, share
