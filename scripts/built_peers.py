"""What no package holds: load tools built by their own language's tools, the readers of exports and the scanner
of TLS, each below target/peers/NAME."""

import shutil
import subprocess
import sys
from pathlib import Path

# Python with what reads weir's exports back.
READERS = {"pandas": "2.3.3", "pyarrow": "22.0.0", "hdrhistogram": "0.10.3"}
TELL_READERS = f"""import importlib.metadata as installed, hdrh.histogram, pandas, pyarrow
print("readers:", *(f"{{name}} {{installed.version(name)}}" for name in {list(READERS)}))"""

TELL_SSLYZE = "import importlib.metadata as installed; print('sslyze', installed.version('sslyze'))"

# name -> (version, what is needed to build it, arguments that print its version)
BUILT = {
    "kube-apiserver": ("1.36.3", "go", ["--version"]),
    "prometheus-3": ("3.16.0", "go", ["--version"]),
    "oha": ("1.16.0", "cargo", ["--version"]),
    "k6": ("1.8.1", "go", ["version"]),
    "locust": ("2.47.0", "python3 with venv", ["--version"]),
    "readers": (READERS["pandas"], "python3 with venv", ["-c", TELL_READERS]),
    "sslyze": ("6.3.1", "python3 with venv", ["-c", TELL_SSLYZE]),
}
# Those that live in a Python environment of their own.
IN_PYTHON = {
    "locust": [f"locust=={BUILT['locust'][0]}"],
    "readers": [f"{name}=={version}" for name, version in READERS.items()],
    "sslyze": [f"sslyze=={BUILT['sslyze'][0]}"],
}
# Those that take minutes of CPU time to build.
COMPILED = ["kube-apiserver", "prometheus-3", "oha", "k6"]
# Those of which the environment's Python is started.
AS_PYTHON = ["readers", "sslyze"]


def fetch(name, peers, run):
    """Builds one tool into `peers/NAME`; gives the path of its executable below that folder.

    `run` runs a command in an environment and raises where it fails.
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
        # Python finds its environment by the folder that it is started from, so a link elsewhere will not do.
        wrapper = folder / "bin" / name
        wrapper.unlink(missing_ok=True)
        wrapper.write_text('#!/bin/sh\nexec "$(dirname "$(readlink -f "$0")")/python" "$@"\n')
        wrapper.chmod(0o755)
    return Path("bin") / name


def need(program):
    """Raises where the compiler is missing, with what to do."""
    if not shutil.which(program):
        raise FileNotFoundError(f"{program} is not on PATH; install it, it builds this tool")


def parts(name, peers):
    """What the tool was made of, for the list of versions."""
    if (made_of := peers / name / "made_of.txt").exists():
        return made_of.read_text()
    if name not in IN_PYTHON:
        return f"{name}@{BUILT[name][0]}"
    done = subprocess.run([peers / name / "bin/python", "-m", "pip", "freeze"], capture_output=True, text=True)
    return ",".join(done.stdout.split())
