"""Theory of an origin's delays: quantiles, and the sampling error of quantiles.

Times are in seconds. A distribution has `quantile(p)`, and `density(x)` if it is continuous. For discontinuous
distributions the sampling error is computed in ranks.
"""

import math
import random
import statistics

NORMAL = statistics.NormalDist()
STANDARD_ERRORS = 3
# `docs/method.md#accuracy`: allowed error of a measured quantile, in addition to the sampling error.
TOLERANCE_SHARE = 0.02
TOLERANCE_S = 150e-6


class Constant:
    """A constant delay."""

    def __init__(self, delay_s):
        self.delay_s = self.mean_s = delay_s

    def quantile(self, _p):
        return self.delay_s


class Exponential:
    """An exponential distribution with this mean; also the response time of an M/M/1 queue."""

    def __init__(self, mean_s):
        self.mean_s = mean_s

    def quantile(self, p):
        return -self.mean_s * math.log1p(-p)

    def density(self, x_s):
        return math.exp(-x_s / self.mean_s) / self.mean_s


class Lognormal:
    """A lognormal distribution with this median and this standard deviation of the logarithm."""

    def __init__(self, median_s, sigma):
        self.median_s, self.sigma = median_s, sigma
        self.mean_s = median_s * math.exp(sigma**2 / 2)

    def quantile(self, p):
        return self.median_s * math.exp(self.sigma * NORMAL.inv_cdf(p))

    def density(self, x_s):
        return NORMAL.pdf(math.log(x_s / self.median_s) / self.sigma) / (x_s * self.sigma)


class Bimodal:
    """One of two values. `share` is the probability of the second."""

    def __init__(self, first_s, second_s, share):
        self.first_s, self.second_s, self.share = first_s, second_s, share
        self.mean_s = first_s * (1 - share) + second_s * share

    def quantile(self, p):
        return self.first_s if p <= 1 - self.share else self.second_s


class Stalled:
    """A constant delay with stalls: a response due in the first `stall_s` of a period is sent when the stall ends.

    Arrivals are uniform over the period. The probability of a stall is its share of the period, and the remaining
    stall time is uniform.
    """

    def __init__(self, delay_s, stall_s, period_s):
        self.delay_s, self.stall_s, self.period_s = delay_s, stall_s, period_s
        self.mean_s = delay_s + stall_s**2 / (2 * period_s)

    def quantile(self, p):
        free = 1 - self.stall_s / self.period_s
        return self.delay_s + max(0.0, p - free) * self.period_s

    def cycle_s(self):
        """The mean response time for a sender that waits for each response before it sends the next request.

        In each period such a sender is stalled once, and fills the rest of the period with requests without stall.
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
        """The standard deviation of the quantile over simulated runs of the same length.

        Successive response times are correlated, so the formula for independent samples gives too small an error.
        """
        if (p, count) not in self.errors_s:
            rng = random.Random(count)
            runs = [self.simulated(rng, count) for _ in range(self.REPLICAS)]
            for wanted in {p, 0.5, 0.9, 0.99}:
                deviation = statistics.stdev(run[rank_of(wanted, count)] for run in runs)
                self.errors_s[(wanted, count)] = deviation
        return self.errors_s[(p, count)]

    def simulated(self, rng, count):
        """Sorted response times of one run that starts with an empty queue, by Lindley's recursion."""
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
    """The standard error of a quantile of `count` independent samples, from the density at the quantile."""
    if hasattr(distribution, "standard_error_s"):
        return distribution.standard_error_s(p, count)
    return math.sqrt(p * (1 - p) / count) / distribution.density(distribution.quantile(p))


def sampling_bounds(distribution, p, count):
    """(Lower bound, upper bound) of a sample's quantile: three standard errors on each side."""
    if hasattr(distribution, "density") or hasattr(distribution, "standard_error_s"):
        middle = distribution.quantile(p)
        wide = STANDARD_ERRORS * standard_error_s(distribution, p, count)
        return middle - wide, middle + wide
    rank_error = STANDARD_ERRORS * math.sqrt(p * (1 - p) / count)
    return distribution.quantile(max(0.0, p - rank_error)), distribution.quantile(min(1.0, p + rank_error))


def tolerance_s(truth_s):
    """The allowed error of a measured quantile."""
    return max(TOLERANCE_SHARE * truth_s, TOLERANCE_S)


def agrees_with_theory(measured_s, distribution, p, count):
    """Whether a measured quantile agrees with theory for this number of samples."""
    low_s, high_s = sampling_bounds(distribution, p, count)
    allowed_s = tolerance_s(distribution.quantile(p))
    return low_s - allowed_s <= measured_s <= high_s + allowed_s
