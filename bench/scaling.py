"""Scaling of weir-gateway by size of the configuration and number of workers."""

import json
import os
import signal
import socket
import statistics
import time

from comparisons import DISTURBED, Bench, Comparison, are_disturbed
from gates import Gate, Table, Verdict, spread
from loads import Shape, weir
from processes import Failed
from servers import fetched, free_port, written

# Routes have one host and one exact path each. Names have equal lengths, so that requests have equal sizes.
FIRST_HOST, FIRST_PATH = 1_000, 100
ROUTES = {"100,000 routes": (1_000, 100), "1,000 routes": (10, 100), "1 route": (1, 1)}
ROUTES_GATE = Gate(1.05)
# Tables in which one route changes: (hosts, paths per host).
TABLES = {"1,000 hosts x 100 paths": (1_000, 100), "100,000 hosts": (100_000, 1)}
CHANGES, CHANGES_QUICK = 30, 5
CHANGE_MS, FILE_S = Gate(10), Gate(None, 0.5)
CHANGED_WITHIN_S = 120
WORKERS_GATE, SPREAD_GATE = Gate(1.05), Gate(1.25)
CONNECTIONS_A_WORKER = 32
SPREAD_CONNECTIONS = (32, 256)
SPREAD_TRIALS = 10


class Scaling(Bench):
    """Makes the measurements one after another."""

    def all(self):
        yield from self.routes()
        yield self.changes()
        yield self.files()
        yield from self.workers()
        yield self.spread()

    def routes(self):
        """CPU time per request by size of the table. All routes are requested equally often."""
        origin = self.servers.nginx_origin(self.load_cpu)

        def candidate(hosts, paths):
            server = self.gateway(self.server_cpu, routes_json(hosts, paths), origin)
            names = [word for host in range(hosts) for word in ("--domain", host_name(host))]
            last = FIRST_PATH + paths - 1
            path = f"/p{{{FIRST_PATH}..{last}}}" if paths > 1 else f"/p{FIRST_PATH}"
            return self.served(server, self.asked(Shape(32), server, path, names))

        candidates = {name: candidate(*size) for name, size in ROUTES.items()}
        note = "each route has one host and one exact path. All routes get equally many requests, over 32 keep-alive connections"
        gates = {name: ROUTES_GATE for name in ROUTES if name != "1 route"}
        yield Comparison("CPU time by number of routes", note, candidates, gates, reference="1 route")

    def changes(self):
        """Time from the arrival of a change at the table builder until clients see it in responses of every worker."""
        lines = ["### Time until every worker uses a change", ""]
        note = "One of 100,000 routes is changed, added or removed. Two workers serve clients. Times start at the change. "
        note += "They end when the new table is *built*, when it is *handed over* to the workers, and when clients of all "
        lines += [f"{note}workers have received a response based on it (*in use*).", ""]
        lines += ["| table | step | ms, median | lowest | highest |", "|---|---|---|---|---|"]
        verdicts, shares = [], []
        for name, (hosts, paths) in TABLES.items():
            rows, share = self.watched(lambda: self.change_times(hosts, paths))
            shares.append(share)
            for step, field in (("built", "built_ns"), ("handed over", "handed_over_ns"), ("in use", "in_use_ns")):
                times_ms = [row[field] / 1e6 for row in rows]
                lines.append(f"| {name} | {step} | {spread(times_ms)} |")
            verdicts.append(Verdict(f"time until a change is in use, {name}", statistics.median(times_ms), CHANGE_MS, " ms"))
        lines += ["", DISTURBED] if are_disturbed(shares) else []
        return Table(lines, verdicts)

    def change_times(self, hosts, paths):
        count = CHANGES_QUICK if self.is_quick else CHANGES
        # Runs on all CPUs, because the program builds tables in a separate thread.
        log = self.work / "changes.log"
        print(f"Changes in a table of {hosts:,} x {paths}:", flush=True)
        done = self.processes.run([self.binaries["changes"], hosts, paths, 2, count], None, log, CHANGED_WITHIN_S + count)
        rows = [json.loads(line) for line in done.output.splitlines()]
        if done.code != 0 or len(rows) != count:
            raise Failed(f"{len(rows)} of {count} changes took effect:\n{done.said()}")
        return rows

    def files(self):
        """Time from SIGHUP to the first response based on the changed file, which has 100,000 routes."""
        origin = self.servers.nginx_origin(self.load_cpu)
        lines = ["### Reload of a file with 100,000 routes", ""]
        lines += ["Time from SIGHUP to the first response based on the changed file. One worker.", ""]
        lines += ["| file | MB | s, median | lowest | highest |", "|---|---|---|---|---|"]
        verdicts, shares = [], []
        for form, of_form in (("YAML", routes_yaml), ("JSON", routes_json)):
            server = self.gateway(self.server_cpu, of_form(*ROUTES["100,000 routes"]), origin)
            file = server.folder / "weir.conf"
            times_s, share = self.watched(lambda: self.reloads(server, file))
            shares.append(share)
            lines.append(f"| {form} | {file.stat().st_size / 1e6:.1f} | {spread(times_s)} |")
            print(f"  {lines[-1]}", flush=True)
            verdicts.append(Verdict(f"reload of a {form} file with 100,000 routes", statistics.median(times_s), FILE_S, " s"))
            self.processes.end(server.process)
        lines += ["", DISTURBED] if are_disturbed(shares) else []
        return Table(lines, verdicts)

    def reloads(self, server, file):
        return [self.reload(server, file, str(number)) for number in range(1, self.rounds + 1)]

    def reload(self, server, file, mark):
        """Seconds from the signal to the first response with the mark of the changed file."""
        text = file.read_text()
        _, former = fetched(server.port, "/mark")
        changed = text.replace(former.decode(), f"mark {mark:>4}")
        if changed == text:
            raise Failed(f"the file does not contain the gateway's response `{former.decode()}`")
        file.write_text(changed)
        began_s = time.monotonic()
        os.kill(server.process.pid, signal.SIGHUP)
        while fetched(server.port, "/mark")[1] == former:
            if server.process.poll() is not None or time.monotonic() - began_s > CHANGED_WITHIN_S:
                raise Failed(f"the changed file did not take effect:\n{(server.folder / 'log').read_text()}")
            time.sleep(0.002)
        return time.monotonic() - began_s

    def workers(self):
        """CPU time per request with two workers and with one, with equally many connections per worker."""
        origin = self.servers.nginx_origin(self.load_cpu)
        # With at least four CPUs, two are reserved for the gateway; with fewer, all programs share all CPUs.
        cpus = sorted(os.sched_getaffinity(0))
        own = cpus[:2] if len(cpus) >= 4 else cpus

        def candidate(count):
            server = self.gateway(set(own), routes_json(1, 1), origin, workers=count)
            shape = Shape(CONNECTIONS_A_WORKER * count)
            return self.served(server, self.asked(shape, server, f"/p{FIRST_PATH}", ["--domain", host_name(0)]))

        candidates = {"two workers": candidate(2), "one worker": candidate(1)}
        place = "its own CPUs" if len(cpus) >= 4 else "all CPUs, which it shares with load and origin"
        note = f"{CONNECTIONS_A_WORKER} keep-alive connections per worker, closed loop. The gateway runs on {place}"
        yield Comparison("CPU time by number of workers", note, candidates, {"two workers": WORKERS_GATE}, reference="one worker")

    def spread(self):
        """The number of connections per worker: maximum / mean of two workers."""
        origin = self.servers.nginx_origin(self.load_cpu)
        admin = free_port()
        server = self.gateway(None, routes_json(1, 1), origin, workers=2, admin=admin)
        note = f"Connections per worker: maximum divided by the mean of both workers, in {SPREAD_TRIALS} trials."
        lines = ["### Connections of two workers", "", note, ""]
        lines += ["| connections | median | lowest | highest |", "|---|---|---|---|"]
        verdicts = []
        for connections in SPREAD_CONNECTIONS:
            shares = [fullest_share(server.port, admin, connections) for _ in range(SPREAD_TRIALS)]
            lines.append(f"| {connections} | {spread(shares)} |")
            print(f"  {lines[-1]}", flush=True)
            title = f"connections per worker, maximum / mean of two workers: {connections} connections"
            verdicts.append(Verdict(title, max(shares), SPREAD_GATE))
        return Table(lines, verdicts)

    def asked(self, shape, server, path, names):
        """A function that runs `weir load` on a gateway. `names` are `--domain` options."""
        return lambda seconds: weir(self.site, shape, shape.url(server.port, path), seconds, more=names)

    def gateway(self, cpu, routes, origin, workers=1, admin=None):
        """weir-gateway with these routes, `/mark` for readiness, and the origin as backend."""

        def command(folder, port):
            text = routes.replace("PORT_OF_ORIGIN", str(origin.port)).replace("PORT", str(port))
            file = written(folder, "weir.conf", text.replace("WORKERS", str(workers)))
            options = ["--admin", f"127.0.0.1:{admin}"] if admin else []
            return [self.binaries["weir-gateway"], "--config", file, *options]

        return self.servers.start("weir-gateway", cpu, command, body_bytes=len("mark    0"), path="/mark")


def host_name(number):
    return f"h{FIRST_HOST + number:06}.test"


def routes_of(hosts, paths):
    """The routes of a table, and the route `/mark`, whose response identifies the file."""
    mark = {"hosts": ["127.0.0.1"], "exact": "/mark", "respond": {"body": "mark    0"}}

    def of_host(host, path):
        return {"hosts": [host_name(host)], "exact": f"/p{FIRST_PATH + path}", "backend": "origin"}

    return [mark, *(of_host(host, path) for host in range(hosts) for path in range(paths))]


def routes_json(hosts, paths):
    return json.dumps({**others("WORKERS"), "routes": routes_of(hosts, paths)}).replace('"WORKERS"', "WORKERS")


def routes_yaml(hosts, paths):
    """YAML as a person writes it: one line per route."""
    rest = "".join(f"{name}: {json.dumps(value)}\n" for name, value in others("WORKERS").items())
    rows = (json.dumps(route).replace('"', "'") for route in routes_of(hosts, paths))
    return rest.replace('"WORKERS"', "WORKERS") + "routes:\n" + "".join(f"  - {row}\n" for row in rows)


def others(workers):
    """The configuration without routes, with placeholders for later values."""
    return {
        "listeners": [{"address": "127.0.0.1:PORT"}],
        "workers": workers,
        "drain": {"delay": "0s"},
        "backends": {"origin": {"endpoints": ["127.0.0.1:PORT_OF_ORIGIN"]}},
    }


def fullest_share(port, admin, connections):
    """Opens connections. Returns the maximum number of connections per worker, divided by the mean."""
    clients = [socket.create_connection(("127.0.0.1", port), timeout=5) for _ in range(connections)]
    try:
        return max(wait_for(admin, connections)) / (connections / 2)
    finally:
        for client in clients:
            client.close()
        wait_for(admin, 0)


def wait_for(admin, connections):
    """Waits until all connections are open. Returns the number per worker."""
    deadline = time.monotonic() + CHANGED_WITHIN_S
    while time.monotonic() < deadline:
        _, stats = fetched(admin, "/stats")
        each = [worker["connections_open"] for worker in json.loads(stats)["workers"]]
        if sum(each) == connections:
            return each
        time.sleep(0.01)
    raise Failed(f"the workers have {each} connections, expected {connections} in total")
