"""Compares closed forms with manual calculations, and with samples that use a fixed seed."""

import math
import random
import unittest

import theory


def sampled(draw, count, p):
    values = sorted(draw() for _ in range(count))
    return values[theory.rank_of(p, count)]


class Quantiles(unittest.TestCase):
    def check(self, distribution, expected):
        for p, value_s in expected.items():
            self.assertAlmostEqual(distribution.quantile(p), value_s, places=6, msg=f"{p}")

    def test_quantiles_agree_with_manual_calculations(self):
        self.check(theory.Constant(0.005), {0.5: 0.005, 0.99: 0.005})
        self.check(theory.Exponential(0.005), {0.5: 0.003466, 0.9: 0.011513, 0.99: 0.023026})
        self.check(theory.Lognormal(0.005, 0.5), {0.5: 0.005, 0.9: 0.009490, 0.99: 0.016000})
        self.check(theory.Bimodal(0.001, 0.02, 0.05), {0.5: 0.001, 0.95: 0.001, 0.951: 0.02, 0.99: 0.02})
        self.check(theory.Stalled(0.001, 0.2, 1.0), {0.5: 0.001, 0.8: 0.001, 0.9: 0.101, 0.99: 0.191})
        # The utilisation is 50 %, so the mean response time is twice the service time.
        self.check(theory.SingleServer(500, 0.001), {0.5: 0.001386, 0.99: 0.009210})

    def test_means_agree_with_manual_calculations(self):
        self.assertAlmostEqual(theory.Lognormal(0.005, 0.5).mean_s, 0.005 * math.exp(0.125))
        self.assertAlmostEqual(theory.Bimodal(0.001, 0.02, 0.1).mean_s, 0.0029)
        self.assertAlmostEqual(theory.Stalled(0.001, 0.2, 1.0).mean_s, 0.021)
        self.assertAlmostEqual(theory.Stalled(0.001, 0.2, 1.0).cycle_s(), 0.00125)


class SamplingErrors(unittest.TestCase):
    def check_samples(self, distribution, draw):
        """Checks that quantiles of 20,000 draws are within the bounds."""
        for p in (0.5, 0.9, 0.99):
            low_s, high_s = theory.sampling_bounds(distribution, p, 20_000)
            value_s = sampled(draw, 20_000, p)
            self.assertTrue(low_s <= value_s <= high_s, f"{p}: {value_s} is not in {low_s}..{high_s}")

    def test_quantiles_of_samples_are_within_the_bounds(self):
        rng = random.Random(3)
        self.check_samples(theory.Exponential(0.005), lambda: rng.expovariate(200))
        self.check_samples(theory.Lognormal(0.005, 0.5), lambda: rng.lognormvariate(math.log(0.005), 0.5))
        self.check_samples(theory.Bimodal(1, 20, 0.05), lambda: 20 if rng.random() < 0.05 else 1)

        def stalled():
            due = rng.random()
            return 0.001 + max(0.0, 0.2 - due)

        self.check_samples(theory.Stalled(0.001, 0.2, 1.0), stalled)

    def test_the_standard_error_of_an_exponential_median(self):
        # The density at the median is rate / 2. So the standard error is mean / sqrt(n).
        error_s = theory.standard_error_s(theory.Exponential(0.01), 0.5, 10_000)
        self.assertAlmostEqual(error_s, 0.0001)

    def test_correlation_increases_the_standard_error_of_a_queue(self):
        queue = theory.SingleServer(500, 0.001)
        independent_s = theory.standard_error_s(queue.response, 0.9, 2_000)
        self.assertGreater(queue.standard_error_s(0.9, 2_000), 1.5 * independent_s)

    def test_agreement_with_theory_has_a_tolerance(self):
        def check(measured_s, distribution, expected):
            self.assertEqual(theory.agrees_with_theory(measured_s, distribution, 0.99, 10_000), expected)

        check(0.00514, theory.Constant(0.005), True)
        check(0.00516, theory.Constant(0.005), False)
        check(0.1019, theory.Constant(0.1), True)
        check(0.1021, theory.Constant(0.1), False)
        check(0.0240, theory.Exponential(0.005), True)
        check(0.0260, theory.Exponential(0.005), False)


if __name__ == "__main__":
    unittest.main()
