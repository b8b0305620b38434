"""Theoretical capacity of a queue: the rate at which a quantile of the response time reaches a limit.

Times are in seconds. Lindley's recursion computes the capacity with one server. Kiefer and Wolfowitz's recursion
computes it with several. The series of arrivals is long, and the same at every rate. Tests compare the recursions with
the closed forms.
"""

import decimal
import heapq
import math
import random

ARRIVALS = 1_000_000
# The first arrivals are ignored, because the queue is not yet in steady state.
WARMUP = 20_000
BISECTIONS = 14


class Line:
    """Poisson arrivals, one queue, `servers` servers. `service` returns a service time from a random generator."""

    def __init__(self, service, mean_s, servers, seed=1, arrivals=ARRIVALS):
        rng = random.Random(seed)
        self.mean_s, self.servers = mean_s, servers
        self.gaps = [rng.expovariate(1) for _ in range(arrivals)]
        self.services_s = [service(rng) for _ in range(arrivals)]

    def share_over(self, rate_per_s, limit_s):
        """The share of requests whose response time exceeds `limit_s`."""
        step_s = 1 / rate_per_s
        free_s, now_s, over = [0.0] * self.servers, 0.0, 0
        for number, (gap, service_s) in enumerate(zip(self.gaps, self.services_s)):
            now_s += gap * step_s
            end_s = max(free_s[0], now_s) + service_s
            heapq.heapreplace(free_s, end_s)
            if number >= WARMUP and end_s - now_s > limit_s:
                over += 1
        return over / (len(self.gaps) - WARMUP)

    def capacity_per_s(self, quantile, limit_s):
        """The rate at which the quantile of the response time is `limit_s`."""
        low, high = 0.0, self.servers / self.mean_s
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            if self.share_over(middle, limit_s) > 1 - quantile:
                high = middle
            else:
                low = middle
        return (low + high) / 2


def exponential(mean_s, servers, **options):
    """A queue with exponential service times."""
    return Line(lambda rng: rng.expovariate(1 / mean_s), mean_s, servers, **options)


def constant(time_s, servers, **options):
    """A queue with constant service times."""
    return Line(lambda _: time_s, time_s, servers, **options)


def capacity_of_mm1(service_s, quantile, limit_s):
    """M/M/1: response times are exponential. Their rate is the service rate minus the arrival rate."""
    return 1 / service_s + math.log(1 - quantile) / limit_s


def share_over_of_mm2(rate_per_s, service_s, limit_s):
    """M/M/2: the share above the limit, from Erlang C and the convolution of waiting and service time."""
    served, offered = 1 / service_s, rate_per_s * service_s
    busy = offered / 2
    waits = offered**2 / (2 * (1 - busy)) / (1 + offered + offered**2 / (2 * (1 - busy)))
    left = 2 * served - rate_per_s
    # Queued requests have an exponential waiting time, whose rate is `left`. The service time is added to it.
    both = (left * math.exp(-served * limit_s) - served * math.exp(-left * limit_s)) / (left - served)
    return (1 - waits) * math.exp(-served * limit_s) + waits * both


def share_over_of_md1(rate_per_s, service_s, limit_s):
    """M/D/1: Erlang's sum for the waiting time (1909). It needs 60 digits: terms are large and alternate in sign."""
    with decimal.localcontext() as context:
        context.prec = 60
        rate, service = decimal.Decimal(rate_per_s), decimal.Decimal(service_s)
        wait = decimal.Decimal(limit_s) - service
        total = decimal.Decimal(0)
        for number in range(int(wait / service) + 1):
            term = rate * (number * service - wait)
            total += term**number / math.factorial(number) * (-term).exp()
        return float(1 - (1 - rate * service) * total)
