#!/usr/bin/env python3
"""Runs a step of a make target, and appends its duration to target/times.tsv for `make facts`."""

import signal
import subprocess
import sys
import time
from pathlib import Path

KEPT = Path(__file__).resolve().parent.parent / "target/times.tsv"


def last():
    """The newest duration of each step: (name, seconds, end time)."""
    newest = {}
    for line in KEPT.read_text().splitlines() if KEPT.exists() else ():
        what, seconds, when = line.split("\t")
        newest[what] = (what, float(seconds), when)
    return list(newest.values())


def main():
    what, *command = sys.argv[1:]
    began = time.monotonic()
    # Ctrl-C also reaches the step, which shuts down by itself. SIGTERM is forwarded.
    signal.signal(signal.SIGINT, lambda *_: None)
    step = subprocess.Popen(command)
    signal.signal(signal.SIGTERM, lambda *_: step.terminate())
    status = step.wait()
    seconds = time.monotonic() - began
    if status == 0:
        KEPT.parent.mkdir(exist_ok=True)
        with KEPT.open("a") as kept:
            kept.write(f"{what}\t{seconds:.1f}\t{time.strftime('%Y-%m-%d %H:%M')}\n")
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
