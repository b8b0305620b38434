"""Compares clients' outcomes with a gateway's counters, on fixed values."""

import unittest

import ledger
from ledger import Ledger

STATS = {
    "requests": 9,
    "by_status": {"1xx": 1, "2xx": 5, "3xx": 0, "4xx": 1, "5xx": 1},
    "errors": {"client_closed": 3, "no_route": 1, "upstream_closed": 1, "upstream_truncated": 0},
    "connections": {"accepted": 11, "open": 0, "upgraded": 1},
    "access_log": {"lines": 9, "dropped": 0, "failed": 0},
}


def filled():
    """A ledger that agrees with the gateway's counters."""
    made = Ledger()
    made.add("kept", ledger.ANSWERED, 4)
    for outcome in (
        ledger.TUNNELLED, ledger.LEFT_IN_HEAD, ledger.LEFT_IN_UPLOAD, ledger.LEFT_IN_DOWNLOAD, ledger.NO_ROUTE,
        ledger.NOT_SENT_AGAIN,
    ):
        made.add("odd", outcome)
    return made


class Books(unittest.TestCase):
    def test_equal_counts_have_no_differences(self):
        self.assertEqual(ledger.differences(filled().expected(), ledger.counted(STATS)), [])

    def test_one_additional_request_is_reported(self):
        made = filled()
        made.add("kept", ledger.ANSWERED)
        found = ledger.differences(made.expected(), ledger.counted(STATS))
        self.assertEqual(found, [("lines of the access log", 10, 9), ("requests", 10, 9), ("status 2xx", 6, 5)])

    def test_an_error_that_no_client_saw_is_reported(self):
        errors = {**STATS["errors"], "upstream_stalled": 1}
        found = ledger.differences(filled().expected(), ledger.counted({**STATS, "errors": errors}))
        self.assertEqual(found, [("error upstream_stalled", 0, 1)])

    def test_failures_are_counted_and_the_first_are_described(self):
        made = filled()
        self.assertEqual((made.failed(), made.legitimate("odd"), made.legitimate("kept")), (0, 1, 0))
        for _ in range(Ledger.SAID_MAX + 1):
            made.fail("kept", "reset")
        self.assertEqual((made.failed(), len(made.said), made.said[0]), (Ledger.SAID_MAX + 1, Ledger.SAID_MAX, "kept: reset"))
        self.assertEqual(made.exchanges(), 10 + Ledger.SAID_MAX + 1)

    def test_every_expected_failure_has_an_effect(self):
        self.assertLessEqual(set(ledger.LEGITIMATE), set(ledger.EFFECTS))
        self.assertNotIn(ledger.FAILED, ledger.EFFECTS)


if __name__ == "__main__":
    unittest.main()
