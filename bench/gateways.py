"""weir-gateway compared with nginx, HAProxy and Envoy: kept connections, large bodies, latency, idle connections."""

import json
import time
from pathlib import Path

import configurations
from comparisons import Bench, Comparison, Figure
from gates import Gate, Table, Verdict
from hosts import HostWatch
from loads import Shape, weir
from processes import Failed, descendants, memory_bytes, tree_cpu_s
from servers import certify, written

GATEWAYS = ["weir-gateway", "nginx", "haproxy", "haproxy tcp", "envoy"]
BODY_BYTES = 1_000_000
COMMON_RATE_PER_S = 10_000
# Several clients open the connections, one client after another, because accept queues are limited.
IDLE_CONNECTIONS, IDLE_CONNECTIONS_QUICK, IDLE_CLIENTS = 10_000, 1_000, 4
IDLE_BYTES = Gate(20 * 1024, 14 * 1024)
# Timeout for opening the idle connections, and maximum CPU share of an idle server.
IDLE_WITHIN_S, IDLE_CPU_SHARE = 180, 0.05


class Gateways(Bench):
    """Compares gateways with one route."""

    def kept(self):
        yield self.compare_kept(32)

    def kept_256(self):
        yield self.compare_kept(256)

    def compare_kept(self, connections):
        origin = self.servers.nginx_origin(self.load_cpu)
        servers = {name: self.servers.gateway(name, self.server_cpu, origin) for name in GATEWAYS}
        note = "keep-alive on both sides, no access log. *haproxy tcp* is HAProxy as a TCP relay. wrk sends the load"
        gates = {"nginx": Gate(0.9, 0.85), "haproxy tcp": Gate(1.15, 1.05)}
        return self.compare_servers(f"Gateway, {connections} connections", note, servers, gates, connections)

    def bodies(self):
        """CPU time per megabyte of response bodies. HAProxy is not configured to splice."""
        origin = self.servers.nginx_large(self.load_cpu, BODY_BYTES)
        servers = {
            name: self.servers.gateway(name, self.server_cpu, origin, body_bytes=BODY_BYTES)
            for name in ("weir-gateway", "haproxy")
        }
        shape = Shape(32)

        def per_mb(cpu_s, load):
            return cpu_s * 1e6 / (load.requests * BODY_BYTES / 1e6)

        candidates = {
            name: self.served(server, self.driven("wrk", shape, server.port), per_mb) for name, server in servers.items()
        }
        note = "32 keep-alive connections, plain HTTP. wrk sends the load, and nginx responds with a file"
        gates = {"haproxy": Gate(1.1, 1.0)}
        yield Comparison(f"Bodies of {BODY_BYTES / 1e6:.0f} MB", note, candidates, gates, unit="CPU us/MB")

    def latency(self):
        """Not gated: tail latency at a rate that all gateways sustain."""
        origin = self.servers.nginx_origin(self.load_cpu)
        names = ["weir-gateway", "nginx", "haproxy"]
        servers = {name: self.servers.gateway(name, self.server_cpu, origin) for name in names}
        shape = Shape(32, COMMON_RATE_PER_S)

        def candidate(server):
            load = self.driven("weir load", shape, server.port)

            def measure():
                load(1)
                watch = HostWatch(self.processes)
                done = load(self.seconds)
                return Figure(done.result["latency_ns"]["p99"] / 1e3, done.rate_per_s, watch.share())

            return measure

        candidates = {name: candidate(server) for name, server in servers.items()}
        title = f"Latency at {COMMON_RATE_PER_S:,}/s, 32 connections (not gated)"
        note = "`weir load` in open loop. Latency starts at the intended send time"
        yield Comparison(title, note, candidates, {}, unit="p99 us")

    def idle(self):
        """Memory of idle TLS connections after one exchange each."""
        connections = IDLE_CONNECTIONS_QUICK if self.is_quick else IDLE_CONNECTIONS
        found = {name: self.idle_bytes(server, connections) for name, server in self.idle_servers(connections).items()}
        title = f"{connections:,} idle TLS connections"
        note = "TLS 1.3. Each connection has carried one request. Values: growth of resident memory per connection."
        lines = [f"### {title}", "", note, ""]
        lines += ["| | bytes per connection |", "|---|---|", *(f"| {name} | {each:,} |" for name, each in found.items())]
        yield Table(lines, [Verdict(f"{title}: memory per connection", found["weir-gateway"], IDLE_BYTES, " B")])

    def idle_servers(self, connections):
        origin = self.servers.nginx_origin(self.load_cpu)

        def ours(folder, port):
            certificate, key = certify(self.processes, folder)
            text = configurations.WEIR_IDLE.format(
                port=port, origin=origin.port, certificate=certificate, key=key, connections=connections + 100
            )
            return [self.binaries["weir-gateway"], "--config", written(folder, "weir.yaml", text)]

        return {
            "weir-gateway": self.servers.start("weir-gateway-idle", self.server_cpu, ours, tls=True),
            "nginx, without an upstream": self.servers.nginx_tls(self.server_cpu, http2=False),
        }

    def idle_bytes(self, server, connections):
        """Resident bytes per idle connection."""
        shape = Shape(32, tls=True)
        weir(self.site, shape, shape.url(server.port), 1)
        pids = [server.process.pid, *(child for child, _ in descendants(server.process.pid))]

        def resident():
            return sum(memory_bytes(pid) or 0 for pid in pids)

        before, clients = resident(), []
        for turn in range(1, IDLE_CLIENTS + 1):
            clients.append(self.open_idle(server, connections // IDLE_CLIENTS, turn))
            self.wait_until_idle(server, connections // IDLE_CLIENTS * turn, clients[-1][0])
        each = round((resident() - before) / connections)
        print(f"  {server.name}: {before / 2**20:.1f} MiB before, {each:,} bytes each", flush=True)
        for generator, record in clients:
            self.end_idle(generator, record, connections // IDLE_CLIENTS)
        return each

    def end_idle(self, generator, record, connections):
        generator.terminate()
        generator.wait(30)
        self.processes.end(generator)
        if not record.exists():
            raise Failed("weir generate wrote no record of the idle connections")
        result = json.loads(record.read_text())["result"]
        requests = result["requests"]
        if requests["completed"] != connections or requests["failed"] or requests["timed_out"]:
            raise Failed(f"not every idle connection had its exchange: {requests}, {result['errors']}, {result.get('said')}")

    def open_idle(self, server, connections, turn):
        """Starts a load whose connections pause for an hour after one request each."""
        specification, record = self.work / "idle.json", self.work / f"idle-{server.name}-{turn}.json"
        hour_ns = 3_600 * 10**9
        specification.write_text(json.dumps({
            "connect": f"127.0.0.1:{server.port}",
            "tls": {"server_name": "localhost", "insecure": True, "version": "1.3"},
            "requests": [{"method": "GET", "path": "/", "headers": [["Host", "localhost"]], "body": {"text": ""}}],
            "model": {"model": "closed", "think": {"const": hour_ns}},
            "connections": connections, "workers": 1, "warmup_ns": 0, "duration_ns": hour_ns,
            "timeout_ns": IDLE_WITHIN_S * 10**9, "seed": 1,
        }))
        command = [self.binaries["weir"], "generate", "--spec", specification, "--record", record]
        with open(self.work / "idle.log", "wb") as log:
            return self.processes.start(command, self.load_cpu, log), record

    def wait_until_idle(self, server, connections, generator):
        """Waits until `server` is idle and all connections to it are open."""
        deadline = time.monotonic() + IDLE_WITHIN_S
        while True:
            before_s = tree_cpu_s(server.process.pid)
            time.sleep(1)
            is_quiet = tree_cpu_s(server.process.pid) - before_s < IDLE_CPU_SHARE
            if is_quiet and established(server.port) >= connections:
                return
            if generator.poll() is not None or time.monotonic() > deadline:
                said = (self.work / "idle.log").read_text(errors="replace")
                raise Failed(f"only {established(server.port):,} of {connections:,} idle connections are open\n{said}")


def established(port):
    """Number of established connections of a server on this port, from the kernel."""
    rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return sum(row[1].endswith(f":{port:04X}") and row[3] == "01" for row in rows)
