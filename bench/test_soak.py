"""The access log of a soak during renames, and the shapes of the configuration."""

import json
import tempfile
import unittest
from pathlib import Path

import soak_changes
from processes import Failed
from soak_origin import checksum, pattern
from soak_site import AccessLog, Shape, Site


class Lines(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name) / "access.log"
        self.path.touch()
        self.log = AccessLog(self.path)
        self.addCleanup(lambda: [file.close() for file in self.log.files])

    def append(self, text, path=None):
        with open(path or self.path, "a") as file:
            file.write(text)

    def rename(self, number):
        former = self.path.with_name(f"former-{number}")
        self.path.rename(former)
        self.path.touch()
        return former

    def test_complete_lines_are_counted_once_by_cause(self):
        self.append("200 -\n200 -\n502 upstream_clo")
        self.log.read()
        self.assertEqual(self.log.count(), 2)
        self.append("sed\n- client_closed\n")
        self.log.read()
        self.log.read()
        self.assertEqual(self.log.causes(), {"-": 2, "upstream_closed": 1, "client_closed": 1})

    def test_late_lines_in_a_renamed_file_are_counted(self):
        self.append("200 -\n")
        former = self.rename(1)
        self.log.renamed()
        self.append("404 no_route\n", former)
        self.append("200 -\n")
        self.log.read()
        self.assertEqual(self.log.count(), 3)
        for number in (2, 3):
            self.rename(number)
            self.log.renamed()
            self.append("200 -\n")
        self.log.read()
        self.assertEqual((self.log.count(), len(self.log.files)), (5, 2))

    def test_an_incomplete_last_line_is_reported(self):
        self.append("200")
        self.rename(1)
        self.log.renamed()
        self.rename(2)
        with self.assertRaisesRegex(Failed, "in the middle of a line"):
            self.log.renamed()


class Shapes(unittest.TestCase):
    def test_each_shape_has_an_origin_that_never_dies(self):
        with tempfile.TemporaryDirectory() as folder:
            site = Site(None, {}, Path(folder))
            for workers, churning, odd, further in soak_changes.SHAPES:
                text = json.dumps(site.configuration(Shape(workers, churning, odd, further, 7)))
                self.assertIn(site.churning[0].address, text)
                self.assertIn(site.odd[0].address, text)
                self.assertEqual(json.loads(text)["workers"], workers)
            self.assertEqual(soak_changes.SHAPES[0], (2, (0, 1, 2), (0, 1), False))


class Bodies(unittest.TestCase):
    def test_a_pattern_has_its_length(self):
        for size in (0, 1, 1 << 20, (1 << 20) + 3):
            self.assertEqual(sum(map(len, pattern(size))), size)
        self.assertEqual(checksum(pattern(3)), "3 0854897f")


if __name__ == "__main__":
    unittest.main()
