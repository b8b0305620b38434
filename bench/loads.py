"""Load tools for comparisons of cost: their request counts and CPU time."""

import json
import re

from processes import Failed


class Shape:
    """The shape of a load, equal for every tool. Without a rate it is closed: requests wait for responses."""

    def __init__(self, connections, rate_per_s=None, streams=None, tls=False, spin=False, fields=()):
        self.connections, self.rate_per_s, self.streams = connections, rate_per_s, streams
        self.tls, self.spin = tls, spin
        # Header fields; only wrk and `weir load` send them.
        self.fields = fields

    def url(self, port, path="/"):
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{port}{path}"


class Load:
    """The result of one load."""

    def __init__(self, done, requests, rate_per_s, result=None):
        self.requests, self.rate_per_s, self.result = requests, rate_per_s, result
        self.cpu_s, self.memory_bytes_peak = done.cpu_s, done.memory_bytes_peak

    def cpu_us(self):
        return self.cpu_s * 1e6 / self.requests


class Site:
    """The environment of tools: their programs, a folder for their outputs, a CPU."""

    def __init__(self, processes, binaries, work, cpu):
        self.processes, self.binaries, self.work, self.cpu = processes, binaries, work, cpu

    def run(self, tool, options, seconds, watch_memory=False, variables=None):
        """Runs a tool that takes `seconds`, with a timeout of 40 s more."""
        command = [self.binaries[tool], *options]
        log = self.work / f"{tool}.log"
        return self.processes.run(command, self.cpu, log, seconds + 40, watch_memory, variables)


def wrk(site, shape, url, seconds):
    options = ["-t1", f"-c{shape.connections}", f"-d{seconds}s", *field_options(shape)]
    done = site.run("wrk", [*options, url], seconds)
    requests = re.search(r"(\d+) requests in", done.output)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", done.output)
    if done.code != 0 or not requests or not rate or "Non-2xx" in done.output or "Socket errors" in done.output:
        raise Failed(f"wrk had failed requests (exit code {done.code}):\n{done.said()}")
    return Load(done, int(requests[1]), float(rate[1]))


def weir(site, shape, url, seconds, watch_memory=False, even=False, more=()):
    options = ["load", url, *weir_options(shape), "--duration", f"{seconds}s", *["--even"] * even, *more]
    done = site.run("weir", options, seconds, watch_memory)
    return complete(done, weir_result(done))


def generated(site, specification, seconds):
    """A load by `weir generate`, for features without a flag of `weir load`, such as random domains per connection."""
    given, record = site.work / "load.json", site.work / "record.json"
    given.write_text(json.dumps({**specification, "duration_ns": round(seconds * 1e9)}))
    record.unlink(missing_ok=True)
    done = site.run("weir", ["generate", "--spec", given, "--record", record], seconds)
    if done.code != 0 or not record.exists():
        raise Failed(f"weir generate wrote no record (exit code {done.code}):\n{done.said()}")
    return complete(done, json.loads(record.read_text())["result"])


def complete(done, result):
    """The load of a result. Raises `Failed` unless every request got the expected response."""
    requests = result["requests"]
    if requests["failed"] or requests["timed_out"] or requests["unexpected"] or not requests["completed"]:
        raise Failed(f"weir load had errors: {requests}, {result['errors']}, {result.get('said')}")
    return Load(done, requests["completed"], result["rate_per_s"], result)


def weir_options(shape):
    options = ["--connections", shape.connections, "--workers", 1, "--json", *field_options(shape)]
    options += ["--rate", f"{shape.rate_per_s}/s"] if shape.rate_per_s else []
    options += ["--http2", "--streams", shape.streams] if shape.streams else []
    return options + ["--insecure"] * shape.tls + ["--spin"] * shape.spin


def field_options(shape):
    return [word for name, value in shape.fields for word in ("-H", f"{name}: {value}")]


def weir_result(done):
    try:
        return json.loads(done.output)
    except json.JSONDecodeError as error:
        raise Failed(f"weir load printed no result (exit code {done.code}):\n{done.said()}") from error


def oha(site, shape, url, seconds):
    options = ["--no-tui", "--output-format", "json", "--worker-threads", 1, "-c", shape.connections]
    options += ["-q", shape.rate_per_s, "--latency-correction"] if shape.rate_per_s else []
    options += ["--http2", "-p", shape.streams] if shape.streams else []
    done = site.run("oha", [*options, *["--insecure"] * shape.tls, "-z", f"{seconds}s", url], seconds)
    if done.code != 0:
        raise Failed(f"oha failed (exit code {done.code}):\n{done.said()}")
    result = json.loads(done.output)
    statuses = result["statusCodeDistribution"]
    # oha counts requests in flight at the end as deadline errors.
    errors = {name: count for name, count in result["errorDistribution"].items() if "deadline" not in name}
    if set(statuses) != {"200"} or errors:
        raise Failed(f"oha had errors: {statuses}, {errors}")
    return Load(done, statuses["200"], result["summary"]["requestsPerSec"], result)


def h2load(site, shape, url, seconds):
    options = ["-t1", f"-c{shape.connections}", f"-m{shape.streams or 1}", "-D", seconds]
    done = site.run("h2load", [*options, *["--h1"] * (not shape.streams), url], seconds)
    counts = re.search(r"requests: .* (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout", done.output)
    rate = re.search(r"finished in .*?, ([\d.]+) req/s", done.output)
    if done.code != 0 or not counts or not rate or any(map(int, counts.groups()[1:])) or not int(counts[1]):
        raise Failed(f"h2load had failed requests (exit code {done.code}):\n{done.said()}")
    return Load(done, int(counts[1]), float(rate[1]))


TOOLS = {"weir load": weir, "wrk": wrk, "oha": oha, "h2load": h2load}
