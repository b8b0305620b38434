"""weir compared with established tools on a real nginx: throughput with wrk, latency with oha, counts with h2load."""

import math
import re
import statistics

from checks import expect
from delays import EXPONENTIAL
from loads import TOOLS, Shape, weir, weir_options, weir_result
from servers import fetched
from theory import STANDARD_ERRORS, TOLERANCE_SHARE, standard_error_s

PAIRS, PAIRS_QUICK = 6, 3
# Allowed difference between the rates of two tools on the same server. If the noise of the rates is larger, the noise
# is the allowed difference.
RATE_SHARE = 0.02
# oha's timer has a resolution of 1 ms, and oha's corrected latency includes the timer's lateness.
TIMER_S = 1.5e-3
RATE_PER_S = 1_000
COUNT = 20_000


def throughput_like_wrk(rig):
    """Closed load on a saturated nginx: weir and wrk reach the same rate, within their noise."""
    port = rig.servers.nginx_compressing(rig.server_cpu).port
    shape, seconds = Shape(32, fields=[("Accept-Encoding", "gzip")]), 1 if rig.quick else 3
    rates = {"weir load": [], "wrk": []}
    for number in range(PAIRS_QUICK if rig.quick else PAIRS):
        for name in sorted(rates, reverse=number % 2 == 1):
            rates[name].append(TOOLS[name](rig.site, shape, shape.url(port), seconds).rate_per_s)
    yield
    ratio = statistics.median(ours / theirs for ours, theirs in zip(*rates.values()))
    noise = max((max(values) - min(values)) / 2 / statistics.median(values) for values in rates.values())
    allowed = max(noise, RATE_SHARE)
    shown = "; ".join(f"{name} {', '.join(f'{rate:,.0f}' for rate in values)}" for name, values in rates.items())
    expect(
        abs(ratio - 1) <= allowed,
        f"alternating runs: {shown}; median ratio of the pairs {ratio:.3f}, allowed {allowed:.1%} "
        f"(half the range of the noisier, or {RATE_SHARE:.0%})",
    )


def latency_like_oha(rig):
    """Open load on an nginx, alone and in front of a delaying origin: weir and oha (corrected) agree on p50 and p99."""
    seconds = 3 if rig.quick else 10
    bare = rig.servers.nginx_origin(rig.server_cpu)
    delayed = rig.origin(*EXPONENTIAL.options)
    before = rig.servers.gateway("nginx", rig.server_cpu, delayed)
    shape = Shape(EXPONENTIAL.in_flight(RATE_PER_S) + 40, RATE_PER_S)
    found = {}
    for server in (bare, before):
        ours = weir(rig.site, shape, shape.url(server.port), seconds).result["latency_ns"]
        theirs = TOOLS["oha"](rig.site, shape, shape.url(server.port), seconds).result["latencyPercentiles"]
        found[server] = {p: (ours[p] / 1e9, theirs[p]) for p in ("p50", "p99")}
    yield
    for server, distribution in ((bare, None), (before, EXPONENTIAL.distribution)):
        for name, (ours_s, theirs_s) in found[server].items():
            allowed_s, why = allowed(distribution, {"p50": 0.5, "p99": 0.99}[name], seconds * RATE_PER_S)
            shown = f"{name} weir {ours_s * 1e3:.3f} ms, oha {theirs_s * 1e3:.3f} ms"
            where = "in front of 5 ms exponential" if distribution else "bare"
            expect(abs(ours_s - theirs_s) <= allowed_s, f"{where}: {shown}, allowed {allowed_s * 1e3:.2f} ms ({why})")


def allowed(distribution, p, count):
    """(Allowed difference between two runs, reason)."""
    if distribution is None:
        return TIMER_S, "resolution of oha's timer"
    # Both samples have a sampling error.
    sampling_s = STANDARD_ERRORS * math.sqrt(2) * standard_error_s(distribution, p, count)
    share_s = TOLERANCE_SHARE * distribution.quantile(p)
    return TIMER_S + share_s + sampling_s, f"oha's timer, {TOLERANCE_SHARE:.0%}, three standard errors of two samples"


def http2_counts(rig):
    """`-n` over HTTP/2: h2load, weir and nginx's own counter report exactly the same number."""
    server = rig.servers.nginx_counting(rig.server_cpu)
    url = Shape(8, streams=16, tls=True).url(server.port)

    def ours():
        shape = Shape(8, streams=16, tls=True)
        done = rig.site.run("weir", ["load", url, *weir_options(shape), "--requests", COUNT], 60)
        return weir_result(done)["requests"]["completed"]

    def theirs():
        done = rig.site.run("h2load", ["-t1", "-c8", "-m16", "-n", COUNT, url], 60)
        found = re.search(r"(\d+) done, (\d+) succeeded", done.output)
        return int(found[2]) if found else done.said()

    # Reading the counter is itself counted. Two reads in a row show by how much.
    own = nginx_requests(server) - nginx_requests(server)
    for name, run in (("h2load", theirs), ("weir", ours)):
        before = nginx_requests(server)
        counted = run()
        seen = nginx_requests(server) - before + own
        expect(counted == seen == COUNT, f"{name} counted {counted}, nginx {seen}, requested {COUNT}")
    yield


def nginx_requests(server):
    """The number of requests that nginx has seen."""
    _, body = fetched(server.status_port)
    return int(re.search(r"\n\s*\d+ \d+ (\d+)", body.decode())[1])


CHECKS = [throughput_like_wrk, latency_like_oha, http2_counts]
