"""What clients saw against what a gateway counted, from figures that are given."""

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
    """Clients that saw what the gateway counted."""
    made = Ledger()
    made.add("kept", ledger.ANSWERED, 4)
    for outcome in (
        ledger.TUNNELLED, ledger.LEFT_IN_HEAD, ledger.LEFT_IN_UPLOAD, ledger.LEFT_IN_DOWNLOAD, ledger.NO_ROUTE,
        ledger.NOT_SENT_AGAIN,
    ):
        made.add("odd", outcome)
    return made


class Books(unittest.TestCase):
    def test_what_was_counted_by_both_is_equal(self):
        self.assertEqual(ledger.differences(filled().expected(), ledger.counted(STATS)), [])

    def test_one_request_more_or_less_is_told(self):
        made = filled()
        made.add("kept", ledger.ANSWERED)
        told = ledger.differences(made.expected(), ledger.counted(STATS))
        self.assertEqual(told, [("lines of the access log", 10, 9), ("requests", 10, 9), ("status 2xx", 6, 5)])

    def test_an_error_that_no_client_saw_is_told(self):
        errors = {**STATS["errors"], "upstream_stalled": 1}
        told = ledger.differences(filled().expected(), ledger.counted({**STATS, "errors": errors}))
        self.assertEqual(told, [("error upstream_stalled", 0, 1)])

    def test_a_failure_counts_and_says_why(self):
        made = filled()
        self.assertEqual((made.failed(), made.legitimate("odd"), made.legitimate("kept")), (0, 1, 0))
        for _ in range(Ledger.SAID_MAX + 1):
            made.fail("kept", "reset")
        self.assertEqual((made.failed(), len(made.said), made.said[0]), (Ledger.SAID_MAX + 1, Ledger.SAID_MAX, "kept: reset"))
        self.assertEqual(made.exchanges(), 10 + Ledger.SAID_MAX + 1)

    def test_all_that_is_legitimate_has_an_effect(self):
        self.assertLessEqual(set(ledger.LEGITIMATE), set(ledger.EFFECTS))
        self.assertNotIn(ledger.FAILED, ledger.EFFECTS)


if __name__ == "__main__":
    unittest.main()
