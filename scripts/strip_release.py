#!/usr/bin/env python3
"""Strips release binaries: `strip_release.py target/release weir weir-gateway`.

Debug information and symbols of PROGRAM go to PROGRAM.debug beside it, which gdb, perf, addr2line and Rust's own
backtraces find by the link that stays in PROGRAM. Cargo cannot do this by itself: `strip` throws them away, and
`split-debuginfo` leaves the symbols in the binary. Cargo's own copy in `deps/` stays whole, so a later build puts the
binary back with everything in it, and this runs again.
"""

import mmap
import os
import pathlib
import subprocess
import sys
import zlib

# Another one for binaries of other machines.
OBJCOPY = os.environ.get("OBJCOPY", "objcopy")
LINK = ".gnu_debuglink"
# A few bytes that Rust has loaded at run time: the names of gdb's printers.
SCRIPTS = ".debug_gdb_scripts"
# What must be in the debug file: where addresses come from, and what they are called.
KEPT = {".debug_info", ".debug_line", ".symtab"}


class Unfit(Exception):
    """Why a binary is not what a release needs."""


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
    """The name and the checksum of the debug file that the binary names; `None` without one."""
    if LINK not in sections(binary):
        return None
    rows = run("readelf", f"--hex-dump={LINK}", binary).decode(errors="replace").splitlines()
    # `  0x00000000 736d616c 6c2e6465 62756700 5f2e1a3b small.debug._..;`
    content = bytes.fromhex("".join(row[13:48] for row in rows if row.startswith("  0x")))
    return content.partition(b"\0")[0].decode(), int.from_bytes(content[-4:], sys.byteorder)


def strip(binary):
    """Moves what is not needed at run time to a file beside the binary."""
    debug, stripped = beside(binary), binary.with_name(f".{binary.name}.stripped")
    run(OBJCOPY, "--only-keep-debug", binary, debug)
    debug.chmod(0o644)
    try:
        # The link is that of a file in the folder, by its name and the checksum of its content.
        run(OBJCOPY, "--strip-all", f"--add-gnu-debuglink={debug}", binary, stripped)
        # Another file takes the name: Cargo's copy is the same file under a second one.
        os.replace(stripped, binary)
    finally:
        stripped.unlink(missing_ok=True)


def beside(binary):
    """The file for debug information of this binary."""
    return binary.with_name(f"{binary.name}.debug")


def check(binary, source=None):
    """Raises `Unfit` unless the binary is stripped and its debug file complete, with lines of `source` if given."""
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
    """Strips the binary unless that was done, and checks the outcome."""
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
