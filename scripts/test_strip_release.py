"""Stripping, with a small C program in place of the release binaries."""

import os
import pathlib
import subprocess
import tempfile
import unittest

from strip_release import Unfit, beside, check, release, run, sections

SOURCE = "int answer(void) { return 42; }\nint main(void) { return answer() != 42; }\n"


class Stripping(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def built(self, *options):
        """(Program, second hard link to it), like Cargo's output and its copy in deps/."""
        (self.folder / "small.c").write_text(SOURCE)
        copy, binary = self.folder / "small-0123", self.folder / "small"
        subprocess.run(["cc", *options, "-o", copy, "small.c"], cwd=self.folder, check=True)
        os.link(copy, binary)
        return binary, copy

    def test_debug_information_moves_to_a_file_beside_the_binary(self):
        binary, copy = self.built("-g")
        address = next(line.split()[0] for line in run("nm", binary).decode().splitlines() if line.endswith(" answer"))
        for _ in range(2):
            release(binary, "small.c")
            self.assertEqual(subprocess.run([binary], check=False).returncode, 0)
            self.assertFalse({".debug_info", ".symtab"} & sections(binary))
            # addr2line finds the debug file by the link.
            printed = run("addr2line", "--functions", "--exe", binary, address).decode()
            self.assertRegex(printed, r"^answer\n.*small\.c:1\n")
        self.assertIn(".debug_info", sections(copy))
        self.assertEqual(sorted(file.name for file in self.folder.iterdir()), ["small", "small-0123", "small.c", "small.debug"])

    def test_a_binary_without_debug_information_is_rejected(self):
        for options in ([], ["-s"]):
            binary, _ = self.built(*options)
            with self.assertRaisesRegex(Unfit, "has no debug information"):
                release(binary, "small.c")
            for file in (binary, self.folder / "small-0123"):
                file.unlink()

    def test_debug_information_without_the_program_itself_is_rejected(self):
        binary, _ = self.built("-g")
        with self.assertRaisesRegex(Unfit, "has no lines of other.c"):
            release(binary, "other.c")

    def test_a_debug_file_of_another_build_is_rejected(self):
        binary, _ = self.built("-g")
        release(binary)
        beside(binary).write_bytes(beside(binary).read_bytes() + b"\0")
        with self.assertRaisesRegex(Unfit, "names another debug file"):
            release(binary)
        beside(binary).unlink()
        with self.assertRaisesRegex(Unfit, "small.debug is missing"):
            check(binary)


if __name__ == "__main__":
    unittest.main()
