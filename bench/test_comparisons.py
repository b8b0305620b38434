"""Tests the gates and the ratios within rounds, with given values."""

import contextlib
import io
import unittest

import gates
from comparisons import Comparison, Figure
from gates import Gate, Verdict


def comparison(values, gate, reference=None, disturbed=0.0):
    """A comparison whose candidates have these values, one per round."""
    turns = {name: iter(of_name) for name, of_name in values.items()}

    def candidate(name):
        return lambda: Figure(next(turns[name]), 1_000, disturbed)

    made = Comparison("Title", "a note", {name: candidate(name) for name in values}, gate, reference=reference)
    with contextlib.redirect_stdout(io.StringIO()):
        made.measure(len(next(iter(values.values()))))
    return made


class Comparisons(unittest.TestCase):
    def test_ratios_are_the_first_over_the_other_within_a_round(self):
        made = comparison({"ours": [1, 4, 9], "other": [2, 4, 10]}, {"other": Gate(0.9, 0.85)})
        self.assertEqual(made.ratios("other"), [0.5, 1, 0.9])
        (verdict,) = made.verdicts()
        self.assertTrue(verdict.is_good())
        self.assertEqual(verdict.row(), "| Title: ours / other | 0.90 | 0.90 | passed | 0.85 | missed |")

    def test_a_group_uses_the_candidate_with_the_lowest_median(self):
        values = {"ours": [3, 3, 3], "a": [1, 6, 6], "b": [4, 4, 4]}
        made = comparison(values, {("a", "b"): Gate(0.7)})
        (verdict,) = made.verdicts()
        self.assertEqual((verdict.value, verdict.is_good()), (0.75, False))
        self.assertIn("| ours / the best of a, b | 0.75 | 0.75 | 0.75 | 0.70 | MISSED |  |  |", made.lines())
        self.assertIn("| ours / a | 0.50 | 0.50 | 3.00 |  |  |  |  |", made.lines())

    def test_ratios_with_a_reference_are_over_the_reference(self):
        values = {"two": [22, 20], "one": [20, 20]}
        made = comparison(values, {"two": Gate(1.05)}, reference="one")
        self.assertEqual(made.ratios("two"), [1.1, 1.0])
        self.assertEqual([verdict.what for verdict in made.verdicts()], ["Title: two / one"])

    def test_host_noise_is_reported(self):
        quiet, disturbed = (comparison({"a": [1], "b": [1]}, {}, disturbed=share) for share in (0.01, 0.03))
        self.assertEqual((quiet.is_disturbed(), disturbed.is_disturbed()), (False, True))
        self.assertTrue(any("Host noise" in line for line in disturbed.lines()))
        self.assertFalse(any("Host noise" in line for line in quiet.lines()))


class Gates(unittest.TestCase):
    def test_a_value_equal_to_the_gate_passes(self):
        self.assertTrue(Verdict("x", 60.0, Gate(60, 40), " MiB").is_good())
        self.assertFalse(Verdict("x", 60.1, Gate(60)).is_good())

    def test_a_missing_value_does_not_pass(self):
        verdict = Verdict("x", None, Gate(250, 100))
        self.assertFalse(verdict.is_good())
        self.assertEqual(verdict.row(), "| x | not measured | 250 | MISSED | 100 | missed |")

    def test_a_wanted_value_is_no_gate(self):
        verdict = Verdict("x", 0.7, Gate(None, 0.5), " s")
        self.assertTrue(verdict.is_good())
        self.assertEqual(gates.summary([verdict])[-2], "| x | 0.70 s |  |  | 0.50 | missed |")


if __name__ == "__main__":
    unittest.main()
