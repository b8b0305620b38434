"""What clients saw of a gateway, and what it must have counted if both tell the truth.

Each exchange of each kind of client comes to one outcome, and each outcome says what the gateway counts of it: a request,
a line of the access log, a status, a cause. Sums are compared to the last one.
"""

from collections import Counter
from typing import NamedTuple, Optional


class Effect(NamedTuple):
    """What the gateway counts of one exchange."""

    requests: int = 1
    # Lines of the access log; refusals of clients that have asked for nothing have one, too.
    lines: int = 1
    status: Optional[str] = None
    cause: Optional[str] = None
    upgraded: int = 0


ANSWERED = "answered"
TUNNELLED = "tunnelled"
NOT_SENT_AGAIN = "not sent again"
CUT = "cut"
LEFT_IN_HEAD = "left in the head"
LEFT_IN_UPLOAD = "left in the upload"
LEFT_IN_DOWNLOAD = "left in the download"
STOPPED_READING = "stopped reading"
STALLED_IN_HEAD = "stalled in the head"
STALLED_IN_BODY = "stalled in the body"
NO_ROUTE = "no route"
PLAIN_TO_TLS = "plain text to TLS"
FAILED = "FAILED"

EFFECTS = {
    ANSWERED: Effect(status="2xx"),
    TUNNELLED: Effect(status="1xx", upgraded=1),
    # What clients bring about, each by itself.
    LEFT_IN_HEAD: Effect(requests=0, lines=0, cause="client_closed"),
    LEFT_IN_UPLOAD: Effect(cause="client_closed"),
    LEFT_IN_DOWNLOAD: Effect(status="2xx", cause="client_closed"),
    STOPPED_READING: Effect(status="2xx", cause="client_stalled"),
    STALLED_IN_HEAD: Effect(status="4xx", cause="head_timeout"),
    STALLED_IN_BODY: Effect(status="4xx", cause="body_timeout"),
    NO_ROUTE: Effect(status="4xx", cause="no_route"),
    PLAIN_TO_TLS: Effect(requests=0, cause="not_tls"),
    # What the death of an origin brings about.
    NOT_SENT_AGAIN: Effect(status="5xx", cause="upstream_closed"),
    CUT: Effect(status="2xx", cause="upstream_truncated"),
}

# The failures of requests that are legitimate, and why. All others should not be.
LEGITIMATE = {
    NOT_SENT_AGAIN: "a POST was in flight to an origin that was killed: it may have been acted on, so it is not sent again (502)",
    CUT: "a response had begun when its origin was killed: what has left can't be taken back, so it is cut",
}


class Ledger:
    """Exchanges by kind of client and outcome; of those that failed, the first few in words."""

    SAID_MAX = 20

    def __init__(self):
        self.seen = Counter()
        self.said = []

    def add(self, kind, outcome, count=1):
        self.seen[kind, outcome] += count

    def fail(self, kind, what, count=1):
        """An exchange that should not have failed."""
        self.add(kind, FAILED, count)
        if len(self.said) < self.SAID_MAX:
            self.said.append(f"{kind}: {what}")

    def failed(self):
        return sum(count for (_, outcome), count in self.seen.items() if outcome == FAILED)

    def legitimate(self, kind):
        """Failures of this kind of client that are legitimate."""
        return sum(self.seen[kind, outcome] for outcome in LEGITIMATE)

    def exchanges(self):
        return sum(self.seen.values())

    def rows(self):
        """Kind, outcome and count, in the order in which they were first seen."""
        return [(kind, outcome, count) for (kind, outcome), count in self.seen.items() if count]

    def expected(self):
        """What the gateway must have counted, by name."""
        made = Counter()
        for (_, outcome), count in self.seen.items():
            effect = EFFECTS.get(outcome, Effect())
            made["requests"] += effect.requests * count
            made["lines of the access log"] += effect.lines * count
            made["upgraded"] += effect.upgraded * count
            if effect.status:
                made[f"status {effect.status}"] += count
            if effect.cause:
                made[f"error {effect.cause}"] += count
        return +made


def counted(stats):
    """The same of the gateway's `/stats`."""
    made = Counter({"requests": stats["requests"], "upgraded": stats["connections"]["upgraded"]})
    made["lines of the access log"] = stats["access_log"]["lines"]
    made.update({f"status {status}": count for status, count in stats["by_status"].items()})
    made.update({f"error {cause}": count for cause, count in stats["errors"].items()})
    return +made


def differences(expected, found):
    """Each name of which the two say different numbers, with both."""
    names = sorted({*expected, *found})
    return [(name, expected[name], found[name]) for name in names if expected[name] != found[name]]
