"""Tests of the folder of peers, and of peers that are built from Go modules.

All clones share a folder in the user's cache. A folder that is named or already in use has precedence.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import built_peers
import go_peers

SCRIPTS = Path(__file__).resolve().parent


class InClone(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def clone(self, name):
        clone = self.folder / name
        (clone / "scripts").mkdir(parents=True)
        for script in ("peers.py", "built_peers.py", "go_peers.py"):
            shutil.copy(SCRIPTS / script, clone / "scripts")
        return clone

    def program(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def peers(self, clone, *arguments, **variables):
        kept = {name: value for name, value in os.environ.items() if name not in ("WEIR_PEERS", "XDG_CACHE_HOME")}
        return subprocess.run([sys.executable, "peers.py", *arguments], cwd=clone / "scripts", env={**kept, **variables},
                              capture_output=True, text=True)


class Place(InClone):
    def place(self, clone, **variables):
        kept = {name: value for name, value in os.environ.items() if name not in ("WEIR_PEERS", "XDG_CACHE_HOME")}
        done = subprocess.run([sys.executable, "-c", "import peers; print(peers.PEERS)"], cwd=clone / "scripts",
                              env={**kept, **variables}, capture_output=True, text=True, check=True)
        return Path(done.stdout.strip())

    def test_two_clones_share_a_folder_in_the_cache(self):
        cache = str(self.folder / "cache")
        one, two = self.clone("one"), self.clone("two")
        place = self.place(one, XDG_CACHE_HOME=cache)
        self.assertTrue(place.is_relative_to(self.folder / "cache/weir/peers"))
        self.assertEqual(place, self.place(two, XDG_CACHE_HOME=cache))
        for clone in (one, two):
            self.assertEqual((clone / "target/peers").resolve(), place.resolve())

    def test_other_versions_have_another_folder(self):
        cache = str(self.folder / "cache")
        one, two = self.clone("one"), self.clone("two")
        pinned = two / "scripts/built_peers.py"
        pinned.write_text(pinned.read_text().replace('"k6": ("', '"k6": ("9'))
        self.assertNotEqual(self.place(one, XDG_CACHE_HOME=cache), self.place(two, XDG_CACHE_HOME=cache))

    def test_an_existing_folder_of_the_clone_is_used(self):
        clone = self.clone("one")
        (clone / "target/peers/bin").mkdir(parents=True)
        place = self.place(clone, XDG_CACHE_HOME=str(self.folder / "cache"))
        self.assertEqual(place, clone / "target/peers")

    def test_without_a_cache_peers_are_stored_in_the_clone(self):
        (self.folder / "file").write_text("")
        clone = self.clone("one")
        self.assertEqual(self.place(clone, XDG_CACHE_HOME=str(self.folder / "file")), clone / "target/peers")

    def test_weir_peers_overrides_the_folder(self):
        clone = self.clone("one")
        self.assertEqual(self.place(clone, WEIR_PEERS="/nowhere/peers"), Path("/nowhere/peers"))
        self.assertFalse((clone / "target").exists())


class Compiled(InClone):
    def test_folders_of_other_versions_share_a_build(self):
        cache = str(self.folder / "cache")
        one, two = self.clone("one"), self.clone("two")
        pinned = two / "scripts/built_peers.py"
        pinned.write_text(pinned.read_text().replace('"k6": ("', '"k6": ("9'))
        known = built_peers.BUILT["kube-apiserver"][0]
        built = self.folder / f"cache/weir/peers/built/kube-apiserver-{known}-{os.uname().machine}"
        self.program(built / "bin/kube-apiserver", f"echo Kubernetes v{known}")
        (built / "made_of.txt").write_text("its modules")
        self.program(self.folder / "no-go/go", "exit 1")
        for clone in (one, two):
            done = self.peers(clone, "kube-apiserver", XDG_CACHE_HOME=cache, PATH=f"{self.folder / 'no-go'}:{os.environ['PATH']}")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual((clone / "target/peers/bin/kube-apiserver").resolve(), (built / "bin/kube-apiserver").resolve())
            self.assertIn(f"kube-apiserver\tKubernetes v{known}\tits modules\t", (clone / "target/peers/versions.txt").read_text())

    def test_a_failed_build_reports_its_last_lines_and_a_remedy_and_leaves_nothing(self):
        self.program(self.folder / "bin/go", 'if [ "$1" = env ]; then echo go1.99; else echo "go: no such host" >&2; exit 1; fi')
        place = self.folder / "peers"
        done = self.peers(self.clone("one"), "kube-apiserver", WEIR_PEERS=str(place), PATH=f"{self.folder / 'bin'}:{os.environ['PATH']}")
        self.assertEqual(done.returncode, 1)
        for part in ("peers: kube-apiserver: `", "go: no such host", go_peers.WAY_OUT, "peers: not fetched: kube-apiserver"):
            self.assertIn(part, done.stderr)
        self.assertEqual([path.name for path in (place / "built").iterdir()], [".lock"])

    def test_an_old_toolchain_is_not_used(self):
        go = self.folder / "go"
        for said, usable in (("go1.25.9", False), ("go1.26", True), ("go1.26.1", True), ("go2.0", True), ("devel", False)):
            self.program(go, f"echo {said}")
            self.assertEqual(go_peers.is_new_enough(go), usable, said)

    def test_staging_modules_get_their_published_versions(self):
        upstream = """module k8s.io/kubernetes

go 1.26.0

godebug default=go1.26

require (
	github.com/one/one v1.2.3
	k8s.io/api v0.0.0
	k8s.io/klog/v2 v2.140.0
)

require (
	k8s.io/kms v0.0.0 // indirect
)

replace (
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/kms => ./staging/src/k8s.io/kms
)
"""
        self.assertEqual(go_peers.module_file(upstream, "1.36.3"), """module weir/kube-apiserver

go 1.26.0
godebug default=go1.26

require (
	k8s.io/kubernetes v1.36.3
	github.com/one/one v1.2.3
	k8s.io/api v0.36.3
	k8s.io/klog/v2 v2.140.0
	k8s.io/kms v0.36.3
)

replace (
	k8s.io/api => k8s.io/api v0.36.3
	k8s.io/kms => k8s.io/kms v0.36.3
)
""")

    def test_a_module_is_required_with_its_requirements(self):
        upstream = """module github.com/one/one

go 1.26.7

require (
	github.com/two/two v1.2.3
)

require (
	github.com/three/three v0.1.0 // indirect
)
"""
        self.assertEqual(go_peers.plain_module_file(upstream, "one", "github.com/one/one", "v0.316.0"), """module weir/one

go 1.26.7

require (
	github.com/one/one v0.316.0
	github.com/two/two v1.2.3
	github.com/three/three v0.1.0
)
""")


if __name__ == "__main__":
    unittest.main()
