"""What theory says of the delays that an origin gives: quantiles, and how far a sample's may lie from them.

Times are in seconds. A distribution has `quantile(p)`, and `density(x)` where it has one; where it jumps, the
sampling error is taken in ranks.
"""

import math
import random
import statistics

NORMAL = statistics.NormalDist()
STANDARD_ERRORS = 3
# `docs/method.md#accuracy` and the issue: what a measured quantile may be off without any sampling error.
TOLERANCE_SHARE = 0.02
TOLERANCE_S = 150e-6


class Constant:
    """Always the same."""

    def __init__(self, delay_s):
        self.delay_s = self.mean_s = delay_s

    def quantile(self, _p):
        return self.delay_s


class Exponential:
    """Given by its mean; also the response time of an M/M/1 queue."""

    def __init__(self, mean_s):
        self.mean_s = mean_s

    def quantile(self, p):
        return -self.mean_s * math.log1p(-p)

    def density(self, x_s):
        return math.exp(-x_s / self.mean_s) / self.mean_s


class Lognormal:
    """Given by its median and the deviation of its logarithm."""

    def __init__(self, median_s, sigma):
        self.median_s, self.sigma = median_s, sigma
        self.mean_s = median_s * math.exp(sigma**2 / 2)

    def quantile(self, p):
        return self.median_s * math.exp(self.sigma * NORMAL.inv_cdf(p))

    def density(self, x_s):
        return NORMAL.pdf(math.log(x_s / self.median_s) / self.sigma) / (x_s * self.sigma)


class Bimodal:
    """One of two values; the second with its share."""

    def __init__(self, first_s, second_s, share):
        self.first_s, self.second_s, self.share = first_s, second_s, share
        self.mean_s = first_s * (1 - share) + second_s * share

    def quantile(self, p):
        return self.first_s if p <= 1 - self.share else self.second_s


class Stalled:
    """A constant delay, and an answer that is due in the first `stall_s` of each period goes out at its end.

    An arrival at any time of the period alike finds a stall with the share of the stall in the period, and then
    waits for what is left of it, which is uniform.
    """

    def __init__(self, delay_s, stall_s, period_s):
        self.delay_s, self.stall_s, self.period_s = delay_s, stall_s, period_s
        self.mean_s = delay_s + stall_s**2 / (2 * period_s)

    def quantile(self, p):
        free = 1 - self.stall_s / self.period_s
        return self.delay_s + max(0.0, p - free) * self.period_s

    def cycle_s(self):
        """The mean time that a request takes whose sender sends the next only when it is answered.

        In each period such a sender is held up once and fills what is left of it with undisturbed requests.
        """
        undisturbed = (self.period_s - self.stall_s) / self.delay_s
        return self.period_s / max(1.0, undisturbed)


class SingleServer:
    """The response time of an M/M/1 queue."""

    REPLICAS = 60

    def __init__(self, rate_per_s, service_s):
        self.rate_per_s, self.service_s = rate_per_s, service_s
        self.response = Exponential(1 / (1 / service_s - rate_per_s))
        self.mean_s = self.response.mean_s
        self.errors_s = {}

    def quantile(self, p):
        return self.response.quantile(p)

    def standard_error_s(self, p, count):
        """The deviation of the quantile over simulated runs of the same length.

        Response times that follow each other are alike, so the formula for independent samples would promise
        too much.
        """
        if (p, count) not in self.errors_s:
            rng = random.Random(count)
            runs = [self.simulated(rng, count) for _ in range(self.REPLICAS)]
            for wanted in {p, 0.5, 0.9, 0.99}:
                deviation = statistics.stdev(run[rank_of(wanted, count)] for run in runs)
                self.errors_s[(wanted, count)] = deviation
        return self.errors_s[(p, count)]

    def simulated(self, rng, count):
        """The sorted response times of one run, by Lindley's recursion, from an empty queue."""
        wait_s, responses = 0.0, []
        for _ in range(count):
            service_s = rng.expovariate(1 / self.service_s)
            responses.append(wait_s + service_s)
            wait_s = max(0.0, wait_s + service_s - rng.expovariate(self.rate_per_s))
        return sorted(responses)


def rank_of(p, count):
    """The index of the nearest rank among sorted values."""
    return max(0, math.ceil(p * count) - 1)


def standard_error_s(distribution, p, count):
    """The standard error of the quantile of `count` independent samples, from the density there."""
    if hasattr(distribution, "standard_error_s"):
        return distribution.standard_error_s(p, count)
    return math.sqrt(p * (1 - p) / count) / distribution.density(distribution.quantile(p))


def sampling_bounds(distribution, p, count):
    """Between what the quantile of a sample lies, three standard errors wide on each side."""
    if hasattr(distribution, "density") or hasattr(distribution, "standard_error_s"):
        middle = distribution.quantile(p)
        wide = STANDARD_ERRORS * standard_error_s(distribution, p, count)
        return middle - wide, middle + wide
    rank_error = STANDARD_ERRORS * math.sqrt(p * (1 - p) / count)
    return distribution.quantile(max(0.0, p - rank_error)), distribution.quantile(min(1.0, p + rank_error))


def tolerance_s(truth_s):
    """What a measured quantile may be off."""
    return max(TOLERANCE_SHARE * truth_s, TOLERANCE_S)


def agrees_with_theory(measured_s, distribution, p, count):
    """Whether a measured quantile is what theory allows for so many samples."""
    low_s, high_s = sampling_bounds(distribution, p, count)
    allowed_s = tolerance_s(distribution.quantile(p))
    return low_s - allowed_s <= measured_s <= high_s + allowed_s
