#!/usr/bin/env python3
"""Style that code can check: file sizes, forbidden names, machine paths, arrows between crates, import cycles, README
and links.
"""

import pathlib
import re
import subprocess
import sys

import imports

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINES_MAX = 800
README_WORDS_MAX = 900
FORBIDDEN_NAMES = {"common", "utils", "util", "types", "helpers", "misc"}
CYCLE_FILES_MAX = 8
# Crates whose cycles are not measured yet.
CYCLES_UNMEASURED = {"weir-dataplane"}
# What each crate must not know (ARCHITECTURE.md): these packages may not stand among its dependencies.
MUST_NOT_KNOW = {
    "weir-http": {"tokio", "rustls", "socket2", "rustix", "libc", "mio"},
    "weir-document": {"tokio", "weir-engine", "weir-rig", "weir-lab"},
    "weir-io": {"weir-http", "weir-engine", "weir-dataplane", "weir-origin", "weir-results"},
    "weir-results": {"tokio", "weir-engine", "weir-rig", "weir-lab", "weir-report", "weir-analysis"},
    "weir-engine": {"weir-rig", "weir-lab", "weir-report", "weir-analysis", "weir-config", "weir-dataplane"},
    "weir-origin": {"weir-engine", "weir-config", "weir-dataplane", "weir-rig", "weir-lab", "weir-report"},
    "weir-config": {"tokio", "weir-dataplane", "weir-engine", "weir-rig", "weir-lab"},
    "weir-dataplane": {"weir-lab", "weir-rig", "weir-engine", "weir-control", "weir-results", "weir-report"},
    "weir-manifests": {"tokio", "rustls", "rustix", "weir-control", "weir-dataplane", "weir-lab", "weir-rig"},
    "weir-nats": {"weir-lab", "weir-rig", "weir-results", "weir-engine", "weir-report", "weir-analysis"},
    "weir-control": {"weir-dataplane", "weir-lab", "weir-rig"},
    "weir-gateway": {"weir-lab", "weir-rig", "weir-engine", "weir-results", "weir-report"},
    "weir-agent": {"weir-rig", "weir-lab", "weir-analysis", "weir-report"},
    "weir-rig": {"weir-lab", "weir-analysis", "weir-report", "weir-engine", "weir-dataplane"},
    "weir-lab": {"weir-dataplane", "weir-report"},
    "weir-analysis": {"tokio", "rusqlite", "weir-rig", "weir-lab", "weir-report", "weir-engine"},
    "weir-export": {"tokio", "rusqlite", "weir-rig", "weir-lab", "weir-report", "weir-engine"},
    "weir-watch": {"tokio", "weir-results", "weir-engine", "weir-rig", "weir-lab", "weir-report", "weir-analysis"},
    "weir-report": {"weir-rig", "weir-lab", "weir-engine", "tokio"},
}


def tracked(*patterns):
    """Files that git tracks or would track, matching the patterns."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def dependencies(manifest):
    """Names in the [dependencies] table of a Cargo manifest (not the development ones)."""
    inside, names = False, set()
    for line in manifest.read_text().splitlines():
        if line.startswith("["):
            inside = line.strip() == "[dependencies]"
        elif inside and (match := re.match(r"([A-Za-z0-9_-]+)", line)):
            names.add(match.group(1))
    return names


def findings():
    """Yields one sentence for each place that breaks a rule."""
    for path in tracked("*.rs"):
        name = path.relative_to(ROOT)
        text = path.read_text()
        if text.count("\n") > LINES_MAX:
            yield f"{name}: {text.count(chr(10))} lines, more than {LINES_MAX}: split it by what it mixes"
        if path.stem in FORBIDDEN_NAMES or path.parent.name in FORBIDDEN_NAMES:
            yield f"{name}: a module named `{path.stem}` says that a boundary is wrong"
        if path.parent.name == "src" and path.stem in {"lib", "main"} and not text.lstrip().startswith("//!"):
            yield f"{name}: the crate has no `//!` purpose at its top"
    for path in tracked("crates/*/Cargo.toml"):
        crate = path.parent.name
        for wrong in sorted(dependencies(path) & MUST_NOT_KNOW.get(crate, set())):
            yield f"crates/{crate}/Cargo.toml: {crate} must not know {wrong} (ARCHITECTURE.md)"
    machine_path = re.compile(r"(?<![\w.])/(?:root|home)/\w")
    for path in tracked("*.rs", "*.md", "*.py", "*.sh", "*.yaml", "*.j2", "Makefile"):
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if machine_path.search(line) and path != pathlib.Path(__file__).resolve():
                yield f"{path.relative_to(ROOT)}:{number}: a path of somebody's machine"


def cycle_findings(crates=ROOT / "crates"):
    """Yields one sentence for each crate with an import cycle of too many files."""
    for source in sorted(crates.glob("*/src")):
        crate = source.parent.name
        cycle = next(iter(imports.cycles(source)), [])
        if crate not in CYCLES_UNMEASURED and len(cycle) > CYCLE_FILES_MAX:
            files = ", ".join(sorted("::".join(module) or "lib" for module in cycle))
            yield f"crates/{crate}: an import cycle of {len(cycle)} files, more than {CYCLE_FILES_MAX}: {files}"


def broken_links(page):
    """Links of a Markdown page to files that are not there."""
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if "://" not in target and not (page.parent / target).exists():
            yield f"{page.relative_to(ROOT)}: link to {target}, which does not exist"


def readme_findings():
    """The README is short, links every page of docs/, and no page links to a file that is missing."""
    readme = ROOT / "README.md"
    text = readme.read_text()
    words = len(text.split())
    if words > README_WORDS_MAX:
        yield f"README.md: {words} words, more than {README_WORDS_MAX}: move details to docs/"
    for page in sorted((ROOT / "docs").glob("*.md")):
        if f"(docs/{page.name})" not in text:
            yield f"README.md: no link to docs/{page.name}"
    for page in tracked("*.md"):
        yield from broken_links(page)


def main():
    """Prints every finding; exit code 1 if there is one."""
    found = [*findings(), *cycle_findings(), *readme_findings()]
    for finding in found:
        print(finding)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
