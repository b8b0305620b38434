"""Verdict reasons that are slow to provoke: drift, CPU throttling, implausible latencies and rates."""

import json
import sqlite3

from checks import expect
from whole_runs import measurements, run, scenario

# weir checks for drift only in phases of at least 12 s: it compares thirds of the phase. In 15 s, each third lasts 5 s
# and separates drift from chance better.
PHASE = "15s"
CLOSED = "{ model: closed, connections: 10 }"
OPEN = "{ model: open, rate: 1000/s, connections: 128 }"
# The loads of the quickstart.
BOTH = f"{CLOSED}\n  tail: {{ model: open, rate: 3000/s, connections: 32 }}"


def reasons_of(measurement, metric="latency"):
    return measurement["judgement"]["verdicts"][metric]


def evidence_of(measurement, words):
    """The first sentence of the evidence that contains `words`, or an empty string."""
    return next((said for said in measurement["judgement"]["evidence"] if words in said), "")


def drift(rig):
    """If the delay grows, p50 drifts; in closed loads, so does throughput. If the delay is constant, nothing drifts."""
    slow = ["--repeats", "1", "--set", "origin.delay=const:10ms"]
    growing = [*slow, "--set", "origin.drift=1ms/1s"]
    drifting = [(moved, *run(rig, scenario(load, PHASE), *growing)) for load, moved in ((OPEN, ["p50"]), (CLOSED, ["throughput", "p50"]))]
    _, steady = run(rig, scenario(OPEN, PHASE), *slow)
    expect(all(code == 4 for _, code, _ in drifting), "exit code 4 with a drift")
    yield
    for moved, _, result in drifting:
        for gateway in ("weir", "direct"):
            for measurement in measurements(result, gateway):
                said = evidence_of(measurement, "first third")
                expect("not-stationary" in reasons_of(measurement), f"{gateway}: {said}")
                named = [name for name in ("throughput", "p50") if f"{name} went from" in said]
                expect(named == moved, f"drifting metrics: {named}")
    for measurement in measurements(steady):
        said = evidence_of(measurement, "first third")
        expect("not-stationary" not in reasons_of(measurement), f"a constant delay: {said or 'no drift'}")


def quickstart_stays_quiet(rig):
    """Ten runs of the quickstart in a row: no verdict reports a drift."""
    for number in range(2 if rig.quick else 10):
        options = ["--gateway", "weir", "--repeats", "1", "--json", "--db", rig.folder / "weir.db", "--out", rig.folder / "out"]
        done = rig.processes.run([rig.weir, "run", "quickstart", *options], None, rig.folder / "run.json", 120)
        result = json.loads(done.output)
        verdicts = [(measurement["load"], reasons) for gateway in ("weir", "direct") for measurement in measurements(result, gateway)
                    for reasons in measurement["judgement"]["verdicts"].values()]
        drifted = [load for load, reasons in verdicts if "not-stationary" in reasons]
        expect(len(verdicts) == 12 and not drifted, f"run {number + 1}: {len(drifted)} of {len(verdicts)} verdicts report a drift")
    yield


def a_steady_load_stays_quiet(rig):
    """Long phases of constant loads: no verdict reports a drift."""
    _, result = run(rig, scenario(BOTH, PHASE if rig.quick else "30s"), "--repeats", "1")
    yield
    for gateway in ("weir", "direct"):
        for measurement in measurements(result, gateway):
            said = evidence_of(measurement, "first third")
            expect("not-stationary" not in reasons_of(measurement), f"{gateway}, {measurement['load']}: {said or 'no drift'}")


def throttled_gateway(rig):
    """A CPU quota throttles the gateway: latency has the reason `throttled`, throughput and CPU do not."""
    _, result = run(rig, scenario(CLOSED), "--set", "limits.data.cpus=0.1")
    for measurement in measurements(result):
        said = evidence_of(measurement, "throttled: ")
        expect("throttled" in reasons_of(measurement) and "the gateway in" in said, said)
        for metric in ("throughput", "cpu"):
            expect("throttled" not in reasons_of(measurement, metric), f"{metric}: {reasons_of(measurement, metric)}")
    yield


def below_the_floor(rig):
    """Latency below the host's known floor is implausible. To provoke this, the check stores a floor of one second."""
    database = rig.folder / "weir.db"
    rig.processes.run([rig.weir, "doctor", "--json", "--db", database], None, rig.folder / "doctor.json", 120)
    connection = sqlite3.connect(database, isolation_level=None)
    try:
        (text,) = connection.execute("SELECT bounds FROM hosts").fetchone()
        # weir uses half of the measured minimum as the floor.
        bounds = json.dumps(json.loads(text) | {"floor_min_ns": 2_000_000_000})
        connection.execute("UPDATE hosts SET bounds = ?", [bounds])
        code, result = run(rig, scenario(CLOSED), "--repeats", "1")
        for measurement in measurements(result):
            said = evidence_of(measurement, "loopback floor")
            expect("implausible" in reasons_of(measurement, "throughput") and "1.00 s" in said, said)
        expect(code == 4, f"exit code {code}")
    finally:
        # Other checks use the same database.
        connection.execute("DELETE FROM hosts")
        connection.close()
    yield


def in_flight_apart(rig):
    """In a phase slightly longer than the latency, two batches of responses arrive: the rate is implausible."""
    # All connections send at once and wait 600 ms. The phase lasts from 530 to 1,270 ms, so it contains the responses
    # at 600 and at 1,200 ms. By Little's law, these 200 responses in 740 ms need 162 connections, but there are 100.
    load = "{ model: closed, connections: 100 }"
    times = ["--set", "warmup=530ms", "--set", "origin.delay=const:600ms"]
    code, result = run(rig, scenario(load, "740ms"), "--repeats", "1", *times)
    expect(code == 4, f"exit code {code}")
    yield
    for measurement in measurements(result, "direct"):
        said = evidence_of(measurement, "in flight by sampling")
        expect("implausible" in reasons_of(measurement, "throughput") and said, said or "the rate is accepted")


CHECKS = [drift, quickstart_stays_quiet, a_steady_load_stays_quiet, throttled_gateway, below_the_floor, in_flight_apart]
