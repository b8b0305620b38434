"""Import cycles between the source files of a crate.

A file imports another file if it names it in a path that starts with `crate` or `super`. A re-exported name is followed
to the file that defines it. Imports between a module and its descendants are ignored, because parents assemble their
children. Unit tests at the end of a file are also ignored.
"""

import re
from pathlib import Path

TESTS = re.compile(r"^#\[cfg\(test\)\]\nmod \w+ \{.*", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"//[^\n]*")
LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
EXPORT = re.compile(r"^pub(?:\([^)]*\))? use ((?:\w+::)*)(\{|\w+)", re.MULTILINE)
PATH = re.compile(r"\b(crate|super(?:::super)*)::((?:\w+::)*)(\{|\w+)")


def modules(source):
    """The files of `source`, a crate's src folder, by their module paths."""
    found = {}
    for path in source.rglob("*.rs"):
        parts = path.relative_to(source).with_suffix("").parts
        if parts[-1] in ("mod", "lib", "main"):
            parts = parts[:-1]
        if parts and parts[-1] == "tests" or "tests" in parts:
            continue
        found[parts] = path
    return found


def branches(text, start):
    """The paths in the braces that open at `start`, as lists of names."""
    paths, prefix, stack, name, at = [], [], [], "", start + 1
    while at < len(text):
        char = text[at]
        if char.isalnum() or char == "_":
            name += char
        elif text.startswith("::", at):
            prefix, name = [*prefix, name], ""
            at += 1
        elif char == "{":
            stack.append(prefix)
        elif char in ",}":
            if name:
                paths.append([*prefix, name])
            name = ""
            if char == "}":
                if not stack:
                    return paths
                stack.pop()
            prefix = list(stack[-1]) if stack else []
        elif name and text.startswith(" as ", at):
            at = min(end for mark in ",}" if (end := text.find(mark, at)) >= 0) - 1
        at += 1
    return paths


def clean(text):
    return LITERAL.sub('""', COMMENT.sub("", TESTS.sub("", text)))


def absolute(own, names):
    """Resolves `names`, a path in the module `own`, to the names from the crate's root."""
    base, rest = own, list(names)
    while rest and rest[0] in ("crate", "self", "super"):
        first = rest.pop(0)
        base = () if first == "crate" else base[:-1] if first == "super" else base
    return (*base, *rest)


def named(own, pattern, text):
    """The paths that `pattern` finds in `text`, from the crate's root."""
    for match in pattern.finditer(text):
        *start, last = match.groups()
        names = [name for part in start for name in part.split("::") if name]
        for rest in branches(text, match.end() - 1) if last == "{" else [[last]]:
            yield absolute(own, [*names, *rest])


def exports(own, text, known):
    """Re-exported names of the module `own`, with their paths."""
    return {path[-1]: path for path in named(own, EXPORT, text) if path[: len(own) + 1] in known or path[:1] in known}


def defined(path, known, exported):
    """The file that defines `path`, or None if the path leaves the crate."""
    for _ in range(10):
        # The longest prefix that is a file. The rest names an item in it.
        length = next(length for length in range(len(path), -1, -1) if path[:length] in known)
        module, rest = path[:length], path[length:]
        target = exported[module].get(rest[0]) if rest else None
        if target is None or target == path:
            return module
        path = (*target, *rest[1:])
    return None


def imports(own, text, known, exported):
    """Yields the modules that the file of the module `own` imports."""
    for path in named(own, PATH, text):
        if (module := defined(path, known, exported)) is not None:
            yield module


def is_family(one, other):
    return one[: len(other)] == other or other[: len(one)] == one


def cycles(source):
    """The sets of files that import each other, largest first, as module paths."""
    known = modules(Path(source))
    texts = {own: clean(path.read_text()) for own, path in known.items()}
    exported = {own: exports(own, text, known) for own, text in texts.items()}
    graph = {own: set() for own in known}
    for own, text in texts.items():
        for other in imports(own, text, known, exported):
            if not is_family(own, other):
                graph[own].add(other)
    return sorted((part for part in components(graph) if len(part) > 1), key=len, reverse=True)


def components(graph):
    """Strongly connected components (Tarjan's algorithm, without recursion)."""
    index, low, on_stack, stack, found = {}, {}, set(), [], []
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(sorted(graph[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, others = work[-1]
            for other in others:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(sorted(graph[other]))))
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    part = []
                    while True:
                        other = stack.pop()
                        on_stack.discard(other)
                        part.append(other)
                        if other == node:
                            break
                    found.append(part)
    return found
