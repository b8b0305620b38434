"""Import cycles: paths in braces, re-exports, tests, parent and child modules."""

import shutil
import tempfile
import unittest
from pathlib import Path

import imports


class Cycles(unittest.TestCase):
    def cycles(self, **files):
        source = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, source)
        for name, text in files.items():
            path = source / (name.replace("__", "/") + ".rs")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return [sorted("::".join(module) for module in part) for part in imports.cycles(source)]

    def test_paths_in_braces_are_followed(self):
        files = {"lib": "mod a; mod b;", "a": "use crate::{b::{C, self}, x as y};", "b": "fn f() { crate::a::g() }"}
        self.assertEqual(self.cycles(**files), [["a", "b"]])

    def test_a_name_is_followed_to_the_file_that_defines_it(self):
        files = {"lib": "mod a; mod b;\npub use a::A;\npub use b::{B, C};", "a": "use crate::B;", "b": "use crate::A;"}
        self.assertEqual(self.cycles(**files), [["a", "b"]])

    def test_parents_tests_comments_and_strings_are_ignored(self):
        files = {"lib": "mod a; mod b;", "a": "use b::X; mod b;", "a__b": "use super::Y;",
                 "b": "use crate::a::b::X;\n#[cfg(test)]\nmod tests { use crate::c::Z; }",
                 "c": '// crate::b\nconst T: &str = "crate::b";'}
        self.assertEqual(self.cycles(**files), [])


if __name__ == "__main__":
    unittest.main()
