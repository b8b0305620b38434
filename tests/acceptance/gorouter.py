"""A real Gorouter with NATS: the scenario `headroom-registered`. Needs `gorouter` on PATH."""

import json

from checks import Disagreement, expect

# Time limits of the full and the quick run: the longer time in the plan, which allows for host noise, plus time to
# stop.
LASTS_S, LASTS_QUICK_S = 2700, 420
MANY, MANY_QUICK = 100_000, 100
AXIS = "topology.domains"
# Minimum memory for 100,000 routes: half of a measured value.
MEMORY_MIN = 700 << 20
CPU_RATIO_MIN = 1.2


def weir(rig, lasts_s, *arguments):
    """Runs `weir` with the database of this check."""
    command = [rig.weir, *arguments, "--db", rig.folder / "weir.db"]
    return rig.processes.run(command, None, rig.folder / "weir.out", lasts_s)


def gorouter_is_sized(rig):
    """`weir run headroom-registered` loses no route, and reports the costs of routes and of registrations. `weir size` reads its results."""
    many, quick, lasts_s = (MANY_QUICK, ["--quick"], LASTS_QUICK_S) if rig.quick else (MANY, [], LASTS_S)
    gateways = ["--gateway", "gorouter", "--gateway", "weir"]
    out = rig.folder / "out"
    done = weir(rig, lasts_s, "run", "headroom-registered", *gateways, *quick, "--json", "--out", out)
    if not done.output.strip():
        raise Disagreement(f"weir run printed nothing: {done.errors}")
    result = json.loads(done.output)
    for cell in result["cells"]:
        require_cell(cell)
    findings = {finding["key"]: finding for finding in result["summary"]["findings"]}
    registrations_cost(findings, many)
    routes_cost(findings, many)
    curves = {(curve["gateway"], curve["axes"][AXIS]) for curve in result["summary"]["headroom"]["curves"] if curve["load"] == "curve"}
    expect({(gateway, count) for gateway in ("gorouter", "weir") for count in (1, many)} <= curves, f"curves: {sorted(curves)}")
    formats(rig, out, findings)
    instances(rig, many)
    yield


def require_cell(cell):
    """Checks that the cell was measured without errors, with two or more rounds of registrations in the steady load."""
    gateway, domains = cell["key"]["gateway"], cell["key"]["axes"][AXIS]
    name = f"{gateway}, {domains} routes, repeat {cell['key']['repeat'] + 1}"
    if cell["outcome"]["kind"] != "measured":
        raise Disagreement(f"{name}: {cell['outcome'].get('message')}")
    wrong = {}
    for measurement in cell["outcome"]["measurements"]:
        whole = measurement["record"]["whole"]
        wrong[measurement["load"]] = wrong.get(measurement["load"], 0) + whole["unexpected"] + whole["failed"]
    expect(not any(wrong.values()), f"{name}: errors {wrong}")
    if gateway == "gorouter":
        (steady,) = [of for of in cell["outcome"]["measurements"] if of["load"] == "steady"]
        messages = [event["details"]["messages"] for event in steady.get("events", []) if event["kind"] == "registration"]
        expect(len(messages) >= 2 and set(messages) == {domains}, f"{name}: registrations of {messages} messages")


def value(row, table, key):
    """The mean of a finding's value in a column, or None."""
    place = [column["key"] for column in table["columns"]].index(key)
    of = row["values"][place]
    return of["figure"]["mean"] if of["kind"] == "figure" else of.get("number")


def rows_of(findings, key):
    """(Table of a finding, its rows by gateway and number of routes)."""
    expect(key in findings, f"finding {key} among {', '.join(findings)}")
    print("\n".join(f"    {sentence}" for sentence in findings[key]["sentences"]), flush=True)
    table = findings[key]["tables"][0]
    return table, {(row["gateway"], row["axes"][AXIS]): row for row in table["rows"]}


def registrations_cost(findings, many):
    """Only Gorouter gets registrations. With many routes, registrations cost CPU time."""
    table, rows = rows_of(findings, "registrations")
    expect(set(rows) == {("gorouter", 1), ("gorouter", many)}, f"registrations of {sorted(rows)}")
    said = [sentence for sentence in findings["registrations"]["sentences"] if f"{many:,} messages each" in sentence]
    expect(len(said) == 1 and "CPU was" in said[0], "a sentence states the cost of registering many routes")
    if many == MANY:
        ratio = value(rows["gorouter", many], table, "cpu_ratio")
        expect(ratio > CPU_RATIO_MIN, f"CPU during registrations of {many:,} routes: {ratio:.2f} times")


def routes_cost(findings, many):
    """The finding compares memory and CPU time of many routes with those of one route."""
    table, rows = rows_of(findings, "routes")
    both = {(gateway, count) for gateway in ("gorouter", "weir") for count in (1, many)}
    expect(set(rows) == both, f"memory and CPU time of {sorted(rows)}")
    for (gateway, count), row in rows.items():
        memory, cpu = value(row, table, "memory"), value(row, table, "cpu")
        print(f"    {gateway}, {count:,} routes: {memory / 2**20:.1f} MiB, {cpu:.0f} us per request", flush=True)
    if many == MANY:
        memory = value(rows["gorouter", many], table, "memory")
        expect(memory > MEMORY_MIN, f"memory of Gorouter with {many:,} routes: {memory / 2**20:.0f} MiB")


def formats(rig, out, findings):
    """HTML, Markdown and terminal have the plots, the tables and the sentences."""
    charts = {path.name for path in (out / "charts").iterdir()}
    for chart in ("over-time-cpu", "over-time-throughput", "curve"):
        expect(any(name.startswith(f"headroom-{chart}") for name in charts), f"charts: headroom-{chart}")
    page, markdown = (out / "report.html").read_text(), (out / "report.md").read_text()
    terminal = weir(rig, 60, "report", "last", "--format", "terminal", "--out", "-").output
    for section in ("headroom", "registrations", "routes", "sizing"):
        expect(f'id="{section}"' in page, f"report.html has the section {section}")
    for title in ("Headroom", "Registrations", "Routes", "Capacity"):
        expect(f"## {title}" in markdown, f"report.md has the section {title}")
        expect(title.lower() in terminal.lower(), f"the terminal has the section {title}")
    sentence = findings["registrations"]["sentences"][-1]
    expect(sentence in markdown, "report.md has the sentence on registrations")
    expect(" ".join(sentence.split())[:40] in " ".join(terminal.split()), "the terminal has the sentence on registrations")


def instances(rig, many):
    """`weir size` returns a result, or the reason why it has none, for both numbers of routes."""
    sized = json.loads(weir(rig, 60, "size", "last", "--rate", "10000/s", "--objective", "p99<20ms", "--json").output)
    for offer in sized["offers"]:
        needed = (offer.get("instances") or {}).get("value")
        print(f"    {offer['gateway']}, {offer['axes'][AXIS]:,} routes: {needed} instances for 10,000/s ({offer.get('basis')})", flush=True)
    offered = {(offer["gateway"], offer["axes"][AXIS]) for offer in sized["offers"]}
    expect({("gorouter", 1), ("gorouter", many)} <= offered, f"sizes of {sorted(offered)}")

