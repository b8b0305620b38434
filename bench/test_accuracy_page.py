"""Tests the closest tools, the reference delays for stalls, the error axis and the groups of symbols."""

import unittest

import accuracy_page
import surroundings
from accuracy import Comparison, Finding
from accuracy_picture import x_of
from delays import CONSTANT, stalled
from profiling import parsed
from reporters import QUANTILES, Case


def finding(tool, error, given_s=0.005, sent=15_000, share=0.0):
    """A tool whose quantiles all have the same relative error."""
    stats = {"delays": {f"{name}_ns": given_s * 1e9 for name in QUANTILES}, "requests": sent}
    return Finding(tool, {name: given_s * (1 + error) for name in QUANTILES}, stats, share)


def compared(*findings):
    comparison = Comparison(Case("HTTP/1.1", CONSTANT, 5_000, 3), 0.5)
    comparison.findings = {found.tool: found for found in findings}
    return comparison


class Closest(unittest.TestCase):
    def check(self, expected, *findings):
        self.assertEqual(accuracy_page.closest(compared(*findings)), expected)

    def test_the_tool_with_the_smallest_worst_error_is_closest(self):
        self.check(["oha"], finding("weir", 0.02), finding("oha", -0.01))
        self.check(["weir"], finding("weir", -0.001), finding("oha", 0.02))

    def test_errors_within_a_thousandth_are_level(self):
        self.check(["weir", "oha"], finding("weir", 0.0100), finding("oha", 0.0105))

    def test_a_tool_that_sent_too_little_is_left_out(self):
        self.check(["weir"], finding("weir", 0.02), finding("k6", 0.001, sent=9_000))

    def test_runs_with_host_noise_decide_nothing(self):
        self.check([], finding("weir", 0.001, share=0.05), finding("oha", 0.02))
        self.check(["weir"], finding("weir", 0.02), finding("oha", 0.001, share=0.05))

    def test_the_page_lists_cases_in_which_weir_is_not_closest(self):
        text = "\n".join(accuracy_page.summary([compared(finding("weir", 0.02), finding("oha", 0.01))]))
        self.assertIn("weir is not closest in 1 of 1 cases", text)
        self.assertIn("largest error of oha 1.0 %, of weir 2.0 %", text)
        text = "\n".join(accuracy_page.summary([compared(finding("weir", 0.01), finding("oha", 0.02))]))
        self.assertIn("closest, or equal to the closest, in every one of 1 cases", text)

    def test_the_committed_page_has_the_generators_method(self):
        page = (surroundings.ROOT / "docs/accuracy.md").read_text()
        self.assertIn(f"\n\n{accuracy_page.METHOD}\n## Made with\n", page)


class Truth(unittest.TestCase):
    def test_under_stalls_a_waiting_tool_is_compared_with_the_reference_run(self):
        comparison = Comparison(Case("HTTP/1.1", stalled(20, 100), 5_000, 3), 0.5)
        comparison.reference_s = dict.fromkeys(QUANTILES, 0.011)
        self.assertEqual(comparison.truth_s(finding("wrk", 0))["p90"], 0.011)
        self.assertEqual(comparison.truth_s(finding("oha", 0))["p90"], 0.005)


class Picture(unittest.TestCase):
    def test_the_axis_is_logarithmic_and_bounded(self):
        self.assertAlmostEqual(x_of(0.1) - x_of(0.01), x_of(1.0) - x_of(0.1))
        self.assertEqual(x_of(0.0), x_of(1e-9))


class Profile(unittest.TestCase):
    def check(self, line, expected):
        (share,) = parsed(line)
        self.assertEqual((share.percent, share.group()), expected)

    def test_symbols_are_grouped(self):
        self.check("  4.10%\t[kernel.kallsyms]\t[k] tcp_ack\t-", (4.1, "kernel: TCP, IP, sockets"))
        self.check("  2%\t[kernel.kallsyms]\t[k] finish_task_switch.isra.0", (2.0, "kernel: scheduling, timers, polling"))
        self.check("  1.5%\t[kernel.kallsyms]\t[k] do_syscall_64", (1.5, "kernel: system calls, memory, rest"))
        self.check("  5%\tweir\t[.] weir_engine::worker::work", (5.0, "weir"))
        self.check("  1%\t[vdso]\t[.] __vdso_clock_gettime", (1.0, "libraries"))


if __name__ == "__main__":
    unittest.main()
