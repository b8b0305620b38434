"""Tests prices.py: the configurations that it measures, and the differences that it prints."""

import contextlib
import io
import unittest

import prices
from comparisons import Figure
from prices import NOTHING, Priced


def measured(values):
    """A comparison whose candidates have these values, one per round."""
    turns = {name: iter(of_name) for name, of_name in values.items()}

    def candidate(name):
        return lambda: Figure(next(turns[name]), 1_000, 0)

    made = Priced("Prices", "a note", {name: candidate(name) for name in values}, {}, reference=next(iter(values)))
    with contextlib.redirect_stdout(io.StringIO()):
        made.measure(len(next(iter(values.values()))))
    return made


class Prices(unittest.TestCase):
    def test_hosts_are_different_and_of_one_length(self):
        names = [*prices.FEATURES, *prices.BACKENDS]
        hosts = [prices.host_of(name) for name in names]
        self.assertEqual((len(set(hosts)), {len(host) for host in hosts}), (len(names), {8}))

    def test_backends_get_the_required_endpoints(self):
        three = prices.backend_of("three endpoints, weights", [1, 2, 3])
        self.assertEqual([(each["address"], each["weight"]) for each in three["endpoints"]][-1], ("127.0.0.1:3", 1))
        one = prices.backend_of("ejection", [1, 2, 3])
        self.assertEqual((len(one["endpoints"]), one["ejection"]), (1, {}))

    def test_each_process_has_only_one_setting(self):
        bare = prices.configuration_of(prices.SETTINGS[NOTHING], 1, 2)
        for name, setting in prices.SETTINGS.items():
            made = prices.configuration_of(setting, 1, 2)
            more = {field for field in made if made[field] != bare.get(field)} - {"backends"}
            self.assertEqual("health" in made["backends"]["origin"], "health" in setting, name)
            self.assertEqual(more, set(setting) - {"health"}, name)

    def test_prices_are_differences_within_a_round(self):
        lines = measured({"plain": [10, 20, 10], "dear": [12, 23, 11]}).lines()
        self.assertIn("| plain | 10.00 |  |  |  |  |", lines)
        self.assertIn("| dear | 12.00 | +2.00 | +1.00 | +3.00 | 1.15 |", lines)
        self.assertTrue(any("difference to plain" in line for line in lines))


if __name__ == "__main__":
    unittest.main()
