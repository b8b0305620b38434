"""The Helm chart of weir-gateway in a real one-node Kubernetes: no request fails in a rolling update of all pods."""

import contextlib
import json
import os
import subprocess
import sys
import time

from checks import ROOT, balanced, expect
from cluster import BUILD_S_MAX, CLUSTER, START_S_MAX
from processes import Failed

sys.path.append(str(ROOT / "scripts"))

import dist  # noqa: E402  (in scripts/)
import dist_tools  # noqa: E402
import render_chart  # noqa: E402

IMAGES = "weir weir-gateway"
SPACE = "edge"
REPLICAS = 3
ROLLOUT_S_MAX = 150
# Longer than a rolling update; the check verifies this.
LOAD_S = 100
# Keep-alive connections, and one connection per request.
LOADS = {"kept": ["--rate", "300/s", "-c", "16"], "fresh": ["--rate", "100/s", "-c", "16", "--per-connection", "1"]}
# Small enough for a machine with two cores.
RESOURCES = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "500m", "memory": "128Mi"}}
RESTRICTED = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "runAsNonRoot": True, "runAsUser": 65532,
              "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}}


def values():
    """Values of the chart: three replicas in front of an upstream."""
    configuration = {"routes": [{"path": "/", "backend": "origin"}],
                     "backends": {"origin": {"endpoints": [f"origin.{SPACE}.svc.cluster.local:9000"]}}}
    return {"replicas": REPLICAS, "resources": RESOURCES, "configuration": configuration}


def origin():
    """Manifests of an upstream, in a namespace that enforces Pod Security `restricted`."""
    labels = {"app": "origin"}
    container = {"name": "origin", "image": f"weir:{dist.version()}", "args": ["origin", "--listen", "0.0.0.0:9000"],
                 "ports": [{"containerPort": 9000}], "securityContext": RESTRICTED, "readinessProbe": {"tcpSocket": {"port": 9000}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], "automountServiceAccountToken": False}}
    space = {"name": SPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": space},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "origin", "namespace": SPACE},
         "spec": {"selector": labels, "ports": [{"port": 9000}]}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "origin", "namespace": SPACE},
         "spec": {"selector": {"matchLabels": labels}, "template": template}},
    ]


@contextlib.contextmanager
def cluster(rig):
    """A cluster with images of weir and weir-gateway. Yields a function that runs a command inside."""
    environment = dict(os.environ, BIN_DIR=str(rig.binaries["weir"].parent), IMAGES=IMAGES)

    def control(*words, within_s=START_S_MAX):
        command = [CLUSTER, *words]
        done = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, timeout=within_s, check=False)
        if done.returncode:
            raise Failed(f"`{' '.join(map(str, words))}` exits with {done.returncode}:\n{(done.stderr or done.stdout)[-2000:]}")
        return done.stdout

    control("build", "kube", "coredns", within_s=BUILD_S_MAX)
    control("up")
    try:
        yield lambda *words, within_s=START_S_MAX: control("in", *words, within_s=within_s)
    finally:
        control("down")


def apply(rig, inside, name, text, *options):
    """Applies manifests."""
    path = rig.folder / f"{name}.yaml"
    path.write_text(text)
    return inside("kubectl", "-n", SPACE, "apply", *options, "-f", path)


def pods(inside):
    """The gateway's pods: name -> restarts of the container."""
    listed = json.loads(inside("kubectl", "-n", SPACE, "get", "pods", "-l", "app.kubernetes.io/name=weir-gateway", "-o", "json"))
    return {pod["metadata"]["name"]: sum(state["restartCount"] for state in pod["status"].get("containerStatuses", [])) for pod in listed["items"]}


def rolled_out(inside, name):
    inside("kubectl", "-n", SPACE, "rollout", "status", f"deployment/{name}", f"--timeout={ROLLOUT_S_MAX}s", within_s=ROLLOUT_S_MAX + 20)


def chart_rolling_update(rig):
    """Pods of the chart pass Pod Security `restricted`; no request fails while all pods are replaced under load."""
    helm = str(dist_tools.fetched("helm") / "helm")
    with cluster(rig) as inside:
        apply(rig, inside, "origin", json.dumps({"apiVersion": "v1", "kind": "List", "items": origin()}))
        rolled_out(inside, "origin")
        accepted = apply(rig, inside, "plain", render_chart.MANIFESTS.read_text(), "--dry-run=server")
        expect(accepted.count("server dry run") >= 6, "the API server accepts deploy/kubernetes/weir-gateway.yaml")
        # Without the PodMonitor, which needs the Prometheus Operator.
        everything = [value for value in render_chart.EVERYTHING if not value.startswith("podMonitor")]
        accepted = apply(rig, inside, "everything", rendered(helm, *everything), "--dry-run=server")
        expect("horizontalpodautoscaler" in accepted, "the API server accepts the chart with every part enabled")
        own = rig.folder / "values.json"
        own.write_text(json.dumps(values()))
        apply(rig, inside, "chart", rendered(helm, "-f", own))
        rolled_out(inside, "weir-gateway")
        replaced_under_load(rig, inside)
    yield


def rendered(helm, *options):
    """The chart's manifests with `--set` of each option, or with `-f FILE`."""
    words = list(options) if options[0] == "-f" else [word for option in options for word in ("--set", option)]
    command = [helm, "template", "weir-gateway", render_chart.CHART, *render_chart.KUBERNETES, *words]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"helm template failed: {done.stderr}")
    return done.stdout


def replaced_under_load(rig, inside):
    """Restarts every pod while two loads from the node run through the Service."""
    address = inside("kubectl", "-n", SPACE, "get", "service", "weir-gateway", "-o", "jsonpath={.spec.clusterIP}")
    before = pods(inside)
    expect(len(before) == REPLICAS, f"{len(before)} pods run")
    loads = {name: start_load(rig, address, name, shape) for name, shape in LOADS.items()}
    time.sleep(5)
    began_s = time.monotonic()
    inside("kubectl", "-n", SPACE, "rollout", "restart", "deployment/weir-gateway")
    rolled_out(inside, "weir-gateway")
    deadline_s = time.monotonic() + ROLLOUT_S_MAX
    while set(before) & set(pods(inside)) and time.monotonic() < deadline_s:
        time.sleep(0.5)
    took_s, after = time.monotonic() - began_s, pods(inside)
    running = [load.poll() is None for load in loads.values()]
    expect(not set(before) & set(after) and len(after) == REPLICAS, f"all {REPLICAS} pods were replaced in {took_s:.0f} s")
    expect(all(running), "the loads lasted longer than the update")
    for name, load in loads.items():
        judge(name, load, rig.folder / f"{name}.json")
    expect(not any(after.values()), "no container was restarted")


def start_load(rig, address, name, shape):
    command = [CLUSTER, "in", rig.weir, "load", f"http://{address}/", *shape, "--duration", f"{LOAD_S}s", "--timeout", "5s",
               "--check", "status=2xx", "--json"]
    with (rig.folder / f"{name}.json").open("w") as out, (rig.folder / f"{name}.log").open("w") as log:
        return subprocess.Popen(list(map(str, command)), stdout=out, stderr=log)


def judge(name, load, out):
    """Checks that every request of the load completed with a 2xx status."""
    code = load.wait(LOAD_S + 60)
    try:
        result = json.loads(out.read_text())
    except json.JSONDecodeError:
        raise Failed(f"{name}: exit code {code}: {out.with_suffix('.log').read_text()[-2000:]}") from None
    requests = result["requests"]
    failed = {word: requests[word] for word in ("failed", "timed_out", "dropped", "unexpected", "in_flight") if requests[word]}
    expect(balanced(requests) and not failed, f"{name}: {requests['completed']:,} of {requests['scheduled']:,} requests completed {failed or ''} {result['errors'] or ''}")


CHECKS = [chart_rolling_update]
