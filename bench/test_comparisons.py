"""Ratios within rounds and their gates, from figures that are given."""

import contextlib
import io
import unittest

import gates
from comparisons import Comparison, Figure
from gates import Gate, Verdict


def comparison(values, gate, reference=None, disturbed=0.0):
    """One whose candidates have these values, a round each."""
    turns = {name: iter(of_name) for name, of_name in values.items()}

    def candidate(name):
        return lambda: Figure(next(turns[name]), 1_000, disturbed)

    made = Comparison("Title", "a note", {name: candidate(name) for name in values}, gate, reference=reference)
    with contextlib.redirect_stdout(io.StringIO()):
        made.measure(len(next(iter(values.values()))))
    return made


class Comparisons(unittest.TestCase):
    def test_ours_is_over_the_other_within_a_round(self):
        made = comparison({"ours": [1, 4, 9], "other": [2, 4, 10]}, {"other": Gate(0.9, 0.85)})
        self.assertEqual(made.ratios("other"), [0.5, 1, 0.9])
        (verdict,) = made.verdicts()
        self.assertTrue(verdict.is_good())
        self.assertEqual(verdict.row(), "| Title: ours / other | 0.90 | 0.90 | passed | 0.85 | missed |")

    def test_of_several_the_one_with_the_lowest_median_counts(self):
        values = {"ours": [3, 3, 3], "a": [1, 6, 6], "b": [4, 4, 4]}
        made = comparison(values, {("a", "b"): Gate(0.7)})
        (verdict,) = made.verdicts()
        self.assertEqual((verdict.value, verdict.is_good()), (0.75, False))
        self.assertIn("| ours / the best of a, b | 0.75 | 0.75 | 0.75 | 0.70 | MISSED |  |  |", made.lines())
        self.assertIn("| ours / a | 0.50 | 0.50 | 3.00 |  |  |  |  |", made.lines())

    def test_others_are_over_the_reference(self):
        values = {"two": [22, 20], "one": [20, 20]}
        made = comparison(values, {"two": Gate(1.05)}, reference="one")
        self.assertEqual(made.ratios("two"), [1.1, 1.0])
        self.assertEqual([verdict.what for verdict in made.verdicts()], ["Title: two / one"])

    def test_a_disturbed_host_is_told(self):
        quiet, disturbed = (comparison({"a": [1], "b": [1]}, {}, disturbed=share) for share in (0.01, 0.03))
        self.assertEqual((quiet.is_disturbed(), disturbed.is_disturbed()), (False, True))
        self.assertTrue(any("disturbed" in line for line in disturbed.lines()))
        self.assertFalse(any("disturbed" in line for line in quiet.lines()))


class Gates(unittest.TestCase):
    def test_the_limit_itself_is_kept(self):
        self.assertTrue(Verdict("x", 60.0, Gate(60, 40), " MiB").is_good())
        self.assertFalse(Verdict("x", 60.1, Gate(60)).is_good())

    def test_what_was_not_measured_has_not_passed(self):
        verdict = Verdict("x", None, Gate(250, 100))
        self.assertFalse(verdict.is_good())
        self.assertEqual(verdict.row(), "| x | not measured | 250 | MISSED | 100 | missed |")

    def test_what_is_only_wanted_is_no_gate(self):
        verdict = Verdict("x", 0.7, Gate(None, 0.5), " s")
        self.assertTrue(verdict.is_good())
        self.assertEqual(gates.summary([verdict])[-2], "| x | 0.70 s |  |  | 0.50 | missed |")


if __name__ == "__main__":
    unittest.main()
