#!/usr/bin/env python3
"""Strips release binaries: `strip_release.py target/release weir weir-gateway`.

Debug information and symbols of PROGRAM move to PROGRAM.debug beside it. gdb, perf, addr2line and Rust's backtraces
find that file by a link in PROGRAM. Cargo cannot do this: `strip` deletes them, and `split-debuginfo` leaves the
symbols in the binary. Cargo's copy in `deps/` stays unstripped, so a later build restores the full binary, and this
runs again.
"""

import mmap
import os
import pathlib
import subprocess
import sys
import zlib

# The variable OBJCOPY selects another program for other machines' binaries.
OBJCOPY = os.environ.get("OBJCOPY", "objcopy")
LINK = ".gnu_debuglink"
# A section that stays in the binary, because it is loaded at run time: a few bytes that name gdb's pretty printers.
SCRIPTS = ".debug_gdb_scripts"
# Sections that the debug file must have. They map addresses to lines and names.
KEPT = {".debug_info", ".debug_line", ".symtab"}


class Unfit(Exception):
    """The reason why a binary cannot be released."""


def run(*command):
    """The command's standard output."""
    done = subprocess.run([str(word) for word in command], capture_output=True, check=False)
    if done.returncode != 0:
        raise Unfit(f"{command[0]} failed: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def sections(binary):
    """Names of the sections that have content."""
    lines = run("readelf", "--section-headers", "--wide", binary).decode(errors="replace").splitlines()
    rows = [line.partition("]")[2].split() for line in lines if line.lstrip().startswith("[")]
    return {row[0] for row in rows if len(row) > 1 and row[1] != "NOBITS"}


def link(binary):
    """(Name, checksum) of the debug file that the binary names; `None` without a link."""
    if LINK not in sections(binary):
        return None
    rows = run("readelf", f"--hex-dump={LINK}", binary).decode(errors="replace").splitlines()
    # `  0x00000000 736d616c 6c2e6465 62756700 5f2e1a3b small.debug._..;`
    content = bytes.fromhex("".join(row[13:48] for row in rows if row.startswith("  0x")))
    return content.partition(b"\0")[0].decode(), int.from_bytes(content[-4:], sys.byteorder)


def strip(binary):
    """Moves debug information and symbols to a file beside the binary."""
    debug, stripped = beside(binary), binary.with_name(f".{binary.name}.stripped")
    run(OBJCOPY, "--only-keep-debug", binary, debug)
    debug.chmod(0o644)
    try:
        # The link consists of the debug file's name and the checksum of its content.
        run(OBJCOPY, "--strip-all", f"--add-gnu-debuglink={debug}", binary, stripped)
        # Replace the file instead of changing it: Cargo's copy is a hard link to the same file.
        os.replace(stripped, binary)
    finally:
        stripped.unlink(missing_ok=True)


def beside(binary):
    """The path of the binary's debug file."""
    return binary.with_name(f"{binary.name}.debug")


def check(binary, source=None):
    """Raises `Unfit` unless the binary is stripped and its debug file is complete, with lines of `source` if given."""
    left = {name for name in sections(binary) - {SCRIPTS} if name.startswith(".debug_") or name == ".symtab"}
    if left:
        raise Unfit(f"{binary} still contains {', '.join(sorted(left))}")
    debug = beside(binary)
    if not debug.exists():
        raise Unfit(f"{debug} is missing")
    checksum = 0
    with debug.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if source and content.find(source.encode()) < 0:
            raise Unfit(f'{debug} has no lines of {source}; [profile.release] needs `debug = "line-tables-only"`')
        for start in range(0, len(content), 1 << 20):
            checksum = zlib.crc32(content[start : start + (1 << 20)], checksum)
    if link(binary) != (debug.name, checksum):
        raise Unfit(f"{binary} names another debug file than {debug}")
    missing = KEPT - sections(debug)
    if missing:
        raise Unfit(f"{debug} has no {', '.join(sorted(missing))}")


def release(binary, source=None):
    """Strips the binary if necessary, and checks the result."""
    found = sections(binary)
    if ".debug_info" in found:
        strip(binary)
    elif LINK not in found:
        raise Unfit(f'{binary} has no debug information; [profile.release] needs `debug` and no `strip`')
    check(binary, source)


def main(folder, *programs):
    for program in programs:
        binary = pathlib.Path(folder) / program
        try:
            release(binary, f"crates/{program}/src/main.rs")
        except Unfit as error:
            sys.exit(f"error: {error}")
        sizes = [file.stat().st_size / 1e6 for file in (binary, beside(binary))]
        print(f"{binary}: {sizes[0]:.0f} MB, debug information in {beside(binary).name}: {sizes[1]:.0f} MB")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__.splitlines()[0])
    main(*sys.argv[1:])
