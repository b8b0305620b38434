"""Compares values with gates, and formats the outcome as Markdown."""

import statistics


class Gate:
    """The required maximum, and the maximum that is the goal."""

    def __init__(self, at_most, wanted=None):
        self.at_most, self.wanted = at_most, wanted


class Verdict:
    """A value and its gate."""

    def __init__(self, what, value, gate, unit=""):
        self.what, self.value, self.gate, self.unit = what, value, gate, unit

    def is_good(self):
        """Whether the value is within its gate. A missing value is not."""
        return self.gate.at_most is None or (self.value is not None and self.value <= self.gate.at_most)

    def row(self):
        measured = "not measured" if self.value is None else f"{figure(self.value)}{self.unit}"
        return f"| {self.what} | {measured} | {limits(self.value, self.gate)} |"


class Table:
    """Results of a part that does not use `Comparison`: lines of Markdown, and verdicts."""

    def __init__(self, lines, verdicts=()):
        self.made, self.gated = lines, list(verdicts)

    def lines(self):
        return [*self.made, ""]

    def verdicts(self):
        return self.gated


def summary(verdicts):
    """All gates as Markdown lines; none without gates."""
    if not verdicts:
        return []
    lines = ["### Gates", "", "| value | measured | gate | | goal | |", "|---|---|---|---|---|---|"]
    return [*lines, *(verdict.row() for verdict in verdicts), ""]


def limits(value, gate):
    """Both limits of a gate with their outcome, as four cells."""
    return f"{passed(value, gate.at_most)} | {with_outcome(value, gate.wanted, 'met', 'missed')}"


def passed(value, limit):
    """A limit and its outcome, as two cells."""
    return with_outcome(value, limit, "passed", "MISSED")


def with_outcome(value, limit, good, bad):
    if limit is None:
        return " | "
    return f"{figure(limit)} | {good if value is not None and value <= limit else bad}"


def figure(value):
    """Formats a value. Integers get no decimals. Other values get two below 10, else one."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.1f}" if value >= 10 else f"{value:.2f}"


def spread(values):
    return f"{statistics.median(values):.2f} | {min(values):.2f} | {max(values):.2f}"
