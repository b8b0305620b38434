"""Builds peers that have no package, each below target/peers/NAME: load tools, readers of exports, a TLS scanner."""

import shutil
import subprocess
import sys
from pathlib import Path

# Python packages that read weir's exports.
READERS = {"pandas": "2.3.3", "pyarrow": "22.0.0", "hdrhistogram": "0.10.3"}
PRINT_READERS = f"""import importlib.metadata as installed, hdrh.histogram, pandas, pyarrow
print("readers:", *(f"{{name}} {{installed.version(name)}}" for name in {list(READERS)}))"""

PRINT_SSLYZE = "import importlib.metadata as installed; print('sslyze', installed.version('sslyze'))"

# name -> (version, tool that builds it, arguments that print its version)
BUILT = {
    "kube-apiserver": ("1.36.3", "go", ["--version"]),
    "prometheus-3": ("3.16.0", "go", ["--version"]),
    "oha": ("1.16.0", "cargo", ["--version"]),
    "k6": ("1.8.1", "go", ["version"]),
    "locust": ("2.47.0", "python3 with venv", ["--version"]),
    "readers": (READERS["pandas"], "python3 with venv", ["-c", PRINT_READERS]),
    "sslyze": ("6.3.1", "python3 with venv", ["-c", PRINT_SSLYZE]),
}
# name -> requirements of peers with their own Python environment
IN_PYTHON = {
    "locust": [f"locust=={BUILT['locust'][0]}"],
    "readers": [f"{name}=={version}" for name, version in READERS.items()],
    "sslyze": [f"sslyze=={BUILT['sslyze'][0]}"],
}
# Peers whose build takes minutes of CPU time.
COMPILED = ["kube-apiserver", "prometheus-3", "oha", "k6"]
# Peers whose executable is a wrapper that starts the Python of their environment.
AS_PYTHON = ["readers", "sslyze"]


def fetch(name, peers, run):
    """Builds one tool into `peers/NAME`. Returns the path of its executable below that folder.

    `run` runs a command with additional environment variables, and raises if it fails.
    """
    version, needs, _ = BUILT[name]
    folder = peers / name
    if name == "oha":
        need(needs)
        run(["cargo", "install", "oha", "--locked", "--version", version, "--root", folder])
    elif name == "k6":
        need(needs)
        run(["go", "install", f"go.k6.io/k6@v{version}"], environment={"GOBIN": str(folder / "bin")})
    else:
        run([sys.executable, "-m", "venv", folder])
        python = folder / "bin/python"
        run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *IN_PYTHON[name]])
    if name in AS_PYTHON:
        # Python locates its virtual environment by the folder of its executable, so a link in another folder does not
        # work.
        wrapper = folder / "bin" / name
        wrapper.unlink(missing_ok=True)
        wrapper.write_text('#!/bin/sh\nexec "$(dirname "$(readlink -f "$0")")/python" "$@"\n')
        wrapper.chmod(0o755)
    return Path("bin") / name


def need(program):
    """Raises an error with a remedy if the compiler is missing."""
    if not shutil.which(program):
        raise FileNotFoundError(f"{program} is not on PATH; install it to build this tool")


def parts(name, peers):
    """The packages of the tool with their versions, for versions.txt."""
    if (made_of := peers / name / "made_of.txt").exists():
        return made_of.read_text()
    if name not in IN_PYTHON:
        return f"{name}@{BUILT[name][0]}"
    done = subprocess.run([peers / name / "bin/python", "-m", "pip", "freeze"], capture_output=True, text=True)
    return ",".join(done.stdout.split())
