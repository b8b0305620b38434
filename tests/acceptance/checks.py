"""What every check is made of: sentences that must hold, attempts on a shared host, the programs under test."""

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
    """A figure or a count is not what it has to be."""


def expect(condition, sentence):
    """Prints the sentence, and fails the check where it does not hold."""
    print(f"    {'ok  ' if condition else 'NOT '} {sentence}", flush=True)
    if not condition:
        raise Disagreement(sentence)


def balanced(requests):
    """Whether the books balance."""
    return requests["scheduled"] == sum(
        requests[name] for name in ("completed", "failed", "timed_out", "dropped", "in_flight")
    )


class Rig:
    """The programs under test: servers on the first CPU, tools on the last; and a folder for what they write."""

    def __init__(self, processes, binaries, folder, quick, patterns=None):
        self.processes, self.binaries, self.folder = processes, binaries, folder
        self.quick, self.patterns = quick, patterns
        self.weir = str(binaries["weir"])
        self.server_cpu, self.load_cpu = placement()
        self.servers = Servers(processes, binaries, folder)
        self.site = Site(processes, binaries, folder, self.load_cpu)

    def origin(self, *options, tls=False):
        """Starts an origin that has not been asked anything yet."""
        return self.servers.weir_origin(self.server_cpu, *options, tls=tls, asked=False)

    def watch(self):
        return HostWatch(self.processes)

    def end(self, server):
        self.processes.end(server.process)

    def end_all(self):
        for process in reversed(list(self.processes.started)):
            self.processes.end(process)


def passes(name, purpose, check, rig):
    """Runs a check: what stands before its `yield` must hold at once, what follows may be repeated when disturbed.

    Gives whether it passed, the attempts, and what went elsewhere in the last one.
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
            print(f"    attempt {attempt}: passed in {took_s:.0f} s; {share:.1%} of the host went elsewhere", flush=True)
            return True, attempt, share
        except Disagreement as disagreement:
            if share is None:
                print(f"    failed: {disagreement}", flush=True)
                return False, attempt, watch.share()
            if not is_disturbed(share, DISTURBED_SHARE_OF_P99):
                print(f"    attempt {attempt}: failed on a quiet host ({share:.1%} went elsewhere)", flush=True)
                return False, attempt, share
            print(f"    attempt {attempt}: {share:.1%} of the host went elsewhere; again", flush=True)
        except Failed as failure:
            print(f"    failed: {failure}", flush=True)
            return False, attempt, watch.share()
        finally:
            rig.end_all()
    print(f"    undecided: the host was disturbed in all {ATTEMPTS_MAX} attempts", flush=True)
    return False, ATTEMPTS_MAX, share
