"""Reads Markdown pages: headings with their anchors, links, fenced blocks, words."""

import functools
import re
from dataclasses import dataclass

FENCE = re.compile(r"^\s*(```+|~~~+)\s*([\w-]*)")
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?[^)]*\)")
IMAGE_TAG = re.compile(r"""<img\s[^>]*\bsrc=["']([^"']+)["']""")
EXPLICIT = re.compile(r"""<\w+\s[^>]*\b(?:id|name)=["']([^"']+)["']""")
CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")


@dataclass(frozen=True)
class Block:
    """A fenced block: number of its first line, language, text."""

    line: int
    language: str
    text: str


def split(text):
    """Returns lines outside fenced blocks, each as (number, line), and the blocks."""
    lines, blocks = [], []
    fence, language, start, inside = None, "", 0, []
    for number, line in enumerate(text.splitlines(), 1):
        opened = FENCE.match(line)
        if fence is None and opened:
            fence, language, start, inside = opened[1], opened[2], number + 1, []
        elif fence is None:
            lines.append((number, line))
        elif opened and opened[1].startswith(fence) and not line.strip().strip(fence[0]):
            blocks.append(Block(start, language, "\n".join(inside) + "\n"))
            fence = None
        else:
            inside.append(line)
    return lines, blocks


def slug(heading):
    """The anchor that GitHub and mdBook give a heading."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    text = re.sub(r"<[^>]+>", "", text) if "`" not in text else text
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def anchors_of(text):
    """All anchors of a page: slugs of headings, with a number if repeated, and explicit anchors."""
    found, seen = set(), {}
    lines, _ = split(text)
    for _, line in lines:
        found.update(EXPLICIT.findall(CODE.sub("", line)))
        if heading := re.match(r" {0,3}#{1,6}\s+(.*?)\s*#*\s*$", line):
            name = slug(heading[1])
            number = seen[name] = seen.get(name, -1) + 1
            found.add(f"{name}-{number}" if number else name)
    return found


@functools.cache
def anchors(path):
    """`anchors_of` a file."""
    return anchors_of(path.read_text())


def links(text):
    """Links and images outside code, as (line number, target)."""
    for number, line in split(text)[0]:
        bare = CODE.sub("", line)
        for target in [*LINK.findall(bare), *IMAGE_TAG.findall(bare)]:
            yield number, target


def words(text, with_tables=True):
    """Words as `wc -w` counts them."""
    lines = text.splitlines()
    return sum(len(line.split()) for line in lines if with_tables or not line.lstrip().startswith("|"))
