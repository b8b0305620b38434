"""Components of the programs: a bill of materials (CycloneDX) and the licences of third-party code."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import dist_tools

ROOT = Path(__file__).resolve().parent.parent
# Licence and notice files in a package's root, by name prefix.
TERMS = ("license", "licence", "copying", "copyright", "notice", "unlicense")
INTRODUCTION = """Third-party code in {programs} for {target}.

weir itself is licensed under Apache-2.0 (LICENSE). The programs also contain the packages below, the standard library of
Rust (MIT OR Apache-2.0) and the C library musl (MIT, its notice is at the end).
"""


def bill(program, target, features, out, moment):
    """Writes the bill of materials of a program for a target as JSON: names, versions, licences, checksums."""
    tool = dist_tools.fetched("cargo-cyclonedx") / "cargo-cyclonedx"
    with tempfile.TemporaryDirectory(prefix="weir-bill-") as folder:
        # The tool writes a file beside every Cargo.toml, so it runs in a copy of the workspace.
        copy = Path(folder)
        for name in ("Cargo.toml", "Cargo.lock"):
            shutil.copy(ROOT / name, copy)
        shutil.copytree(ROOT / "crates", copy / "crates")
        shutil.copytree(ROOT / "tests/it", copy / "tests/it", ignore=shutil.ignore_patterns("__pycache__"))
        command = [tool, "cyclonedx", "--format", "json", "--spec-version", "1.5", "--describe", "binaries", "--target", target,
                   "--features", features, "--manifest-path", copy / "Cargo.toml", "--quiet"]
        done = subprocess.run(command, cwd=copy, env={**os.environ, "SOURCE_DATE_EPOCH": str(moment)}, capture_output=True, text=True, check=False)
        made = copy / "crates" / program / f"{program}_bin.cdx.json"
        if done.returncode or not made.exists():
            sys.exit(f"error: cargo-cyclonedx failed for {program}: {done.stderr.strip()[-2000:]}")
        text = made.read_text().replace(f"file://{copy}", "file://.")
    out.write_text(json.dumps(json.loads(text), indent=1) + "\n")


def licences(target, programs, features):
    """The licences of all packages that are linked into the programs. Each text appears once."""
    texts = {}
    lines = []
    for package in linked(target, programs, features):
        lines.append(f"{package['name']} {package['version']}: {package['license'] or 'see its text'}")
        for name, text in terms(Path(package["manifest_path"]).parent):
            texts.setdefault(text, []).append(f"{package['name']} {package['version']}: {name}")
    sections = [f"{'-' * 80}\n" + "\n".join(users) + f"\n\n{text}" for text, users in texts.items()]
    introduction = INTRODUCTION.format(programs=" and ".join(programs), target=target)
    return "\n".join([introduction, *lines, "", *sections])


def terms(folder):
    """(Name, text) of the licence and notice files in `folder`."""
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.name.lower().startswith(TERMS) and path.suffix != ".rs":
            yield path.name, path.read_text(errors="replace").strip() + "\n"


def linked(target, programs, features):
    """Third-party packages that the programs link, as cargo resolves them."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target, "--features", features]
    known = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
    packages = {package["id"]: package for package in known["packages"]}
    nodes = {node["id"]: node for node in known["resolve"]["nodes"]}
    pending = [name for name, package in packages.items() if package["name"] in programs and package["source"] is None]
    seen = set()
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        # Skip build dependencies and dev dependencies.
        pending += [needed["pkg"] for needed in nodes[node]["deps"] if any(kind["kind"] is None for kind in needed["dep_kinds"])]
    found = [packages[name] for name in seen if packages[name]["source"]]
    return sorted(found, key=lambda package: (package["name"], package["version"]))
