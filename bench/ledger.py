"""Outcomes that clients of a gateway saw, and the counts that the gateway must report.

Each exchange of a client has one outcome. Each outcome defines what the gateway counts: a request, a line of the access
log, a status, a cause. The sums must agree exactly.
"""

from collections import Counter
from typing import NamedTuple, Optional


class Effect(NamedTuple):
    """The gateway's counts for one exchange."""

    requests: int = 1
    # Lines of the access log. Plain HTTP to a TLS listener is not counted as a request, but it is logged.
    lines: int = 1
    status: Optional[str] = None
    cause: Optional[str] = None
    upgraded: int = 0


ANSWERED = "answered"
TUNNELLED = "tunnelled"
NOT_SENT_AGAIN = "not retried"
CUT = "truncated"
LEFT_IN_HEAD = "disconnected in the headers"
LEFT_IN_UPLOAD = "disconnected in the upload"
LEFT_IN_DOWNLOAD = "disconnected in the download"
STOPPED_READING = "stopped reading"
STALLED_IN_HEAD = "stalled in the headers"
STALLED_IN_BODY = "stalled in the body"
NO_ROUTE = "no route"
PLAIN_TO_TLS = "plain HTTP to TLS"
FAILED = "FAILED"

EFFECTS = {
    ANSWERED: Effect(status="2xx"),
    TUNNELLED: Effect(status="1xx", upgraded=1),
    # Outcomes that the client causes.
    LEFT_IN_HEAD: Effect(requests=0, lines=0, cause="client_closed"),
    LEFT_IN_UPLOAD: Effect(cause="client_closed"),
    LEFT_IN_DOWNLOAD: Effect(status="2xx", cause="client_closed"),
    STOPPED_READING: Effect(status="2xx", cause="client_stalled"),
    STALLED_IN_HEAD: Effect(status="4xx", cause="head_timeout"),
    STALLED_IN_BODY: Effect(status="4xx", cause="body_timeout"),
    NO_ROUTE: Effect(status="4xx", cause="no_route"),
    PLAIN_TO_TLS: Effect(requests=0, cause="not_tls"),
    # Outcomes of killing an origin.
    NOT_SENT_AGAIN: Effect(status="5xx", cause="upstream_closed"),
    CUT: Effect(status="2xx", cause="upstream_truncated"),
}

# Expected failures of requests, with reasons. All other failures are errors.
LEGITIMATE = {
    NOT_SENT_AGAIN: "a POST was in flight to a killed origin: it is not idempotent, so it is not retried (502)",
    CUT: "a response had started when its origin was killed: it is truncated",
}


class Ledger:
    """Exchanges by kind of client and outcome, with messages of the first failures."""

    SAID_MAX = 20

    def __init__(self):
        self.seen = Counter()
        self.said = []

    def add(self, kind, outcome, count=1):
        self.seen[kind, outcome] += count

    def fail(self, kind, what, count=1):
        """Adds an unexpected failure."""
        self.add(kind, FAILED, count)
        if len(self.said) < self.SAID_MAX:
            self.said.append(f"{kind}: {what}")

    def failed(self):
        return sum(count for (_, outcome), count in self.seen.items() if outcome == FAILED)

    def legitimate(self, kind):
        """Number of expected failures of this kind of client."""
        return sum(self.seen[kind, outcome] for outcome in LEGITIMATE)

    def exchanges(self):
        return sum(self.seen.values())

    def rows(self):
        """(Kind, outcome, count), in order of first occurrence."""
        return [(kind, outcome, count) for (kind, outcome), count in self.seen.items() if count]

    def expected(self):
        """The counts that the gateway must report, by name."""
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
    """The same counts from the gateway's `/stats`."""
    made = Counter({"requests": stats["requests"], "upgraded": stats["connections"]["upgraded"]})
    made["lines of the access log"] = stats["access_log"]["lines"]
    made.update({f"status {status}": count for status, count in stats["by_status"].items()})
    made.update({f"error {cause}": count for cause, count in stats["errors"].items()})
    return +made


def differences(expected, found):
    """Names with different counts: (name, expected, found)."""
    names = sorted({*expected, *found})
    return [(name, expected[name], found[name]) for name in names if expected[name] != found[name]]
