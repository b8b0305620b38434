#!/usr/bin/env python3
"""A preprocessor for mdBook. `--check FOLDER` checks links and resources of the pages that mdBook has built.

The book contains only docs/. The preprocessor adds ARCHITECTURE.md and CHANGELOG.md as pages, adapts links to them, and
turns other links that leave docs/ into plain text.
"""

import functools
import json
import posixpath
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pages

ROOT = Path(__file__).resolve().parent.parent
# page of the book -> file in the repository's root that holds its text
ROOT_PAGES = {"architecture.md": "ARCHITECTURE.md", "changelog.md": "CHANGELOG.md"}
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def rewritten(text, source, page):
    """The text of `source` with links that work in the book at `page`. Both are paths from the repository's root."""
    there, here = posixpath.dirname(source), posixpath.dirname(page)

    def replace(match):
        image, label, target = match.groups()
        name, hash_sign, anchor = target.partition("#")
        if not name or re.match(r"[a-z][a-z0-9+.-]*:", name):
            return match[0]
        path = posixpath.normpath(posixpath.join(there, name))
        path = next((f"docs/{shown}" for shown, root in ROOT_PAGES.items() if root == path), path)
        # The book has no pages for folders.
        if not path.startswith("docs/") or not posixpath.splitext(path)[1]:
            return label
        return f"{image}[{label}]({posixpath.relpath(path, here)}{hash_sign}{anchor})"

    lines = text.split("\n")
    for number, line in pages.split(text)[0]:
        # Code is masked: it may contain text that looks like a link, and a link may contain code.
        code = []
        masked = pages.CODE.sub(lambda span: code.append(span[0]) or f"\0{len(code) - 1}\0", line)
        masked = LINK.sub(replace, masked)
        lines[number - 1] = re.sub(r"\0(\d+)\0", lambda span: code[int(span[1])], masked)
    return "\n".join(lines)


def chapters(items):
    for item in items:
        if isinstance(item, dict) and "Chapter" in item:
            yield item["Chapter"]
            yield from chapters(item["Chapter"]["sub_items"])


def preprocess(book):
    for chapter in chapters(book["items"]):
        if not chapter["path"]:
            continue
        page = f"docs/{chapter['path']}"
        source = ROOT_PAGES.get(chapter["path"], page)
        text = chapter["content"] if source == page else (ROOT / source).read_text()
        chapter["content"] = rewritten(text, source, page)
    return book


class Page(HTMLParser):
    """Links, anchors and loaded resources of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors, self.loaded = [], set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.anchors.update(value for name in ("id", "name") if (value := values.get(name)))
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        elif tag in ("img", "script", "link", "iframe"):
            self.loaded += [value for name in ("src", "href") if (value := values.get(name))]


@functools.cache
def built(path):
    return Page(path.read_text())


def wrong_in(folder):
    """Yields broken links of the built pages, and resources that they load from other sites."""
    for path in sorted(folder.rglob("*.html")):
        # print.html repeats all pages; the links of 404.html and toc.html are relative to another folder.
        if path.name in ("print.html", "404.html", "toc.html"):
            continue
        page, name = built(path), path.relative_to(folder)
        for target in [*page.links, *page.loaded]:
            if "://" in target or target.startswith("//"):
                if target in page.loaded:
                    yield f"{name}: loads {target}"
                continue
            if re.match(r"[a-z]+:", target):
                continue
            file, _, anchor = target.partition("#")
            there = path.parent / unquote(file) if file else path
            if not there.exists():
                yield f"{name}: link to {target}, which the book does not have"
            elif anchor and there.suffix == ".html" and unquote(anchor) not in built(there.resolve()).anchors:
                yield f"{name}: link to {target}, which has no such anchor"


def main():
    if sys.argv[1:2] == ["supports"]:
        return 0
    if sys.argv[1:2] == ["--check"]:
        found = list(wrong_in(Path(sys.argv[2]).resolve()))
        for finding in found:
            print(finding)
        return 1 if found else 0
    _, book = json.load(sys.stdin)
    json.dump(preprocess(book), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
