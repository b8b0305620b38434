#!/usr/bin/env python3
"""Tools that make and check releases, at pinned versions, in the user's cache folder: a C compiler for other targets,
tools for Debian packages and bills of materials, and checkers of charts and workflows.

`dist_tools.py helm` fetches a tool if it is missing, and prints the folder of its programs.
"""

import fcntl
import os
import platform
import shutil
import subprocess
import sys

import go_peers
import peers

# cargo-zigbuild uses zig as C compiler and linker of a target; zig contains the sources of musl.
ZIG = "0.15.2"
# name -> version
VERSIONS = {
    "zigbuild": "0.24.1",
    "cargo-deb": "3.8.0",
    "cargo-cyclonedx": "0.5.9",
    "helm": "3.19.5",
    "actionlint": "1.7.12",
}
CARGO = ["cargo-deb", "cargo-cyclonedx"]
# name -> module and package
GO = {"helm": ("helm.sh/helm/v3", "cmd/helm"), "actionlint": ("github.com/rhysd/actionlint", "cmd/actionlint")}


def fetched(name):
    """The folder with the programs of a tool. Fetches or compiles them if they are missing."""
    version = VERSIONS[name]
    key = f"{name}-{version}-zig-{ZIG}" if name == "zigbuild" else f"{name}-{version}"
    folder = (peers.by_version() / f"{key}-{platform.machine()}").absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            print(f"dist: fetching {name} {version}", file=sys.stderr, flush=True)
            make(name, version, folder)
    return folder / "bin"


def found(name):
    """The program of a Go tool if it was fetched before or is on PATH, else None."""
    kept = peers.by_version() / f"{name}-{VERSIONS[name]}-{platform.machine()}/bin" / name
    return str(kept) if kept.exists() else shutil.which(name)


def make(name, version, folder):
    # A Python environment cannot be moved, so it is built in its final place and removed on failure.
    work = folder if name == "zigbuild" else folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(work, ignore_errors=True)
    try:
        if name == "zigbuild":
            peers.run([sys.executable, "-m", "venv", work])
            wheels = [f"ziglang=={ZIG}", f"cargo-zigbuild=={version}"]
            peers.run([work / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wheels])
        elif name in CARGO:
            # A separate target folder, because the build of this repository uses other flags.
            environment = {"CARGO_TARGET_DIR": str(work / "target"), "RUSTFLAGS": ""}
            peers.run(["cargo", "install", name, "--locked", "--version", f"={version}", "--root", work], environment=environment)
            shutil.rmtree(work / "target", ignore_errors=True)
        else:
            go_peers.compiled(recipe(name, version), work, peers.run, peers.pip)
        if work != folder:
            work.rename(folder)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def recipe(name, version):
    module, package = GO[name]
    flags = ["-ldflags", "-s -w"]
    if name == "helm":
        flags = ["-ldflags", f"-s -w -X {module}/internal/version.version=v{version}"]
    return go_peers.Recipe(name, module, f"v{version}", package, flags,
                           lambda upstream: go_peers.plain_module_file(upstream, name, module, f"v{version}"))


def zig_environment():
    """Variables with which `cargo zigbuild` finds its zig."""
    folder = fetched("zigbuild")
    (zig,) = folder.parent.glob("lib/python*/site-packages/ziglang/zig")
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "CARGO_ZIGBUILD_ZIG_PATH": str(zig)}


def musl_copyright():
    """The notice of the C library that is linked into the programs."""
    (text,) = fetched("zigbuild").parent.glob("lib/python*/site-packages/ziglang/lib/libc/musl/COPYRIGHT")
    return text.read_text(errors="replace")


def objcopy_environment():
    """Variables that make scripts/strip_release.py use the objcopy of Rust's toolchain, which supports every target."""
    def rustc(*words):
        return subprocess.run(["rustc", *words], check=True, capture_output=True, text=True).stdout

    sysroot = rustc("--print", "sysroot").strip()
    host = next(line.split()[1] for line in rustc("-vV").splitlines() if line.startswith("host: "))
    return {"OBJCOPY": f"{sysroot}/lib/rustlib/{host}/bin/rust-objcopy", "LD_LIBRARY_PATH": f"{sysroot}/lib"}


def main():
    for name in sys.argv[1:]:
        if name not in VERSIONS:
            sys.exit(f"error: unknown tool: {name}; tools: {', '.join(VERSIONS)}")
        try:
            print(fetched(name))
        except (peers.Failed, OSError) as why:
            sys.exit(f"error: cannot fetch {name}: {why}")


if __name__ == "__main__":
    main()
