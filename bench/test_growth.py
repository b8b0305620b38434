"""Slopes of given samples, and lengths of runs."""

import unittest

import growth
from growth import Growth
from processes import Failed


def sampled(values, most):
    """A quantity with these values, one per second."""
    made = Growth("x", most)
    for at_s, value in enumerate(values):
        made.add(at_s, value)
    return made


class Slopes(unittest.TestCase):
    def test_a_line_has_its_slope(self):
        self.assertAlmostEqual(growth.slope([(t, 5 + 3 * t) for t in range(10)]), 3)

    def test_an_oscillating_value_does_not_grow(self):
        # The last two thirds of the samples are whole periods of the oscillation.
        made = sampled([10, 20, 10] * 30, 1)
        self.assertLess(abs(made.grown()), 0.5)
        self.assertTrue(made.is_good())

    def test_the_first_third_is_ignored(self):
        made = sampled([*range(0, 1000, 50), *[1000] * 41], 0.1)
        self.assertAlmostEqual(made.grown(), 0)
        self.assertTrue(made.is_good())

    def test_a_leak_is_reported(self):
        made = sampled([100 + second for second in range(90)], 30)
        self.assertAlmostEqual(made.grown(), 59, delta=1.5)
        self.assertFalse(made.is_good())
        self.assertIn("MISSED", made.line())

    def test_a_stepwise_leak_with_noise_is_reported(self):
        made = sampled([50 + second // 20 * 5 + second % 7 for second in range(120)], 10)
        self.assertFalse(made.is_good())

    def test_a_shrinking_value_is_good(self):
        self.assertTrue(sampled([100 - second for second in range(60)], 0).is_good())

    def test_too_few_samples_miss_the_limit(self):
        for values in ([], [1], [1, 1]):
            made = sampled(values, 1)
            self.assertFalse(made.is_good())
            self.assertIn("MISSED", made.line())


class Lengths(unittest.TestCase):
    def test_environment_variables_set_the_length_of_a_soak(self):
        for variables, seconds in (
            ({}, 600),
            ({"SOAK": "8h"}, 28_800),
            ({"SOAK": "15m"}, 900),
            ({"SOAK_SECONDS": "60"}, 60),
            ({"SOAK_SECONDS": "60", "SOAK": "8h"}, 60),
            ({"SOAK_SECONDS": "2m"}, 120),
        ):
            self.assertEqual(growth.soak_seconds(variables), seconds, variables)

    def test_invalid_lengths_are_rejected(self):
        for variables in ({"SOAK": "8"}, {"SOAK": "long"}, {"SOAK_SECONDS": "-1"}, {"SOAK": "0h"}):
            with self.assertRaisesRegex(Failed, "a length with its unit"):
                growth.soak_seconds(variables)


if __name__ == "__main__":
    unittest.main()
