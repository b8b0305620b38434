#!/usr/bin/env python3
"""Renders the chart with its default values into deploy/kubernetes/weir-gateway.yaml. `--check` only compares.

First it sets the chart's version to that of the workspace. Helm is compiled once, into the user's cache; `--check` uses
Helm only if it is already there.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

import dist
import dist_tools

CHART = dist.ROOT / "deploy/helm/weir-gateway"
MANIFESTS = dist.ROOT / "deploy/kubernetes/weir-gateway.yaml"
# If Helm is built from its Go module, it renders for an older Kubernetes version by default.
KUBERNETES = ["--kube-version", "1.30.0"]
INTRODUCTION = """\
# weir-gateway on Kubernetes (docs/gateway-on-kubernetes.md). scripts/render_chart.py renders this file from the chart
# in deploy/helm/weir-gateway with its default values.
"""
# Values that enable every part.
EVERYTHING = ["autoscaling.enabled=true", "podMonitor.enabled=true", "podMonitor.labels.release=monitoring", "drain.preStopSeconds=5",
              "admin.hosts={*.svc.cluster.local}", "extraArgs={--log-level,debug}", "service.externalTrafficPolicy=Local",
              "service.type=LoadBalancer", "serviceAccount.create=false", "nodeSelector.pool=edge", "podAnnotations.a=b", "podLabels.c=d"]
# value that must be rejected -> part of the error message
REJECTED = {"configuration.drain.timeout=9s": "drain.timeoutSeconds instead", "drain.delaySeconds=30": "greater than",
            "replica=2": "replica", "ports[0].port=0": "port"}


def with_version(text, version):
    """Chart.yaml with the version of the workspace."""
    text = re.sub(r"^version: .*$", f"version: {version}", text, flags=re.MULTILINE)
    return re.sub(r"^appVersion: .*$", f'appVersion: "{version}"', text, flags=re.MULTILINE)


def rendered(helm, *values):
    """(Manifests of the chart or None, Helm's standard error)."""
    sets = [word for value in values for word in ("--set", value)]
    done = subprocess.run([helm, "template", "weir-gateway", CHART, *KUBERNETES, *sets], capture_output=True, text=True, check=False)
    return (None if done.returncode else done.stdout), done.stderr


def manifests(text):
    """`INTRODUCTION`, then the manifests without Helm's `# Source:` comments."""
    lines = [line for line in text.splitlines() if not line.startswith("# Source: ")]
    body = "\n".join(lines).removeprefix("---\n")
    return INTRODUCTION + body + "\n"


def findings(helm):
    """Yields one sentence per error of the chart."""
    linted = subprocess.run([helm, "lint", "--strict", *KUBERNETES, CHART], capture_output=True, text=True, check=False)
    if linted.returncode:
        yield f"helm lint: {linted.stdout.strip()}"
    if rendered(helm, *EVERYTHING)[0] is None:
        yield f"with every part enabled: {rendered(helm, *EVERYTHING)[1].strip()}"
    for value, reason in REJECTED.items():
        text, message = rendered(helm, value)
        if text is not None or reason not in message:
            yield f"--set {value}: expected an error with `{reason}`: {message.strip()}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the file differs or the chart has errors")
    arguments = parser.parse_args()
    helm = dist_tools.found("helm") if arguments.check else str(dist_tools.fetched("helm") / "helm")
    chart = with_version((CHART / "Chart.yaml").read_text(), dist.version())
    if arguments.check and chart != (CHART / "Chart.yaml").read_text():
        sys.exit("error: the versions of chart and Cargo.toml differ; run scripts/render_chart.py")
    if helm is None:
        print("chart: not checked: Helm is missing; compile it with `scripts/dist_tools.py helm`")
        return 0
    if not arguments.check:
        (CHART / "Chart.yaml").write_text(chart)
    text, message = rendered(helm)
    if text is None:
        sys.exit(f"error: {message}")
    wrong = list(findings(helm))
    if not arguments.check:
        MANIFESTS.write_text(manifests(text))
    elif not MANIFESTS.exists() or MANIFESTS.read_text() != manifests(text):
        wrong.append(f"{MANIFESTS.relative_to(dist.ROOT)} is outdated; run scripts/render_chart.py")
    print("\n".join(wrong) or f"chart: {MANIFESTS.relative_to(dist.ROOT)} equals the chart's default output")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
