"""Added latency: weir finds a millisecond that a gateway adds, and reports the bias of the rig itself (A/A)."""

import math
import re
import statistics

from checks import ROOT, Disagreement, expect
from whole_runs import measurements, run

DRIVER = ROOT / "tests" / "acceptance" / "drivers" / "relay"
MILLISECOND_NS = 1_000_000
# Both relays hold requests for at least this time, because a relay that has just polled the clock sends about 40 us
# sooner than one that has just woken up. The rate is low, so few requests arrive while another one is held.
BASE_NS = 1_000_000
REPEATS = 6
# Two-sided 95 % quantile of Student's t with five degrees of freedom.
T_OF_SIX = 2.570_58

SCENARIO = """
name: one-millisecond
question: Is a millisecond that is put into the path found?
gateways:
  - {{ name: plain, driver: relay, binary: {relay}, set: {{ hold_ns: {base_ns} }} }}
  - {{ name: delayed, driver: relay, binary: {relay}, set: {{ hold_ns: {hold_ns} }} }}
topology: {{ domains: 1, paths: [/ping] }}
origin: {{ body: 64B }}
loads:
  steady: {{ model: open, rate: 50/s, connections: 8 }}
warmup: 500ms
duration: {duration}
twin: true
repeats: {repeats}
"""


def interval(differences):
    """The mean and its 95 % t interval: (mean, lower bound, upper bound)."""
    reach = T_OF_SIX * statistics.stdev(differences) / math.sqrt(len(differences))
    mean = statistics.mean(differences)
    return mean, mean - reach, mean + reach


def interval_text(values_ns):
    return "{:.4f} ms [{:.4f} .. {:.4f}]".format(*(value / 1e6 for value in values_ns))


def figure_text(figure):
    """The mean and confidence interval of a value that weir reports, if host noise left enough valid repeats."""
    return interval_text((figure["mean"], *figure["interval"])) if figure["interval"] else "no interval: too few valid repeats"


def held_ns(result, gateway):
    """The mean time that the relay held requests, from its own log, over all cells."""
    texts = [
        file["text"]
        for cell in result["cells"]
        if cell["key"]["gateway"] == gateway
        for file in cell["files"]
        if file["kind"] == "log"
    ]
    said = [int(found) for text in texts for found in re.findall(r"requests for (\d+) ns", text)]
    if not said:
        raise Disagreement(f"{gateway} did not log how long it held requests: {texts}")
    return statistics.mean(said)


def one_millisecond(rig):
    """A relay that adds 1 ms: the interval of added latency contains 1 ms, and the A/A interval is reported."""
    duration = "2s" if rig.quick else "10s"
    text = SCENARIO.format(relay=DRIVER / "relay.py", base_ns=BASE_NS, hold_ns=BASE_NS + MILLISECOND_NS, duration=duration, repeats=REPEATS)
    _, result = run(rig, text, "--drivers", DRIVER)
    of = {name: measurements(result, name) for name in ("plain", "delayed", "direct", "direct-twin")}
    for name, loads in of.items():
        expect(len(loads) == REPEATS, f"{name} was measured {len(loads)} times")
        for load in loads:
            counters = load["counters"]
            expect(
                counters["origin_requests"] == counters["generator_sent"],
                f"{name}: sent {counters['generator_sent']}, origin {counters['origin_requests']}",
            )
    point = result["summary"]["points"][0]
    names = [row["gateway"] for row in point["rows"]]
    expect(names == ["plain", "delayed", "direct"], f"the twin is no gateway: {names}")
    bias = dict(point["bias"]["difference_ns"])
    put_in_ns = held_ns(result, "delayed") - held_ns(result, "plain")
    print(f"    the relays' holding times differ by {put_in_ns / 1e6:.4f} ms", flush=True)
    # From here on, host noise affects every value.
    yield
    medians = {
        name: {
            cell["key"]["repeat"]: cell["outcome"]["measurements"][0]["record"]["result"]["latency_ns"]["p50"]
            for cell in result["cells"]
            if cell["key"]["gateway"] == name
        }
        for name in of
    }
    for name in ("p50", "p99"):
        expect(bias[name]["interval"] is not None, f"A/A at {name}: {figure_text(bias[name])}")
    rows = {row["gateway"]: dict(row["added_latency_ns"]) for row in point["rows"]}
    for name in ("plain", "delayed"):
        print(f"    {name} adds {figure_text(rows[name]['p50'])} at p50", flush=True)
    apart = [medians["delayed"][repeat] - medians["plain"][repeat] for repeat in sorted(medians["plain"])]
    found = interval(apart)
    expect(found[1] <= MILLISECOND_NS <= found[2], f"the interval of the difference between delayed and plain contains 1 ms: {interval_text(found)}")


CHECKS = [one_millisecond]
