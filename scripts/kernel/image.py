"""The initramfs of a guest: a cpio archive in the kernel's `newc` format, made from files of this machine."""

import os
import re
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

ALIGNMENT = 4
HEADER_BYTES = 110


class Image:
    """Files by their path in the guest. Parent folders are added as needed."""

    def __init__(self):
        self.entries = {}

    def folder(self, path):
        for above in [*reversed(Path(path).parents), Path(path)]:
            if str(above) != "/":
                self.entries.setdefault(str(above), (stat.S_IFDIR | 0o755, b"", 0))

    def text(self, path, text, mode=0o644):
        self._put(path, stat.S_IFREG | mode, text.encode())

    def file(self, path, source):
        mode = 0o755 if os.access(source, os.X_OK) else 0o644
        self._put(path, stat.S_IFREG | mode, Path(source).read_bytes())

    def device(self, path, major, minor):
        self._put(path, stat.S_IFCHR | 0o600, b"", (major, minor))

    def program(self, path, source, root=None):
        """Adds a program and its libraries. Libraries below `root` get their path relative to `root`."""
        self._put(path, stat.S_IFREG | 0o755, without_debug_information(source))
        for library in libraries(source, root):
            inside = library.is_relative_to(root) if root else False
            self.file(f"/{library.relative_to(root)}" if inside else library, library)

    def write(self, path):
        with open(path, "wb") as archive:
            for number, (name, (mode, content, device)) in enumerate(self.entries.items(), 1):
                write_entry(archive, number, name.lstrip("/"), mode, content, device)
            write_entry(archive, 0, "TRAILER!!!", 0, b"", 0)

    def _put(self, path, mode, content, device=0):
        self.folder(Path(path).parent)
        self.entries[str(path)] = (mode, content, device)


def write_entry(archive, number, name, mode, content, device):
    major, minor = device or (0, 0)
    named = name.encode() + b"\0"
    fields = [number, mode, 0, 0, 1, 0, len(content), 0, 0, major, minor, len(named), 0]
    archive.write(b"070701" + b"".join(b"%08X" % field for field in fields))
    archive.write(named + padding(HEADER_BYTES + len(named)))
    archive.write(content + padding(len(content)))


def padding(length):
    return b"\0" * (-length % ALIGNMENT)


def without_debug_information(source):
    """The program without debug information, which is most of a debug build and would fill the guest's memory."""
    if not shutil.which("strip"):
        return Path(source).read_bytes()
    with tempfile.NamedTemporaryFile() as stripped:
        subprocess.run(["strip", "--strip-debug", "-o", stripped.name, source], check=True)
        return Path(stripped.name).read_bytes()


def libraries(program, root=None):
    """The libraries that `program` loads on this machine, those below `root` first."""
    environment = dict(os.environ)
    if root:
        folders = sorted({str(path.parent) for path in Path(root).rglob("*.so*")})
        environment["LD_LIBRARY_PATH"] = ":".join(folders)
    done = subprocess.run(["ldd", str(program)], capture_output=True, text=True, env=environment)
    if "not a dynamic executable" in done.stderr or "statically linked" in done.stdout:
        return []
    found = re.findall(r"(/\S+) \(0x", done.stdout)
    if done.returncode != 0 or not found or "not found" in done.stdout:
        raise RuntimeError(f"ldd cannot list the libraries of {program}: {done.stdout}{done.stderr}")
    return [Path(path) for path in found]
