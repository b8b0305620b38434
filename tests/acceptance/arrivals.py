"""Real send times: the gaps between requests are exponentially distributed, even over many connections."""

import math

from checks import balanced, expect
from loads import Shape, weir

# Timer resolution affects gaps of about ten microseconds. Its effect is not detectable in 5,000 gaps of 2 ms.
RATE_PER_S = 500
CONNECTIONS = 64
SECONDS, SECONDS_QUICK = 10, 4
# Case 0 (all parameters known), 1 %: M. A. Stephens, EDF Statistics for Goodness of Fit, JASA 69 (1974), table 1.
ANDERSON_DARLING_1_PERCENT = 3.857


def anderson_darling(uniforms):
    """The statistic A2 of values that should be uniform between 0 and 1."""
    values = sorted(min(max(u, 1e-12), 1 - 1e-12) for u in uniforms)
    n = len(values)
    pairs = zip(values, reversed(values), strict=True)
    return -n - sum((2 * i + 1) * (math.log(low) + math.log1p(-high)) for i, (low, high) in enumerate(pairs)) / n


def spacing_of(times_ns, rate_per_s):
    """The A2 statistic of the gaps between `times_ns`, for an exponential distribution with rate `rate_per_s`."""
    gaps = (later - earlier for earlier, later in zip(times_ns, times_ns[1:], strict=False))
    return anderson_darling(-math.expm1(-gap * rate_per_s / 1e9) for gap in gaps)


def exponential_gaps(rig):
    """Gaps between sent requests are exponential (Anderson-Darling), and the test rejects other distributions"""
    origin = rig.origin()
    trace = rig.folder / "sends"
    trace.unlink(missing_ok=True)
    shape = Shape(CONNECTIONS, RATE_PER_S)
    seconds = SECONDS_QUICK if rig.quick else SECONDS
    result = weir(rig.site, shape, shape.url(origin.port), seconds, more=["--trace", trace]).result
    requests = result["requests"]
    expect(balanced(requests) and requests["sent"] == requests["scheduled"], f"all were sent: {requests}")
    sends = [tuple(map(int, line.split())) for line in trace.read_text().splitlines()]
    expect(len(sends) == requests["sent"], f"the trace has {len(sends)} sends")
    even_ns = [i * 1e9 / RATE_PER_S for i in range(len(sends))]
    batched_ns = [intended // 1_000_000 * 1_000_000 for intended, _ in sends]
    for name, times_ns in (("even spacing", even_ns), ("arrivals in steps of 1 ms", batched_ns)):
        statistic = spacing_of(times_ns, RATE_PER_S)
        expect(statistic > ANDERSON_DARLING_1_PERCENT, f"the test rejects {name}: A2 {statistic:.1f}")
    yield
    for name, place in (("intended", 0), ("actual", 1)):
        statistic = spacing_of(sorted(send[place] for send in sends), RATE_PER_S)
        sentence = f"gaps between {name} send times: A2 {statistic:.2f}, limit {ANDERSON_DARLING_1_PERCENT} at 1 %"
        expect(statistic < ANDERSON_DARLING_1_PERCENT, sentence)


CHECKS = [exponential_gaps]
