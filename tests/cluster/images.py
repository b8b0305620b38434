#!/usr/bin/env python3
"""Makes the images of a test cluster as tars for `ctr images import`, and prints the tars' paths.

`images.py weir nginx` makes these two images; without names, it makes all images whose programs exist. A tar is written
only if its content changed. `images.py --reference weir` only prints the image name that pods use.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import image

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import peers  # noqa: E402  (in scripts/)

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
CLUSTER = Path(os.environ.get("CLUSTER_DIR") or CACHE / "weir-cluster")
BIN_DIR = Path(os.environ.get("BIN_DIR") or ROOT / "target/release")
OWN = ["weir", "weir-gateway"]
GATEWAYS = ["nginx", "haproxy", "envoy"]
BOOTSTRAP = "/var/lib/istio/envoy/envoy_bootstrap_tmpl.json"
# name -> function that returns the path of the program; `pause` and `echo` are compiled if needed
OF_CLUSTER = {
    "pause": lambda: compiled("pause", HERE / "pause.c", ["cc", "-O2", "-static"]),
    "echo": lambda: compiled("echo", HERE / "echo/main.go", ["go", "build", "-trimpath", "-ldflags", "-s -w"]),
    "contour": lambda: CLUSTER / "bin/contour",
    "pilot": lambda: CLUSTER / "bin/istio/pilot-discovery",
    "envoy-gateway": lambda: CLUSTER / "bin/envoy-gateway",
    "proxyv2": lambda: CLUSTER / "bin/istio/pilot-agent",
}


class Absent(Exception):
    """A file that an image needs is missing. The text has a remedy."""


def reference(name):
    """The image name that pods use."""
    if name in OWN:
        version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
        return f"{name}:{version}"
    if name in GATEWAYS:
        driver = (ROOT / "drivers" / name / "driver.yaml").read_text()
        return re.search(r"^ +image: (\S+)$", driver, re.MULTILINE)[1]
    return f"test.local/{name}:1"


def contents(name):
    """(Path of the program in the image, all files as path -> file)."""
    if name in OWN:
        return program(existing(BIN_DIR / name, f"cargo build --release -p {name}"))
    if name in GATEWAYS:
        return program(peer(name), peers.library_folders(peers.PEERS / name / "root"))
    binary = existing(OF_CLUSTER[name](), "tests/cluster/cluster build contour istio envoy-gateway")
    # Contour's manifests contain the path of its program.
    path, files = program(binary, folder="/bin" if name == "contour" else "/usr/local/bin")
    if name == "proxyv2":
        template = existing(CLUSTER / "upstream/istio/envoy_bootstrap.json", "tests/cluster/cluster build istio")
        files |= program(peer("envoy"))[1] | {BOOTSTRAP: template}
    return path, files


def existing(path, how):
    if not path.is_file():
        raise Absent(f"{path} is missing; make it with `{how}`")
    return path


def peer(name):
    try:
        return peers.executable(name)
    except ValueError:
        raise Absent(f"{name} is missing; `make peers` fetches it") from None


def program(binary, library_folders=(), folder="/usr/local/bin"):
    """Returns an executable's path in the image, and all files with their paths; libraries are where the loader searches."""
    path = f"{folder}/{binary.name}"
    environment = dict(os.environ, LD_LIBRARY_PATH=":".join(map(str, library_folders)))
    listed = subprocess.run(["ldd", binary], capture_output=True, text=True, env=environment).stdout
    if absent := re.findall(r"^\s*(\S+) => not found", listed, re.MULTILINE):
        raise Absent(f"{binary} needs {', '.join(absent)}; `make peers` fetches libraries from packages")
    libraries = dict(re.findall(r"^\s*(\S+) => (/\S+)", listed, re.MULTILINE))
    loader = re.findall(r"^\s*(/\S+) \(", listed, re.MULTILINE)
    # The folder of the C library is in the loader's default search path.
    known = Path(libraries.get("libc.so.6", "/lib/libc.so.6")).parent
    files = {str(known / name): Path(place) for name, place in libraries.items()}
    return path, files | {place: Path(place) for place in loader} | {path: binary}


def compiled(name, source, command):
    """Compiles a program of the cluster if its source is newer."""
    out = CLUSTER / "bin" / name
    if not out.exists() or out.stat().st_mtime < source.stat().st_mtime:
        out.parent.mkdir(parents=True, exist_ok=True)
        environment = dict(os.environ, CGO_ENABLED="0", GO111MODULE="off")
        subprocess.run([*command, "-o", out, source], check=True, env=environment)
    return out


def key_of(name, path, files):
    """A digest of all inputs of the image."""
    parts = [reference(name), path, (HERE / "image.py").read_text(), Path(__file__).read_text()]
    for place, source in sorted(files.items()):
        with source.open("rb") as opened:
            parts += [place, hashlib.file_digest(opened, "sha256").hexdigest()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def without_debug_information(files, into):
    """The files, with weir's programs replaced by stripped copies: most of their size is debug information."""
    stripped = dict(files)
    for path, source in files.items():
        if source.name in OWN and shutil.which("strip"):
            stripped[path] = Path(into) / source.name
            subprocess.run(["strip", "--strip-debug", "-o", stripped[path], source], check=True)
    return stripped


def make(name):
    """Writes the tar of an image if it is missing or outdated. Returns its path."""
    tar = CLUSTER / "images" / f"{name}.tar"
    tar.parent.mkdir(parents=True, exist_ok=True)
    path, files = contents(name)
    noted, key = tar.with_suffix(".key"), key_of(name, path, files)
    if not tar.exists() or not noted.exists() or noted.read_text() != key:
        noted.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(dir=tar.parent) as scratch:
            image.write(tar, reference(name), path, without_debug_information(files, scratch))
        noted.write_text(key)
        print(f"images: {reference(name)}: {tar.stat().st_size / 1e6:.0f} MB", file=sys.stderr)
    return tar


def main():
    known = [*OF_CLUSTER, *OWN, *GATEWAYS]
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(known)}")
    parser.add_argument("--reference", action="store_true", help="only print the image names that pods use")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.names if name not in known]:
        parser.error(f"unknown image: {', '.join(unknown)}")
    failed = False
    for name in arguments.names or known:
        try:
            print(reference(name) if arguments.reference else make(name), flush=True)
        except Absent as why:
            print(f"images: no {name}: {why}", file=sys.stderr)
            failed |= name in arguments.names
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
