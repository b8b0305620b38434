"""A substitute for a container: a control group, and an exporter that serves its accounting as cAdvisor metrics."""

import bisect
import http.server
import math
import os
import re
import signal
import threading
import time
from pathlib import Path

from processes import Failed
from servers import fetched, free_port

GROUPS = Path("/sys/fs/cgroup")
PERIOD_US = 100_000
CONTROLLERS_V1 = ("cpu", "cpuacct", "memory")
LABELS = 'namespace="shop",pod="gw-1",container="gateway"'
LOOK_EVERY_S = 0.02
# Scrapes that are needed to derive the scrape interval.
SCRAPES_FIRST = 3


class Container:
    """A control group with a CPU quota. Its processes are killed at the end of the context."""

    def __init__(self, cpus):
        self.is_v2 = (GROUPS / "cgroup.controllers").exists()
        name = f"weir-acceptance-{os.getpid()}"
        self.folders = [GROUPS / name] if self.is_v2 else [GROUPS / controller / name for controller in CONTROLLERS_V1]
        self.quota_us = int(cpus * PERIOD_US)

    def __enter__(self):
        try:
            for folder in self.folders:
                folder.mkdir(exist_ok=True)
            if self.is_v2:
                self.file("cpu.max").write_text(f"{self.quota_us} {PERIOD_US}")
            else:
                self.file("cpu.cfs_period_us").write_text(str(PERIOD_US))
                self.file("cpu.cfs_quota_us").write_text(str(self.quota_us))
        except OSError as error:
            raise Failed(f"cannot create a control group with a CPU quota: {error}; run as root") from error
        return self

    def __exit__(self, *_):
        while pids := self.file("cgroup.procs").read_text().split():
            for pid in map(int, pids):
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        for folder in self.folders:
            folder.rmdir()

    def file(self, name):
        return next(folder / name for folder in self.folders if (folder / name).exists())

    def entered(self, command):
        """A command that runs `command` in the group."""
        enter = "; ".join(f"echo $$ > {folder}/cgroup.procs" for folder in self.folders)
        return ["sh", "-c", f'{enter}; exec "$@"', "sh", *command]

    def cpu_s(self):
        """CPU time since the group was created, by the kernel's accounting."""
        if self.is_v2:
            return int(keyed(self.file("cpu.stat"))["usage_usec"]) / 1e6
        return int(self.file("cpuacct.usage").read_text()) / 1e9

    def page(self):
        """The kernel's accounting as metrics of cAdvisor."""
        stat, memory = keyed(self.file("cpu.stat")), keyed(self.file("memory.stat"))
        if self.is_v2:
            throttled_s = int(stat["throttled_usec"]) / 1e6
            used, inactive = int(self.file("memory.current").read_text()), int(memory["inactive_file"])
        else:
            throttled_s = int(stat["throttled_time"]) / 1e9
            used, inactive = int(self.file("memory.usage_in_bytes").read_text()), int(memory["total_inactive_file"])
        figures = {
            "container_cpu_usage_seconds_total": self.cpu_s(),
            "container_cpu_cfs_periods_total": stat["nr_periods"],
            "container_cpu_cfs_throttled_periods_total": stat["nr_throttled"],
            "container_cpu_cfs_throttled_seconds_total": throttled_s,
            "container_memory_working_set_bytes": max(0, used - inactive),
            "container_spec_cpu_quota": self.quota_us,
            "container_spec_cpu_period": PERIOD_US,
        }
        return "".join(f"{name}{{{LABELS}}} {value}\n" for name, value in figures.items())


def keyed(path):
    """Reads a file of `name number` lines."""
    return dict(line.split() for line in path.read_text().splitlines())


class Watch:
    """Samples the container's CPU time every 20 ms, for the CPU time between two times of the monotonic clock."""

    def __init__(self, container):
        self.container, self.ended, self.looks = container, threading.Event(), []
        self.thread = threading.Thread(target=self.look, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

    def look(self):
        while not self.ended.wait(LOOK_EVERY_S):
            before_ns, cpu_s = time.monotonic_ns(), self.container.cpu_s()
            self.looks.append(((before_ns + time.monotonic_ns()) / 2, cpu_s))

    def used_s(self, from_ns, to_ns):
        return self.at(to_ns) - self.at(from_ns)

    def at(self, moment_ns):
        place = bisect.bisect_right(self.looks, (moment_ns, math.inf))
        (before_ns, before_s), (after_ns, after_s) = self.looks[place - 1], self.looks[place]
        return before_s + (after_s - before_s) * (moment_ns - before_ns) / (after_ns - before_ns)


class Exporter:
    """Serves a container's page on loopback."""

    def __init__(self, container):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                page = container.page().encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(page)))
                self.end_headers()
                self.wfile.write(page)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def prometheus(rig, exporter, every):
    """Starts a Prometheus that scrapes the exporter, and waits for the first scrapes. Returns its URL."""
    folder, port = rig.folder / "prometheus", free_port()
    folder.mkdir(exist_ok=True)
    config = folder / "prometheus.yml"
    target = f"- {{ job_name: kubelet, static_configs: [{{ targets: ['127.0.0.1:{exporter.port}'] }}] }}"
    config.write_text(f"global: {{ scrape_interval: {every} }}\nscrape_configs:\n  {target}\n")
    options = {"config.file": config, "storage.tsdb.path": folder / f"data-{port}", "web.listen-address": f"127.0.0.1:{port}"}
    command = [rig.binaries["prometheus"], *(f"--{name}={value}" for name, value in options.items()), "--log.level=error"]
    with open(folder / "log", "wb") as log:
        process = rig.processes.start(command, None, log)
    deadline = time.monotonic() + 60
    while scrapes(port) < SCRAPES_FIRST:
        if process.poll() is not None or time.monotonic() > deadline:
            raise Failed(f"Prometheus scrapes nothing:\n{(folder / 'log').read_text(errors='replace')}")
        time.sleep(0.1)
    return f"http://127.0.0.1:{port}"


def scrapes(port):
    try:
        _, body = fetched(port, "/api/v1/query?query=count_over_time(container_cpu_usage_seconds_total%5B1m%5D)")
    except OSError:
        return 0
    found = re.search(rb'"value":\[[^,]*,"(\d+)"\]', body)
    return int(found[1]) if found else 0
