"""The load engine alone and whole runs of the lab: request counts, causes, limiting parts, counters."""

import json
import os
import signal
import sys
import time

from checks import Disagreement, balanced, expect
from delays import given
from loads import weir_result

# On a quiet host the longest run, with searches, takes a third of this.
RUN_S_MAX = 1200


class Finished:
    """Exit code and output of a started program."""

    def __init__(self, process, output, errors):
        self.code, self.output, self.errors = process.wait(timeout=60), output.read_text(), errors.read_text()

    def said(self):
        return f"{self.output}\n{self.errors}".strip()


def load(rig, port, *arguments):
    """Runs `weir load --json`. Returns its JSON."""
    command = [rig.weir, "load", f"http://127.0.0.1:{port}/", "--json", *arguments]
    return weir_result(rig.processes.run(command, rig.load_cpu, rig.folder / "load.json", 120))


def run(rig, scenario, *arguments, beside=None):
    """Runs a scenario and, in parallel, the optional command `beside`. Returns (exit code, JSON)."""
    path = rig.folder / "scenario.yaml"
    path.write_text(scenario)
    options = ["--json", "--db", rig.folder / "weir.db", "--out", rig.folder / "out", *arguments]
    if beside:
        rig.processes.start(beside, None, None)
    # `weir run` pins the processes of its rig to CPUs, so this check does not pin `weir run`.
    done = rig.processes.run([rig.weir, "run", path, *options], None, rig.folder / "run.json", RUN_S_MAX)
    if not done.output.strip():
        raise Disagreement(f"weir run printed nothing: {done.errors}")
    return done.code, json.loads(done.output)


SCENARIO = """
name: acceptance
question: Does the verdict name what was provoked?
gateways: [weir]
limits: {{ data: {{ cpus: 0.5, memory: 128MiB }}, origin: {{ cpus: 1 }}, generator: {{ cpus: {generator} }} }}
topology: {{ domains: 1, paths: [/ping] }}
origin: {{ body: 64B }}
loads:
  only: {load}
warmup: 500ms
duration: {duration}
timeout: 2s
repeats: 3
"""


def scenario(load, duration="2s", generator=1):
    """A scenario with one load."""
    return SCENARIO.format(load=load, duration=duration, generator=generator)


def measurements(result, gateway="weir"):
    """The measurements of one gateway's cells."""
    cells = [cell for cell in result["cells"] if cell["key"]["gateway"] == gateway]
    failed = [cell["outcome"] for cell in cells if cell["outcome"]["kind"] != "measured"]
    if failed:
        raise Disagreement(f"cells failed: {failed}")
    return [measurement for cell in cells for measurement in cell["outcome"]["measurements"]]


def constant_delay(rig):
    """An origin with a delay of 5 ms at 2,000/s: latency is exact to 150 us, and both sides count every request."""
    origin = rig.origin("--spin", "--delay", "const:5ms")
    result = load(rig, origin.port, "--rate", "2000/s", "--duration", "5s")
    stats = given(origin.port)
    requests, latency = result["requests"], result["latency_ns"]
    expect(balanced(requests), f"counts balance: {requests}")
    expect(requests["sent"] == stats["requests"], f"sent {requests['sent']}, the origin counted {stats['requests']}")
    yield
    for name in ("p50", "p99"):
        off_us = (latency[name] - 5_000_000) / 1_000
        expect(abs(off_us) <= 150, f"{name} is {latency[name] / 1e6:.3f} ms, {off_us:+.0f} us from 5 ms")


def origin_restarts(rig):
    """The origin is killed and restarted during a load: counts balance, causes are reported, the load reconnects."""
    origin = rig.origin()
    output, errors = rig.folder / "restarts.json", rig.folder / "restarts.errors"
    url = f"http://127.0.0.1:{origin.port}/"
    command = [rig.weir, "load", url, "--json", "--rate", "2000/s", "--duration", "6s", "--timeout", "2s"]
    with open(output, "wb") as log, open(errors, "wb") as said:
        going = rig.processes.start(command, rig.load_cpu, log, said)
    time.sleep(2)
    os.kill(origin.process.pid, signal.SIGKILL)
    origin.process.wait()
    time.sleep(1)
    origin = rig.servers.weir_origin(rig.server_cpu, asked=False, port=origin.port)
    result = weir_result(Finished(going, output, errors))
    stats = given(origin.port)
    requests, causes = result["requests"], result["errors"]
    expect(balanced(requests), f"counts balance: {requests}")
    expect(causes["refused"] > 0, f"refused connections are counted: {causes}")
    expect(stats["requests"] > 2_000, f"the restarted origin served {stats['requests']} requests")
    yield


def overload(rig):
    """A rate far above the gateway's capacity: requests are dropped, unknown quantiles are null, memory stays flat."""
    text = scenario("{ model: open, rate: 60000/s, connections: 32 }", duration="6s")
    code, result = run(rig, text, "--set", "limits.data.cpus=0.1", "--repeats", "3")
    peaks = []
    for measurement in measurements(result):
        requests = measurement["record"]["result"]["requests"]
        latency = measurement["record"]["result"]["latency_ns"]
        expect(balanced(requests), f"counts balance: {requests}")
        expect(requests["dropped"] > 0, f"{requests['dropped']} were dropped, {requests['timed_out']} timed out")
        expect(latency["p99"] is None and latency["max"] is None, f"p99 is {latency['p99']}, p50 {latency['p50']}")
        judgement = measurement["judgement"]
        expect("overloaded" in judgement["verdicts"]["latency"], f"latency: {judgement['verdicts']['latency']}")
        expect(judgement["bound_by"] == "gateway", f"limited by the {judgement['bound_by']}")
        peaks.append(measurement["usage"]["generator"]["memory_bytes_peak"])
    expect(max(peaks) < 64 << 20, f"the generator's memory peaks at {max(peaks) / 2**20:.1f} MiB")
    expect(code == 4, f"exit code {code}: no valid latency headline")
    yield


def limited_by(rig, part, text, *arguments):
    """Runs a closed load, and checks that the verdict names `part` as the limit."""
    code, result = run(rig, text, *arguments)
    for measurement in measurements(result):
        judgement = measurement["judgement"]
        reasons = judgement["verdicts"]["throughput"]
        expect(judgement["bound_by"] == part, f"limited by the {judgement['bound_by']}")
        expect(f"{part}-limited" in reasons, f"throughput: {reasons}")
    expect(code == 4, f"exit code {code}")


def squeezed_generator(rig):
    """A generator with a twentieth of a core is reported as the limit."""
    limited_by(rig, "generator", scenario("{ model: closed, connections: 10 }", generator=0.05))
    yield


def slow_origin(rig):
    """An origin with a twentieth of a core, or with a configured delay, is reported as the limit."""
    text = scenario("{ model: closed, connections: 10 }")
    limited_by(rig, "upstream", text, "--set", "limits.origin.cpus=0.05")
    limited_by(rig, "upstream", text, "--set", "origin.delay=const:20ms")
    yield


def busy_loop(rig):
    """A busy loop outside the rig causes host noise, and the verdict reports it."""
    loop = [sys.executable, "-c", "import time\nend = time.time() + 200\nwhile time.time() < end: pass"]
    code, result = run(rig, scenario("{ model: closed, connections: 10 }"), beside=loop)
    again = [cell["attempts"] for cell in result["cells"]]
    expect(all(attempts == 3 for attempts in again), f"each cell was re-measured twice: attempts {again}")
    for measurement in measurements(result):
        judgement = measurement["judgement"]
        expect("host-noise" in judgement["verdicts"]["throughput"], f"other processes used {measurement['host']['others']:.0%}: {judgement['verdicts']['throughput']}")
    expect(code == 4, f"exit code {code}")
    yield


def counters_agree(rig):
    """Generator, gateway and origin count the same requests."""
    _, result = run(rig, scenario("{ model: closed, connections: 10 }"))
    for gateway in ("weir", "direct"):
        for measurement in measurements(result, gateway):
            counters = measurement["counters"]
            sent = counters["generator_sent"]
            expect(counters["origin_requests"] == sent, f"{gateway}: sent {sent}, origin {counters['origin_requests']}")
            if gateway != "direct":
                expect(counters["gateway_requests"] == sent, f"{gateway}: sent {sent}, gateway {counters['gateway_requests']}")
    yield


CHECKS = [constant_delay, origin_restarts, counters_agree, overload, squeezed_generator, slow_origin, busy_loop]
