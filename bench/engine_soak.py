#!/usr/bin/env python3
"""Checks that the memory of `weir load` does not grow at full rate: samples its resident size every second for minutes.

SOAK and SOAK_SECONDS set the length (growth.py); the default is ten minutes. Buffers and tables grow in the first
minute, or in the first fifth of a shorter run. After that, the highest sample must be less than 1 MiB above the first.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import surroundings
from growth import soak_seconds
from hosts import placement
from loads import Shape, weir_options, weir_result
from processes import Failed, Processes, memory_bytes
from servers import Servers

GROWTH_BYTES_MAX = 1 << 20
CONNECTIONS = 32


def sampled(processes, binary, url, cpu, folder, seconds):
    """Runs `weir load`. Returns samples of (second, resident bytes), one per second, and weir's result."""
    output, errors = folder / "soak.json", folder / "soak.errors"
    command = [binary, "load", url, *weir_options(Shape(CONNECTIONS)), "--duration", f"{seconds}s"]
    with open(output, "wb") as log, open(errors, "wb") as said:
        process = processes.start(command, cpu, log, said)
    samples, began_s = [], time.monotonic()
    while process.poll() is None:
        at_s = time.monotonic() - began_s
        if at_s > seconds + 60:
            raise Failed("weir load did not end")
        if at_s < seconds and (size := memory_bytes(process.pid)):
            samples.append((at_s, size))
        time.sleep(1)
    return samples, weir_result(Finished(process.returncode, output.read_text(), errors.read_text()))


class Finished:
    """Exit code and output of weir."""

    def __init__(self, code, output, errors):
        self.code, self.output, self.errors = code, output, errors

    def said(self):
        return f"{self.output}\n{self.errors}".strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--bin-dir", type=Path, default=surroundings.BUILT, help="folder of weir's programs")
    parser.add_argument("--seconds", type=int, help="length (default: SOAK_SECONDS or SOAK, else 600)")
    arguments = parser.parse_args()
    seconds = arguments.seconds or soak_seconds(os.environ)
    if seconds < 10:
        parser.error("--seconds must be at least 10")
    settled_s = min(60, seconds / 5)
    binaries = surroundings.find_binaries(arguments.bin_dir, ["weir", "nginx"])
    print(surroundings.environment(binaries), end="")
    with tempfile.TemporaryDirectory(prefix="weir-soak-") as work, Processes() as processes:
        server_cpu, load_cpu = placement()
        port = Servers(processes, binaries, Path(work)).nginx_origin(server_cpu).port
        url = Shape(CONNECTIONS).url(port)
        samples, result = sampled(processes, binaries["weir"], url, load_cpu, Path(work), seconds)
    settled = [size for at_s, size in samples if at_s >= settled_s]
    if not settled:
        raise Failed("weir load ended before its memory was sampled")
    growth_bytes = max(settled) - settled[0]
    completed, rate_per_s = result["requests"]["completed"], result["rate_per_s"]
    print(f"{completed:,} requests at {rate_per_s:,.0f}/s over {CONNECTIONS} connections")
    print(f"resident after {settled_s:.0f} s {settled[0] / 2**20:.2f} MiB, at the end {settled[-1] / 2**20:.2f} MiB")
    good = growth_bytes < GROWTH_BYTES_MAX
    print(f"growth {growth_bytes / 1024:,.0f} KiB, limit {GROWTH_BYTES_MAX // 1024:,} KiB: {'met' if good else 'missed'}")
    return 0 if good else 1


if __name__ == "__main__":
    surroundings.run_main(main, "engine_soak")
