"""Where peers are kept: one folder in the user's cache for all clones, unless another is named or was filled before."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent


class Place(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def clone(self, name):
        clone = self.folder / name
        (clone / "scripts").mkdir(parents=True)
        for script in ("peers.py", "built_peers.py"):
            shutil.copy(SCRIPTS / script, clone / "scripts")
        return clone

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

    def test_a_folder_that_was_filled_before_is_kept(self):
        clone = self.clone("one")
        (clone / "target/peers/bin").mkdir(parents=True)
        place = self.place(clone, XDG_CACHE_HOME=str(self.folder / "cache"))
        self.assertEqual(place, clone / "target/peers")

    def test_without_a_cache_peers_are_kept_in_the_clone(self):
        (self.folder / "file").write_text("")
        clone = self.clone("one")
        self.assertEqual(self.place(clone, XDG_CACHE_HOME=str(self.folder / "file")), clone / "target/peers")

    def test_a_named_folder_wins(self):
        clone = self.clone("one")
        self.assertEqual(self.place(clone, WEIR_PEERS="/nowhere/peers"), Path("/nowhere/peers"))
        self.assertFalse((clone / "target").exists())


if __name__ == "__main__":
    unittest.main()
