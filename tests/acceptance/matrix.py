"""Latency compared with the origin's own record and with theory, in real runs: delays x protocols x rates."""

from checks import balanced, expect
from delays import BIMODAL, CONSTANT, EXPONENTIAL, LOGNORMAL, given, queued, stalled
from hosts import DISTURBED_SHARE_OF_P99, is_disturbed
from loads import Shape, weir
from theory import agrees_with_theory, sampling_bounds, tolerance_s

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
RATES_PER_S = [500, 2_000]
# A multiple of the stalls' period, so that arrivals cover all parts of a period equally.
SECONDS, SECONDS_QUICK = 8, 3
STREAMS = 50


class Protocol:
    """A protocol, with the options of weir and the origin."""

    def __init__(self, name, tls, streams, origin_options):
        self.name, self.tls, self.streams, self.origin_options = name, tls, streams, origin_options

    def shape(self, rate_per_s, in_flight):
        """A load with so many connections that no request waits for a free connection."""
        connections = -(-in_flight // self.streams) + 1 if self.streams else in_flight
        return Shape(connections, rate_per_s, self.streams, self.tls)


PROTOCOLS = [
    Protocol("HTTP/1.1", False, None, []),
    Protocol("HTTP/2", False, STREAMS, []),
    Protocol("TLS", True, None, ["--http1-only"]),
]


class Row:
    """One run: its parameters and, afterwards, its results."""

    def __init__(self, protocol, delay, rate_per_s):
        self.protocol, self.delay, self.rate_per_s = protocol, delay, rate_per_s
        self.name = f"{protocol.name}, {delay.name}, {rate_per_s:,}/s"
        self.cells, self.passed, self.attempts, self.share = [], False, 0, 0.0

    def check(self, rig):
        """A wrong count fails at once. A wrong quantile fails only on a quiet host."""
        # The origin is the reference here, so it spins on its own CPU.
        origin = rig.origin("--spin", *self.delay.options, *self.protocol.origin_options, tls=self.protocol.tls)
        shape = self.protocol.shape(self.rate_per_s, self.delay.in_flight(self.rate_per_s))
        seconds = SECONDS_QUICK if rig.quick else SECONDS
        result = weir(rig.site, shape, shape.url(origin.port), seconds).result
        stats = given(origin.port, self.protocol.tls)
        requests, latency, delays = result["requests"], result["latency_ns"], stats["delays"]
        expect(balanced(requests), f"counts balance: {requests}")
        sent, counted = requests["sent"], stats["requests"]
        expect(sent == counted == delays["count"], f"sent {sent}, the origin counted {counted}, delayed {delays['count']}")
        yield
        count = requests["completed"]
        self.cells = [self.cell(name, p, count, latency, delays) for name, p in QUANTILES.items()]
        lateness_us = (result["lateness_ns"]["p99"] or 0) / 1e3
        expect(requests["completed"] == requests["scheduled"], f"all requests completed; lateness p99 {lateness_us:.0f} us")
        for cell in self.cells:
            expect(cell.holds_for_origin, f"{cell.name} is {cell.measured_s * 1e3:.3f} ms, origin {cell.given_text()}")
            expect(cell.holds_for_theory, f"{cell.name} is {cell.measured_s * 1e3:.3f} ms, theory {cell.theory_text()}")

    def cell(self, name, p, count, latency, delays):
        return Cell(name, p, count, latency[name] / 1e9, delays[f"{name}_ns"] / 1e9, self.delay.distribution)


class Cell:
    """One measured quantile with its expected values."""

    def __init__(self, name, p, count, measured_s, given_s, distribution):
        self.name, self.measured_s, self.given_s = name, measured_s, given_s
        self.theory_s = distribution.quantile(p)
        self.low_s, self.high_s = sampling_bounds(distribution, p, count)
        self.holds_for_origin = abs(measured_s - given_s) <= tolerance_s(given_s)
        self.holds_for_theory = agrees_with_theory(measured_s, distribution, p, count)

    def given_text(self):
        off_us, allowed_us = (self.measured_s - self.given_s) * 1e6, tolerance_s(self.given_s) * 1e6
        return f"{self.given_s * 1e3:.3f} ms: {off_us:+.0f} us of {allowed_us:.0f}"

    def theory_text(self):
        allowed_ms = tolerance_s(self.theory_s) * 1e3
        low_ms, high_ms = self.low_s * 1e3 - allowed_ms, self.high_s * 1e3 + allowed_ms
        return f"{self.theory_s * 1e3:.3f} ms, {low_ms:.3f} to {high_ms:.3f} for this sample"


def rows():
    """All rows. Protocols vary fastest, so that adjacent rows test different code."""
    delays = [lambda _: CONSTANT, lambda _: EXPONENTIAL, lambda _: LOGNORMAL, lambda _: BIMODAL]
    delays += [lambda _: stalled(200, 1_000), queued]
    return [Row(protocol, delay(rate), rate) for delay in delays for rate in RATES_PER_S for protocol in PROTOCOLS]


def table(found):
    """All rows that were run, as Markdown."""
    head = "| run | | weir ms | origin ms | error us | theory ms | error us | attempts | host noise | |"
    lines = [head, "|---|---|---|---|---|---|---|---|---|---|"]
    for row in found:
        verdict = "passed" if row.passed else "undecided" if is_disturbed(row.share, DISTURBED_SHARE_OF_P99) else "FAILED"
        shown = f"{row.attempts} | {row.share:.1%} | {verdict}"
        if not row.cells:
            lines.append(f"| {row.name} | | | | | | | {shown} |")
        for cell in row.cells:
            off_given, off_theory = (f"{(cell.measured_s - x) * 1e6:+.0f}" for x in (cell.given_s, cell.theory_s))
            values = f"{cell.measured_s * 1e3:.3f} | {cell.given_s * 1e3:.3f} | {off_given} | {cell.theory_s * 1e3:.3f}"
            lines.append(f"| {row.name} | {cell.name} | {values} | {off_theory} | {shown} |")
    return "\n".join(lines)
