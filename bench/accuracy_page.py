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
With this page you can see how far the latencies that load tools report are from the truth. Each tool measures an origin \
(`weir origin`) that records the delay it really gave to each request, from the whole request read to the first byte of \
the response written.

- **Truth**: p50, p90 and p99 of the origin's record in the same run. If the origin stalls and the tool waits for \
responses, the tool sends least while the origin is slow (coordinated omission). The truth is then the record of a run \
with evenly spaced arrivals at the same rate, next to the formula.
- **Load points**: 5 %, 50 % and 90 % of weir's ceiling, which is the highest open rate at which weir's lateness stays \
under 250 µs at p99 and every request is sent and answered, in one of six trials of half a second. If a tool sent less, \
the share that it sent is given.
- **Closest**: the tool with the smallest worst error over the three quantiles, of those that sent 90 % of the rate or \
more. Tools within 0.1 percentage points are level, because histograms resolve no more.
- One CPU for the tool, one for the origin, which spins (`--spin`) so that no response waits for a sleeping CPU. A fresh \
origin for every run. Runs with more than 2 % host noise were repeated; those that stayed noisy are marked * and decide \
nothing.

| tool | sends | its latency begins | settings here |
|---|---|---|---|
| weir | open loop, Poisson | at the intended send time | `--rate`, connections to spare |
| oha | open loop, evenly spaced | at the intended send time (`--latency-correction`) | `-q`, connections to spare |
| k6 | open loop (`constant-arrival-rate`) while it has idle users, else it drops | at the send | as many users |
| h2load | paced connections (`--rps`); one that waits for its response sends late | at the send | as many connections |
| hey | paced workers (`-q`); one that waits sends late; reports tenths of a millisecond | at the send | as many workers |
| Locust | paced users (`constant_throughput`); one that waits sends late; reports milliseconds | at the send | as many users |
| wrk | closed loop: a connection sends after its response | at the send; adds invented samples if a response took longer \
than the mean interval, which bends distributions without stalls | connections for the rate |

Expect errors under stalls from tools that count from the send and wait for responses (h2load, hey, Locust, wrk), at \
high rates from tools whose own cost is near a core, and at short delays from tools that round.
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
    """Reports without host noise of tools that sent the rate, closest first."""
    quiet = [finding for finding in comparison.reported() if not is_disturbed(finding.share)]
    full = [finding for finding in quiet if comparison.sent_share(finding) >= SENT_SHARE_MIN]
    return sorted(full, key=comparison.worst)


def is_undecided(comparison):
    """Whether the case is undecided: host noise in weir's own run, or no valid report."""
    ours = comparison.findings["weir"]
    return not fit(comparison) or (bool(ours.quantiles_s) and is_disturbed(ours.share))


def closest(comparison):
    """The closest tools: several if they are level, none if the case is undecided."""
    if is_undecided(comparison):
        return []
    ranked = fit(comparison)
    best = comparison.worst(ranked[0])
    return [finding.tool for finding in ranked if comparison.worst(finding) <= best + LEVEL_SHARE]


def summary(comparisons):
    """In how many cases each tool is closest, and in which cases weir is not."""
    lines = ["## Closest tools", "", "| tool | closest, or level with it | cases | largest error, median of cases |", "|---|---|---|---|"]
    decided = [found for found in comparisons if not is_undecided(found)]
    for tool in comparisons[0].findings if comparisons else []:
        ranked = [found for found in decided if tool in (finding.tool for finding in fit(found))]
        wins = sum(tool in closest(found) for found in ranked)
        worst = [found.worst(found.findings[tool]) for found in ranked]
        middle = percent(statistics.median(worst)) if worst else "n/a"
        lines.append(f"| {tool} | {wins} | {len(ranked)} | {middle} |")
    lost = [found for found in decided if "weir" not in closest(found)]
    lines += ["", "Cases in which a tool sent 90 % of the rate or more, on a quiet host.", ""]
    if len(decided) < len(comparisons):
        undecided = len(comparisons) - len(decided)
        lines += [f"{undecided} of {len(comparisons)} cases are undecided: host noise while weir ran.", ""]
    if decided and not lost:
        lines.append(f"weir is closest, or level with the closest, in every one of {len(decided)} cases.")
    if lost:
        lines += [f"weir is not closest in {len(lost)} of {len(decided)} cases:", ""]
    for found in lost:
        winner, ours = fit(found)[0], found.findings["weir"]
        said = f"off by {percent(found.worst(ours))}" if ours.quantiles_s else ours.reason
        lines.append(f"- {title(found)}: {winner.tool} is off by {percent(found.worst(winner))} at most, weir {said}.")
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
    lines += [f"{stalls[0].case.delay.name.capitalize()}: p50 / p90 / p99 in ms as reported. *Recorded* is the origin's record of "
              "the tool's own run; it omits what a waiting tool did not send.", ""]
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
    lines = [f"## {protocol}", "", "Error of p50 / p90 / p99 in percent of the truth.", ""]
    lines.append(f"| delay | load | {' | '.join(tools)} | closest |")
    lines.append("|" + "---|" * (len(tools) + 3))
    for found in comparisons:
        cells = " | ".join(errors_cell(found, found.findings[tool]) for tool in tools)
        load = f"{found.load_point:.0%}, {found.case.rate_per_s:,}/s"
        lines.append(f"| {found.case.delay.name} | {load} | {cells} | {', '.join(closest(found)) or 'none'} |")
    return [*lines, ""]


def errors_cell(comparison, finding):
    """One tool's errors as a cell."""
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
