#!/usr/bin/env python3
"""Makes the files of a release in target/dist (`make dist`); `--check` checks them (`make dist-check`).

For each target: a tar.gz with static programs, man pages and completions; their debug information; and for each program
a Debian package and a bill of materials. SHA256SUMS lists all files. DIST_TARGETS="x86_64" selects one target. Tools
are stored in the user's cache.
"""

import argparse
import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import time
import tomllib
from pathlib import Path

import dist_check
import dist_tools
import materials
import peers

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "target/dist"
PROGRAMS = ["weir", "weir-gateway"]
TRIPLES = {"x86_64": "x86_64-unknown-linux-musl", "aarch64": "aarch64-unknown-linux-musl"}
FEATURES = "weir/services"
# shell -> file name of a program's completion script
COMPLETIONS = {"bash": "{}.bash", "zsh": "_{}", "fish": "{}.fish", "powershell": "_{}.ps1"}
# Other files of archives: source -> path in the archive
DOCUMENTS = {"LICENSE": "LICENSE", "README.md": "README.md", "CHANGELOG.md": "CHANGELOG.md",
             "deploy/systemd/gateway.yaml": "examples/gateway.yaml",
             "deploy/systemd/weir-gateway.service": "examples/weir-gateway.service",
             "deploy/systemd/weir-gateway.logrotate": "examples/weir-gateway.logrotate"}


def progress(text):
    print(f"dist: {text}", file=sys.stderr, flush=True)


def run(*command, environment=None, **more):
    """Runs a command with visible output. If it fails, this program exits."""
    done = subprocess.run([str(word) for word in command], cwd=ROOT, env={**os.environ, **(environment or {})}, check=False, **more)
    if done.returncode:
        sys.exit(f"error: `{' '.join(map(str, command))}` exits with {done.returncode}")
    return done.stdout


def version():
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def moment():
    """The date of all files: SOURCE_DATE_EPOCH, else the date of the last commit, else the current time."""
    if named := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(named)
    done = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 and done.stdout.strip() else int(time.time())


def cargo_target():
    return Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").absolute()


def build(arch):
    """Compiles both programs and moves their debug information to separate files."""
    began, triple = time.monotonic(), TRIPLES[arch]
    installed = run("rustup", "target", "list", "--installed", stdout=subprocess.PIPE, text=True).split() if shutil.which("rustup") else [triple]
    if triple not in installed:
        run("rustup", "target", "add", triple)
    # Programs must not contain paths of the build machine.
    cargo_home = os.environ.get("CARGO_HOME") or Path.home() / ".cargo"
    flags = os.environ.get("RUSTFLAGS", "")
    remapped = f"{flags} --remap-path-prefix={cargo_home}=/cargo --remap-path-prefix={ROOT}=/weir".strip()
    packages = [word for program in PROGRAMS for word in ("-p", program)]
    command = ["cargo", "zigbuild", "--release", "--locked", "--target", triple, *packages, "--features", FEATURES]
    run(*command, environment={**dist_tools.zig_environment(), "RUSTFLAGS": remapped})
    built = cargo_target() / triple / "release"
    run(sys.executable, "scripts/strip_release.py", built, *PROGRAMS, environment=dist_tools.objcopy_environment())
    fresh(OUT / arch)
    for program in PROGRAMS:
        shutil.copy(built / program, OUT / arch)
        shutil.copy(built / f"{program}.debug", OUT / arch)
    progress(f"{arch}: compiled in {time.monotonic() - began:.0f} s")


def fresh(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def runs(arch):
    """The prefix of commands that run programs of the target: empty, an emulator, or None if they cannot run here."""
    for prefix in ([], [f"qemu-{arch}-static"]):
        try:
            if subprocess.run([*prefix, OUT / arch / "weir", "--version"], capture_output=True, check=False).returncode == 0:
                return prefix
        except OSError:
            pass
    return None


def print_pages(archs):
    """Writes man pages and completions, which the programs print."""
    arch = next((arch for arch in archs if runs(arch) is not None), None)
    if arch is None:
        sys.exit(f"error: no program of {', '.join(archs)} runs here; install qemu-user-static, or add the target of this machine")
    fresh(OUT / "man")
    fresh(OUT / "completions")
    for program in PROGRAMS:
        command = [*runs(arch), OUT / arch / program]
        run(*command, "man", OUT / "man" / program)
        for shell, name in COMPLETIONS.items():
            script = run(*command, "completions", shell, stdout=subprocess.PIPE)
            (OUT / "completions" / name.format(program)).write_bytes(script)


def changelog(program):
    """The changelog that a Debian package requires. CHANGELOG.md lists the releases."""
    date = time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime(moment()))
    maintainer = tomllib.loads((ROOT / "crates" / program / "Cargo.toml").read_text())["package"]["metadata"]["deb"]["maintainer"]
    return f"{program} ({version()}-1) unstable; urgency=medium\n\n  * Release {version()}; see CHANGELOG.md.\n\n -- {maintainer}  {date}\n"


def debian_packages(arch):
    (OUT / "debian").mkdir(exist_ok=True)
    shutil.copy(OUT / f"third-party-licenses-{arch}.txt", OUT / "debian/THIRD-PARTY-LICENSES.txt")
    tool = dist_tools.fetched("cargo-deb") / "cargo-deb"
    for program in PROGRAMS:
        (OUT / "debian" / f"changelog.{program}").write_text(changelog(program))
        command = [tool, "--no-build", "--no-strip", "--no-separate-debug-symbols", "--quiet", "-p", program, "--target", TRIPLES[arch], "--output", OUT]
        run(*command, environment={"SOURCE_DATE_EPOCH": str(moment())})


def archive(name, top, files):
    """Writes a reproducible tar.gz. `files` maps paths below the folder `top` to source files."""
    with (OUT / name).open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=moment()) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar:
            for path, source in sorted(files.items()):
                entry = tarfile.TarInfo(f"{top}/{path}")
                content = source.read_bytes()
                entry.size, entry.mtime = len(content), moment()
                entry.mode = 0o755 if path.startswith("bin/") else 0o644
                tar.addfile(entry, io.BytesIO(content))


def below(folder, into):
    return {f"{into}/{path.name}": path for path in sorted(folder.iterdir()) if path.is_file()}


def archives(arch):
    top = f"weir-{version()}-linux-{arch}"
    programs = {f"bin/{program}": OUT / arch / program for program in PROGRAMS}
    pages = {path: page for program in PROGRAMS for path, page in below(OUT / "man" / program, "man/man1").items()}
    documents = {path: ROOT / source for source, path in DOCUMENTS.items()}
    licences = {"THIRD-PARTY-LICENSES.txt": OUT / f"third-party-licenses-{arch}.txt"}
    archive(f"{top}.tar.gz", top, programs | pages | below(OUT / "completions", "completions") | documents | licences)
    # gdb, perf and backtraces find these beside the programs.
    archive(f"{top}-debug.tar.gz", top, {f"bin/{program}.debug": OUT / arch / f"{program}.debug" for program in PROGRAMS})


def shipped():
    """The files that a release uploads."""
    return sorted(path for path in OUT.iterdir() if path.name.endswith((".tar.gz", ".deb", ".cdx.json")))


def checksums():
    lines = []
    for path in shipped():
        with path.open("rb") as opened:
            lines.append(f"{hashlib.file_digest(opened, 'sha256').hexdigest()}  {path.name}\n")
    (OUT / "SHA256SUMS").write_text("".join(lines))


def image_folders(arch):
    """The folders that images/*.Dockerfile copy: a program and an empty /tmp."""
    for program in PROGRAMS:
        folder = OUT / "images" / arch / program
        fresh(folder)
        (folder / "usr/local/bin").mkdir(parents=True)
        shutil.copy(OUT / arch / program, folder / "usr/local/bin")
        (folder / "tmp").mkdir()
        (folder / "tmp").chmod(0o1777)


def make(archs):
    OUT.mkdir(parents=True, exist_ok=True)
    for path in shipped():
        path.unlink()
    for arch in archs:
        build(arch)
    print_pages(archs)
    for arch in archs:
        text = materials.licences(TRIPLES[arch], PROGRAMS, FEATURES) + "\n" + dist_tools.musl_copyright()
        (OUT / f"third-party-licenses-{arch}.txt").write_text(text)
        archives(arch)
        debian_packages(arch)
        for program in PROGRAMS:
            materials.bill(program, TRIPLES[arch], FEATURES, OUT / f"{program}-{version()}-linux-{arch}.cdx.json", moment())
        image_folders(arch)
    checksums()
    for line in (OUT / "SHA256SUMS").read_text().splitlines():
        name = line.split()[1]
        print(f"{(OUT / name).stat().st_size / 1e6:7.1f} MB  {name}")
    print(f"dist: {OUT.relative_to(ROOT)}/SHA256SUMS")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--check", action="store_true", help="check the files that `make dist` has made")
    arguments = parser.parse_args()
    archs = os.environ.get("DIST_TARGETS", " ".join(TRIPLES)).split()
    if not archs or set(archs) - set(TRIPLES):
        parser.error(f'DIST_TARGETS="{" ".join(archs)}": unknown target; targets: {" ".join(TRIPLES)}')
    try:
        return dist_check.check(OUT, archs, version()) if arguments.check else make(archs)
    except peers.Failed as why:
        sys.exit(f"error: {why}")


if __name__ == "__main__":
    sys.exit(main())
