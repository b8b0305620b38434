"""Compares the recursions for capacities with closed forms."""

import unittest

import capacities

ARRIVALS = 200_000


class Recursions(unittest.TestCase):
    def test_the_capacity_of_mm1_agrees_with_a_manual_calculation(self):
        # Service rate 1,000/s: at 769.74 arrivals/s, response times are exponential with rate 230.26/s, and their p99,
        # ln(100) / 230.26, is 20 ms.
        self.assertAlmostEqual(capacities.capacity_of_mm1(0.001, 0.99, 0.02), 769.74, places=2)

    def check(self, line, rate_per_s, limit_s, expected):
        """Checks that the share above a limit agrees with the closed form, within the sampling error."""
        self.assertLess(abs(line.share_over(rate_per_s, limit_s) / expected - 1), 0.1)

    def test_lindleys_recursion_agrees_with_mm1(self):
        line = capacities.exponential(0.001, 1, arrivals=ARRIVALS)
        for rate_per_s, limit_s in ((500, 0.004), (700, 0.01)):
            expected = 2.718281828459045 ** (-(1_000 - rate_per_s) * limit_s)
            self.check(line, rate_per_s, limit_s, expected)

    def test_lindleys_recursion_agrees_with_md1(self):
        line = capacities.constant(0.001, 1, arrivals=ARRIVALS)
        for rate_per_s, limit_s in ((500, 0.003), (800, 0.008)):
            self.check(line, rate_per_s, limit_s, capacities.share_over_of_md1(rate_per_s, 0.001, limit_s))

    def test_kiefer_and_wolfowitzs_recursion_agrees_with_mm2(self):
        line = capacities.exponential(0.002, 2, arrivals=ARRIVALS)
        for rate_per_s, limit_s in ((400, 0.008), (800, 0.015)):
            self.check(line, rate_per_s, limit_s, capacities.share_over_of_mm2(rate_per_s, 0.002, limit_s))

    def test_mm2_without_waiting_is_a_single_service_time(self):
        self.assertAlmostEqual(capacities.share_over_of_mm2(1e-6, 0.002, 0.002), 0.36788, places=4)

    def test_the_capacity_search_agrees_with_the_closed_form(self):
        capacity = capacities.exponential(0.001, 1, arrivals=ARRIVALS).capacity_per_s(0.99, 0.02)
        self.assertLess(abs(capacity / capacities.capacity_of_mm1(0.001, 0.99, 0.02) - 1), 0.02)


if __name__ == "__main__":
    unittest.main()
