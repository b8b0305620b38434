"""Real gateways that depend on services: Gorouter with NATS, KubeGateway in front of an API server. Each needs its
program on PATH."""

import collections
import json

from checks import expect
from gorouter import gorouter_is_sized

# Number of tokens in the scenario `kubernetes-api`.
TOKENS = 10


def kubegateway_asks_about_tokens(rig):
    """KubeGateway sends one token review per uncached token, and the API server counts every request that was sent."""
    gateways = [option for name in ("kubegateway", "weir", "envoy") for option in ("--gateway", name)]
    options = [*gateways, "--json", "--db", rig.folder / "api.db", "--out", rig.folder / "api", *(["--quick", "--repeats", "1"] if rig.quick else [])]
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
    expect(any("the upstream received 2.00 requests" in sentence for sentence in finding["sentences"]), "a sentence contains 2.00")


# required program -> check
CHECKS = {"gorouter": gorouter_is_sized, "kubegateway": kubegateway_asks_about_tokens}
