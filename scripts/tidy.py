#!/usr/bin/env python3
"""Checks file sizes, forbidden names, machine paths, dependencies between crates, and import cycles. In pages, checks
links, the book's table of contents, word counts, and refused phrases.

`tidy.py RULE ..` applies only these rules.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

import imports
import pages

try:
    import yaml
except ImportError:
    yaml = None

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINES_MAX = 800
README_WORDS_MAX = 900
CHANGELOG_LINE_MAX = 120
# Hand-written pages: docs/*.md and four pages of the root.
WORDS_MAX = 30_000
PAGE_WORDS_MAX = 800
# Pages that may be longer.
LONGER_PAGES = {
    "README.md": README_WORDS_MAX,
    "ARCHITECTURE.md": 1000,
    "CONTRIBUTING.md": 1000,
    "docs/method.md": 2250,
    "docs/performance.md": 1150,
}
# Pages whose tables are generated: words of their rows are not counted.
MEASURED_PAGES = {"docs/performance.md", "docs/accuracy.md"}
# phrase that needs a second reading, in upper or lower case -> what to write instead
PHRASES = {
    "is told": "reports, prints, logs, or receives",
    "are told": "report, print, log, or receive",
    "has a request": "matches a request",
    "in force": "active, or takes effect",
    "come to nothing": "fail, time out, are reset",
    "came to nothing": "failed, timed out, was reset",
    "all the same": "still, or identical",
    "whom it": "name the client, process or host",
}
# References that readers cannot follow.
PATTERNS = {
    r"\bMETHOD \d+": "a link to docs/method.md#ANCHOR",
    r"\breport R\d+": "a link to the scenario or page",
}
FORBIDDEN_NAMES = {"common", "utils", "util", "types", "helpers", "misc"}
CYCLE_FILES_MAX = 8
# Crates whose cycles are not measured yet.
CYCLES_UNMEASURED = {"weir-dataplane"}
# crate -> packages that it must not depend on (ARCHITECTURE.md)
MUST_NOT_KNOW = {
    "weir-http": {"tokio", "rustls", "socket2", "rustix", "libc", "mio"},
    "weir-document": {"tokio", "weir-engine", "weir-rig", "weir-lab"},
    "weir-io": {"weir-http", "weir-engine", "weir-dataplane", "weir-origin", "weir-results"},
    "weir-reference": {"tokio", "weir-config", "weir-engine", "weir-lab", "weir-results", "weir-rig"},
    "weir-results": {"tokio", "weir-engine", "weir-rig", "weir-lab", "weir-report", "weir-analysis"},
    "weir-engine": {"weir-rig", "weir-lab", "weir-report", "weir-analysis", "weir-config", "weir-dataplane"},
    "weir-origin": {"weir-engine", "weir-config", "weir-dataplane", "weir-rig", "weir-lab", "weir-report"},
    "weir-config": {"tokio", "weir-dataplane", "weir-engine", "weir-rig", "weir-lab"},
    "weir-dataplane": {"weir-lab", "weir-rig", "weir-engine", "weir-control", "weir-results", "weir-report"},
    "weir-manifests": {"tokio", "rustls", "rustix", "weir-control", "weir-dataplane", "weir-lab", "weir-rig"},
    "weir-kube": {"weir-lab", "weir-rig", "weir-results"},
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
    """Names in the [dependencies] table of a Cargo manifest, without [dev-dependencies]."""
    inside, names = False, set()
    for line in manifest.read_text().splitlines():
        if line.startswith("["):
            inside = line.strip() == "[dependencies]"
        elif inside and (match := re.match(r"([A-Za-z0-9_-]+)", line)):
            names.add(match.group(1))
    return names


def findings():
    """Yields one sentence per violation."""
    for path in tracked("*.rs"):
        name = path.relative_to(ROOT)
        text = path.read_text()
        if text.count("\n") > LINES_MAX:
            yield f"{name}: {text.count(chr(10))} lines, more than {LINES_MAX}: split the file by topic"
        if path.stem in FORBIDDEN_NAMES or path.parent.name in FORBIDDEN_NAMES:
            yield f"{name}: a module named `{path.stem}` has no clear purpose: name it after its topic"
        if path.parent.name == "src" and path.stem in {"lib", "main"} and not text.lstrip().startswith("//!"):
            yield f"{name}: missing `//!` at the top with the purpose of the crate"
    for path in tracked("crates/*/Cargo.toml"):
        crate = path.parent.name
        for wrong in sorted(dependencies(path) & MUST_NOT_KNOW.get(crate, set())):
            yield f"crates/{crate}/Cargo.toml: {crate} must not depend on {wrong} (ARCHITECTURE.md)"
    machine_path = re.compile(r"(?<![\w.])/(?:root|home)/\w")
    for path in tracked("*.rs", "*.md", "*.py", "*.sh", "*.yaml", "*.j2", "Makefile"):
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if machine_path.search(line) and path != pathlib.Path(__file__).resolve():
                yield f"{path.relative_to(ROOT)}:{number}: path of a home folder"


def cycle_findings(crates=ROOT / "crates"):
    """Yields one sentence for each crate with an import cycle of too many files."""
    for source in sorted(crates.glob("*/src")):
        crate = source.parent.name
        cycle = next(iter(imports.cycles(source)), [])
        if crate not in CYCLES_UNMEASURED and len(cycle) > CYCLE_FILES_MAX:
            files = ", ".join(sorted("::".join(module) or "lib" for module in cycle))
            yield f"crates/{crate}: an import cycle of {len(cycle)} files, more than {CYCLE_FILES_MAX}: {files}"


def shown(path):
    return path.relative_to(ROOT).as_posix()


def link_findings():
    """Links of pages to missing files and headings. `summary_findings` checks docs/SUMMARY.md."""
    for page in tracked("*.md"):
        if page == ROOT / "docs/SUMMARY.md":
            continue
        for number, target in pages.links(page.read_text()):
            if wrong := broken(page, target):
                yield f"{shown(page)}:{number}: {wrong}"


def broken(page, target):
    """The error of a page's link, or None."""
    if re.match(r"[a-z][a-z0-9+.-]*:", target):
        return None
    name, _, anchor = target.partition("#")
    file = page.parent / name if name else page
    if not file.exists():
        return f"link to {name}, which does not exist"
    if anchor and file.suffix == ".md" and anchor not in pages.anchors(file):
        return f"link to {target}: {file.name} has no heading or <a id> of that name"
    return None


def reference_findings():
    """References (`docs/PAGE.md#ANCHOR`) to missing pages and anchors, in code, scenarios and dashboards."""
    reference = re.compile(r"(?<![\w./-])docs/[\w/-]+\.md(?:#[\w-]+)?")
    examples = {ROOT / "scripts/tidy.py", ROOT / "scripts/test_tidy.py"}
    for path in tracked("*.rs", "*.py", "*.sh", "*.yaml", "*.toml", "*.html", "*.js", "*.j2", "Makefile"):
        if path in examples:
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            for target in reference.findall(line):
                if wrong := broken(ROOT / "Makefile", target):
                    yield f"{shown(path)}:{number}: {wrong}"


def summary_findings(docs=ROOT / "docs"):
    """docs/SUMMARY.md must list every page of docs/ once, and nothing else."""
    summary = docs / "SUMMARY.md"
    if not summary.exists():
        yield f"{summary}: missing; it lists the pages of the book"
        return
    listed = [target.partition("#")[0] for _, target in pages.links(summary.read_text())]
    there = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")} - {"SUMMARY.md"}
    for page in sorted(there - set(listed)):
        yield f"docs/SUMMARY.md: does not list docs/{page}"
    for page in sorted(set(listed) - there):
        yield f"docs/SUMMARY.md: lists {page}, which docs/ does not have"
    for page in sorted({page for page in listed if listed.count(page) > 1}):
        yield f"docs/SUMMARY.md: lists {page} more than once"


def word_findings():
    """Hand-written pages must not exceed the word limits: per page and in total."""
    root = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")]
    total = 0
    written = [page for page in sorted((ROOT / "docs").glob("*.md")) if page.name != "SUMMARY.md"]
    for page in [*written, *root]:
        name = shown(page)
        words = pages.words(page.read_text(), with_tables=name not in MEASURED_PAGES)
        total += words
        at_most = LONGER_PAGES.get(name, PAGE_WORDS_MAX)
        if words > at_most:
            yield f"{name}: {words} words, more than {at_most}: remove repetitions of other pages, or split the page"
    if total > WORDS_MAX:
        yield f"docs/*.md and the pages of the root: {total:,} words, more than {WORDS_MAX:,}: shorten a page before adding to another"


def changelog_findings():
    for number, line in enumerate((ROOT / "CHANGELOG.md").read_text().splitlines(), 1):
        if len(line) > CHANGELOG_LINE_MAX:
            yield f"CHANGELOG.md:{number}: {len(line)} characters, more than {CHANGELOG_LINE_MAX}: one short line per change"


def target_findings():
    """CONTRIBUTING.md must describe every make target."""
    described = set(re.findall(r"`make ([\w-]+)`", (ROOT / "CONTRIBUTING.md").read_text()))
    for target in re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE):
        if target not in described:
            yield f"CONTRIBUTING.md: does not describe `make {target}`"


def phrases_in(text):
    """Rejected phrases in a text, as (line, phrase, what to write instead)."""
    found, lowered = [], text.lower()
    for phrase, instead in PHRASES.items():
        # A quick check first: the whole-word search is slow, and few texts contain the phrase.
        if phrase in lowered:
            found += [(match, instead) for match in re.finditer(rf"\b{phrase}\b", lowered)]
    for pattern, instead in PATTERNS.items():
        found += [(match, instead) for match in re.finditer(pattern, text)]
    return sorted((lowered.count("\n", 0, match.start()) + 1, match[0], instead) for match, instead in found)


def phrase_findings():
    for path in tracked("*.rs", "*.md", "*.py", "*.sh", "*.yaml"):
        if path == pathlib.Path(__file__).resolve():
            continue
        for number, phrase, instead in phrases_in(path.read_text(errors="replace")):
            yield f'{shown(path)}:{number}: "{phrase}": write {instead}'


def block_findings(docs=ROOT / "docs"):
    """Blocks of JSON and YAML must parse; YAML is checked only if PyYAML is installed."""
    for page in sorted(docs.glob("*.md")):
        for block in pages.split(page.read_text())[1]:
            try:
                if block.language == "json":
                    json.loads(block.text)
                elif block.language == "yaml" and yaml:
                    list(yaml.safe_load_all(block.text))
            except (ValueError, yaml.YAMLError if yaml else ValueError) as error:
                reason = " ".join(str(error).split())
                yield f"docs/{page.name}:{block.line}: this {block.language} does not parse: {reason}"


RULES = {
    "files": findings,
    "cycles": cycle_findings,
    "links": link_findings,
    "references": reference_findings,
    "summary": summary_findings,
    "words": word_findings,
    "changelog": changelog_findings,
    "targets": target_findings,
    "phrases": phrase_findings,
    "blocks": block_findings,
}


def main():
    """Prints every finding. Exit code 1 if there is any."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("rules", nargs="*", metavar="RULE", help=f"some of {', '.join(RULES)}; default: all")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.rules if name not in RULES]:
        parser.error(f"unknown rule: {', '.join(unknown)}; rules: {', '.join(RULES)}")
    found = [finding for name in arguments.rules or RULES for finding in RULES[name]()]
    for finding in found:
        print(finding)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
