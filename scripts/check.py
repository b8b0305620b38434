#!/usr/bin/env python3
"""`make check`: checks the style of the workspace, then runs the unit tests of the changed crates.

A crate is changed if it differs from the branch's upstream, or from the last commit if there is no upstream. Crates on
the command line are tested instead.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def lines(*command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.stdout.splitlines() if done.returncode == 0 else []


def changed_crates():
    """Crates that differ from the upstream branch, including new, staged and unstaged files."""
    base = lines("git", "rev-parse", "--verify", "--quiet", "@{upstream}") or ["HEAD"]
    names = lines("git", "diff", "--name-only", base[0])
    names += lines("git", "ls-files", "--others", "--exclude-standard")
    return sorted({Path(name).parts[1] for name in names if name.startswith("crates/") and len(Path(name).parts) > 2})


def unit_tests(crates):
    """Builds all unit tests of the workspace, like `make test`. Yields (folder, executable) for those of `crates`."""
    command = ["cargo", "test", "--locked", "--workspace", "--features", "weir/services", "--lib", "--bins", "--no-run", "--message-format=json"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(done.returncode)
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if message.get("reason") == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
            folder = Path(message["manifest_path"]).parent
            if folder.name in crates:
                yield folder, message["executable"]


def step(name, command, cwd=ROOT):
    began = time.monotonic()
    status = subprocess.run(command, cwd=cwd).returncode
    print(f"check: {name}: {'passed' if status == 0 else 'FAILED'} ({time.monotonic() - began:.0f} s)", flush=True)
    return status == 0


def main():
    crates = sys.argv[1:] or changed_crates()
    if unknown := [crate for crate in crates if not (ROOT / "crates" / crate / "Cargo.toml").exists()]:
        sys.exit(f"check: unknown crate: {', '.join(unknown)}; crates are the folders of crates/")
    good = step("fmt", ["cargo", "fmt", "--all", "--check"])
    good &= step("clippy", ["cargo", "clippy", "--quiet", "--workspace", "--all-targets", "--features", "weir/services", "--locked", "--", "-D", "warnings"])
    good &= step("tidy", ["scripts/tidy.py"])
    if not crates:
        print("check: no crate changed; to run the unit tests of a crate: `scripts/check.py weir-http`")
    for folder, executable in unit_tests(crates) if crates else ():
        good &= step(f"unit tests of {folder.name}", [executable, "--quiet"], folder)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
