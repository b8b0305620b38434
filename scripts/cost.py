#!/usr/bin/env python3
"""User instructions and system calls per request of weir-gateway and of the load generator.

Callgrind counts instructions, and strace counts system calls, each over two loads of different length. The difference
excludes start and shutdown. With one connection, the order of system calls is always the same.

The programs are built separately, with rustix on the C library. By default, rustix uses the vDSO, which valgrind hides.

    scripts/cost.py                   measures the work tree
    scripts/cost.py --before COMMIT   also measures COMMIT and prints ratios; exits with 1 if a value grows by over 1 %
"""

import argparse
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

FEW, MANY = 2_000, 20_000
GROWTH_MAX = 0.01
ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = ROOT / "target" / "cost"
PATIENCE_S = 120


def wait_for(port):
    """Waits until a program listens on `port`."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    sys.exit(f"error: nothing listens on port {port} after {PATIENCE_S} s")


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def watched(tool, command, report):
    """The command line that runs `command` under `tool` and writes `report`."""
    if tool == "callgrind":
        return ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", f"--log-file={report}", *command]
    return ["strace", "-f", "-c", "-U", "name,calls", "-o", str(report), *command]


def counted(tool, report):
    text = report.read_text()
    if tool == "callgrind":
        return int(re.search(r"Collected : (\d+)", text)[1])
    return int(re.search(r"total +(\d+)", text)[1])


def load(weir, port, requests):
    return [str(weir), "load", f"http://127.0.0.1:{port}/x", "-n", str(requests), "-c", "1", "-w", "1"]


def of_load(folder, tool, requests, scratch):
    """The total cost of the load generator."""
    weir, port, report = folder / "weir", free_port(), scratch / "load"
    origin = subprocess.Popen([weir, "origin", "--listen", f"127.0.0.1:{port}"], stdout=subprocess.DEVNULL)
    try:
        wait_for(port)
        command = watched(tool, load(weir, port, requests), report)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE_S)
    finally:
        origin.terminate()
        origin.wait()
    return counted(tool, report)


def of_gateway(folder, tool, requests, scratch):
    """The total cost of the gateway."""
    weir, report = folder / "weir", scratch / "gateway"
    port, upstream = free_port(), free_port()
    config = scratch / "gateway.yaml"
    config.write_text(
        f"listeners: [{{ address: '127.0.0.1:{port}' }}]\nworkers: 1\nroutes: [{{ path: /, backend: up }}]\n"
        f"backends: {{ up: {{ endpoints: ['127.0.0.1:{upstream}'] }} }}\n"
    )
    origin = subprocess.Popen([weir, "origin", "--listen", f"127.0.0.1:{upstream}"], stdout=subprocess.DEVNULL)
    gateway = None
    try:
        wait_for(upstream)
        command = watched(tool, [str(folder / "weir-gateway"), "--config", str(config)], report)
        gateway = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if not any(line == "ready\n" for line in gateway.stdout):
            sys.exit("error: the gateway does not become ready")
        subprocess.run(load(weir, port, requests), check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE_S)
    finally:
        # strace does not forward signals, so they are sent to its child, the gateway.
        if gateway:
            children = subprocess.run(["pgrep", "-P", str(gateway.pid)], capture_output=True, text=True).stdout.split()
            for pid in children if tool == "strace" else [str(gateway.pid)]:
                subprocess.run(["kill", "-TERM", pid], check=False)
            try:
                gateway.wait(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                gateway.kill()
                gateway.wait()
        origin.terminate()
        origin.wait()
    return counted(tool, report)


def costs(folder):
    """Instructions and system calls per request, by program."""
    found = {}
    for name, of in [("gateway", of_gateway), ("load generator", of_load)]:
        for tool, what in [("callgrind", "instructions"), ("strace", "system calls")]:
            with tempfile.TemporaryDirectory() as scratch:
                few, many = (of(folder, tool, requests, pathlib.Path(scratch)) for requests in (FEW, MANY))
            found[name, what] = (many - few) / (MANY - FEW)
    return found


def built(sources, name):
    """Builds the programs of `sources` into a folder and returns it."""
    print(f"building {name}", flush=True)
    # Without this, cargo reuses the build of another work tree if the source files are older than that build.
    for fingerprint in (TARGET / "build" / "release" / ".fingerprint").glob("weir*"):
        shutil.rmtree(fingerprint)
    environment = {**os.environ, "RUSTFLAGS": "--cfg rustix_use_libc", "CARGO_TARGET_DIR": str(TARGET / "build")}
    command = ["cargo", "build", "--release", "--locked", "-q", "-p", "weir", "-p", "weir-gateway"]
    subprocess.run(command, cwd=sources, env=environment, check=True)
    folder = TARGET / name
    folder.mkdir(parents=True, exist_ok=True)
    for program in ("weir", "weir-gateway"):
        shutil.copy2(TARGET / "build" / "release" / program, folder / program)
    return folder


def built_at(commit):
    """Builds the programs of a commit into a folder and returns it."""
    sources = TARGET / "sources"
    remove = ["git", "worktree", "remove", "--force", sources]
    # A run that was killed may have left this work tree behind.
    subprocess.run(remove, cwd=ROOT, capture_output=True, check=False)
    subprocess.run(["git", "worktree", "add", "--quiet", "--force", "--detach", sources, commit], cwd=ROOT, check=True)
    try:
        return built(sources, "before")
    finally:
        subprocess.run(remove, cwd=ROOT, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", metavar="COMMIT", help="compare with the programs of this commit")
    args = parser.parse_args()
    for tool in ("valgrind", "strace"):
        if not shutil.which(tool):
            sys.exit(f"error: {tool} is not installed; install it")
    before = costs(built_at(args.before)) if args.before else {}
    now = costs(built(ROOT, "now"))
    is_worse = False
    for key, value in now.items():
        line = f"{key[0]:15} {key[1]:13} {value:10.2f} per request"
        if key in before:
            ratio = value / before[key]
            is_worse |= ratio > 1 + GROWTH_MAX
            line += f"; before {before[key]:10.2f}, ratio {ratio:.4f}"
        print(line)
    sys.exit(1 if is_worse else 0)


if __name__ == "__main__":
    main()
