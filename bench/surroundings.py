"""The environment of measurements: paths of programs, the machine, and exit codes of tools."""

import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from processes import Failed

ROOT = Path(__file__).resolve().parent.parent
BUILT = ROOT / "target/release"
PEERS = Path(os.environ.get("WEIR_PEERS") or ROOT / "target/peers")
OURS = ("weir", "weir-gateway")
# Programs of weir that exist only for measurements.
EXAMPLES = {"changes": "weir-dataplane"}
# Peers that `make peers` does not fetch.
SLOW_PEERS = ("hey", "oha", "k6", "locust")
VERSION_ARGUMENTS = {"nginx": "-v", "haproxy": "-v", "wrk": "-v", "k6": "version"}


def find_binaries(bin_dir, names):
    """Paths of programs: weir's own from the build, peers from target/peers or PATH."""
    return {name: find_binary(bin_dir, name) for name in names}


def find_binary(bin_dir, name):
    if name in OURS:
        path, how = bin_dir / name, "cargo build --release -p weir -p weir-gateway"
    elif name in EXAMPLES:
        path, how = bin_dir / "examples" / name, f"cargo build --release -p {EXAMPLES[name]} --example {name}"
    else:
        path = PEERS / "bin" / name
        how = f"scripts/peers.sh {name}" if name in SLOW_PEERS else "make peers"
        if not path.exists() and (found := shutil.which(name)):
            path = Path(found)
    if not path.exists():
        raise Failed(f"{name} is missing; get it with `{how}`")
    return path


def environment(binaries):
    """The machine and the versions of all programs, as two lines."""
    cpu = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    versions = "; ".join(version_of(path, name) for name, path in binaries.items() if name not in EXAMPLES)
    return f"Linux {platform.release()}, {cpu[1] if cpu else platform.machine()}, {os.cpu_count()} CPUs.\n{versions}.\n"


def version_of(path, name):
    """Name and version. hey prints no version, so it comes from the list that `make peers` writes."""
    if name == "hey":
        return packaged_version(name)
    command = [path, VERSION_ARGUMENTS.get(name, "--version")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    first = (done.stdout + done.stderr).strip().splitlines()[0].strip()
    # Removes Envoy's path before its version, nginx's second name, and Locust's path at the end.
    first = re.sub(r"^nginx version: nginx/", "nginx ", re.sub(r"^.*version: [0-9a-f]+/", "envoy ", first))
    return re.split(r" Copyright| - https| \d{4}/|/Clean| from /| \(go", first)[0].replace(" version", "")


def packaged_version(name):
    listed = PEERS / "versions.txt"
    for line in listed.read_text().splitlines() if listed.exists() else []:
        if line.startswith(f"{name}\t"):
            return line.split("\t")[1]
    return f"{name}, of unknown version"


def stop(*_):
    raise KeyboardInterrupt


def run_main(main, name):
    """Runs a tool's `main` and exits with its code, or with 3 after `Failed` and 130 after Ctrl-C."""
    # SIGINT is set explicitly, because shells start background jobs with SIGINT ignored.
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    try:
        sys.exit(main())
    except Failed as failure:
        print(f"{name}: {failure}", file=sys.stderr)
        sys.exit(3)
    except KeyboardInterrupt:
        sys.exit(130)
