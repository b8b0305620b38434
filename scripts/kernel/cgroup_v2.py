#!/usr/bin/env python3
"""Tests weir's limits on a real kernel with cgroup v2, independent of this machine's kernel.

Boots a Debian kernel in an emulator, with KVM if possible. The guest uses only cgroup v2. Its initial file system
contains only weir's programs, weir's tests and some tools. The guest runs the rig's tests of limits, sampling, clean-up
and lack of memory, as root and as a user. It also runs `weir run` with limits: once as root, once in a cgroup
namespace, once in a group delegated to a user, once in a scope of a user's service manager, and once without a group.

Exit code 1 if a check fails, 3 if the guest cannot be made on this machine.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import checks
import parts
from image import Image

HERE = Path(__file__).resolve().parent
FOLDER = parts.ROOT / "target/kernel"
# An emulated processor is 10 to 30 times slower than a real one.
TIMEOUT_S = 1800
# Maximum share of time that the guest may wait for processors. While it waits, its clock runs but its load does not.
WAITED_MAX = 0.2
MEMORY_MIB = 2048
PROCESSORS = 2
KERNEL_ARGUMENTS = "console=ttyS0 loglevel=2 cgroup_no_v1=all panic=-1"
USERS = "root:x:0:0::/tmp:/bin/sh\nweir:x:1000:1000::/tmp:/bin/sh\nnobody:x:65534:65534::/tmp:/bin/sh\n"
END = "== end:"
# The line before the JSON document of each run, with the run's name and exit code.
RESULT = re.compile(r"^result (\w+) \d+$", re.MULTILINE)


def make_image(path, modules, programs):
    """The guest's files: a shell, some tools, a service manager, weir's programs and tests."""
    image = Image()
    for folder in ("/proc", "/sys", "/dev", "/tmp", "/run", "/bin"):
        image.folder(folder)
    image.device("/dev/console", 5, 1)
    image.text("/etc/passwd", USERS)
    image.text("/etc/group", "root:x:0:\nweir:x:1000:\nnogroup:x:65534:\n")
    image.text("/etc/machine-id", f"{0:032x}\n")
    image.text("/init", (HERE / "init.sh").read_text(), 0o755)
    image.program("/bin/busybox", parts.package_root("busybox") / "bin/busybox")
    for module in modules:
        image.file(f"/lib/modules/{module.name}", module)
    for name in parts.TOOLS:
        image.program(f"/usr/bin/{name}", shutil.which(name))
    for name in ("weir", "weir-gateway", "rig-it", "rig-unit", "weir-rig-probe"):
        image.program(f"/weir/{name}", programs[name])
    # Tests start the probe at its build path. A guest mount may hide that path, so init.sh copies the probe.
    image.text("/weir/probe-place", f"{programs['weir-rig-probe']}\n")
    image.file("/weir/scenario.yaml", HERE / "scenario.yaml")
    add_service_manager(image)
    image.write(path)


def add_service_manager(image):
    root = parts.package_root("systemd-run")
    for program in ("lib/systemd/systemd", "usr/bin/systemd-run"):
        image.program(f"/{program}", root / program, root)
    for unit in sorted((root / "usr/lib/systemd/user").iterdir()):
        if unit.suffix in (".target", ".slice") and unit.is_file():
            image.file(f"/usr/lib/systemd/user/{unit.name}", unit)


def boot(kernel, image, results):
    """Runs the guest until it ends and prints its output. Returns (lines, share of time that processors waited)."""
    program, firmware, environment = parts.emulator()
    accelerator = ["-accel", "kvm", "-cpu", "host"] if parts.has_kvm() else ["-accel", "tcg,thread=multi", "-cpu", "max"]
    command = [program, "-machine", "pc", *accelerator, "-smp", str(PROCESSORS), "-m", str(MEMORY_MIB)]
    command += ["-nodefaults", "-display", "none", "-no-reboot"]
    for folder in firmware:
        command += ["-L", folder]
    command += ["-kernel", kernel, "-initrd", image, "-append", KERNEL_ARGUMENTS]
    command += ["-serial", "stdio", "-serial", f"file:{results}"]
    print(f"cgroup-v2: booting {kernel.name} with {accelerator[1]}", flush=True)
    guest = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             env=environment, text=True, errors="replace")
    timer = threading.Timer(TIMEOUT_S, guest.kill)
    waiting = Waiting(guest.pid)
    timer.start()
    waiting.start()
    lines = []
    try:
        for line in guest.stdout:
            print(line.rstrip(), flush=True)
            lines.append(line.rstrip())
        guest.wait()
    finally:
        timer.cancel()
        guest.kill()
    return lines, waiting.share


class Waiting(threading.Thread):
    """Measures how long the guest's virtual CPUs wait for a physical CPU, as a share of running and waiting time."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.tasks = Path(f"/proc/{pid}/task")
        self.share = 0.0

    def run(self):
        while self.tasks.exists():
            try:
                self.look()
            except OSError:
                # The emulator, or one of its threads, has ended.
                pass
            time.sleep(1)

    def look(self):
        """Reads how long each thread ran, and how long it waited for a processor."""
        fields = [(task / "schedstat").read_text().split() for task in self.tasks.iterdir()]
        ran, waited = (sum(int(times[index]) for times in fields) for index in (0, 1))
        self.share = waited / (ran + waited) if ran else 0.0


def read_results(path):
    """The guest's documents by name of the run; None for a run without a valid document."""
    if not path.exists():
        return {}
    _, *parts_of_it = RESULT.split(path.read_text(errors="replace"))
    return {name: document(text) for name, text in zip(parts_of_it[::2], parts_of_it[1::2])}


def document(text):
    try:
        return json.loads(text)
    except ValueError:
        return None


def check(lines, documents, is_quiet):
    """Prints the results. Returns one sentence per error."""
    found = []
    if not any(line.startswith(END) for line in lines):
        found.append(f"the guest did not end within {TIMEOUT_S} s")
    found += [line for line in lines if line.startswith("== ") and ": failed (" in line]
    for name in checks.EXPECTED:
        if documents.get(name) is None:
            found.append(f"{name}: the guest returned no result")
            continue
        found += checks.findings(name, documents[name], is_quiet)
    return found


def main():
    argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0]).parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    image, results = FOLDER / "initramfs.cpio", FOLDER / "results"
    try:
        parts.require_machine()
        parts.fetch()
        kernel, modules = parts.kernel()
        programs = parts.build()
    except parts.Missing as why:
        print(f"cgroup-v2: {why}", file=sys.stderr)
        return 3
    make_image(image, modules, programs)
    results.unlink(missing_ok=True)
    lines, waited = boot(kernel, image, results)
    is_quiet = waited <= WAITED_MAX
    print(f"cgroup-v2: the guest waited for this machine's processors for {waited:.0%} of its running and waiting time")
    if not is_quiet:
        print(f"cgroup-v2: more than {WAITED_MAX:.0%}: the use of quotas is not checked; run it again on an idle machine")
    found = check(lines, read_results(results), is_quiet)
    for finding in found:
        print(f"cgroup-v2: {finding}", file=sys.stderr)
    print(f"cgroup-v2: {'failed' if found else 'passed'}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
