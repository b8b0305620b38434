"""Limits on values: the gate, the wanted value, and how both are printed."""

import statistics


class Gate:
    """The value that may not be passed, and the one that is wanted."""

    def __init__(self, at_most, wanted=None):
        self.at_most, self.wanted = at_most, wanted


class Verdict:
    """A figure beside its gate."""

    def __init__(self, what, value, gate, unit=""):
        self.what, self.value, self.gate, self.unit = what, value, gate, unit

    def is_good(self):
        """A figure that could not be had is not."""
        return self.gate.at_most is None or (self.value is not None and self.value <= self.gate.at_most)

    def row(self):
        measured = "not measured" if self.value is None else f"{figure(self.value)}{self.unit}"
        return f"| {self.what} | {measured} | {limits(self.value, self.gate)} |"


class Table:
    """What a part found that is no comparison: lines of Markdown, and what is gated in them."""

    def __init__(self, lines, verdicts=()):
        self.made, self.gated = lines, list(verdicts)

    def lines(self):
        return [*self.made, ""]

    def verdicts(self):
        return self.gated


def summary(verdicts):
    """All gates as Markdown lines; none where nothing is gated."""
    if not verdicts:
        return []
    lines = ["### Gates", "", "| gate | measured | at most | | wanted | |", "|---|---|---|---|---|---|"]
    return [*lines, *(verdict.row() for verdict in verdicts), ""]


def limits(value, gate):
    """Both limits of a gate and whether they are kept, as four cells."""
    return f"{passed(value, gate.at_most)} | {told(value, gate.wanted, 'met', 'missed')}"


def passed(value, limit):
    """A limit that may not be passed and whether it is, as two cells."""
    return told(value, limit, "passed", "MISSED")


def told(value, limit, good, bad):
    if limit is None:
        return " | "
    return f"{figure(limit)} | {good if value is not None and value <= limit else bad}"


def figure(value):
    """A whole number whole, others with two digits behind the point, or one from ten on."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.1f}" if value >= 10 else f"{value:.2f}"


def spread(values):
    return f"{statistics.median(values):.2f} | {min(values):.2f} | {max(values):.2f}"
