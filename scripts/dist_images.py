"""Builds the images of images/ from the files of `make dist`, and runs them: with the engine of this machine, else with
an engine from `make peers`, like tests/it/images.rs."""

import contextlib
import os
import shutil
import subprocess
import time
from pathlib import Path

import peers
from dist_probe import PROGRAMS, Skipped, Wrong, output

ROOT = Path(__file__).resolve().parent.parent
START_S_MAX = 60


def build_and_run(folders, version, scratch):
    with engine(scratch) as docker:
        for program in PROGRAMS:
            name = f"{program}:{version}"
            docker("build", "--quiet", "--file", ROOT / "images" / f"{program}.Dockerfile", "--tag", name, folders / program)
            printed = docker("run", "--rm", "--read-only", "--network", "none", name, "--version").strip()
            if printed != f"{program} {version}":
                raise Wrong(f"the image {name} prints {printed}")
        kind = docker("version", "--format", "{{.Server.Version}}").strip()
    return f"built and run by Docker {kind}"


@contextlib.contextmanager
def engine(scratch):
    """Context manager: yields a function that runs `docker` with its arguments."""
    kept = peers.PEERS / "dockerd/root/usr"
    path = os.pathsep.join([str(kept / "bin"), str(kept / "sbin"), os.environ["PATH"]])

    def docker(*words, host=os.environ.get("DOCKER_HOST", "")):
        environment = {"PATH": path, "DOCKER_BUILDKIT": "0", **({"DOCKER_HOST": host} if host else {})}
        return output(["docker", *words], environment)

    if shutil.which("docker", path=path) is None:
        raise Skipped("docker is missing; `make peers` fetches it")
    if responds(docker):
        yield docker
        return
    if os.geteuid() or shutil.which("dockerd", path=path) is None:
        raise Skipped("no Docker engine responds; only root can start the engine that `make peers` fetches")
    folder = scratch / "docker"
    folder.mkdir()
    host = f"unix://{folder}/socket"
    # The engine leaves mounts behind, so it gets a separate mount namespace.
    command = ["unshare", "--mount", "dockerd", "--bridge=none", "--iptables=false", "--host", host, "--data-root", folder / "data",
               "--exec-root", folder / "exec", "--pidfile", folder / "pid"]
    with (folder / "log").open("w") as log:
        daemon = subprocess.Popen([str(word) for word in command], env={**os.environ, "PATH": path}, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + START_S_MAX
        while not responds(lambda *words: docker(*words, host=host)):
            if daemon.poll() is not None or time.monotonic() > deadline:
                raise Skipped(f"dockerd does not start: {(folder / 'log').read_text()[-500:]}")
            time.sleep(0.5)
        yield lambda *words: docker(*words, host=host)
    finally:
        daemon.terminate()
        daemon.wait()


def responds(docker):
    try:
        docker("info")
        return True
    except (Wrong, OSError):
        return False
