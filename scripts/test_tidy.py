"""Findings of tidy.py that need a crate of their own."""

import pathlib
import shutil
import tempfile
import unittest

import tidy


class Cycles(unittest.TestCase):
    def findings(self, crate, files):
        """The findings for a crate of that name with an import cycle of so many files."""
        crates = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, crates)
        source = crates / crate / "src"
        source.mkdir(parents=True)
        (source / "lib.rs").write_text("".join(f"mod m{number};\n" for number in range(files)))
        for number in range(files):
            (source / f"m{number}.rs").write_text(f"use crate::m{(number + 1) % files}::X;\npub struct X;\n")
        return list(tidy.cycle_findings(crates))

    def test_a_cycle_of_too_many_files_is_found_with_its_files(self):
        self.assertEqual(self.findings("weir-new", tidy.CYCLE_FILES_MAX), [])
        (finding,) = self.findings("weir-new", tidy.CYCLE_FILES_MAX + 1)
        self.assertTrue(finding.startswith("crates/weir-new: an import cycle of 9 files, more than 8: m0, m1"), finding)

    def test_crates_without_a_measure_are_passed_over(self):
        (crate,) = tidy.CYCLES_UNMEASURED
        self.assertEqual(self.findings(crate, 60), [])


if __name__ == "__main__":
    unittest.main()
