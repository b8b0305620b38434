"""The programs of a soak: origins that are killed and restarted, and a gateway whose configuration changes."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import ssl
import sys
import time
from collections import Counter
from pathlib import Path

from processes import Failed
from servers import certify, fetched, free_port

# Different from the clients' address, so that no client takes the port of a killed origin.
ORIGIN_ADDRESS, FURTHER_ADDRESS = "127.0.0.2", "127.0.0.3"
ORIGIN_PROGRAM = Path(__file__).with_name("soak_origin.py")
# Short, so that many clients reach this timeout.
SILENCE_S = 6
WITHIN_S = 30
REST_LOOKS, REST_LOOK_S = 20, 0.15
CERTIFICATES = 4
# Expected log lines of the gateway: how they begin, or what they contain.
WANTED_LINES = ("listening on ", "admin on ", "ready", "reloaded ", "files reloaded: ", "access log reopened")
WANTED_PARTS = (
    "unknown field `nonsense`", "  help: ", "the previous configuration stays active",
    " ejected (`ejection`); errors in a row: ", " is unhealthy; health checks failed in a row: ",
)


class Origin:
    """An origin that can be killed and restarted at the same address: `weir origin` or `soak_origin.py`."""

    def __init__(self, site, name, is_odd):
        self.site, self.name, self.is_odd = site, name, is_odd
        with socket.socket() as probe:
            probe.bind((ORIGIN_ADDRESS, 0))
            self.port = probe.getsockname()[1]
        self.address = f"{ORIGIN_ADDRESS}:{self.port}"
        self.process = None

    async def start(self):
        ours = [self.site.binaries["weir"], "origin", "--listen", self.address, "--body", "64B"]
        odd = [sys.executable, ORIGIN_PROGRAM, ORIGIN_ADDRESS, self.port]
        with open(self.site.work / "logs" / f"{self.name}.log", "ab") as log:
            self.process = self.site.processes.start(odd if self.is_odd else ours, None, log)
        await until(self.listens, f"{self.name} does not listen")

    def listens(self):
        with contextlib.suppress(OSError), socket.create_connection((ORIGIN_ADDRESS, self.port), timeout=1):
            return True
        return False

    def kill(self):
        self.site.processes.kill(self.process)


class Shape:
    """The parts of the configuration that change."""

    def __init__(self, workers=2, churning=(0, 1, 2), odd=(0, 1), has_further_listener=False, mark=0):
        self.workers, self.churning, self.odd = workers, churning, odd
        self.has_further_listener, self.mark = has_further_listener, mark


class AccessLog:
    """Counts the lines of a log by status and cause, while the log is renamed repeatedly."""

    def __init__(self, path):
        self.path = path
        self.lines = Counter()
        self.files = [open(path, "rb")]
        self.rest = [b""]

    def read(self):
        """Reads new lines of the files that the gateway may still write."""
        for number, file in enumerate(self.files):
            *whole, self.rest[number] = (self.rest[number] + file.read()).split(b"\n")
            self.lines.update(whole)

    def renamed(self):
        """Opens the new file after a rename. The renamed file may still get lines; any older file is complete."""
        self.read()
        if len(self.files) > 1:
            self.end(0)
        self.files.append(open(self.path, "rb"))
        self.rest.append(b"")

    def end(self, number):
        if self.rest.pop(number):
            raise Failed(f"the access log ends in the middle of a line; other rests: {self.rest}")
        self.files.pop(number).close()

    def count(self):
        return self.lines.total()

    def causes(self):
        """Number of lines by cause."""
        made = Counter()
        for line, count in self.lines.items():
            cause = line.decode().split(" ")[-1]
            made[cause] += count
        return made


class Site:
    """The gateway and its origins."""

    def __init__(self, processes, binaries, work):
        self.processes, self.binaries, self.work = processes, binaries, work
        self.steady = [Origin(self, f"steady-{number}", False) for number in range(2)]
        self.churning = [Origin(self, f"churning-{number}", False) for number in range(3)]
        self.odd = [Origin(self, f"odd-{number}", True) for number in range(2)]
        self.mortal = [Origin(self, f"mortal-{number}", True) for number in range(2)]
        self.ports = {name: free_port() for name in ("plain", "tls", "further", "admin")}
        # The watched folder must not contain the logs, which change all the time.
        self.folder, logs = work / "etc", work / "logs"
        for folder in (self.folder, logs):
            folder.mkdir()
        self.file, self.live = self.folder / "weir.json", self.folder / "live"
        self.log_path, self.messages = logs / "access.log", logs / "messages"
        self.certificates = []
        self.seen = 0
        self.process = self.access_log = None

    async def start(self):
        for origin in (*self.steady, *self.churning, *self.odd, *self.mortal):
            await origin.start()
        for number in range(CERTIFICATES):
            folder = self.folder / f"certificate-{number}"
            folder.mkdir()
            certify(self.processes, folder)
            self.certificates.append(folder)
        self.link(self.certificates[0])
        self.write(self.configuration(Shape()))
        command = [self.binaries["weir-gateway"], "--config", self.file, "--admin", f"127.0.0.1:{self.ports['admin']}"]
        with open(self.messages, "wb") as log:
            self.process = self.processes.start([*command, "--watch"], None, log)
        await self.said("ready")
        self.access_log = AccessLog(self.log_path)

    def configuration(self, shape):
        """Returns the whole configuration for `shape`."""
        live = {"certificate": str(self.live / "certificate.pem"), "key": str(self.live / "key.pem")}
        listeners = [
            {"address": f"127.0.0.1:{self.ports['plain']}", "name": "plain"},
            {"address": f"127.0.0.1:{self.ports['tls']}", "name": "tls", "tls": live},
        ]
        if shape.has_further_listener:
            listeners.append({"address": f"{FURTHER_ADDRESS}:{self.ports['further']}", "name": "further"})
        again = {"attempts": 2, "on": ["connect", "reset"], "backoff": "5ms"}
        health = {"path": "/churning", "interval": "500ms", "timeout": "2s", "unhealthy": 2}
        return {
            "listeners": listeners,
            "workers": shape.workers,
            "drain": {"delay": "0s"},
            # These timeouts affect silent clients, but not slow ones.
            "timeouts": {
                "head": f"{SILENCE_S}s", "body": f"{SILENCE_S}s", "write": f"{SILENCE_S}s", "idle": "1h", "upstream_idle": "3s",
            },
            "access_log": {"file": str(self.log_path), "format": "$status $cause"},
            "metrics": {"latency": True},
            "forwarding": {"x_forwarded": True, "request_id": "make"},
            "routes": [
                {"path": "/steady", "backend": "steady"},
                {"path": "/churning", "backend": "churning", "retries": again},
                {"path": "/odd", "backend": "odd"},
                {"path": "/mortal", "backend": "mortal", "retries": again},
                {"exact": "/mark", "respond": {"body": str(shape.mark)}},
            ],
            "backends": {
                "steady": {"endpoints": addresses(self.steady)},
                "churning": {
                    "endpoints": addresses(self.churning[number] for number in shape.churning),
                    "balance": "least_requests",
                    "health": health,
                    "ejection": {"time": "1s"},
                    "limits": {"retries": "100%"},
                },
                "odd": {"endpoints": addresses(self.odd[number] for number in shape.odd)},
                "mortal": {"endpoints": addresses(self.mortal), "limits": {"retries": "100%"}},
            },
        }

    def write(self, configuration):
        """Replaces the file atomically."""
        following = self.file.with_suffix(".next")
        following.write_text(json.dumps(configuration))
        following.rename(self.file)

    def link(self, folder):
        """Replaces certificate and key atomically, through a link."""
        following = self.folder / "following"
        following.symlink_to(folder)
        following.rename(self.live)

    async def said(self, *starts):
        """Waits for the gateway's next line that contains one of these texts."""

        def has_come():
            with open(self.messages, "rb") as file:
                file.seek(self.seen)
                for line in file:
                    if not line.endswith(b"\n"):
                        return False
                    self.seen += len(line)
                    if any(start in line.decode() for start in starts):
                        return True
            return False

        await until(has_come, f"the gateway did not log `{starts[0]}`", self)

    def signal(self, number):
        os.kill(self.process.pid, number)

    def stats(self):
        """The gateway's counters."""
        return json.loads(fetched(self.ports["admin"], "/stats")[1])

    def der(self, folder):
        """The certificate in `folder`, in DER as TLS sends it."""
        return ssl.PEM_cert_to_DER_cert((folder / "certificate.pem").read_text())

    def threads_and_descriptors(self):
        process = Path(f"/proc/{self.process.pid}")
        return len(os.listdir(process / "task")), len(os.listdir(process / "fd"))

    async def rest(self):
        """Waits until no connection of clients and upstreams is open. Returns (threads, descriptors)."""

        def is_at_rest():
            stats = self.stats()
            return not stats["connections"]["open"] and not any(stats["upstream"]["open"].values())

        await until(is_at_rest, "connections stay open without clients", self)
        seen = []
        # The minimum of several samples: surplus workers end a moment later, and health checks open connections.
        for _ in range(REST_LOOKS):
            await asyncio.sleep(REST_LOOK_S)
            seen.append(self.threads_and_descriptors())
        return tuple(map(min, zip(*seen)))

    def strange_lines(self):
        """Unexpected log lines of the gateway."""
        return [
            line
            for line in self.messages.read_text(errors="replace").splitlines()
            if not line.startswith(WANTED_LINES) and not any(part in line for part in WANTED_PARTS)
        ]


def addresses(origins):
    return [origin.address for origin in origins]


async def until(condition, otherwise, site=None):
    """Waits until `condition` holds; raises `Failed` with `otherwise` after a generous timeout."""
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        has_ended = site and site.process and site.process.poll() is not None
        if has_ended or time.monotonic() > deadline:
            said = site.messages.read_text(errors="replace")[-2000:] if site else ""
            raise Failed(f"{otherwise}{'; the gateway has ended' if has_ended else ''}\n{said}")
        await asyncio.sleep(0.02)
