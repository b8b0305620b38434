"""Helpers for checks of a release: outcomes, commands, a running gateway."""

import os
import re
import signal
import socket
import subprocess
import time
import urllib.request

PROGRAMS = ["weir", "weir-gateway"]
START_S_MAX = 20


class Wrong(Exception):
    """An error in a file of the release."""


class Skipped(Exception):
    """The reason why a check cannot run on this machine."""


def output(command, environment=None):
    """Standard output of a command. Raises `Wrong` if it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, env={**os.environ, **(environment or {})}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Wrong(f"`{' '.join(words)}` exits with {done.returncode}: {(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout


def free_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


class Serving:
    """A gateway that serves a configuration on a free port, and drains at the end of the context."""

    def __init__(self, gateway, configuration, path=None):
        """`path`: the path of `configuration` in the gateway's chroot, if there is one."""
        self.port = free_port()
        configuration.write_text(re.sub(r"127\.0\.0\.1:8080", f"127.0.0.1:{self.port}", configuration.read_text()))
        command = [*gateway, "--config", path or configuration]
        self.process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def __enter__(self):
        deadline = time.monotonic() + START_S_MAX
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self.ask
            except OSError:
                time.sleep(0.1)
        self.process.kill()
        raise Wrong(f"weir-gateway does not start: {self.process.communicate()[0]}")

    def ask(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as response:
            return response.status, response.read()

    def __exit__(self, kind, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            printed, _ = self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise Wrong("weir-gateway does not stop within 60 s after SIGTERM") from None
        if self.process.returncode and kind is None:
            raise Wrong(f"weir-gateway exits with {self.process.returncode} after SIGTERM: {printed}")
