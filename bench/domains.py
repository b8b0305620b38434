"""Gateways with 1,000 TLS domains, 100 paths each and one certificate per domain: cold starts, memory, CPU time.

`weir render` writes the configurations with weir's drivers, so settings are equal for all gateways.
"""

import json
import socket
import ssl
import statistics
import time
from pathlib import Path

from comparisons import DISTURBED, Bench, Comparison, are_disturbed
from gates import Gate, Table, Verdict, spread
from loads import generated
from processes import Failed, tree_cpu_s, tree_memory_bytes
from servers import Server, free_port

DOMAINS, PATHS = 1_000, 100
GATEWAYS = ["weir-gateway", "nginx", "haproxy", "envoy"]
RESIDENT_MIB, START_CPU_S = Gate(60, 40), Gate(0.5, 0.2)
# nginx needs seconds to read such a configuration; Envoy needs longer on a slow host.
START_WITHIN_S = 180
# Minimum share of resumed sessions. The first two handshakes of each connection are not counted.
RESUMED_SHARE_MIN = 0.95

SCENARIO = f"""
name: bench-domains
gateways: [weir]
limits: {{ data: {{ cpus: 1 }} }}
topology: {{ domains: {DOMAINS}, paths: {PATHS}, tls: true, certificates: each, rewrite: / }}
loads: {{ kept: {{ model: closed, connections: 64 }} }}
"""


def domain(number):
    """The domain with this number, as in the topology of a scenario. Numbers start at 1."""
    return f"d{number:04}.gateway.test"


class Rendered:
    """The rendered configuration of one gateway, with its port and certificate authority."""

    def __init__(self, folder, port, command, authority):
        self.folder, self.port, self.command, self.authority = folder, port, command, authority


class Domains(Bench):
    """Makes the measurements. Each of them renders the configuration of every gateway once."""

    def start(self):
        """Time and CPU time until the first status 200, and the memory at that time. Gateways alternate."""
        origin = self.servers.nginx_origin(self.load_cpu)
        rendered = {name: self.render(name, origin) for name in GATEWAYS}
        found, shares = {name: [] for name in GATEWAYS}, []
        for number in range(1, min(3, self.rounds) + 1):
            for name in GATEWAYS:
                (server, took_s, cpu_s), share = self.watched(lambda: self.launch(name, rendered[name]))
                shares.append(share)
                found[name].append((cpu_s, took_s, tree_memory_bytes(server.process.pid) / 2**20))
                self.processes.end(server.process)
                shown = found[name][-1]
                print(f"  round {number}: {name} CPU {shown[0]:.2f} s, {shown[1]:.2f} s, {shown[2]:.1f} MiB", flush=True)
        title = f"Start with {DOMAINS:,} TLS domains x {PATHS} paths"
        note = "Time from the launch to the first status 200 for the last path of the last domain, over TLS."
        lines = [f"### {title}", "", note, "", "| | CPU s, median | lowest | highest | time in s, median | resident MiB, median |"]
        lines.append("|---|---|---|---|---|---|")
        for name, rounds in found.items():
            cpu_s, took_s, mib = zip(*rounds)
            lines.append(f"| {name} | {spread(cpu_s)} | {statistics.median(took_s):.2f} | {statistics.median(mib):.1f} |")
        lines += ["", DISTURBED] if are_disturbed(shares) else []
        ours = statistics.median(cpu_s for cpu_s, _, _ in found["weir-gateway"])
        yield Table(lines, [Verdict(f"{title}, CPU time", ours, START_CPU_S, " s")])

    def loaded(self):
        """Compares keep-alive connections, full and resumed handshakes; then resident memory."""
        origin = self.servers.nginx_origin(self.load_cpu)
        rendered = {name: self.render(name, origin) for name in GATEWAYS}
        servers = {name: self.launch(name, rendered[name])[0] for name in GATEWAYS}
        behind = "TLS 1.3, TLS_AES_128_GCM_SHA256, X25519, P-256"
        shape = f"{DOMAINS:,} domains x {PATHS} paths"

        def compared(title, note, gates, unit="CPU us/request", **load):
            candidates = {
                name: self.served(server, self.load(rendered[name], **load)) for name, server in servers.items()
            }
            return Comparison(f"{title}, {shape}", f"{note}. {behind}", candidates, gates, unit)

        drawn = {"domain_weights": [1.0] * DOMAINS}
        note = "64 keep-alive connections, each to a random domain, with random paths"
        gates = {("nginx", "haproxy"): Gate(0.95, 0.9)}
        yield compared("TLS keep-alive", note, gates, connections=64, **drawn)
        note = "one request per connection, to a random domain. The CPU time covers handshake and request"
        gates = {("nginx", "haproxy", "envoy"): Gate(1.0, 0.9)}
        handshake = {"connections": 32, "requests_per_connection": 1, "unit": "CPU us/handshake"}
        yield compared("Full handshake", note, gates, resumption=0.0, **handshake, **drawn)
        note = "one request per connection. 32 clients, each with its own domain. The CPU time covers handshake and request"
        yield compared("Resumed handshake", note, {"nginx": Gate(1.0, 0.9)}, resumption=1.0, **handshake)
        yield self.memory(servers)

    def memory(self, servers):
        mib = {name: tree_memory_bytes(server.process.pid) / 2**20 for name, server in servers.items()}
        title = f"Resident memory, {DOMAINS:,} domains x {PATHS} paths"
        note = "Measured after the loads above. Memory shared between processes is counted once."
        lines = [f"### {title}", "", note, "", "| | MiB |", "|---|---|"]
        lines += [f"| {name} | {value:.1f} |" for name, value in mib.items()]
        return Table(lines, [Verdict(title, mib["weir-gateway"], RESIDENT_MIB, " MiB")])

    def load(self, rendered, connections, resumption=1.0, **more):
        """A closed load over the domains."""
        specification = {
            "connect": f"127.0.0.1:{rendered.port}",
            "tls": {"server_name": domain(1), "ca": str(rendered.authority), "resumption": resumption, "version": "1.3"},
            "requests": [
                {"method": "GET", "path": f"/get/{{1..{PATHS}}}", "headers": [["Host", "{domain}"]], "body": {"text": ""}}
            ],
            "domains": [domain(number) for number in range(1, DOMAINS + 1)],
            "model": {"model": "closed"},
            "connections": connections,
            "workers": 1,
            "warmup_ns": 0,
            "timeout_ns": 10 * 10**9,
            "seed": 1,
            **more,
        }
        return lambda seconds: checked(generated(self.site, specification, seconds), specification)

    def render(self, name, origin):
        """Writes a gateway's configuration with its certificates."""
        scenario, folder = self.work / "domains.yaml", self.work / f"rendered-{name}"
        scenario.write_text(SCENARIO)
        port, admin = free_port(), free_port()
        options = ["--gateway", "weir" if name == "weir-gateway" else name, "--out", folder, "--json"]
        addresses = {"--listen": port, "--admin": admin, "--origin": origin.port}
        options += [word for flag, number in addresses.items() for word in (flag, f"127.0.0.1:{number}")]
        done = self.site.run("weir", ["render", scenario, *options], 120)
        if done.code != 0:
            raise Failed(f"weir render wrote no configuration of {name}:\n{done.said()}")
        manifest = json.loads(done.output)
        (process,) = manifest["processes"]
        (authority,) = [path for path in manifest["certificates"] if Path(path).name == "ca.pem"]
        # Use the program whose version is printed above the tables.
        return Rendered(folder, port, [self.binaries[name], *process["command"][1:]], authority)

    def launch(self, name, rendered):
        """Starts a gateway. Returns (server, seconds and CPU seconds until its first status 200)."""
        log_path = rendered.folder / "log"
        with open(log_path, "wb") as log:
            began_s = time.monotonic()
            process = self.processes.start(rendered.command, self.server_cpu, log)
        while not answers_last(rendered.port):
            took_s = time.monotonic() - began_s
            if process.poll() is not None or took_s > START_WITHIN_S:
                raise Failed(f"{name} does not respond:\n{log_path.read_text(errors='replace')[-2000:]}")
            # The interval grows with the elapsed time, so that polling costs little and the relative error stays small.
            time.sleep(max(0.002, took_s / 50))
        took_s, cpu_s = time.monotonic() - began_s, tree_cpu_s(process.pid)
        return Server(name, process, rendered.port, rendered.folder), took_s, cpu_s


def checked(load, specification):
    """Returns `load`. Raises `Failed` if its handshakes were not as specified or differ between gateways."""
    tls = load.result["tls"]
    later = max(0, tls["handshakes"] - 2 * specification["connections"])
    is_resuming = specification["tls"]["resumption"] > 0
    if "requests_per_connection" in specification and is_resuming and tls["resumed"] < RESUMED_SHARE_MIN * later:
        raise Failed(f"only {tls['resumed']} of {tls['handshakes']} handshakes resumed a session")
    if not is_resuming and tls["resumed"]:
        raise Failed(f"{tls['resumed']} handshakes resumed a session although resumption is off")
    if tls["failed"] or list(tls["negotiated"]) != ["TLS 1.3 TLS13_AES_128_GCM_SHA256 X25519 http/1.1"]:
        raise Failed(f"failed handshakes, or another TLS version, cipher or group: {tls}")
    return load


def answers_last(port):
    """Whether a request for the last path of the last domain returns status 200."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host = domain(DOMAINS)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as plain:
            with context.wrap_socket(plain, server_hostname=host) as client:
                client.sendall(f"GET /get/{PATHS} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
                return client.recv(65536).startswith(b"HTTP/1.1 200")
    except OSError:
        return False
