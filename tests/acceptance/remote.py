"""A remote gateway, measured by a real Prometheus, uses as much CPU time per request as a gateway that weir starts."""

import json
import math
import statistics

from checks import Disagreement, expect
from containers import Container, Exporter, Watch, prometheus
from servers import free_port
from verdicts import evidence_of, reasons_of
from whole_runs import measurements, run

GATEWAY = "nginx"
CPUS = 0.25
# Allowed relative difference in CPU per request between the remote and the local driver.
AGREES_WITHIN = 0.05
# Local and remote runs alternate, so that a drift of the host affects both.
ROUNDS = 5
# Two-sided 95 % quantile of Student's t with four degrees of freedom.
T_OF_FIVE = 2.776_45

SCENARIO = """
name: elsewhere
question: Does it cost the same by Prometheus?
gateways: [{gateway}]
{own}
topology: {{ domains: 1, paths: [/ping] }}
loads:
  tail: {{ model: open, rate: 2000/s, connections: 32 }}
  full: {{ model: closed, connections: 10 }}
warmup: {warmup}s
duration: {duration}s
timeout: 2s
repeats: 1
thresholds: {{ disturbed_share: 1 }}
"""


def local(times):
    """The scenario in which weir starts the gateway."""
    return SCENARIO.format(gateway=GATEWAY, own=f"limits: {{ data: {{ cpus: {CPUS} }} }}\norigin: {{ body: 64B }}", **times)


def elsewhere(port, origin, url, times):
    """The scenario with a gateway that already runs, and its resource usage from a Prometheus."""
    watched = f"prometheus: {{ url: '{url}', selector: 'namespace=\"shop\",pod=~\"gw-.*\"' }}"
    place = f"url: 'http://127.0.0.1:{port}', direct: 'http://127.0.0.1:{origin.port}', host: gateway.test"
    return SCENARIO.format(gateway=f"{{ name: prod, driver: remote, {place}, {watched} }}", own="", **times)


def start(rig, container, origin, times):
    """Starts the gateway in the container, with weir's command line. Returns its port."""
    scenario, folder = rig.folder / "local.yaml", rig.folder / "elsewhere"
    scenario.write_text(local(times))
    port, admin = free_port(), free_port()
    at = {"--listen": port, "--admin": admin, "--origin": origin.port}
    places = [word for flag, number in at.items() for word in (flag, f"127.0.0.1:{number}")]
    options = ["--gateway", GATEWAY, "--out", folder, "--json", *places]
    done = rig.processes.run([rig.weir, "render", scenario, *options], None, rig.folder / "render.json", 60)
    if done.code != 0:
        raise Disagreement(f"weir render failed: {done.errors}")
    (process,) = json.loads(done.output)["processes"]
    with open(rig.folder / "gateway.log", "wb") as log:
        rig.processes.start(container.entered(process["command"]), None, log, variables=dict(process["env"]))
    return port


def cost_us(measurement):
    cost = measurement["cpu_us_per_request"]
    if cost is None:
        raise Disagreement(f"no CPU per request: {measurement['judgement']['evidence']}")
    return cost


def remote_like_local(rig):
    """Within 5 %, CPU time by Prometheus agrees with the kernel's per phase, and with the local driver's per request."""
    times, every = ({"warmup": 1, "duration": 4}, "500ms") if rig.quick else ({"warmup": 2, "duration": 12}, "1s")
    found = {"local": [], "remote": []}
    with Container(CPUS) as container, Exporter(container) as exporter, Watch(container) as watch:
        origin = rig.servers.weir_origin(None, "--workers", "1")
        port = start(rig, container, origin, times)
        url = prometheus(rig, exporter, every)
        for _ in range(ROUNDS):
            found["local"].append(measurements(run(rig, local(times))[1], GATEWAY))
            found["remote"].append(measurements(run(rig, elsewhere(port, origin, url, times))[1], "prod"))
    for measured in found["remote"]:
        for measurement in measured:
            counters, books = measurement["counters"], measurement["record"]["result"]["requests"]
            expect(counters["gateway_requests"] is None, f"{measurement['load']}: no counters of a remote gateway are read")
            expect(books["unexpected"] == 0, f"{books['completed']} of {books['scheduled']} requests completed")
    yield
    for measurement in (one for measured in found["remote"] for one in measured):
        record, usage = measurement["record"], measurement["usage"]["prod"]["cpu_s"]
        scraped_s = usage["user"] + usage["system"]
        used_s = watch.used_s(record["phase_start_mono_ns"], record["phase_end_mono_ns"])
        print(f"         {measurement['load']}: {evidence_of(measurement, 'scrapes in the phase')}", flush=True)
        sentence = f"{measurement['load']}: {scraped_s:.3f} s by Prometheus, {used_s:.3f} s by the kernel: {scraped_s / used_s - 1:+.1%}"
        expect(abs(scraped_s / used_s - 1) <= AGREES_WITHIN, sentence)
    for place, load in enumerate(("tail", "full")):
        costs = {name: [cost_us(measured[place]) for measured in rounds] for name, rounds in found.items()}
        each = "; ".join(f"{name} {', '.join(f'{value:.2f}' for value in values)} us" for name, values in costs.items())
        # Host noise also changes the cost between runs. The spread over the rounds shows by how much.
        apart = [math.log(there / here) for here, there in zip(costs["local"], costs["remote"])]
        reach = T_OF_FIVE * statistics.stdev(apart) / math.sqrt(len(apart))
        off, low, high = (math.exp(statistics.mean(apart) + side * reach) - 1 for side in (0, -1, 1))
        sentence = f"{load}: the interval of the difference, {off:+.1%} [{low:+.1%} .. {high:+.1%}], reaches below {AGREES_WITHIN:.0%}: {each}"
        expect(low <= AGREES_WITHIN and high >= -AGREES_WITHIN, sentence)
    for _, full in found["remote"]:
        throttled, bound = evidence_of(full, "throttled: "), full["judgement"]["bound_by"]
        expect("throttled" in reasons_of(full) and "the gateway in" in throttled, throttled or "the gateway was not throttled")
        expect(bound == "gateway", f"limited by the {bound}, with a quota of {CPUS} cores")


CHECKS = [remote_like_local]
