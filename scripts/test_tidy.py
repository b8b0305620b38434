"""Findings of tidy.py: import cycles, anchors and links of pages, the book's table of contents, words, phrases."""

import pathlib
import shutil
import tempfile
import unittest

import pages
import tidy


class Cycles(unittest.TestCase):
    def findings(self, crate, files):
        """The findings for a crate with an import cycle of `files` files."""
        crates = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, crates)
        source = crates / crate / "src"
        source.mkdir(parents=True)
        (source / "lib.rs").write_text("".join(f"mod m{number};\n" for number in range(files)))
        for number in range(files):
            (source / f"m{number}.rs").write_text(f"use crate::m{(number + 1) % files}::X;\npub struct X;\n")
        return list(tidy.cycle_findings(crates))

    def test_a_cycle_of_too_many_files_is_reported_with_its_files(self):
        self.assertEqual(self.findings("weir-new", tidy.CYCLE_FILES_MAX), [])
        (finding,) = self.findings("weir-new", tidy.CYCLE_FILES_MAX + 1)
        self.assertTrue(finding.startswith("crates/weir-new: an import cycle of 9 files, more than 8: m0, m1"), finding)

    def test_unmeasured_crates_are_skipped(self):
        (crate,) = tidy.CYCLES_UNMEASURED
        self.assertEqual(self.findings(crate, 60), [])


class Anchors(unittest.TestCase):
    def check(self, text, *expected):
        self.assertEqual(pages.anchors_of(text), set(expected))

    def test_headings_get_the_slugs_of_github(self):
        self.check("# What weir costs, in 10 %\n", "what-weir-costs-in-10-")
        self.check("## `weir run` and [load](load.md)\n### max_bytes: *all*\n", "weir-run-and-load", "max_bytes-all")

    def test_a_repeated_heading_is_numbered(self):
        self.check("## Limits\n## Limits\n## Limits\n", "limits", "limits-1", "limits-2")

    def test_explicit_anchors_are_found(self):
        self.check('<a id="bounds"></a>**Bounds** <a name="noise"></a>\n', "bounds", "noise")

    def test_code_has_no_anchors(self):
        self.check('```sh\n# a comment\n<a id="x"></a>\n```\n`<a id="y"></a>`\n')


class Links(unittest.TestCase):
    def broken(self, target):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        (folder / "a.md").write_text("# Here\n")
        (folder / "b.md").write_text("# There\n")
        return tidy.broken(folder / "a.md", target)

    def test_valid_links_have_no_finding(self):
        for target in ("b.md", "b.md#there", "#here", "https://example.com/#x", "mailto:a@example.com"):
            self.assertIsNone(self.broken(target))

    def test_missing_pages_and_headings_are_reported(self):
        self.assertEqual(self.broken("c.md"), "link to c.md, which does not exist")
        self.assertEqual(self.broken("b.md#here"), "link to b.md#here: b.md has no heading or <a id> of that name")
        self.assertEqual(self.broken("#there"), "link to #there: a.md has no heading or <a id> of that name")

    def test_links_in_code_are_ignored(self):
        text = "[a](a.md) `[b](b.md)` ![c](c.svg)\n```\n[d](d.md)\n```\n[`e`](e.md)\n"
        self.assertEqual(list(pages.links(text)), [(1, "a.md"), (1, "c.svg"), (5, "e.md")])


class Docs(unittest.TestCase):
    def setUp(self):
        self.docs = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.docs)

    def write(self, **files):
        for name, text in files.items():
            (self.docs / f"{name}.md").write_text(text)

    def test_the_summary_must_list_every_page_once_and_no_other(self):
        self.write(SUMMARY="- [Group]()\n  - [A](a.md)\n", a="")
        self.assertEqual(list(tidy.summary_findings(self.docs)), [])
        self.write(SUMMARY="- [A](a.md)\n- [A](a.md)\n- [C](c.md)\n", b="")
        self.assertEqual(list(tidy.summary_findings(self.docs)), [
            "docs/SUMMARY.md: does not list docs/b.md",
            "docs/SUMMARY.md: lists c.md, which docs/ does not have",
            "docs/SUMMARY.md: lists a.md more than once",
        ])

    def test_blocks_of_json_must_parse(self):
        self.write(a='```json\n{"a": 1}\n```\n```sh\n{ not json\n```\n', b="text\n```json\n{\n```\n")
        (finding,) = tidy.block_findings(self.docs)
        self.assertTrue(finding.startswith("docs/b.md:3: this json does not parse: "), finding)

    @unittest.skipUnless(tidy.yaml, "PyYAML is not installed")
    def test_blocks_of_yaml_must_parse(self):
        self.write(a="```yaml\na: [1\n```\n", b="```yaml\na: 1\n---\nb: 2\n```\n")
        (finding,) = tidy.block_findings(self.docs)
        self.assertTrue(finding.startswith("docs/a.md:2: this yaml does not parse: "), finding)


class Words(unittest.TestCase):
    def test_words_of_generated_tables_are_not_counted(self):
        text = "# Two words\n| a | b |\n"
        self.assertEqual(pages.words(text), 8)
        self.assertEqual(pages.words(text, with_tables=False), 3)


class Phrases(unittest.TestCase):
    def check(self, text, *expected):
        self.assertEqual([phrase for _, phrase, _ in tidy.phrases_in(text)], list(expected))

    def test_phrases_are_found_with_a_replacement(self):
        phrase = " ".join(["is", "told"])
        self.assertEqual(tidy.phrases_in(f"a\nwho {phrase} so"), [(2, phrase, "reports, prints, logs, or receives")])
        self.check(f"This {phrase.title()}", phrase)
        self.check("METHOD" + " 7 and " + "report" + " R3", "METHOD" + " 7", "report" + " R3")

    def test_parts_of_words_and_lower_case_references_are_ignored(self):
        self.check("this " + "told" + ", in " + "forces, method 7, report r3")


if __name__ == "__main__":
    unittest.main()
