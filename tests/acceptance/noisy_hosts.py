"""Results on a noisy host: intervals and bounds compared with quiet repeats of the same scenario.

Quiet and noisy runs alternate. The values of all quiet repeats are the reference. A noisy run is wrong about a value if
its interval or bounds do not overlap the reference's 95 % interval.
"""

import collections
import json
import math
import statistics

from checks import Disagreement, expect
import comparing
import noise

GATEWAYS = "[weir, nginx]"
# Main metrics: with noise of 10 % of a core, most of them must be valid.
MAIN = ("throughput", "cpu", "p50")
TAILS = ("p99", "p999")
METRICS = MAIN + TAILS
# At most this share of the intervals and bounds of a metric may exclude the reference.
WRONG_MAX = 0.05
VALID_MIN = 0.80
UPPER_MAX = 10.0
TIME_MAX = 1.5
QUIET_REPEATS_MIN = 20
# Noise patterns of --quick. A noisy run follows each quiet run; more quiet runs follow until the reference is complete.
QUICK = ["steady-10", "bursts-both", "steady-25-both"]
REPEATS = 3
RUN_S_MAX = 600
TENTH = "steady-10"
QUARTER = "steady-25-both"

Value = collections.namedtuple("Value", "state mean low high")


def measured(rig, repeats, *more):
    """Runs the quickstart. Returns its JSON."""
    options = [*more, "--json", "--set", f"gateways={GATEWAYS}", "--repeats", str(repeats), "--db", rig.folder / "noise.db"]
    command = [rig.weir, "run", "quickstart", *options, "--out", rig.folder / "noise"]
    done = rig.processes.run(command, None, rig.folder / "noise.json", RUN_S_MAX)
    if not done.output.strip():
        raise Disagreement(f"weir run printed nothing: {done.errors}")
    return json.loads(done.output)


def figures(result):
    """Yields ((load, gateway, metric), value) of the main metrics and tails of every gateway."""
    for point in result["summary"]["points"]:
        for row in point["rows"]:
            if row["gateway"].startswith("direct"):
                continue
            is_closed = point["model"] == "closed"
            found = {"throughput": row["throughput_per_s"], "cpu": row["cpu_us_per_request"]}
            found |= dict(row["latency_ns"])
            for metric in METRICS:
                if (metric == "throughput") == is_closed or metric == "cpu":
                    yield (point["load"], row["gateway"], metric), found[metric]


def said(figure):
    """A value as reported: valid with an interval, bounded, or invalid."""
    bounds = figure["bounds"]
    if bounds["low"] is not None or bounds["high"] is not None:
        low = -math.inf if bounds["low"] is None else bounds["low"]
        high = math.inf if bounds["high"] is None else bounds["high"]
        return Value("bounded", figure["mean"], low, high)
    if figure["valid"] >= REPEATS and figure["interval"]:
        return Value("valid", figure["mean"], *figure["interval"])
    return Value("invalid", figure["mean"], -math.inf, math.inf)


def interval(values):
    """The 95 % t interval of the geometric mean."""
    logs = [math.log(value) for value in values]
    mean, error = statistics.mean(logs), statistics.stdev(logs) / math.sqrt(len(logs))
    # The quantile of Student's t, expanded around the normal quantile; exact to 0.1 % from 10 degrees of freedom.
    z, degrees = statistics.NormalDist().inv_cdf(0.975), len(logs) - 1
    t = z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
    return math.exp(mean - t * error), math.exp(mean + t * error)


class Reference:
    """The measured values of all quiet repeats, including invalid values."""

    def __init__(self):
        self.values = collections.defaultdict(list)

    def add(self, result):
        for place, figure in figures(result):
            of = [repeated["sample"] for repeated in figure["repeats"]]
            self.values[place] += [sample["value"] for sample in of if sample["kind"] == "value"]

    def repeats(self):
        return min(map(len, self.values.values()))

    def interval(self, place):
        return interval(self.values[place])

    def mean(self, place):
        return math.exp(statistics.mean(map(math.log, self.values[place])))


def took_s(result):
    return (result["run"]["ended_unix_ms"] - result["run"]["started_unix_ms"]) / 1e3


def noise_is_bounded(rig):
    """Under many patterns of noise, intervals and bounds contain the quiet value, and most main metrics are valid."""
    patterns = rig.patterns or (QUICK if rig.quick else [pattern.name for pattern in noise.PATTERNS])
    reference, noisy, quiet_s = Reference(), {}, []
    while not reference.values or len(noisy) < len(patterns) or reference.repeats() < QUIET_REPEATS_MIN:
        quiet = measured(rig, REPEATS if len(noisy) < len(patterns) else QUIET_REPEATS_MIN - reference.repeats())
        quiet_s.append(took_s(quiet) / len(quiet["cells"]))
        reference.add(quiet)
        for name in patterns[len(noisy) : len(noisy) + 1]:
            with noise.running(name, seed=len(noisy) + 1):
                noisy[name] = measured(rig, REPEATS)
    yield
    per_cell_s = statistics.median(quiet_s)
    wrong, all_of = collections.Counter(), collections.Counter()
    for name, result in noisy.items():
        states = collections.Counter()
        for place, figure in figures(result):
            value, (low, high) = said(figure), reference.interval(place)
            states[value.state] += 1
            all_of[place[2]] += 1
            if value.high < low or value.low > high:
                wrong[place[2]] += 1
                print(f"    {name}: {' '.join(place)}: {value.state} {value.low:.4g} to {value.high:.4g}, quiet {low:.4g} to {high:.4g}", flush=True)
        took = took_s(result) / len(result["cells"]) / per_cell_s
        print(f"    {name}: {dict(states)}; took {took:.2f} times a quiet run", flush=True)
    for metric in METRICS:
        share = wrong[metric] / all_of[metric]
        expect(share <= WRONG_MAX, f"{metric}: {wrong[metric]} of {all_of[metric]} intervals and bounds do not contain the quiet value")
    if TENTH in noisy:
        tenth_of_a_core(noisy[TENTH], reference, per_cell_s)
    if QUARTER in noisy:
        values = [said(figure) for _, figure in figures(noisy[QUARTER])]
        known = sum(value.state != "invalid" for value in values)
        expect(known == len(values), f"{QUARTER}: {known} of {len(values)} values are valid or bounded")


def tenth_of_a_core(result, reference, per_cell_s):
    """Checks the results beside a neighbour that uses a tenth of a core."""
    values = [(place, said(figure)) for place, figure in figures(result)]
    main = [value for (*_, metric), value in values if metric in MAIN]
    valid = sum(value.state == "valid" for value in main)
    expect(valid >= VALID_MIN * len(main), f"{TENTH}: {valid} of {len(main)} of throughput, CPU per request and p50 are valid")
    tails = [(place, value) for place, value in values if place[2] in TAILS]
    expect(all(value.state != "invalid" for _, value in tails), f"{TENTH}: every p99 and p99.9 is valid or bounded")
    upper = statistics.median(value.high / reference.mean(place) for place, value in tails if place[2] == "p99")
    expect(upper <= UPPER_MAX, f"{TENTH}: the median upper bound of p99 is {upper:.1f} times the quiet value")
    results = [objective for point in result["summary"]["points"] for row in point["rows"] for objective in row["objective"]]
    decided = sum(objective["met"] != "unknown" for objective in results)
    expect(results and decided == len(results), f"{TENTH}: {decided} of {len(results)} objectives are decided")
    took = took_s(result) / len(result["cells"]) / per_cell_s
    expect(took <= TIME_MAX, f"{TENTH}: the run took {took:.2f} times a quiet one")


def noise_claims_nothing(rig):
    """While a neighbour uses a tenth of a core, one gateway under two names is reported as neither better nor worse."""
    repeats = comparing.REPEATS_QUICK if rig.quick else comparing.REPEATS
    claimed = []
    for number in range(comparing.RUNS_QUICK if rig.quick else comparing.RUNS):
        with noise.running(TENTH, seed=number + 1):
            comparing.measured(rig, comparing.TWICE, comparing.LOADS, repeats, "1s")
        _, comparison = comparing.compared(rig, "old", "new")
        figures = list(comparing.judged(comparison))
        print(f"    run {number + 1}:\n" + "\n".join(f"      {words}" for _, words in figures), flush=True)
        expect(figures, "metrics are judged")
        claimed += [words for figure, words in figures if figure["verdict"] in ("better", "worse")]
    yield
    expect(not claimed, f"nothing is called better or worse: {claimed}")


def until_stops(rig):
    """`--until` adds repeats until intervals are narrow enough or the limit is reached, and reports why it stops."""
    for tolerances, at_most in (("cpu=100%,p50=100%,throughput=100%", 12), ("cpu=0.01%", 4)):
        options = ["--until", tolerances, "--at-most", str(at_most), "--db", rig.folder / "until.db", "--json"]
        command = [rig.weir, "run", "quickstart", "--gateway", "weir", *options, "--out", rig.folder / "until"]
        done = rig.processes.run(command, None, rig.folder / "until.json", RUN_S_MAX)
        result = json.loads(done.output)
        said = next((line for line in done.errors.splitlines() if line.startswith("--until: ")), "")
        repeats = result["run"]["scenario"]["repeats"]
        expect(result["run"]["manifest"]["repeats_were_added"], "the manifest marks the run: its intervals are valid at every intermediate look")
        if at_most == 4:
            expect(repeats == at_most and "(--at-most)" in said, f"{repeats} repeats: {said}")
        else:
            expect(f"after {repeats} repeats" in said or "(--at-most)" in said, f"{repeats} repeats: {said}")
    yield


def control_is_found(rig):
    """A run with six repeats detects what `--control weir=50%` adds: CPU time, and a delay of half the p50."""
    result = measured(rig, 6, "--control", "weir=50%")
    yield
    finding = next(finding for finding in result["summary"]["findings"] if finding["key"] == "control")
    print("\n".join(f"    {sentence}" for sentence in finding["sentences"]), flush=True)
    rows = {(row["load"], row["axes"]["metric"]): [value.get("text") for value in row["values"]] for row in finding["tables"][0]["rows"]}
    for load, metric in (("full", "cpu"), ("full", "throughput"), ("tail", "p50")):
        _, _, _, _, found, _, why = rows[load, metric]
        expect(found == "detected" and not why, f"{load} {metric}: {found} {why}")
    names = [gateway["name"] for gateway in result["summary"]["gateways"]]
    expect("control" not in names, f"the control is no gateway: {names}")


def tails_need_seconds(rig):
    """In a run of a few seconds, p99.9 is not a headline, and the report names the affected metrics."""
    # A tail is a headline only if at least five seconds contain slower requests: three repeats of one second are
    # too short. With the default tolerance, host noise could make p99.9 bounded, which also prevents a headline.
    result = measured(rig, REPEATS, "--quick", "--set", "loads.tail.duration=1s", "--set", "thresholds.tail_tolerance=1")
    yield
    said = [words for point in result["summary"]["points"] for words in point["conclusions"] if "seconds contain slower requests" in words]
    rows = [row for point in result["summary"]["points"] if point["model"] == "open" for row in point["rows"] if row["gateway"] == "weir"]
    tail = dict(rows[0]["latency_ns"])["p999"]
    expect(not tail["headline"] and said and "p99.9 of weir" in said[0], f"{said}")


def doctor_says_what_it_can_decide(rig):
    """`weir doctor` reports the smallest differences that a comparison can detect here, and names a noisy neighbour."""
    with noise.running("steady-25-both"):
        done = rig.processes.run([rig.weir, "doctor", "--json", "--db", rig.folder / "doctor.db"], None, rig.folder / "doctor.json", 300)
    examination = json.loads(done.output)
    yield
    expect("python3" in " ".join(examination["advice"]), "the neighbour is named")
    said = examination["advice"][-1]
    expect(said.startswith("A 10-minute comparison") and "only bounds of" in said and "p99" in said, said)
    precision = examination["precision"]
    expect(all(0 < share for share in precision.values()), f"{precision}")


CHECKS = [noise_is_bounded, noise_claims_nothing, until_stops, control_is_found, tails_need_seconds, doctor_says_what_it_can_decide]
