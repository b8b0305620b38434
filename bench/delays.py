"""Configured delays of origins, with their theoretical distributions."""

import json
import math

import theory
from servers import fetched


class Delay:
    """Options of weir's origin, and the distribution of the delay for an arrival at a random moment."""

    def __init__(self, name, options, distribution):
        self.name, self.options, self.distribution = name, options, distribution

    def in_flight(self, rate_per_s):
        """Upper bound of the number of requests in flight, exceeded with a probability below one in a million."""
        if isinstance(self.distribution, theory.Stalled):
            mean = rate_per_s * (self.distribution.stall_s + self.distribution.delay_s)
        else:
            mean = rate_per_s * self.distribution.mean_s
        return math.ceil(mean + 6 * math.sqrt(mean) + 20)


CONSTANT = Delay("constant 5 ms", ["--delay", "const:5ms"], theory.Constant(0.005))
EXPONENTIAL = Delay("exponential, mean 5 ms", ["--delay", "exp:5ms"], theory.Exponential(0.005))
LOGNORMAL = Delay("lognormal, median 5 ms, sigma 0.5", ["--delay", "lognormal:5ms,0.5"], theory.Lognormal(0.005, 0.5))
# 5 % take 20 ms, so the delay jumps at p95, which is not a measured quantile.
BIMODAL = Delay("1 ms, but 20 ms for 5 %", ["--delay", "bimodal:1ms,20ms,5%"], theory.Bimodal(0.001, 0.02, 0.05))
INDEPENDENT = [CONSTANT, EXPONENTIAL, LOGNORMAL, BIMODAL]


def stalled(stall_ms, period_ms):
    """1 ms, but the origin sends no response in the first part of each period."""
    options = ["--delay", "const:1ms", "--stall", f"{stall_ms}ms/{period_ms}ms"]
    distribution = theory.Stalled(0.001, stall_ms / 1e3, period_ms / 1e3)
    return Delay(f"1 ms, stalls of {stall_ms} ms every {period_ms} ms", options, distribution)


def queued(rate_per_s):
    """One server with a utilisation of 50 %: M/M/1."""
    service_us = round(0.5e6 / rate_per_s)
    options = ["--service", f"exp:{service_us}us", "--servers", "1"]
    return Delay(f"M/M/1, service {service_us} us", options, theory.SingleServer(rate_per_s, service_us / 1e6))


def given(port, tls=False):
    """The origin's statistics of its requests."""
    head, body = fetched(port, "/__weir/stats", tls)
    assert head.startswith(b"HTTP/1.1 200"), head
    return json.loads(body)
