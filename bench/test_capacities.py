"""The recursions that capacities are checked against, against closed forms."""

import unittest

import capacities

ARRIVALS = 200_000


class Recursions(unittest.TestCase):
    def test_the_quantile_of_mm1_by_hand(self):
        # 1,000/s served; at 769.74/s the response is exponential with 230.26/s, and ln(100) / 230.26 is 20 ms.
        self.assertAlmostEqual(capacities.capacity_of_mm1(0.001, 0.99, 0.02), 769.74, places=2)

    def check(self, line, rate_per_s, limit_s, expected):
        """The share beyond a time is that of the closed form, within what so many arrivals leave to chance."""
        self.assertLess(abs(line.share_over(rate_per_s, limit_s) / expected - 1), 0.1)

    def test_lindley_is_mm1(self):
        line = capacities.exponential(0.001, 1, arrivals=ARRIVALS)
        for rate_per_s, limit_s in ((500, 0.004), (700, 0.01)):
            expected = 2.718281828459045 ** (-(1_000 - rate_per_s) * limit_s)
            self.check(line, rate_per_s, limit_s, expected)

    def test_lindley_is_md1(self):
        line = capacities.constant(0.001, 1, arrivals=ARRIVALS)
        for rate_per_s, limit_s in ((500, 0.003), (800, 0.008)):
            self.check(line, rate_per_s, limit_s, capacities.share_over_of_md1(rate_per_s, 0.001, limit_s))

    def test_kiefer_and_wolfowitz_is_mm2(self):
        line = capacities.exponential(0.002, 2, arrivals=ARRIVALS)
        for rate_per_s, limit_s in ((400, 0.008), (800, 0.015)):
            self.check(line, rate_per_s, limit_s, capacities.share_over_of_mm2(rate_per_s, 0.002, limit_s))

    def test_mm2_forgets_its_second_server_where_nobody_waits(self):
        self.assertAlmostEqual(capacities.share_over_of_mm2(1e-6, 0.002, 0.002), 0.36788, places=4)

    def test_the_capacity_is_where_the_share_is(self):
        capacity = capacities.exponential(0.001, 1, arrivals=ARRIVALS).capacity_per_s(0.99, 0.02)
        self.assertLess(abs(capacity / capacities.capacity_of_mm1(0.001, 0.99, 0.02) - 1), 0.02)


if __name__ == "__main__":
    unittest.main()
