"""Writes an image with one layer as a tar archive in OCI layout, for `ctr images import`."""

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
USER = 65532
ACCOUNTS = {
    "/etc/passwd": f"root:x:0:0:root:/:/sbin/nologin\nnonroot:x:{USER}:{USER}:nonroot:/:/sbin/nologin\n".encode(),
    "/etc/group": f"root:x:0:\nnonroot:x:{USER}:\n".encode(),
}
PATH = "/usr/local/bin:/usr/bin:/bin"


def full_name(name):
    """The full name of an image: Kubernetes expands short names, and containerd stores only full names."""
    first, slash, _ = name.partition("/")
    if slash and ("." in first or ":" in first):
        return name
    return f"docker.io/{name}" if slash else f"docker.io/library/{name}"


def write(out, name, program, files):
    """Writes the image `name` to `out`. `files` maps paths in the image to files; `program` is the path to start."""
    layer_file = out.with_suffix(".layer")
    try:
        with tarfile.open(layer_file, "w", format=tarfile.GNU_FORMAT) as layer:
            fill(layer, ACCOUNTS | files)
        with layer_file.open("rb") as opened:
            layer_digest = hashlib.file_digest(opened, "sha256").hexdigest()
        write_layout(out, name, program, layer_file, layer_digest)
    finally:
        layer_file.unlink(missing_ok=True)


def fill(layer, files):
    """Adds the files, their parent folders, and a world-writable /tmp."""
    folders = {str(folder) for path in files for folder in Path(path).parents}
    for folder in sorted(folders - {"/", "/tmp"}):
        add_folder(layer, folder, 0o755)
    add_folder(layer, "/tmp", 0o1777)
    for path, source in files.items():
        content, mode = (source, 0o644) if isinstance(source, bytes) else (source.read_bytes(), source.stat().st_mode)
        add(layer, path, content, 0o755 if mode & 0o100 else 0o644)


def write_layout(out, name, program, layer_file, layer_digest):
    config = encoded({
        "architecture": ARCHITECTURE,
        "os": "linux",
        "config": {"User": f"{USER}:{USER}", "Entrypoint": [program], "Env": [f"PATH={PATH}"], "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_digest}"]},
    })
    layer = {"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": f"sha256:{layer_digest}",
             "size": layer_file.stat().st_size}
    manifest = encoded({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": described("application/vnd.oci.image.config.v1+json", config),
        "layers": [layer],
    })
    named = described("application/vnd.oci.image.manifest.v1+json", manifest)
    named["annotations"] = {"io.containerd.image.name": full_name(name), "org.opencontainers.image.ref.name": name}
    partial = out.with_suffix(".partial")
    with tarfile.open(partial, "w", format=tarfile.GNU_FORMAT) as layout:
        add(layout, "oci-layout", encoded({"imageLayoutVersion": "1.0.0"}))
        add(layout, "index.json", encoded({"schemaVersion": 2, "manifests": [named]}))
        for content in (config, manifest):
            add(layout, f"blobs/sha256/{digest(content)}", content)
        entry = tarfile.TarInfo(f"blobs/sha256/{layer_digest}")
        entry.size = layer["size"]
        with layer_file.open("rb") as opened:
            layout.addfile(entry, opened)
    partial.rename(out)


def described(media_type, content):
    return {"mediaType": media_type, "digest": f"sha256:{digest(content)}", "size": len(content)}


def digest(content):
    return hashlib.sha256(content).hexdigest()


def encoded(document):
    return json.dumps(document).encode()


def add(archive, path, content, mode=0o644):
    entry = tarfile.TarInfo(path.lstrip("/"))
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def add_folder(archive, path, mode):
    entry = tarfile.TarInfo(path.lstrip("/"))
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    archive.addfile(entry)
