#!/usr/bin/env python3
"""Measured acceptance: real runs whose figures and counts are checked.

A check that depends on time is repeated, at most five times, when the host was disturbed during it
(steal, or CPU used by processes outside the check); every attempt is printed. Counts and books are
never repeated: they hold on any machine.
"""

import argparse
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ATTEMPTS_MAX = 5
DISTURBED_SHARE = 0.02
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
STARTED = []


class Disagreement(Exception):
    """A figure or a count is not what it has to be."""


def expect(condition, sentence):
    """Prints the sentence, and fails the check where it does not hold."""
    print(f"    {'ok  ' if condition else 'NOT '} {sentence}")
    if not condition:
        raise Disagreement(sentence)


def free_port():
    """A port of loopback that nobody holds now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(command, **options):
    """Starts a process of this script's own, to be ended by its id."""
    process = subprocess.Popen(command, **options)
    STARTED.append(process)
    return process


def end(process, number=signal.SIGTERM):
    """Ends a process that was started here and waits for it."""
    if process.poll() is None:
        process.send_signal(number)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def get_json(port, path):
    """GET over one connection; the body as JSON."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as link:
        link.sendall(f"GET {path} HTTP/1.1\r\nHost: acceptance\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: link.recv(65536), b""))
    return json.loads(answer.split(b"\r\n\r\n", 1)[1])


class Host:
    """Steal and CPU of others during a check, from the kernel's accounting."""

    def __enter__(self):
        self.before = self.read()
        return self

    def __exit__(self, *_):
        after = self.read()
        total = max(1, after["total"] - self.before["total"])
        own = after["own"] - self.before["own"]
        busy = after["busy"] - self.before["busy"]
        self.disturbed = (after["steal"] - self.before["steal"] + max(0, busy - own)) / total

    @staticmethod
    def read():
        """Ticks of the host, and of this process with all its descendants that have ended."""
        fields = [int(field) for field in open("/proc/stat").readline().split()[1:9]]
        user, nice, system, idle, iowait, _irq, _softirq, steal = fields
        times = os.times()
        own = sum(times[:4]) * TICKS_PER_S
        return {"total": sum(fields), "busy": user + nice + system, "steal": steal, "own": own}


class Rig:
    """The programs under test, and a folder for what they write."""

    def __init__(self, bin_dir, folder):
        self.weir = str(bin_dir / "weir")
        self.folder = folder

    def origin(self, port, *arguments):
        """Starts an origin and waits until it says that it listens."""
        process = start([self.weir, "origin", "--listen", f"127.0.0.1:{port}", *arguments], stdout=subprocess.PIPE, text=True)
        line = process.stdout.readline()
        if "listening" not in line:
            raise Disagreement(f"the origin did not start: {line!r}")
        return process

    def load(self, port, *arguments):
        """Runs `weir load --json`; its JSON."""
        command = [self.weir, "load", f"http://127.0.0.1:{port}/", "--json", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if not done.stdout.strip():
            raise Disagreement(f"weir load printed nothing: {done.stderr}")
        return json.loads(done.stdout)

    def run(self, scenario, *arguments, beside=None):
        """Runs a scenario with weir-gateway alone; exit code and JSON."""
        path = self.folder / "scenario.yaml"
        path.write_text(scenario)
        command = [self.weir, "run", str(path), "--json", "--db", str(self.folder / "weir.db"), "--out", str(self.folder / "out"), *arguments]
        other = start(beside) if beside else None
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        finally:
            if other:
                end(other)
        if not done.stdout.strip():
            raise Disagreement(f"weir run printed nothing: {done.stderr}")
        return done.returncode, json.loads(done.stdout)


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


def balanced(requests):
    """Whether the books balance."""
    return requests["scheduled"] == sum(requests[name] for name in ("completed", "failed", "timed_out", "dropped", "in_flight"))


def constant_delay(rig):
    """An origin of 5 ms at 2,000/s: latency is true to 150 us, and every request is counted on both sides."""
    port = free_port()
    origin = rig.origin(port, "--delay", "const:5ms")
    try:
        result = rig.load(port, "--rate", "2000/s", "--duration", "5s")
        stats = get_json(port, "/__weir/stats")
    finally:
        end(origin)
    requests, latency = result["requests"], result["latency_ns"]
    expect(balanced(requests), f"the books balance: {requests}")
    expect(requests["sent"] == stats["requests"], f"sent {requests['sent']} is what the origin counted, {stats['requests']}")
    yield
    for name in ("p50", "p99"):
        off_us = (latency[name] - 5_000_000) / 1_000
        expect(abs(off_us) <= 150, f"{name} is {latency[name] / 1e6:.3f} ms, {off_us:+.0f} us from 5 ms")


def origin_restarts(rig):
    """The origin is killed and comes back in mid-run: books balance, causes are named, the load goes on."""
    port = free_port()
    origin = rig.origin(port)
    command = [rig.weir, "load", f"http://127.0.0.1:{port}/", "--json", "--rate", "2000/s", "--duration", "6s", "--timeout", "2s"]
    load = start(command, stdout=subprocess.PIPE, text=True)
    time.sleep(2)
    end(origin, signal.SIGKILL)
    time.sleep(1)
    origin = rig.origin(port)
    output = load.communicate(timeout=60)[0]
    stats = get_json(port, "/__weir/stats")
    end(origin)
    result = json.loads(output)
    requests, errors = result["requests"], result["errors"]
    expect(balanced(requests), f"the books balance: {requests}")
    expect(errors["refused"] > 0, f"refused connections are counted: {errors}")
    expect(stats["requests"] > 2_000, f"the second origin answered {stats['requests']} requests")
    yield


def overload(rig):
    """A rate far above the gateway's capacity: the queue shows, unanswered quantiles are null, memory stays flat."""
    text = scenario("{ model: open, rate: 60000/s, connections: 32 }", duration="6s")
    code, result = rig.run(text, "--set", "limits.data.cpus=0.1", "--repeats", "3")
    peaks = []
    for measurement in measurements(result):
        requests = measurement["record"]["result"]["requests"]
        latency = measurement["record"]["result"]["latency_ns"]
        expect(balanced(requests), f"the books balance: {requests}")
        expect(requests["dropped"] > 0, f"{requests['dropped']} were dropped, {requests['timed_out']} timed out")
        expect(latency["p99"] is None and latency["max"] is None, f"p99 is {latency['p99']}, p50 {latency['p50']}")
        judgement = measurement["judgement"]
        expect("overloaded" in judgement["verdicts"]["latency"], f"latency: {judgement['verdicts']['latency']}")
        expect(judgement["bound_by"] == "gateway", f"bound by {judgement['bound_by']}")
        peaks.append(measurement["usage"]["generator"]["memory_bytes_peak"])
    expect(max(peaks) < 64 << 20, f"the generator's memory peaks at {max(peaks) / 2**20:.1f} MiB")
    expect(code == 1, f"exit code {code}: the latency headline rests on an invalid cell")
    yield


def limited_by(rig, part, text, *arguments):
    """Runs a closed load whose limit must be called by `part`'s name."""
    code, result = rig.run(text, *arguments)
    for measurement in measurements(result):
        judgement = measurement["judgement"]
        reasons = judgement["verdicts"]["throughput"]
        expect(judgement["bound_by"] == part, f"bound by {judgement['bound_by']}")
        expect(f"{part}-limited" in reasons, f"throughput: {reasons}")
    expect(code == 1, f"exit code {code}")


def squeezed_generator(rig):
    """A generator with a twentieth of a core is called the limit."""
    limited_by(rig, "generator", scenario("{ model: closed, connections: 10 }", generator=0.05))
    yield


def slow_origin(rig):
    """An origin with a twentieth of a core, or one that is told to delay, is called the limit."""
    text = scenario("{ model: closed, connections: 10 }")
    limited_by(rig, "upstream", text, "--set", "limits.origin.cpus=0.05")
    limited_by(rig, "upstream", text, "--set", "origin.delay=const:20ms")
    yield


def busy_loop(rig):
    """A busy loop outside the rig disturbs the host, and the verdict says so."""
    loop = [sys.executable, "-c", "import time\nend = time.time() + 200\nwhile time.time() < end: pass"]
    code, result = rig.run(scenario("{ model: closed, connections: 10 }"), beside=loop)
    for measurement in measurements(result):
        judgement = measurement["judgement"]
        expect("host-disturbed" in judgement["verdicts"]["throughput"], f"others used {measurement['host']['others']:.0%}: {judgement['verdicts']['throughput']}")
    expect(code == 1, f"exit code {code}")
    yield


def counters_agree(rig):
    """Generator, gateway and origin count the same requests."""
    _, result = rig.run(scenario("{ model: closed, connections: 10 }"))
    for gateway in ("weir", "direct"):
        for measurement in measurements(result, gateway):
            counters = measurement["counters"]
            sent = counters["generator_sent"]
            expect(counters["origin_requests"] == sent, f"{gateway}: sent {sent}, origin {counters['origin_requests']}")
            if gateway != "direct":
                expect(counters["gateway_requests"] == sent, f"{gateway}: sent {sent}, gateway {counters['gateway_requests']}")
    yield


CHECKS = [constant_delay, origin_restarts, counters_agree, overload, squeezed_generator, slow_origin, busy_loop]


def passes(check, rig):
    """Runs a check: what stands before its `yield` must hold at once, what follows may be repeated when disturbed."""
    print(f"{check.__name__}: {check.__doc__.splitlines()[0]}")
    for attempt in range(1, ATTEMPTS_MAX + 1):
        with Host() as host:
            steps = check(rig)
            try:
                next(steps)
            except Disagreement as disagreement:
                print(f"    failed: {disagreement}")
                return False
        try:
            for _ in steps:
                pass
            print(f"    attempt {attempt}: passed; {host.disturbed:.1%} of the host went elsewhere")
            return True
        except Disagreement:
            if host.disturbed <= DISTURBED_SHARE:
                print(f"    attempt {attempt}: failed on a quiet host ({host.disturbed:.1%} went elsewhere)")
                return False
            print(f"    attempt {attempt}: {host.disturbed:.1%} of the host went elsewhere; again")
    return False


def main():
    """Runs every check, or those named; exit code 1 when one fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checks", nargs="*", help="names of checks; all without")
    parser.add_argument("--bin-dir", type=pathlib.Path, default=ROOT / "target" / "release")
    arguments = parser.parse_args()
    chosen = [check for check in CHECKS if not arguments.checks or check.__name__ in arguments.checks]
    failed = []
    try:
        with tempfile.TemporaryDirectory(prefix="weir-acceptance-") as folder:
            for check in chosen:
                if not passes(check, Rig(arguments.bin_dir, pathlib.Path(folder))):
                    failed.append(check.__name__)
    finally:
        for process in STARTED:
            end(process, signal.SIGKILL)
    print(f"{len(chosen) - len(failed)} passed, {len(failed)} failed{': ' + ', '.join(failed) if failed else ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
