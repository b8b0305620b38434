"""Generates docs/accuracy.md. Every sentence about results is computed from them."""

import statistics

from hosts import is_disturbed
from reporters import QUANTILES
from theory import Stalled

# Smaller differences between reports are not significant: histograms of origin and tools have a resolution of 0.1 %.
LEVEL_SHARE = 0.001
# A tool that sent a smaller share of the rate is not compared.
SENT_SHARE_MIN = 0.9

METHOD = """\
With this page you can see how far the latencies of load tools are from the truth. Each tool sends load to an \
upstream (`weir origin`). The upstream records its response time for each request, from the end of the request to the \
first byte of the response.

- **Truth**: p50, p90 and p99 of these records in the same run. Stalls are an exception: a tool that waits for responses \
sends less while the upstream is slow (coordinated omission). So for stalls, such a tool is compared with another run, \
with evenly spaced arrivals at the same rate; weir, oha and k6 keep their schedule and are compared with their own run.
- **Load points**: 5 %, 50 % and 90 % of weir's *ceiling*. This is the highest open rate at which weir sends all requests, \
with a p99 of the lateness (actual minus intended send time) below 250 µs. If a tool sent less than 90 % of the rate, the \
table shows the share that it sent (*sent*).
- **Closest**: a tool has three errors per case, for p50, p90 and p99. The closest tool is the one whose largest error is \
the smallest. Only tools that sent at least 90 % of the rate are compared. Differences below 0.1 percentage points do not \
count, because the histograms have no higher resolution.
- **Setup**: tool and upstream have one CPU each. The upstream busy-waits (`--spin`), so that no response waits until a \
sleeping CPU wakes up. Runs with more than 2 % host noise were repeated. Runs that stayed noisy are marked * and not \
compared.

| tool | load model | latency starts | settings here |
|---|---|---|---|
| weir | open loop, Poisson arrivals | at the intended send time | `--rate`; more connections than needed |
| oha | open loop, evenly spaced | at the intended send time (`--latency-correction`) | `-q`; connections as for weir |
| k6 | open loop (`constant-arrival-rate`). It drops a request if no user is idle | at the actual send | as many \
users as weir has connections or streams |
| h2load | paced connections (`--rps`). After a slow response, a connection sends late | at the actual send | connections as for weir |
| hey | paced workers (`-q`). After a slow response, a worker sends late. Times have a resolution of 0.1 ms | at the actual send | \
as many workers as weir has connections or streams |
| Locust | paced users (`constant_throughput`). After a slow response, a user sends late. Times are whole milliseconds | \
at the actual send | as many users as weir has connections |
| wrk | closed loop: a connection sends its next request after a response | at the actual send. If a response takes longer than \
the mean interval, wrk adds samples that it did not measure. Without stalls, they distort the distribution | as many \
connections as the rate needs |
"""


def page(comparisons, ceilings, environment, seconds, minutes):
    """The whole page."""
    lines = ["# How true are load tools?", "", "![errors by tool](accuracy.svg)", "", METHOD]
    lines += ["## Made with", "", environment]
    found = "; ".join(f"{protocol} {rate:,}/s" for protocol, rate in ceilings.items())
    lines += [f"weir's ceilings on this host: {found}. Runs of {seconds} s, {minutes:.0f} minutes in all.", ""]
    lines += summary(comparisons)
    lines += stall_tables(comparisons)
    for protocol in ceilings:
        lines += errors_table(protocol, [found for found in comparisons if found.case.protocol == protocol])
    lines += reasons(comparisons)
    return "\n".join(lines).rstrip() + "\n"


def fit(comparison):
    """Reports of tools that sent enough of the rate, from runs without host noise. The most accurate is first."""
    quiet = [finding for finding in comparison.reported() if not is_disturbed(finding.share)]
    full = [finding for finding in quiet if comparison.sent_share(finding) >= SENT_SHARE_MIN]
    return sorted(full, key=comparison.worst)


def is_undecided(comparison):
    """Whether the case is undecided: host noise in weir's own run, or no valid report."""
    ours = comparison.findings["weir"]
    return not fit(comparison) or (bool(ours.quantiles_s) and is_disturbed(ours.share))


def closest(comparison):
    """The closest tools: several if they are tied, none if the case is undecided."""
    if is_undecided(comparison):
        return []
    ranked = fit(comparison)
    best = comparison.worst(ranked[0])
    return [finding.tool for finding in ranked if comparison.worst(finding) <= best + LEVEL_SHARE]


def summary(comparisons):
    """In how many cases each tool is closest, and in which cases weir is not."""
    lines = ["## Closest tools", "", "| tool | times closest or tied | cases | median of the largest errors |", "|---|---|---|---|"]
    decided = [found for found in comparisons if not is_undecided(found)]
    for tool in comparisons[0].findings if comparisons else []:
        ranked = [found for found in decided if tool in (finding.tool for finding in fit(found))]
        wins = sum(tool in closest(found) for found in ranked)
        worst = [found.worst(found.findings[tool]) for found in ranked]
        middle = percent(statistics.median(worst)) if worst else "n/a"
        lines.append(f"| {tool} | {wins} | {len(ranked)} | {middle} |")
    lost = [found for found in decided if "weir" not in closest(found)]
    lines += ["", "The column *cases* counts cases without host noise in which the tool sent at least 90 % of the rate.", ""]
    if len(decided) < len(comparisons):
        undecided = len(comparisons) - len(decided)
        lines += [f"{undecided} of {len(comparisons)} cases are undecided: host noise while weir ran.", ""]
    if decided and not lost:
        lines.append(f"weir is closest, or equal to the closest, in every one of {len(decided)} cases.")
    if lost:
        lines += [f"weir is not closest in {len(lost)} of {len(decided)} cases:", ""]
    for found in lost:
        winner, ours = fit(found)[0], found.findings["weir"]
        said = percent(found.worst(ours)) if ours.quantiles_s else ours.reason
        lines.append(f"- {title(found)}: largest error of {winner.tool} {percent(found.worst(winner))}, of weir {said}.")
    return [*lines, ""]


def title(comparison):
    case = comparison.case
    return f"{case.protocol}, {case.delay.name}, {comparison.load_point:.0%} ({case.rate_per_s:,}/s)"


def stall_tables(comparisons):
    """The values that each tool reports if the origin stalls."""
    stalls = [found for found in comparisons if isinstance(found.case.delay.distribution, Stalled)]
    if not stalls:
        return []
    lines = ["## Under stalls: coordinated omission", ""]
    lines += [f"{stalls[0].case.delay.name.capitalize()}. p50, p90 and p99 are the latencies that the tool reported, in ms. *Recorded* "
              "latencies are from the upstream in the same run. They lack the requests that a waiting tool did not send. "
              "*Formula* is the configured delay.", ""]
    lines += ["| | tool | p50 | p90 | p99 | recorded p90 | recorded p99 |", "|---|---|---|---|---|---|---|"]
    for found in stalls:
        distribution = found.case.delay.distribution
        formula = {name: distribution.quantile(p) for name, p in QUANTILES.items()}
        lines.append(f"| {title(found)} | formula | {milliseconds(formula)} | | |")
        lines.append(f"| | truth: evenly spaced arrivals | {milliseconds(found.reference_s)} | | |")
        for finding in found.reported():
            recorded = f"{finding.given_s['p90'] * 1e3:.2f} | {finding.given_s['p99'] * 1e3:.2f}"
            lines.append(f"| | {finding.tool}{marks(found, finding)} | {milliseconds(finding.quantiles_s)} | {recorded} |")
    return [*lines, ""]


def milliseconds(quantiles_s):
    return " | ".join(f"{quantiles_s[name] * 1e3:.2f}" for name in QUANTILES)


def errors_table(protocol, comparisons):
    """Errors of every tool, one line per case."""
    if not comparisons:
        return []
    tools = list(comparisons[0].findings)
    lines = [f"## {protocol}", "", "Errors of p50 / p90 / p99, in percent of the truth.", ""]
    lines.append(f"| delay | load | {' | '.join(tools)} | closest |")
    lines.append("|" + "---|" * (len(tools) + 3))
    for found in comparisons:
        cells = " | ".join(errors_cell(found, found.findings[tool]) for tool in tools)
        load = f"{found.load_point:.0%}, {found.case.rate_per_s:,}/s"
        lines.append(f"| {found.case.delay.name} | {load} | {cells} | {', '.join(closest(found)) or 'none'} |")
    return [*lines, ""]


def errors_cell(comparison, finding):
    """One tool's errors as a table cell."""
    if not finding.quantiles_s:
        return "failed" if finding.reason.startswith("failed") else "n/a"
    errors = " / ".join(signed(error) for error in comparison.errors(finding).values())
    return errors + marks(comparison, finding)


def marks(comparison, finding):
    """Remarks on a run: a star for host noise, and the share of the rate that was sent."""
    sent = comparison.sent_share(finding)
    words = "*" if is_disturbed(finding.share) else ""
    if sent < SENT_SHARE_MIN or sent > 2 - SENT_SHARE_MIN:
        words += f" (sent {sent:.0%})"
    return words


def signed(error):
    return f"{error * 100:+.1f}" if abs(error) < 0.995 else f"{error * 100:+.0f}"


def percent(share):
    return f"{share * 100:.1f} %"


def reasons(comparisons):
    """Reasons why some tools have no result."""
    found = {}
    for comparison in comparisons:
        for finding in comparison.findings.values():
            if finding.reason:
                found.setdefault((finding.tool, finding.reason), set()).add(comparison.case.protocol)
    if not found:
        return []
    lines = ["## Without a result", ""]
    for (tool, reason), protocols in sorted(found.items()):
        lines.append(f"- {tool}, {', '.join(sorted(protocols))}: {reason}.")
    return [*lines, ""]
