"""Load from several agents: exact sums, a common start, and the values of one load generator."""

import json

from checks import balanced, expect
from delays import given

AGENTS = 18
START_SPREAD_NS_MAX = 50_000_000
RUN_S_MAX = 600


def loaded(rig, url, *more):
    """Runs a load from all agents. Returns its JSON."""
    options = ["--on", f"local:{AGENTS}", "--connections", 2 * AGENTS, "--duration", "5s", "--warmup", "0s", *more]
    done = rig.processes.run([rig.weir, "load", url, *options, "--json"], None, rig.folder / "agents.log", RUN_S_MAX)
    return json.loads(done.output)


def eighteen_agents(rig):
    """Eighteen agents on one host send one load: counts are exact, and all start at the same time."""
    origin = rig.origin()
    result = loaded(rig, f"http://127.0.0.1:{origin.port}/", "--rate", "1800/s")
    shards, requests = result["shards"], result["requests"]
    counted = given(origin.port)["requests"]
    expect(balanced(requests) and len(shards) == AGENTS, f"{len(shards)} shards, and counts balance")
    sums = {name: sum(shard["requests"][name] for shard in shards) for name in requests}
    expect(sums == requests, f"counts are the sums over the shards: {requests}")
    expect(counted == requests["sent"], f"the origin counted {counted} of {requests['sent']} requests")
    offsets = [shard["start_offset_ns"] for shard in shards]
    spread_ns = max(offsets) - min(offsets)
    yield
    expect(spread_ns <= START_SPREAD_NS_MAX, f"the shards started within {spread_ns / 1e3:.0f} us")


def crowded_agents_say_so(rig):
    """Eighteen agents send as fast as they can: the agents, not the server, limit the load (`generator-limited`)."""
    origin = rig.origin()
    for rate in ([], ["--rate", "60000/s"]):
        result = loaded(rig, f"http://127.0.0.1:{origin.port}/", *rate)
        reasons = result["verdicts"]["throughput"]
        expect("generator-limited" in reasons and result["bound_by"] == "generator", f"{rate or 'closed loop'}: {reasons}")
    yield


def headlines(rig, name, *more):
    """Confidence intervals of a run's headlines, by load, axes, gateway and metric."""
    options = ["--gateway", "weir", "--gateway", "nginx", "--quick", "--repeats", "4", "--db", rig.folder / "agents.db"]
    command = [rig.weir, "run", "side-by-side", *options, *more, "--out", rig.folder / name, "--json"]
    done = rig.processes.run(command, None, rig.folder / f"{name}.json", RUN_S_MAX)
    found = {}
    for point in json.loads(done.output)["summary"]["points"]:
        for row in point["rows"]:
            metrics = {"throughput": row["throughput_per_s"], "cpu": row["cpu_us_per_request"], "p50": dict(row["latency_ns"])["p50"]}
            for metric, figure in metrics.items():
                if not row["gateway"].startswith("direct") and figure["interval"] and figure["headline"]:
                    found[point["load"], str(point["axes"]), row["gateway"], metric] = figure["interval"]
    return found


def agents_agree_with_one_generator(rig):
    """Two agents in network namespaces measure the same as one load generator: their intervals overlap."""
    one = headlines(rig, "one", "--set", "network=namespaces")
    two = headlines(rig, "two", "--on", "netns:2")
    yield
    both = sorted(one.keys() & two.keys())
    expect(len(both) >= 4, f"{len(both)} headlines are valid in both runs")
    apart = []
    for place in both:
        (low, high), (low_of_agents, high_of_agents) = one[place], two[place]
        print(f"    {' '.join(place)}: {low:.4g} to {high:.4g}, with agents {low_of_agents:.4g} to {high_of_agents:.4g}", flush=True)
        if high < low_of_agents or high_of_agents < low:
            apart.append(place)
    # By chance, one in two hundred pairs of independent 95 % intervals of equal width does not overlap.
    expect(len(apart) <= len(both) // 20, f"{len(apart)} of {len(both)} pairs of intervals do not overlap: {apart}")


CHECKS = [eighteen_agents, crowded_agents_say_so, agents_agree_with_one_generator]
