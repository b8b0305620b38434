"""The capacity at an objective: the lab's search compared with queueing theory."""

import json

import capacities
from checks import Disagreement, expect
from whole_runs import RUN_S_MAX, run

RUNS = 5
HEADROOM_RUNS = 3
COVERED_MIN = 4
# `docs/method.md#capacity`: maximum relative error of the capacity, and maximum relative width of its interval.
TOLERANCE = 0.1
WIDTH_MAX = 0.2
LIMIT_S = 0.01

# Additional repeats narrow the result more than longer searches do, so each search may stop at a wide interval. The
# search measures the queue of the upstream, because the gateway adds only little latency. So the upstream's delay must
# not make trials invalid.
SCENARIO = """
name: capacity
question: Is the capacity that theory gives found?
gateways: [weir]
limits: {{ data: {{ cpus: 0.75, memory: 128MiB }}, origin: {{ cpus: 1 }} }}
topology: {{ domains: 1, paths: [/ping] }}
origin: {{ body: 64B, service: "{service}", servers: {servers} }}
loads:
  capacity: {{ model: open, connections: 128, rate: 1000/s, duration: 1s, search: {{ p99: 10ms, errors: 0.1%, width: 20% }} }}
warmup: 500ms
timeout: 2s
repeats: 4
thresholds: {{ upstream_delay_share: 1 }}
"""


def against_theory(rig, service, servers, line):
    """Searches for the capacity in five runs, with and without the gateway; results must match the recursion."""
    truth = line.capacity_per_s(0.99, LIMIT_S)
    print(f"    {service}, {servers} servers: theory {truth:.0f}/s", flush=True)
    answers = {"weir": [], "direct": []}
    runs = 1 if rig.quick else RUNS
    for _ in range(runs):
        _, result = run(rig, SCENARIO.format(service=service, servers=servers))
        (capacity,) = result["summary"]["capacities"]
        for row in capacity["rows"]:
            answers[row["gateway"]].append(row)
    yield
    for gateway, rows in answers.items():
        covered = 0
        for number, row in enumerate(rows):
            expect(row["per_s"]["valid"] == len(row["searches"]), f"{gateway}, run {number + 1}: every search has a result")
            mean, (low, high) = row["per_s"]["mean"], row["per_s"]["interval"] or (0, float("inf"))
            trials = [searched["found"]["trials"] for searched in row["searches"]]
            stopped = {searched["found"]["stopped"] for searched in row["searches"]}
            covered += low <= truth <= high
            said = f"{gateway}, run {number + 1}: {mean:.0f}/s [{low:.0f} .. {high:.0f}], trials {trials}, {', '.join(stopped)}"
            expect(abs(mean / truth - 1) <= TOLERANCE, f"{said}: within 10 % of {truth:.0f}/s")
            expect((high - low) / mean <= WIDTH_MAX, f"{said}: no wider than 20 %")
        least = COVERED_MIN * len(rows) // RUNS
        expect(covered >= least, f"{gateway}: {covered} of {len(rows)} intervals contain {truth:.0f}/s")


def capacity_of_exponential_service(rig):
    """One server with exponential service times: the capacity at p99 agrees with M/M/1."""
    line = capacities.exponential(0.0005, 1)
    closed = capacities.capacity_of_mm1(0.0005, 0.99, LIMIT_S)
    found = line.capacity_per_s(0.99, LIMIT_S)
    expect(abs(found / closed - 1) < 0.01, f"the recursion gives {found:.0f}/s, the closed form {closed:.0f}/s")
    yield from against_theory(rig, "exp:500us", 1, line)


def capacity_of_constant_service(rig):
    """One server with constant service times: the capacity at p99 agrees with M/D/1."""
    yield from against_theory(rig, "const:500us", 1, capacities.constant(0.0005, 1))


def capacity_of_two_servers(rig):
    """Two servers with exponential service times: the capacity agrees with Kiefer and Wolfowitz's recursion."""
    yield from against_theory(rig, "exp:1ms", 2, capacities.exponential(0.001, 2))


def capacity_of_two_equal_servers(rig):
    """Two servers with constant service times: the capacity agrees with Kiefer and Wolfowitz's recursion."""
    yield from against_theory(rig, "const:1ms", 2, capacities.constant(0.001, 2))


def headroom_three_times(rig):
    """`weir run headroom`, three times: intervals of weir-gateway's capacity overlap, with few and with many routes."""
    found = {}
    # This check does not need a detailed curve.
    shorter = ["--quick", "--set", "retries=1", "--set", "loads.curve.rates=[10%, 50%]"]
    command = [rig.weir, "run", "headroom", "--gateway", "weir", *shorter, "--json",
               "--db", rig.folder / "headroom.db"]
    for number in range(1 if rig.quick else HEADROOM_RUNS):
        options = ["--out", rig.folder / f"headroom-{number}"]
        done = rig.processes.run([*command, *options], None, rig.folder / "headroom.json", RUN_S_MAX)
        if not done.output.strip():
            raise Disagreement(f"weir run headroom printed nothing: {done.errors}")
        for capacity in json.loads(done.output)["summary"]["capacities"]:
            row = next(row for row in capacity["rows"] if row["gateway"] == "weir")
            paths = capacity["axes"]["topology.paths"]
            searches = "; ".join(f"{searched['found']['trials']} trials, {searched['found']['stopped']}, {searched['reasons'] or 'valid'}" for searched in row["searches"])
            said = f"run {number + 1}, {paths} paths: {row['per_s']['valid']} of {len(row['searches'])} searches are valid: {searches}"
            expect(row["per_s"]["interval"] is not None, said)
            found.setdefault(paths, []).append(row["per_s"]["interval"])
    yield
    for paths, intervals in found.items():
        shown = "; ".join(f"{low:.0f} .. {high:.0f}" for low, high in intervals)
        overlap = max(low for low, _ in intervals) <= min(high for _, high in intervals)
        expect(overlap, f"{paths} paths: the intervals overlap: {shown}")


CHECKS = [
    headroom_three_times,
    capacity_of_exponential_service,
    capacity_of_constant_service,
    capacity_of_two_servers,
    capacity_of_two_equal_servers,
]
