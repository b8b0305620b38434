"""Growth of sampled values: the slope over the last two thirds of a run. Also parses the length of a run."""

import re

from processes import Failed

SOAK_SECONDS_DEFAULT = 600
SECONDS_OF = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
# The first third of a run is ignored: buffers and tables reach their final size in it.
SETTLED_SHARE = 1 / 3
SAMPLES_MIN = 3


def soak_seconds(variables):
    """The length of a soak, from environment variables: SOAK_SECONDS=60, else SOAK=8h, else ten minutes."""
    if text := variables.get("SOAK_SECONDS"):
        return whole_seconds("SOAK_SECONDS", text if text[-1:] in SECONDS_OF else f"{text}s")
    if text := variables.get("SOAK"):
        return whole_seconds("SOAK", text)
    return SOAK_SECONDS_DEFAULT


def whole_seconds(name, text):
    found = re.fullmatch(r"(\d+)([smhd])", text)
    if not found or not int(found[1]):
        raise Failed(f"{name}={text}: invalid length; give a length with its unit, like 90s, 10m, 8h")
    return int(found[1]) * SECONDS_OF[found[2]]


def slope(samples):
    """The slope of (time, value) samples, by least squares."""
    count = len(samples)
    middle_time = sum(time for time, _ in samples) / count
    middle = sum(value for _, value in samples) / count
    spread = sum((time - middle_time) ** 2 for time, _ in samples)
    return sum((time - middle_time) * (value - middle) for time, value in samples) / spread


class Growth:
    """Samples of one quantity. It may grow by at most `most` over the last two thirds of the run."""

    def __init__(self, name, most, shown=lambda value: f"{value:,.1f}"):
        self.name, self.most, self.shown = name, most, shown
        self.samples = []

    def add(self, at_s, value):
        self.samples.append((at_s, value))

    def settled(self):
        """The samples of the last two thirds."""
        begin = self.samples[0][0] if self.samples else 0
        end = self.samples[-1][0] if self.samples else 0
        from_s = begin + (end - begin) * SETTLED_SHARE
        return [sample for sample in self.samples if sample[0] >= from_s]

    def grown(self):
        """The growth over the last two thirds of the run, from the slope; `None` with too few samples."""
        settled = self.settled()
        if len(settled) < SAMPLES_MIN or settled[-1][0] == settled[0][0]:
            return None
        return slope(settled) * (settled[-1][0] - settled[0][0])

    def is_good(self):
        grown = self.grown()
        return grown is not None and grown <= self.most

    def line(self):
        grown = self.grown()
        if grown is None:
            return f"{self.name}: MISSED, only {len(self.samples)} samples"
        values = [value for _, value in self.settled()]
        verdict = "met" if self.is_good() else "MISSED"
        span = f"from {self.shown(min(values))} to {self.shown(max(values))}"
        return f"{self.name}: grew by {self.shown(grown)}, limit {self.shown(self.most)}: {verdict} ({span})"


def mebibytes(value):
    """Bytes as text in MiB."""
    return f"{value / 2**20:.2f} MiB"
