"""Draws docs/accuracy.svg: errors by tool and quantile on a logarithmic scale, for light and dark pages."""

import math
from xml.sax.saxutils import escape

from reporters import QUANTILES

WIDTH, LEFT, RIGHT, TOP = 860, 150, 30, 96
ROW, PANEL_GAP, PANEL_HEAD = 20, 20, 24
# Range of relative errors. Smaller and larger errors are drawn at the edges.
LOWEST, HIGHEST = 1e-4, 100.0
SHAPES = ["circle", "square", "triangle"]

STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #24292f }
  .title { font-weight: 600 }
  .small { font-size: 11px; fill: #57606a }
  .grid { stroke: #d0d7de; stroke-width: 1 }
  .p50 { fill: #0969da; stroke: #0969da } .p90 { fill: #bf8700; stroke: #bf8700 } .p99 { fill: #cf222e; stroke: #cf222e }
  .under { fill: none; stroke-width: 1.6 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .small { fill: #9198a1 } .grid { stroke: #3d444d }
    .p50 { fill: #58a6ff; stroke: #58a6ff } .p90 { fill: #e3b341; stroke: #e3b341 } .p99 { fill: #ff7b72; stroke: #ff7b72 }
    .under { fill: none }
  }
"""


def picture(comparisons):
    """A panel per delay, a line per tool, a mark per quantile and load point."""
    delays = list(dict.fromkeys(found.case.delay.name for found in comparisons))
    points = list(dict.fromkeys(found.load_point for found in comparisons))
    tools = list(comparisons[0].findings) if comparisons else []
    panel = PANEL_HEAD + ROW * len(tools) + PANEL_GAP
    height = TOP + panel * len(delays) + 30
    protocol = comparisons[0].case.protocol if comparisons else ""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">',
        f"<title>Errors of load tools over {escape(protocol)}</title><style>{STYLE}</style>",
        label(LEFT, 20, f"Error of reported latency, percent of the truth, {protocol}", "title"),
        *legend(points),
    ]
    for number, delay in enumerate(delays):
        top = TOP + panel * number
        parts += grid(top + PANEL_HEAD - 8, ROW * len(tools))
        parts.append(label(LEFT, top + 10, delay, "title"))
        for line, tool in enumerate(tools):
            y = top + PANEL_HEAD + ROW * line + ROW / 2
            parts.append(label(LEFT - 10, y + 4, tool, anchor="end"))
            found = [(points.index(one.load_point), one) for one in comparisons if one.case.delay.name == delay]
            parts += marks(found, tool, y)
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def marks(found, tool, y):
    """The marks of one tool at one delay."""
    parts = []
    for point, comparison in found:
        finding = comparison.findings[tool]
        if not finding.quantiles_s:
            continue
        for name, error in comparison.errors(finding).items():
            under = " under" if error < 0 else ""
            hint = f"{tool}, {comparison.load_point:.0%}, {name}: {error * 100:+.2f} %"
            parts.append(mark(SHAPES[point % len(SHAPES)], x_of(abs(error)), y, f"{name}{under}", hint))
    return parts or [label(LEFT + 6, y + 4, "n/a", "small")]


def x_of(error):
    """The position of an error on the logarithmic axis."""
    share = (math.log10(min(HIGHEST, max(LOWEST, error))) - math.log10(LOWEST)) / math.log10(HIGHEST / LOWEST)
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def mark(shape, x, y, style, hint=""):
    title = f"<title>{escape(hint)}</title>"
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="{style}">{title}</circle>'
    if shape == "square":
        return f'<rect x="{x - 3.6:.1f}" y="{y - 3.6:.1f}" width="7.2" height="7.2" class="{style}">{title}</rect>'
    corners = f"{x:.1f},{y - 4.6:.1f} {x - 4.4:.1f},{y + 3.6:.1f} {x + 4.4:.1f},{y + 3.6:.1f}"
    return f'<polygon points="{corners}" class="{style}">{title}</polygon>'


def grid(top, height):
    """A line at each power of ten."""
    parts = []
    for power in range(round(math.log10(LOWEST)), round(math.log10(HIGHEST)) + 1):
        x = x_of(10.0**power)
        parts.append(f'<line x1="{x:.1f}" y1="{top:.1f}" x2="{x:.1f}" y2="{top + height + 8:.1f}" class="grid"/>')
        parts.append(label(x, top + height + 20, f"{10.0**power * 100:g} %", "small", "middle"))
    return parts


def legend(points):
    """Colours are quantiles, shapes are load points. Hollow marks are reports that are too low."""
    parts, x = [], LEFT
    for name in QUANTILES:
        parts += [mark("circle", x, 42, name), label(x + 9, 46, name)]
        x += 56
    for number, point in enumerate(points):
        shape = SHAPES[number % len(SHAPES)]
        parts += [mark(shape, x + 20, 42, "p50"), label(x + 29, 46, f"{point:.0%} of the ceiling")]
        x += 132
    parts += [mark("circle", LEFT, 64, "p50"), label(LEFT + 9, 68, "reports too much")]
    parts += [mark("circle", LEFT + 132, 64, "p50 under"), label(LEFT + 141, 68, "reports too little")]
    edge = f"marks at the edges: {LOWEST * 100:g} % or less, {HIGHEST * 100:,.0f} % or more"
    return [*parts, label(LEFT + 262, 68, edge, "small")]


def label(x, y, text, style="", anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{style}" text-anchor="{anchor}">{escape(text)}</text>'
