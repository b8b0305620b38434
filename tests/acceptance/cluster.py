"""Scenarios in a real Kubernetes with one node: weir's own pods, Contour, Istio and Envoy Gateway."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time

from checks import ROOT, expect
from processes import Failed

GROUPS = pathlib.Path("/sys/fs/cgroup/cpuacct")

CLUSTER = ROOT / "tests/cluster/cluster"
# Envoy sustains this rate with TLS, on cores shared with API server, kubelet and generator.
RATE = "loads.tail.rate=300/s"
IMAGES = "weir weir-gateway nginx envoy echo contour pilot proxyv2 envoy-gateway"
# The first run on a machine builds Kubernetes, Contour, Istio and Envoy Gateway.
BUILD_S_MAX = 3_600
START_S_MAX = 300
RUN_S_MAX = 900
# Limits for a machine with two cores: control plane of Kubernetes, two agents, an upstream and a gateway.
SMALL = ["--set", "limits.generator.cpus=0.3", "--set", "limits.data.cpus=0.4"]
# Allowed relative difference between the CPU times that the kubelet and the control group report for a container.
KUBELET_SHARE = 0.05


@contextlib.contextmanager
def cluster(rig):
    """A cluster with Contour, Istio and Envoy Gateway. Yields a function that runs a command inside."""
    environment = dict(os.environ, BIN_DIR=str(rig.binaries["weir"].parent), IMAGES=IMAGES)

    def control(*words, within_s=START_S_MAX):
        command = [CLUSTER, *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=within_s, check=False)
        if done.returncode:
            raise Failed(f"`{' '.join(map(str, words))}` exits with {done.returncode}:\n{(done.stderr or done.stdout)[-2000:]}")
        return done.stdout

    control("build", "kube", "coredns", "contour", "istio", "envoy-gateway", "images", within_s=BUILD_S_MAX)
    control("up")
    try:
        for gateway in ("contour", "istio", "envoy-gateway"):
            control("in", "bash", CLUSTER.parent / f"{gateway}.sh")
        yield lambda *words, within_s=RUN_S_MAX: control("in", *words, within_s=within_s)
    finally:
        control("down")


def measured(rig, inside, name, *options):
    """Runs a scenario in the cluster. Returns its JSON."""
    out = rig.folder / name
    command = [rig.weir, "run", *options, "--on", "k8s", *SMALL, "--db", rig.folder / "cluster.db", "--out", out, "--json"]
    # Missed and undecided objectives do not fail this check.
    command = ["sh", "-c", '"$@"; case $? in 0 | 1 | 4) ;; *) exit 1 ;; esac', "sh", *command]
    began_s = time.monotonic()
    result = json.loads(inside(*map(str, command)))
    print(f"    {name}: {time.monotonic() - began_s:.0f} s", flush=True)
    return result


def measurements(result):
    """Yields (cell, measurement) of all cells."""
    for cell in result["cells"]:
        for measurement in cell["outcome"].get("measurements", []):
            yield cell, measurement


def holds(result, gateways):
    """Checks that all cells were measured, that all sides counted every request, and that all limits were applied."""
    failed = [cell["outcome"] for cell in result["cells"] if "measurements" not in cell["outcome"]]
    expect(not failed, f"all {len(result['cells'])} cells were measured {failed or ''}")
    found = {cell["key"]["gateway"] for cell in result["cells"]}
    expect(found == {"direct", *gateways}, f"gateways: {sorted(found)}")
    for cell, measurement in measurements(result):
        name = f"{cell['key']['gateway']}, {measurement['load']}"
        whole, counters = measurement["record"]["whole"], measurement["counters"]
        wrong = {what: whole[what] for what in ("failed", "timed_out", "dropped", "unexpected") if whole[what]}
        if wrong or counters["origin_requests"] != counters["generator_sent"]:
            expect(False, f"{name}: {wrong or 'no errors'}; sent and received: {counters}")
        if counters["gateway_requests"] not in (None, counters["generator_sent"]):
            expect(False, f"{name}: the gateway counted {counters['gateway_requests']} of {counters['generator_sent']}")
    parts = [part for cell in result["cells"] for part in cell["parts"]]
    expect(all(part["limits_applied"] for part in parts), "limits of all parts are applied")
    expect(True, "generator, gateway and upstream counted the same requests, without errors")


def left(inside):
    """(Leftovers of runs in the cluster, limits of the user's gateways)."""
    kinds = "namespaces,clusterroles,clusterrolebindings,roles,rolebindings,secrets,configmaps,pods,httpproxies,virtualservices"
    kinds += ",gateways.networking.istio.io,gateways.gateway.networking.k8s.io,listenersets,httproutes,envoyproxies"
    objects = inside("kubectl", "get", kinds, "-A", "-l", "weir/run", "-o", "name", "--ignore-not-found").split()
    template = "{.spec.template.metadata.annotations}{.spec.template.spec.containers[*].resources}"
    workloads = [("projectcontour", "daemonset/envoy"), ("projectcontour", "deployment/contour")]
    workloads += [("istio-system", "deployment/istio-ingressgateway"), ("istio-system", "deployment/istiod")]
    workloads += [("envoy-gateway-system", "deployment/envoy-gateway")]
    limits = [inside("kubectl", "-n", space, "get", name, "-o", f"jsonpath={template}") for space, name in workloads]
    return objects, limits


def unchanged(inside, before):
    """Checks that runs left nothing in the cluster, and that the user's gateways have the limits in `before` again."""
    after = left(inside)
    expect(not after[0], f"nothing is left over in the cluster: {after[0]}")
    expect(after[1] == before[1], "limits and annotations of the gateways are restored")


class CpuOfGroup:
    """Samples the CPU time of a container's control group in the background."""

    def __init__(self, path):
        self.path, self.points, self.ended = path, [], threading.Event()
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        while not self.ended.wait(0.1):
            with contextlib.suppress(OSError):
                self.points.append((time.monotonic_ns(), int(self.path.read_text())))

    def between(self, from_ns, to_ns):
        """Seconds of CPU time between two readings of the monotonic clock, which is the same clock in the cluster."""
        self.ended.set()

        def at(time_ns):
            before = max(point for point in self.points if point[0] <= time_ns)
            after = min(point for point in self.points if point[0] >= time_ns)
            share = (time_ns - before[0]) / max(1, after[0] - before[0])
            return before[1] + share * (after[1] - before[1])

        return (at(to_ns) - at(from_ns)) / 1e9


def kubelet_agrees(rig, inside):
    """The kubelet and the control group report the same CPU time of Contour's Envoy, within the allowed difference."""
    watched = {}

    def watch():
        # Each cell starts a new pod with a new control group.
        while not stop.wait(1.0):
            for path in sorted(GROUPS.glob("weir-cluster-*/kubepods/*/pod*/*/cpuacct.usage")):
                command = b"envoy\0-c\0/config"
                processes = path.with_name("cgroup.procs").read_text().split() if path.exists() else []
                with contextlib.suppress(OSError):
                    if any(open(f"/proc/{pid}/cmdline", "rb").read().startswith(command) for pid in processes):
                        watched.setdefault(path, CpuOfGroup(path))

    stop = threading.Event()
    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    one_load = "loads={full: {model: closed, connections: 10}}"
    options = ["--gateway", "contour", "--repeats", "1", "--set", one_load, "--set", "duration=80s", "--grant"]
    result = measured(rig, inside, "kubelet", "quickstart", *options)
    stop.set()
    thread.join()
    apart = []
    for cell, measurement in measurements(result):
        if cell["key"]["gateway"] != "contour":
            continue
        record, usage = measurement["record"], measurement["usage"].get("envoy")
        expect(usage is not None, f"{measurement['load']}: the kubelet reports the CPU time of Envoy")
        taken = [group.between(record["phase_start_mono_ns"], record["phase_end_mono_ns"]) for group in watched.values() if covers(group, record)]
        by_kubelet = sum(usage["cpu_s"].values())
        apart.append(by_kubelet / max(taken) - 1)
        print(f"    {measurement['load']}: kubelet {by_kubelet:.2f} s, control group {max(taken):.2f} s ({apart[-1]:+.1%})", flush=True)
    expect(apart and all(abs(share) <= KUBELET_SHARE for share in apart), f"differences: {[f'{share:+.1%}' for share in apart]}")


def covers(group, record):
    times = [time_ns for time_ns, _ in group.points]
    return times and times[0] <= record["phase_start_mono_ns"] and times[-1] >= record["phase_end_mono_ns"]


def of_gateway(result, name):
    return [measurement for cell, measurement in measurements(result) if cell["key"]["gateway"] == name]


def contour_changes(rig, inside):
    """Routes are added and removed through the API server, the certificate is replaced; responses show each change."""
    changes = "changes={every: 2s, of: [routes, certificates]}"
    options = ["--gateway", "contour", "--repeats", "1", "--set", "duration=10s", "--set", "topology.tls=true", "--set", changes, "--set", RATE, "--grant"]
    result = measured(rig, inside, "changes", "quickstart", *options)
    holds(result, ["contour"])
    for measurement in of_gateway(result, "contour"):
        changes = measurement["route_changes"]
        kinds = {change.get("what", "routes") for change in changes}
        seen_ms = [round(change["seen_after_ns"] / 1e6) for change in changes]
        expect(len(changes) >= 3 and kinds == {"routes", "certificates"}, f"{measurement['load']}: changes took effect after {seen_ms} ms")


def contour_faults(rig, inside):
    """Pods of both planes end under load: Envoy works without its control plane, and a killed Envoy is replaced."""
    faults = "faults=[{at: 2s, gateway: control, do: evict}, {at: 5s, gateway: control, do: rollout}, {at: 15s, gateway: data, do: kill}]"
    options = ["--gateway", "contour", "--repeats", "1", "--set", "duration=45s", "--set", "timeout=2s", "--set", faults, "--set", RATE, "--grant"]
    result = measured(rig, inside, "faults", "quickstart", *options)
    for measurement in of_gateway(result, "contour"):
        done = [(fault["gateway"], fault["action"]) for fault in measurement["faults"]]
        expect(done == [("control", "evict"), ("control", "rollout"), ("data", "kill")], f"{measurement['load']}: {done}")
        killed_s = measurement["faults"][-1]["t_s"]
        seconds = measurement["record"]["seconds"]
        wrong = ("lost", "unexpected")

        def errors(within):
            return sum(second[what] for second in within for what in wrong)

        before = [second for second in seconds if second["t_s"] + second["length_s"] <= killed_s]
        last = [second for second in seconds if second["t_s"] >= seconds[-1]["t_s"] - 5 and second["sustained"]]
        expect(not errors(before), f"{measurement['load']}: no request failed without the control plane")
        expect(errors(seconds) > 0, f"{measurement['load']}: {errors(seconds)} requests failed when Envoy was killed")
        expect(not errors(last) and all(second["completed"] for second in last), f"{measurement['load']}: requests succeed again at the end")


def many_domains(rig, inside, gateway, domains):
    """Many TLS domains on a gateway of the cluster, with load from four agents."""
    cases = f"cases=[{{topology: {{domains: {domains}, paths: 100}}}}]"
    options = ["--gateway", gateway, "--repeats", "1", "--set", "duration=3s", "--set", cases, "--set", "vary={}", "--agents", "4"]
    result = measured(rig, inside, f"many-domains-{gateway}", "many-domains", *options, "--set", "limits.generator.cpus=0.15", "--grant", "--samplers")
    holds(result, [gateway])
    shards = {len(m["record"]["shards"]) for _, m in measurements(result)}
    expect(shards == {4}, f"{gateway}: each load came from 4 agents: {shards}")


def envoys(inside):
    """The Deployments that Envoy Gateway has created."""
    return inside("kubectl", "-n", "envoy-gateway-system", "get", "deployments", "-l", "app.kubernetes.io/managed-by=envoy-gateway", "-o", "name").split()


def cluster_runs(rig):
    """Quickstart, ingress-sizing on Contour, many-domains on Istio and Envoy Gateway: counts agree, limits apply, no leftovers."""
    with cluster(rig) as inside:
        before = left(inside)
        expect(not before[0], "the cluster is clean")
        pods = ["--gateway", "weir", "--gateway", "nginx", "--gateway", "envoy"]
        holds(measured(rig, inside, "quickstart", "quickstart", *pods, "--quick", "--agents", "2"), ["weir", "nginx", "envoy"])
        # ingress-sizing: sizes of the control plane and of the data plane.
        sizes = "vary={limits.control.cpus: [0.1, 0.4], limits.data.cpus: [0.2, 0.4]}"
        contour = ["--gateway", "contour", "--repeats", "1", "--set", "duration=3s", "--set", "warmup=500ms", "--set", sizes]
        contour += ["--set", "origin={body: 64B}", "--grant", "--samplers"]
        result = measured(rig, inside, "ingress-sizing", "ingress-sizing", *contour)
        holds(result, ["contour"])
        limits = {(part["role"], part["limit_cpus"]) for cell in result["cells"] for part in cell["parts"] if cell["key"]["gateway"] == "contour"}
        # Contour has two pods, whose limits are added.
        wanted = {("control", 2 * 0.1), ("control", 2 * 0.4), ("data", 0.2), ("data", 0.4)}
        expect(wanted <= limits, f"limits of control plane and data plane: {sorted(limits, key=str)}")
        expect(all("envoy" in m["usage"] and "contour" in m["usage"] for c, m in measurements(result) if c["key"]["gateway"] == "contour"), "CPU and memory of both planes are measured")
        many_domains(rig, inside, "istio", 50)
        existing = envoys(inside)
        # More listeners than the 64 that one Gateway allows.
        many_domains(rig, inside, "envoy-gateway", 70)
        yield
        unchanged(inside, before)
        expect(envoys(inside) == existing, f"Envoy Gateway has only the Envoys of before: {existing}")


def kubernetes_gateways(rig):
    """Changes, faults, CPU time: responses show changes, Envoy works without Contour, kubelet and cgroup agree."""
    with cluster(rig) as inside:
        before = left(inside)
        contour_changes(rig, inside)
        contour_faults(rig, inside)
        yield
        kubelet_agrees(rig, inside)
        unchanged(inside, before)


class Started:
    """A run in the cluster that continues in the background."""

    def __init__(self, rig, name, *options):
        self.log, self.out = rig.folder / f"{name}.log", rig.folder / name
        self.database = rig.folder / "cluster.db"
        weir = [rig.weir, "run", "quickstart", "--on", "k8s", "--gateway", "weir", "--repeats", "1", *SMALL, *options]
        command = [CLUSTER, "in", *weir, "--db", self.database, "--out", self.out]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(list(map(str, command)), stdout=log, stderr=subprocess.STDOUT)

    def said(self):
        return self.log.read_text()

    def until(self, done, what, within_s=120):
        """Waits until `done` returns a true value, and returns it."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            with contextlib.suppress(Failed):
                if found := done():
                    return found
            time.sleep(0.3)
        raise Failed(f"{what} did not happen within {within_s} s:\n{self.said()}")

    def end(self, within_s=400):
        """Waits for the end. Returns (exit code, output)."""
        try:
            return self.process.wait(within_s), self.said()
        except subprocess.TimeoutExpired as expired:
            self.process.kill()
            raise Failed(f"the run did not end within {within_s} s:\n{self.said()}") from expired

    @property
    def run(self):
        return self.until(lambda: re.search(r"^run (\S+) runs in namespace (\S+)$", self.said(), re.MULTILINE), "its start")[1]


def pods(inside, role):
    """The running pods of a role: [namespace, name]."""
    words = "kubectl get pods -A --field-selector=status.phase=Running -o".split()
    listed = inside(*words, "jsonpath={range .items[*]}{.metadata.namespace} {.metadata.name} {.metadata.labels.weir/role}{\"\\n\"}{end}", "-l", "weir/run")
    return [line.split()[:2] for line in listed.splitlines() if line.split()[2:] == [role]]


def kubernetes_faults(rig):
    """Lost pods and processes are handled like lost agents; Kubernetes' reason is reported; nothing is left over."""
    with cluster(rig) as inside:
        faults(rig, inside)
        yield


def faults(rig, inside):
    """Runs all faults, one after another."""
    long = ["--set", "duration=6s"]
    before = left(inside)

    def clean(name):
        deadline = time.monotonic() + 60
        while (now := left(inside)) != before and time.monotonic() < deadline:
            time.sleep(1)
        expect(now == before, f"{name}: nothing is left over, and limits are restored {now[0] if now != before else ''}")

    def ends(name, run, code, *words):
        got, said = run.end()
        missing = [word for word in words if not re.search(word, said)]
        is_right = got in (code if isinstance(code, tuple) else (code,)) and not missing
        if not is_right:
            print(said)
        expect(is_right, f"{name}: exit code {got}{f', without {missing}' if missing else ''}")
        clean(name)

    def agent(run):
        return run.until(lambda: pods(inside, "generator"), "an agent")[0]

    # With few routes the agent fits into 8 MiB, so its requests use 100,000 routes.
    small = ["--set", "limits.generator.memory=8MiB", "--set", "topology={domains: 1000, paths: 100}"]
    ends("an agent out of memory", Started(rig, "oom", *small), 1, "OOMKilled|exit code 137")
    ends("agents that fit on no node", Started(rig, "unschedulable", "--agents", "8", "--set", "limits.generator.cpus=1"), 1, "Unschedulable", "Insufficient cpu")
    ends("a missing image of a gateway", Started(rig, "image", "--set", "gateways.weir.image=not-there:1"), 1, "ErrImagePull|ImagePullBackOff", "not-there:1")
    ends("a missing image of weir", Started(rig, "own-image", "--image", "not-there:1"), 3, "the coordinator pod cannot start", "not-there:1")

    run = Started(rig, "evicted", *long)
    space, pod = agent(run)
    time.sleep(4)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": space}}
    inside("sh", "-c", 'echo "$0" | kubectl create --raw "$1" -f -', json.dumps(eviction), f"/api/v1/namespaces/{space}/pods/{pod}/eviction")
    ends("an evicted agent", run, (0, 4), "re-measures the cell with new agents .*(Evict|deleted)")

    run = Started(rig, "coordinator", *long)
    agent(run)
    space, name = run.run, None
    name = inside("kubectl", "get", "pods", "-A", "-l", "weir/part=coordinator", "-o", "jsonpath={.items[0].metadata.namespace} {.items[0].metadata.name}").split()
    inside("kubectl", "-n", name[0], "delete", "pod", name[1], "--wait=false")
    ends("a deleted coordinator", run, 3, "was stopped in the cluster|coordinator pod (was deleted|has ended|has failed)")

    run = Started(rig, "killed", *long)
    agent(run)
    identity = run.run
    # `cluster in` execs nsenter, so `run.process` is nsenter, and weir is its child.
    for child in children(run.process.pid):
        os.kill(child, signal.SIGKILL)
    run.process.kill()
    run.process.wait()
    said = inside(rig.weir, "k8s", "attach", identity, "--db", run.database)
    expect("is finished" in said, "a killed command line: the run continues, and `weir k8s attach` follows it")
    expect(identity in inside(rig.weir, "runs", "--db", run.database), "its results are in the database")
    clean("a killed command line")

    run = Started(rig, "away", *long)
    agent(run)
    servers = inside("pgrep", "kube-apiserver").split()
    inside("kill", "-STOP", *servers)
    time.sleep(20)
    inside("kill", "-CONT", *servers)
    ends("an API server that stops for 20 s", run, (0, 4))

    started = ["--gateway", "contour", "--set", "limits.data.memory=4MiB", "--grant"]
    ends("a rollout that never becomes ready", Started(rig, "rollout", *started), 1, "not complete after", "OOMKilled|exit code|CrashLoopBackOff|RunContainerError")

    run = Started(rig, "interrupted", *long, "--gateway", "contour", "--grant")
    agent(run)
    time.sleep(15)
    for child in children(run.process.pid) or [run.process.pid]:
        os.kill(child, signal.SIGINT)
    ends("Ctrl-C", run, 130)

    both = [Started(rig, f"both-{number}", *long, "--set", "limits.generator.cpus=0.1") for number in (1, 2)]
    got = [run.end() for run in both]
    expect(all(code in (0, 4) for code, _ in got), f"two runs at once: exit codes {[code for code, _ in got]}")
    clean("two runs at once")


def children(pid):
    """All descendants of a process."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *children(child)]
    return found


CHECKS = [cluster_runs, kubernetes_gateways, kubernetes_faults]
