"""Parts of the guest: a Debian kernel, an emulator, a shell and a service manager as packages under target/peers, and
weir's programs and tests."""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import peers  # noqa: E402

KERNEL = "linux-image-cloud-amd64"
# Kernel modules that the guest loads. Pairs of veth devices connect network namespaces.
MODULES = ["veth.ko"]
# Programs of this machine that the guest uses.
TOOLS = ["setpriv", "setsid", "unshare"]


class Missing(Exception):
    """A required part is missing. The text has a remedy."""


def require_machine():
    if platform.machine() != "x86_64":
        raise Missing(f"the guest requires x86_64, but this machine is {platform.machine()}")
    if missing := [name for name in TOOLS if not shutil.which(name)]:
        raise Missing(f"{', '.join(missing)} of util-linux is not on PATH; install it")


def fetch():
    """Fetches and unpacks missing packages. Nothing is installed."""
    done = subprocess.run([ROOT / "scripts/peers.sh", *peers.NEEDED_BY_GUEST])
    if done.returncode != 0:
        raise Missing("cannot fetch packages; see the errors above")


def kernel():
    """(Kernel image, modules that the guest loads). The rest of the package is deleted."""
    folder = peers.PEERS / "linux"
    if not all((folder / name).exists() for name in ["packages.txt", *MODULES]):
        print("peers: fetching linux", flush=True)
        work = peers.PEERS / ".linux.partial"
        shutil.rmtree(work, ignore_errors=True)
        try:
            apt = peers.Apt()
            (latest,) = apt.download([KERNEL], work)
            # This is a metapackage, which depends on the package of the newest kernel.
            version = re.search(r"linux-image-\d[^ ,]*", peers.run(["dpkg-deb", "-f", latest, "Depends"]))
            (package,) = apt.download([version[0]], work)
            peers.run(["dpkg", "-x", package, work / "whole"])
        except peers.Failed as why:
            raise Missing(str(why)) from why
        shutil.move(work / "whole/boot", work / "boot")
        for name in MODULES:
            (module,) = (work / "whole").rglob(name)
            shutil.move(module, work / name)
        shutil.rmtree(work / "whole")
        peers.settle(work, "linux")
    (image,) = (folder / "boot").glob("vmlinuz-*")
    return image, [folder / name for name in MODULES]


def emulator():
    """The emulator: (program, firmware folders, environment in which it finds its modules)."""
    root = package_root("qemu-system-x86_64")
    shared = root / "usr/share"
    modules = root / "usr/lib/x86_64-linux-gnu/qemu"
    environment = dict(os.environ, QEMU_MODULE_DIR=str(modules))
    return peers.BIN / "qemu-system-x86_64", [shared / "qemu", shared / "seabios"], environment


def has_kvm():
    """Whether KVM can run a normal kernel. /dev/kvm is not enough: without hardware virtualization it may support only
    special guests."""
    flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    is_hardware = flags and {"vmx", "svm"} & set(flags[1].split())
    return bool(is_hardware) and os.access("/dev/kvm", os.R_OK | os.W_OK)


def package_root(name):
    return peers.PEERS / name / "root"


def cargo(*words):
    command = [os.environ.get("CARGO", "cargo"), *words, "--locked", "--jobs", str(len(os.sched_getaffinity(0)))]
    done = subprocess.run(command + ["--message-format=json-render-diagnostics"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise Missing(f"`{' '.join(command)}` failed")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def build():
    """Paths of weir's programs and of the rig's tests, by their name in the guest."""
    built = cargo("build", "-p", "weir", "-p", "weir-gateway") + cargo("test", "-p", "weir-rig", "--no-run")
    programs = {}
    for message in built:
        if message.get("reason") != "compiler-artifact" or not message.get("executable"):
            continue
        name, kind = message["target"]["name"], message["target"]["kind"][0]
        is_rig = "weir-rig" in message["package_id"]
        if kind == "bin" and not message["profile"]["test"]:
            programs[name] = Path(message["executable"])
        elif is_rig and message["profile"]["test"]:
            programs["rig-it" if kind == "test" else "rig-unit"] = Path(message["executable"])
    return {name: programs[name] for name in ("weir", "weir-gateway", "weir-rig-probe", "rig-it", "rig-unit")}
