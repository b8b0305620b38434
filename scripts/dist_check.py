"""Checks the files of `make dist`: programs, pages, bills of materials, Debian packages, images."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import dist_debian
import dist_images
from dist_probe import PROGRAMS, Serving, Skipped, Wrong, output

ROOT = Path(__file__).resolve().parent.parent


def check(out, archs, version):
    """Runs every check and prints its outcome. Returns the exit code."""
    failed = 0
    with tempfile.TemporaryDirectory(prefix="weir-dist-") as folder:
        scratch = Path(folder)
        for name, what in checks(out, archs, version, scratch):
            try:
                print(f"ok       {name}: {what()}", flush=True)
            except Skipped as why:
                print(f"skipped  {name}: {why}", flush=True)
            except (Wrong, OSError) as why:
                failed += 1
                print(f"FAILED   {name}: {why}", flush=True)
    print(f"dist: {'all checks passed' if not failed else f'{failed} checks failed'}")
    return 1 if failed else 0


def checks(out, archs, version, scratch):
    yield "checksums", lambda: checksums(out)
    for arch in archs:
        yield f"{arch}: archive", lambda arch=arch: unpacked(out, arch, version, scratch)
        yield f"{arch}: static programs", lambda arch=arch: static(top_of(scratch, arch, version))
        yield f"{arch}: programs run", lambda arch=arch: programs_run(top_of(scratch, arch, version), arch, version)
        for program in PROGRAMS:
            bill = out / f"{program}-{version}-linux-{arch}.cdx.json"
            yield f"{arch}: bill of materials of {program}", lambda bill=bill: materials(bill)
    pages = top_of(scratch, archs[0], version)
    yield "man pages", lambda: man_pages(pages)
    yield "completions", lambda: completions(pages)
    if "x86_64" in archs:
        packages = [out / f"{program}_{version}-1_amd64.deb" for program in PROGRAMS]
        yield "lintian", lambda: dist_debian.lint(packages)
        yield "package in a chroot", lambda: dist_debian.install(packages, version, scratch)
        yield "images", lambda: dist_images.build_and_run(out / "images/x86_64", version, scratch)


def top_of(scratch, arch, version):
    return scratch / f"weir-{version}-linux-{arch}"


def checksums(out):
    lines = (out / "SHA256SUMS").read_text().splitlines()
    for line in lines:
        digest, name = line.split()
        with (out / name).open("rb") as opened:
            if hashlib.file_digest(opened, "sha256").hexdigest() != digest:
                raise Wrong(f"{name}: another checksum than in SHA256SUMS")
    return f"{len(lines)} files"


def unpacked(out, arch, version, scratch):
    with tarfile.open(out / f"{top_of(scratch, arch, version).name}.tar.gz") as archive:
        archive.extractall(scratch, filter="data")
    top = top_of(scratch, arch, version)
    wanted = [*(f"bin/{program}" for program in PROGRAMS), "man/man1/weir-run.1", "man/man1/weir-gateway-check.1",
              "completions/weir.bash", "examples/gateway.yaml", "LICENSE", "THIRD-PARTY-LICENSES.txt"]
    if missing := [name for name in wanted if not (top / name).is_file()]:
        raise Wrong(f"{top.name}.tar.gz does not contain {', '.join(missing)}")
    return f"{sum(1 for path in top.rglob('*') if path.is_file())} files"


def static(top):
    sizes = []
    for program in PROGRAMS:
        binary = top / "bin" / program
        if "INTERP" in output(["readelf", "--program-headers", "--wide", binary]):
            raise Wrong(f"{program} needs a dynamic loader")
        if needed := re.findall(r"\(NEEDED\).*\[(.*)\]", output(["readelf", "--dynamic", "--wide", binary])):
            raise Wrong(f"{program} needs {', '.join(needed)}")
        if ".symtab" in output(["readelf", "--section-headers", "--wide", binary]):
            raise Wrong(f"{program} is not stripped")
        content = binary.read_bytes()
        for path in (str(ROOT), str(Path.home() / ".cargo")):
            if path.encode() in content:
                raise Wrong(f"{program} contains the path {path} of the build machine")
        sizes.append(f"{program} {len(content) / 1e6:.1f} MB")
    return ", ".join(sizes)


def prefix(arch):
    """The command prefix to run programs of this architecture on this host."""
    if arch == os.uname().machine:
        return []
    if emulator := shutil.which(f"qemu-{arch}-static"):
        return [emulator]
    raise Skipped(f"qemu-{arch}-static is missing; install the package qemu-user-static")


def programs_run(top, arch, version):
    for program in PROGRAMS:
        printed = output([*prefix(arch), top / "bin" / program, "--version"]).strip()
        if printed != f"{program} {version}":
            raise Wrong(f"{program} --version prints {printed}")
    gateway = [*prefix(arch), top / "bin/weir-gateway"]
    output([*gateway, "check", "--strict", example(top)])
    with Serving(gateway, example(top)) as asked:
        status, body = asked("/")
    if (status, body) != (200, b"weir-gateway works\n"):
        raise Wrong(f"the example configuration responds with {status} {body!r}")
    return f"{program} {version} checks and serves its example" + (", emulated" if prefix(arch) else "")


def example(top):
    """The path of a copy of the example configuration that logs to a writable folder."""
    own = top / "examples/own.yaml"
    own.write_text((top / "examples/gateway.yaml").read_text().replace("/var/log/weir", str(top)))
    return own


def materials(path):
    bill = json.loads(path.read_text())
    components = bill["components"]
    named = {component["name"] for component in components}
    if bill["bomFormat"] != "CycloneDX" or not {"rustls", "clap"} <= named:
        raise Wrong(f"{path.name} does not list rustls and clap")
    without = [c["name"] for c in components if not c.get("version") or not c.get("licenses")]
    if without:
        raise Wrong(f"{path.name}: no version or licence: {', '.join(without)}")
    unhashed = [c["name"] for c in components if not c.get("hashes") and not c["name"].startswith("weir")]
    if unhashed:
        raise Wrong(f"{path.name}: no checksum: {', '.join(unhashed)}")
    return f"{len(components)} packages with versions, licences and checksums"


def man_pages(top):
    pages = sorted((top / "man/man1").iterdir())
    if not shutil.which("man"):
        raise Skipped("man is not installed")
    for page in pages:
        done = subprocess.run(["man", "--warnings", "--local-file", page], env={**os.environ, "MANWIDTH": "120", "LC_ALL": "C.UTF-8"},
                              capture_output=True, text=True, check=False)
        if done.returncode or done.stderr.strip():
            raise Wrong(f"{page.name}: {done.stderr.strip()}")
    return f"{len(pages)} pages without warnings"


def completions(top):
    folder = top / "completions"
    checked = []
    for shell, names in {"bash": "{}.bash", "zsh": "_{}", "fish": "{}.fish"}.items():
        for program in PROGRAMS:
            if not (folder / names.format(program)).stat().st_size:
                raise Wrong(f"{names.format(program)} is empty")
        if shutil.which(shell):
            for program in PROGRAMS:
                output([shell, "--no-execute" if shell == "fish" else "-n", folder / names.format(program)])
            checked.append(shell)
    return f"parsed by {', '.join(checked)}"
