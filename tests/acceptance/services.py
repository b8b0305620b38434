"""Gateways that depend on services, for real: Gorouter over NATS, KubeGateway in front of an API server. Each needs its program
on PATH."""

import collections
import json

from checks import expect
import whole_runs

MANY, MANY_QUICK = 5_000, 500
# Those of the scenario `kubernetes-api`.
TOKENS = 10
EVERY_S = 4
SCENARIO = """
name: gorouter
question: What do many routes cost, and that they are registered again?
gateways: [{{ name: gorouter, set: {{ every: {every}s }} }}, weir]
limits: {{ data: {{ cpus: 0.5, memory: 1GiB }} }}
topology: {{ domains: 1, paths: [/ping] }}
vary: {{ topology.domains: [1, {many}] }}
origin: {{ body: 1KiB }}
loads: {{ steady: {{ model: open, rate: 300/s, connections: 32 }} }}
warmup: 2s
duration: {duration}s
repeats: {repeats}
"""


def gorouter_registers_again(rig):
    """Gorouter answers every request while its routes are registered again; the report has what that and many routes cost."""
    many, repeats = (MANY_QUICK, 1) if rig.quick else (MANY, 3)
    scenario = SCENARIO.format(every=EVERY_S, many=many, repeats=repeats, duration=3 * EVERY_S)
    _, result = whole_runs.run(rig, scenario)
    yield
    memory = {}
    for cell in result["cells"]:
        if cell["key"]["gateway"] != "gorouter":
            continue
        domains = cell["key"]["axes"]["topology.domains"]
        expect(cell["outcome"]["kind"] == "measured", f"gorouter with {domains} routes: {cell['outcome'].get('message', 'measured')}")
        (steady,) = cell["outcome"]["measurements"]
        whole = steady["record"]["whole"]
        wrong = sum(whole[name] for name in ("failed", "timed_out", "dropped", "unexpected"))
        expect(wrong == 0, f"{domains} routes: {wrong} of {whole['scheduled']} requests failed")
        registrations = [event["details"] for event in steady["events"] if event["kind"] == "registration"]
        messages = {details["messages"] for details in registrations}
        expect(len(registrations) >= 2 and messages == {domains}, f"{domains} routes: {len(registrations)} registrations of {messages} messages")
        memory.setdefault(domains, []).append(steady["usage"]["gorouter"]["memory_bytes_peak"])
    least, most = (sum(memory[domains]) / len(memory[domains]) / 2**20 for domains in (1, many))
    expect(most > least, f"memory: {least:.1f} MiB with 1 route, {most:.1f} MiB with {many}")
    findings = {finding["key"]: finding for finding in result["summary"]["findings"]}
    expect("registrations" in findings, f"findings: {', '.join(findings)}")
    print("\n".join(f"    {sentence}" for sentence in findings["registrations"]["sentences"]), flush=True)
    gateways = {row["gateway"] for row in findings["registrations"]["tables"][0]["rows"]}
    expect(gateways == {"gorouter"}, f"registrations of {gateways}")


def kubegateway_asks_about_tokens(rig):
    """KubeGateway asks the API server about each token that it does not keep; the API server counts what was sent."""
    gateways = [option for name in ("kubegateway", "weir", "envoy") for option in ("--gateway", name)]
    options = [*gateways, "--json", "--db", rig.folder / "api.db", "--out", rig.folder / "api", *(["--quick"] if rig.quick else [])]
    done = rig.processes.run([rig.weir, "run", "kubernetes-api", *options], None, rig.folder / "api.json", 3_600)
    result = json.loads(done.output)
    yield
    reviews = collections.Counter()
    for cell in result["cells"]:
        gateway, axes = cell["key"]["gateway"], cell["key"]["axes"]
        expect(cell["outcome"]["kind"] == "measured", f"{gateway}, {axes}: {cell['outcome'].get('message', 'measured')}")
        for load in cell["outcome"]["measurements"]:
            whole, counters = load["record"]["whole"], load["counters"]
            wrong = sum(whole[name] for name in ("failed", "dropped", "unexpected"))
            if wrong or counters["origin_requests"] != counters["generator_sent"]:
                expect(False, f"{gateway}, {axes}, {load['load']}: {wrong} requests failed; the API server counted {counters}")
            sent, asked = counters["generator_sent"], counters["origin_by_kind"].get("tokenreviews", 0)
            if gateway != "kubegateway" or "topology.bearer" not in axes:
                expect(asked == 0, f"{gateway}, {axes}, {load['load']}: {asked} token reviews")
            elif "topology.token_cache" in axes:
                reviews[cell["key"]["repeat"]] += asked
            else:
                expect(asked == sent, f"{load['load']} without cache: {asked} token reviews for {sent} requests")
    for repeat, asked in reviews.items():
        expect(asked == TOKENS, f"repeat {repeat + 1} with cache: {asked} token reviews for {TOKENS} tokens")
    finding = next(finding for finding in result["summary"]["findings"] if finding["key"] == "amplification")
    print("\n".join(f"    {sentence}" for sentence in finding["sentences"]), flush=True)
    expect(any("the upstream got 2.00 requests" in sentence for sentence in finding["sentences"]), "a sentence says 2.00")


# By the program that each needs.
CHECKS = {"gorouter": gorouter_registers_again, "kubegateway": kubegateway_asks_about_tokens}
