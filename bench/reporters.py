"""Quantiles that load tools report. Each tool is configured for the same case as well as possible."""

import json
import re

from loads import Shape, TOOLS
from processes import Failed
from theory import Stalled, rank_of

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
STREAMS = 50


class NotApplicable(Exception):
    """A tool does not support a case. The text has the reason."""


class Report:
    """The quantiles that a tool reported, in seconds."""

    def __init__(self, quantiles_s):
        self.quantiles_s = quantiles_s


class Case:
    """The task of every tool: arrivals at a rate, at an origin with a delay, over a protocol."""

    def __init__(self, protocol, delay, rate_per_s, seconds):
        self.protocol, self.delay, self.rate_per_s, self.seconds = protocol, delay, rate_per_s, seconds
        self.tls = protocol in ("TLS", "HTTP/2")
        self.streams = STREAMS if protocol == "HTTP/2" else None
        # Enough connections: a tool that sends on time never waits for a free one.
        self.in_flight = delay.in_flight(rate_per_s)

    def origin_options(self):
        # The origin busy-waits: a sleeping virtual CPU wakes up late, and the origin does not record this delay.
        return [*self.delay.options, "--spin", *(["--http1-only"] if self.protocol == "TLS" else [])]

    def url(self, port):
        return Shape(1, tls=self.tls).url(port)

    def connections(self):
        return -(-self.in_flight // self.streams) + 1 if self.streams else self.in_flight

    def closed_connections(self):
        """Number of connections of a closed load that reaches the rate, by Little's law."""
        distribution = self.delay.distribution
        cycle_s = distribution.cycle_s() if isinstance(distribution, Stalled) else distribution.mean_s
        return max(1, round(self.rate_per_s * cycle_s))


def weir(site, case, port):
    shape = Shape(case.connections(), case.rate_per_s, case.streams, case.tls)
    latency = TOOLS["weir load"](site, shape, case.url(port), case.seconds).result["latency_ns"]
    return Report({name: latency[name] / 1e9 for name in QUANTILES})


def oha(site, case, port):
    shape = Shape(case.connections(), case.rate_per_s, case.streams, case.tls)
    found = TOOLS["oha"](site, shape, case.url(port), case.seconds).result["latencyPercentiles"]
    return Report({name: found[name] for name in QUANTILES})


WRK_QUANTILES = """
done = function(summary, latency, requests)
  io.write(string.format("quantiles_us %d %d %d\\n",
    latency:percentile(50), latency:percentile(90), latency:percentile(99)))
end
"""


def wrk(site, case, port):
    if case.streams:
        raise NotApplicable("wrk supports only HTTP/1.1")
    script = site.work / "quantiles.lua"
    script.write_text(WRK_QUANTILES)
    connections = case.closed_connections()
    options = ["-t1", f"-c{connections}", f"-d{case.seconds}s", "-s", script, case.url(port)]
    done = site.run("wrk", options, case.seconds)
    found = re.search(r"quantiles_us (\d+) (\d+) (\d+)", done.output)
    if not found:
        raise Failed(f"wrk printed no quantiles:\n{done.said()}")
    return Report({name: int(value) / 1e6 for name, value in zip(QUANTILES, found.groups())})


def h2load(site, case, port):
    clients = case.connections()
    log = site.work / "h2load.requests"
    log.unlink(missing_ok=True)
    options = ["-t1", f"-c{clients}", f"-m{case.streams or 1}", "-D", case.seconds, f"--log-file={log}"]
    options += [f"--rps={case.rate_per_s / clients:.4f}", *["--h1"] * (not case.streams)]
    done = site.run("h2load", [*options, case.url(port)], case.seconds)
    lines = log.read_text().splitlines() if log.exists() else []
    taken_us = sorted(int(line.split("\t")[2]) for line in lines if line.split("\t")[1] == "200")
    if not taken_us:
        raise Failed(f"h2load logged no request:\n{done.said()}")
    return Report({name: taken_us[rank_of(p, len(taken_us))] / 1e6 for name, p in QUANTILES.items()})


def hey(site, case, port):
    workers = case.in_flight
    options = ["-cpus", 1, "-c", workers, "-q", f"{case.rate_per_s / workers:.4f}", "-z", f"{case.seconds}s"]
    # hey sends host and port as SNI, which servers reject.
    options += ["-host", "localhost"] * case.tls + ["-h2"] * bool(case.streams)
    done = site.run("hey", [*options, case.url(port)], case.seconds)
    found = {f"p{percent}": float(value) for percent, value in re.findall(r"(\d+)% in ([\d.]+) secs", done.output)}
    if not all(name in found for name in QUANTILES):
        raise Failed(f"hey printed no quantiles:\n{done.said()[-2000:]}")
    return Report({name: found[name] for name in QUANTILES})


K6_SCRIPT = """
import http from 'k6/http';
export const options = {{
  scenarios: {{ load: {{
    executor: 'constant-arrival-rate', rate: {rate}, timeUnit: '1s', duration: '{seconds}s',
    preAllocatedVUs: {users}, maxVUs: {users}, gracefulStop: '5s',
  }} }},
  discardResponseBodies: true,
  insecureSkipTLSVerify: true,
  summaryTrendStats: ['p(50)', 'p(90)', 'p(99)'],
}};
export default function () {{ http.get('{url}'); }}
export function handleSummary(data) {{ return {{ stdout: JSON.stringify(data.metrics.http_req_duration.values) }}; }}
"""


def k6(site, case, port):
    script = site.work / "k6.js"
    text = K6_SCRIPT.format(rate=case.rate_per_s, seconds=case.seconds, users=case.in_flight, url=case.url(port))
    script.write_text(text)
    options = ["run", "--quiet", "--no-usage-report", script]
    # No fixed port for k6's API, because several instances may run on one machine.
    done = site.run("k6", [*options[:1], "--address", "", *options[1:]], case.seconds + 20)
    found = re.search(r"\{[^{}]*\"p\(99\)\"[^{}]*\}", done.output)
    if not found:
        raise Failed(f"k6 printed no quantiles:\n{done.said()[-2000:]}")
    values = json.loads(found[0])
    return Report({name: values[f"p({name[1:]})"] / 1e3 for name in QUANTILES})


# A shared context: otherwise each user reads the machine's certificates, which takes longer than the run.
LOCUST_SCRIPT = """
import ssl

from locust import FastHttpUser, constant_throughput, task

CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
CONTEXT.check_hostname, CONTEXT.verify_mode = False, ssl.CERT_NONE


class Sender(FastHttpUser):
    wait_time = constant_throughput({rate_each})
    insecure = True

    def ssl_context_factory(self):
        return CONTEXT

    @task
    def ask(self):
        self.client.get("/")
"""


def locust(site, case, port):
    if case.streams:
        raise NotApplicable("Locust supports only HTTP/1.1")
    users = case.in_flight
    script = site.work / "locustfile.py"
    script.write_text(LOCUST_SCRIPT.format(rate_each=case.rate_per_s / users))
    options = ["-f", script, "--headless", "--only-summary", "--host", case.url(port).rstrip("/")]
    options += ["-u", users, "-r", users, "-t", f"{case.seconds}s", "--loglevel", "ERROR"]
    done = site.run("locust", options, case.seconds + 20)
    # The row for all requests in the second table: quantiles 50, 66, 75, 80, 90, 95, 98, 99 % and higher, then the
    # count.
    found = re.search(r"Aggregated((?: +\d+){12})", done.said().partition("Response time percentiles")[2])
    if not found:
        raise Failed(f"Locust printed no quantiles:\n{done.said()[-2000:]}")
    values = [int(value) / 1e3 for value in found[1].split()]
    return Report({"p50": values[0], "p90": values[4], "p99": values[7]})


REPORTERS = {"weir": weir, "oha": oha, "k6": k6, "h2load": h2load, "hey": hey, "wrk": wrk, "locust": locust}
# These tools send on a schedule that does not wait for responses, so the origin's record is complete.
OPEN_MODEL = {"weir", "oha", "k6"}
