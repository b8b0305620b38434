"""Gateways that depend on services, for real: Gorouter over NATS. Needs `gorouter` on PATH."""

from checks import expect
import whole_runs

MANY, MANY_QUICK = 5_000, 500
EVERY_S = 4
SCENARIO = """
name: gorouter
question: What do many routes cost, and that they are registered again?
gateways: [{{ name: gorouter, set: {{ every: {every}s }} }}, weir]
limits: {{ data: {{ cpus: 0.5, memory: 1GiB }} }}
topology: {{ domains: 1, paths: [/ping] }}
vary: {{ topology.domains: [1, {many}] }}
origin: {{ body: 1KiB }}
loads: {{ steady: {{ model: open, rate: 300/s, connections: 32 }} }}
warmup: 2s
duration: {duration}s
repeats: {repeats}
"""


def gorouter_registers_again(rig):
    """Gorouter answers every request while its routes are registered again; the report has what that and many routes cost."""
    many, repeats = (MANY_QUICK, 1) if rig.quick else (MANY, 3)
    scenario = SCENARIO.format(every=EVERY_S, many=many, repeats=repeats, duration=3 * EVERY_S)
    _, result = whole_runs.run(rig, scenario)
    yield
    memory = {}
    for cell in result["cells"]:
        if cell["key"]["gateway"] != "gorouter":
            continue
        domains = cell["key"]["axes"]["topology.domains"]
        expect(cell["outcome"]["kind"] == "measured", f"gorouter with {domains} routes: {cell['outcome'].get('message', 'measured')}")
        (steady,) = cell["outcome"]["measurements"]
        whole = steady["record"]["whole"]
        wrong = sum(whole[name] for name in ("failed", "timed_out", "dropped", "unexpected"))
        expect(wrong == 0, f"{domains} routes: {wrong} of {whole['scheduled']} requests failed")
        registrations = [event["details"] for event in steady["events"] if event["kind"] == "registration"]
        messages = {details["messages"] for details in registrations}
        expect(len(registrations) >= 2 and messages == {domains}, f"{domains} routes: {len(registrations)} registrations of {messages} messages")
        memory.setdefault(domains, []).append(steady["usage"]["gorouter"]["memory_bytes_peak"])
    least, most = (sum(memory[domains]) / len(memory[domains]) / 2**20 for domains in (1, many))
    expect(most > least, f"memory: {least:.1f} MiB with 1 route, {most:.1f} MiB with {many}")
    findings = {finding["key"]: finding for finding in result["summary"]["findings"]}
    expect("registrations" in findings, f"findings: {', '.join(findings)}")
    print("\n".join(f"    {sentence}" for sentence in findings["registrations"]["sentences"]), flush=True)
    gateways = {row["gateway"] for row in findings["registrations"]["tables"][0]["rows"]}
    expect(gateways == {"gorouter"}, f"registrations of {gateways}")


CHECKS = [gorouter_registers_again]
