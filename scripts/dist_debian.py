"""Checks Debian packages: lintian, then installation into and removal from a new system in a chroot."""

import contextlib
import os
import platform
import shutil

import peers
from dist_probe import PROGRAMS, Serving, Skipped, Wrong, output

# accepted tag of lintian -> reason
ACCEPTED = {
    "statically-linked-binary": "one program for every distribution",
    "embedded-library": "SQLite, Brotli and others are compiled in",
    "initial-upload-closes-no-bugs": "not uploaded to Debian",
}
# Files that a purge must remove.
OWN = ["etc/weir", "etc/logrotate.d/weir-gateway", "var/log/weir", "usr/bin/weir", "usr/bin/weir-gateway"]
ENABLED = "etc/systemd/system/multi-user.target.wants/weir-gateway.service"


def lint(packages):
    """Fails if lintian finds an error that is not accepted."""
    if not shutil.which("lintian"):
        raise Skipped("lintian is missing; install the package lintian")
    root = ["--allow-root"] if os.geteuid() == 0 else []
    output(["lintian", *root, "--fail-on", "error", "--suppress-tags", ",".join(ACCEPTED), *packages])
    return f"{len(packages)} packages without errors"


def install(packages, version, scratch):
    """Installs the packages in a new system, serves a request there, reinstalls the packages and purges them."""
    if os.geteuid():
        raise Skipped("needs root")
    if not shutil.which("dpkg"):
        raise Skipped("dpkg is not installed")
    root = scratch / "root"
    made = debootstrap(root, scratch)
    if made:
        for package in packages:
            shutil.copy(package, root)
        inside = ["chroot", root]
        dpkg(inside, "--install", *(f"/{package.name}" for package in packages))
        as_installed(root)
        user = ["chroot", "--userspec=weir-gateway:weir-gateway", root]
    else:
        root.mkdir(exist_ok=True)
        for package in packages:
            output(["dpkg-deb", "--extract", package, root])
        inside = user = ["chroot", root]
        (root / "var/log/weir").mkdir(parents=True)
        (root / "tmp").mkdir()
    serve(root, user)
    if not made:
        return "unpacked, serves a request (debootstrap does not work here, so the packages' scripts were not run)"
    # A second installation runs the packages' scripts like an upgrade to the next version.
    dpkg(inside, "--install", *(f"/{package.name}" for package in packages))
    if (root / ENABLED).is_symlink():
        raise Wrong("a second installation enables the service")
    dpkg(inside, "--purge", *PROGRAMS)
    if left := [name for name in OWN if (root / name).exists()]:
        raise Wrong(f"left after a purge: {', '.join(left)}")
    return f"installed in {made}, serves a request, drains, reinstalled and purged"


def serve(root, user):
    configuration = root / "tmp/gateway.yaml"
    shutil.copy(root / "etc/weir/gateway.yaml", configuration)
    configuration.chmod(0o644)
    with Serving([*user, "/usr/bin/weir-gateway"], configuration, "/tmp/gateway.yaml") as asked:
        if (got := asked("/")) != (200, b"weir-gateway works\n"):
            raise Wrong(f"the configuration of the package responds with {got}")
    log = (root / "var/log/weir/access.log").read_text()
    if '"status":200' not in log:
        raise Wrong(f"the access log of the package lacks the request: {log!r}")


def dpkg(inside, *words):
    environment = {"DEBIAN_FRONTEND": "noninteractive", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
    output([*inside, "dpkg", *words], environment)


def as_installed(root):
    """Checks the effects of the packages' scripts."""
    for program in PROGRAMS:
        output(["chroot", root, f"/usr/bin/{program}", "--version"])
    if (root / ENABLED).is_symlink():
        raise Wrong("the installation enables the service")
    users = dict(line.split(":", 1) for line in (root / "etc/passwd").read_text().splitlines())
    groups = {line.split(":")[0]: int(line.split(":")[2]) for line in (root / "etc/group").read_text().splitlines()}
    folder = (root / "etc/weir").stat()
    if "weir-gateway" not in users or (folder.st_mode & 0o7777, folder.st_gid) != (0o750, groups["weir-gateway"]):
        raise Wrong(f"/etc/weir has mode {folder.st_mode & 0o7777:o} and group {folder.st_gid}")
    if not list((root / "usr/share/man/man1").glob("weir-gateway.1*")):
        raise Wrong("the man page is missing")


def debootstrap(root, scratch):
    """Installs a small system of this machine's distribution in `root`. Returns its name, or None on failure."""
    system = platform.freedesktop_os_release()
    codename = system.get("VERSION_CODENAME")
    if not codename:
        return None
    with contextlib.suppress(peers.Failed, OSError):
        site = peers.run(["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages", f"Codename: {codename}"]).split()[0]
        command, environment = ["debootstrap"], {}
        if not shutil.which("debootstrap"):
            # debootstrap is a script that works from any folder.
            for package in peers.Apt.of_machine().download(["debootstrap"], scratch / "debootstrap"):
                peers.run(["dpkg", "-x", package, scratch / "debootstrap"])
            command = [scratch / "debootstrap/usr/sbin/debootstrap"]
            environment = {"DEBOOTSTRAP_DIR": str(scratch / "debootstrap/usr/share/debootstrap")}
        peers.run([*command, "--variant=minbase", "--include=adduser", codename, root, site], environment=environment)
        return f"{system.get('ID')} {codename}"
    shutil.rmtree(root, ignore_errors=True)
    return None
