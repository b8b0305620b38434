"""`weir compare` on real runs: the same gateway twice is not reported as different, and added CPU time is detected."""

import json
import pathlib

from checks import Disagreement, ROOT, expect

# The same program twice, interleaved in one run: differences are chance.
TWICE = "[{ name: old, driver: weir }, { name: new, driver: weir }]"
LOADS = "\n  full: { model: closed, connections: 10 }\n  tail: { model: open, rate: 2000/s, connections: 32 }"
# CPU time per request is most stable at a fixed rate. At such a rate, the rig's own CPU time shows the speed of the host.
STEADY = "\n  steady: { model: open, rate: 3000/s, connections: 32 }"
SCENARIO = """
name: comparison
question: Is one worse than the other?
gateways: {gateways}
limits: {{ data: {{ cpus: 0.5, memory: 128MiB }}, origin: {{ cpus: 1 }} }}
topology: {{ domains: 1, paths: [/ping] }}
origin: {{ body: 64B }}
loads: {loads}
warmup: 300ms
duration: {duration}
repeats: {repeats}
"""
RUN_S_MAX = 1200
RUNS, RUNS_QUICK = 5, 1
REPEATS, REPEATS_QUICK = 10, 6
# For each request, the gateway evaluates regular expressions that never match. Their cost is measured first. Both
# gateways evaluate at least ALWAYS of them, so that the fixed cost of the first expression cancels out.
ALWAYS = 100
CALIBRATION = 200
CALIBRATION_REPEATS = 16
# The ratio within one block varies by about 10 %, and by about 3 % after correction for the host's speed.
RISE_REPEATS = 20
RISE = 0.10
# Allowed difference between the detected and the added rise. Both are measured.
APART = 0.03
# The location in nginx's configuration that handles every request.
LOCATION = "        location = {{ path }} {"


def measured(rig, gateways, loads, repeats, duration):
    """Runs a scenario. Returns its JSON for any exit code."""
    path = rig.folder / "comparison.yaml"
    path.write_text(SCENARIO.format(gateways=gateways, loads=loads, repeats=repeats, duration=duration))
    options = ["--json", "--db", rig.folder / "comparison.db", "--out", rig.folder / "comparison"]
    done = rig.processes.run([rig.weir, "run", path, *options], None, rig.folder / "comparison.json", RUN_S_MAX)
    if not done.output.strip():
        raise Disagreement(f"weir run printed nothing: {done.errors}")
    return json.loads(done.output)


def compared(rig, a, b, *options):
    """Compares gateways of the last run. Returns (exit code, JSON)."""
    command = [rig.weir, "compare", f"last:{a}", f"last:{b}", "--json", "--db", rig.folder / "comparison.db", *options]
    done = rig.processes.run(command, None, rig.folder / "compared.json", 60)
    if not done.output.strip():
        raise Disagreement(f"weir compare printed nothing: {done.errors}")
    return done.code, json.loads(done.output)


def judged(comparison):
    """Yields each value that has a verdict, and a line that describes the value."""
    for point in comparison["points"]:
        for figure in point["figures"]:
            if figure["verdict"]:
                low, high = figure["interval"] or (float("nan"), float("nan"))
                ratio, smallest = figure["ratio"] or float("nan"), figure["smallest_effect"] or float("nan")
                words = f"{point['load']} {figure['measure']}: {ratio:.3f} ({low:.3f} .. {high:.3f}), {figure['verdict']}, smallest effect {smallest:.1%} {figure['why']}"
                yield figure, words


def the_same_twice(rig):
    """Interleaved runs of one gateway under two names, ten repeats each: nothing is better or worse."""
    repeats = REPEATS_QUICK if rig.quick else REPEATS
    for number in range(RUNS_QUICK if rig.quick else RUNS):
        measured(rig, TWICE, LOADS, repeats, "1s")
        code, comparison = compared(rig, "old", "new", "--fail-on", "worse")
        figures = list(judged(comparison))
        print(f"    run {number + 1}:\n" + "\n".join(f"      {words}" for _, words in figures), flush=True)
        claimed = [words for figure, words in figures if figure["verdict"] in ("better", "worse")]
        expect(comparison["is_paired"] and len(figures) == 5, f"run {number + 1}: {len(figures)} values compared block by block")
        expect(not claimed and code != 1, f"run {number + 1}: no value is better or worse {claimed}")
    yield


def with_work(rig, name, expressions):
    """nginx with its driver's configuration, plus `expressions` regular expressions per request that never match."""
    text = (ROOT / "drivers/nginx/nginx.conf").read_text()
    if LOCATION not in text:
        raise Disagreement(f"drivers/nginx/nginx.conf does not contain `{LOCATION.strip()}`")
    work = "".join(f' rewrite "^/(?:no|never){at}/([a-z]+)/([0-9]+)$" /$1 break;' for at in range(expressions))
    path = rig.folder / f"{name}.conf"
    path.write_text(text.replace(LOCATION, LOCATION + work)
                    .replace("{{ \"on\" if set.buffering else \"off\" }}", "on"))
    return f"{{ name: {name}, driver: nginx, config: {pathlib.Path(path).name} }}"


def cpu_us(result, gateway):
    """CPU time per request over the valid repeats, from the run's summary."""
    rows = [row for point in result["summary"]["points"] for row in point["rows"] if row["gateway"] == gateway]
    mean = rows[0]["cpu_us_per_request"]["mean"]
    if mean is None:
        raise Disagreement(f"no CPU time per request of {gateway}")
    return mean


def a_tenth_more_cpu(rig):
    """A tenth more work per request in nginx is detected. A first run calibrates this amount."""
    repeats = REPEATS_QUICK if rig.quick else RISE_REPEATS
    gateways = f"[{with_work(rig, 'bare', ALWAYS)}, {with_work(rig, 'busy', ALWAYS + CALIBRATION)}]"
    result = measured(rig, gateways, STEADY, CALIBRATION_REPEATS, "1s")
    bare, busy = cpu_us(result, "bare"), cpu_us(result, "busy")
    each = (busy - bare) / CALIBRATION
    expressions = round(RISE * bare / each) if each > 0 else 0
    put_in = expressions * each / bare
    print(f"    {bare:.2f} us a request, {busy:.2f} with {CALIBRATION} expressions more: {expressions} are {put_in:.1%}", flush=True)
    expect(expressions > 0 and abs(put_in - RISE) < 0.02, f"{expressions} expressions make {put_in:.1%} more")
    gateways = f"[{with_work(rig, 'old', ALWAYS)}, {with_work(rig, 'new', ALWAYS + expressions)}]"
    measured(rig, gateways, STEADY, repeats, "1s")
    code, comparison = compared(rig, "old", "new", "--fail-on", "worse")
    figures = list(judged(comparison))
    print("\n".join(f"      {words}" for _, words in figures), flush=True)
    yield
    cpu, words = next((figure, words) for figure, words in figures if figure["measure"] == "cpu")
    speed = cpu["host_speed"] or {}
    print(f"    at equal speed of the host: {speed}", flush=True)
    expect(speed.get("measured") and len(speed["rig_interval"]) == 2, "the comparison is corrected for the host's speed")
    expect(cpu["verdict"] == "worse" and code == 1, f"the verdict is worse: {words}")
    expect(abs(cpu["ratio"] - 1 - put_in) <= APART, f"detected {cpu['ratio'] - 1:.1%}, added {put_in:.1%}")


CHECKS = [the_same_twice, a_tenth_more_cpu]
