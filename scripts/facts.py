#!/usr/bin/env python3
"""`make facts`: a table of costs for developers: packages, import cycles, page size, disk space, time."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import imports
import times

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ("weir", "weir-gateway")
MIB = 1 << 20


def packages(program):
    """Number of packages that the program is built from, including itself."""
    command = ["cargo", "tree", "--locked", "-p", program, "-e", "normal,build", "--prefix", "none"]
    tree = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = {re.sub(r" \(\*\)| \(proc-macro\)", "", line) for line in tree.splitlines()}
    return len(names - {""})


def size(path):
    """Bytes on disk below `path`, without following links; None if it does not exist."""
    if not path.exists():
        return None
    files = (Path(folder, name).lstat() for folder, _, names in os.walk(path) for name in names)
    return sum(found.st_blocks * 512 for found in files)


def newest_page():
    """The newest report.html below weir-results, where `make run` writes it."""
    pages = sorted(ROOT.glob("weir-results/*/report.html"), key=lambda page: page.stat().st_mtime)
    return pages[-1] if pages else None


def rows():
    """Yields (name, value, note)."""
    for program in PROGRAMS:
        yield f"packages of {program}", str(packages(program)), ""
    for crate in sorted((ROOT / "crates").iterdir()):
        files = len(imports.modules(crate / "src"))
        largest = max(map(len, imports.cycles(crate / "src")), default=0)
        if largest:
            yield f"largest import cycle of {crate.name}", f"{largest} of {files} files", ""
    page = newest_page()
    yield "report.html", f"{page.stat().st_size / 1000:.0f} kB" if page else "-", "" if page else "`make run` writes one"
    for place in ("debug", "release"):
        folder = ROOT / "target" / place
        if folder.exists():
            for part in sorted(folder.iterdir()):
                if part.is_dir() and not part.is_symlink() and (found := size(part)) and found > 50 * MIB:
                    yield f"target/{place}/{part.name}", f"{found / MIB:,.0f} MiB", ""
    for what, seconds, when in times.last():
        yield f"time of {what}", f"{seconds / 60:.1f} min", when


def main():
    table = list(rows())
    if "--json" in sys.argv[1:]:
        print(json.dumps([dict(zip(("what", "value", "note"), row)) for row in table], indent=1))
        return
    widths = [max(len(row[column]) for row in table) for column in (0, 1)]
    for what, value, note in table:
        print(f"{what:{widths[0]}}  {value:>{widths[1]}}  {note}".rstrip())


if __name__ == "__main__":
    main()
