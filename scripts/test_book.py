"""The book's preprocessor, and the check of the built pages."""

import shutil
import tempfile
import unittest
from pathlib import Path

import book


class Rewritten(unittest.TestCase):
    def check(self, text, expected, source="docs/load.md", page=None):
        self.assertEqual(book.rewritten(text, source, page or source), expected)

    def test_links_within_docs_are_unchanged(self):
        self.check("see [TLS](tls.md#ciphers) and ![chart](images/a.svg)", "see [TLS](tls.md#ciphers) and ![chart](images/a.svg)")
        self.check("[method](../method.md#bounds)", "[method](../method.md#bounds)", "docs/decisions/0001-weir-io.md")
        self.check("[up](#up) [site](https://example.com)", "[up](#up) [site](https://example.com)")

    def test_links_that_leave_docs_become_plain_text(self):
        self.check("in [images](../images/README.md)", "in images")
        self.check("[`dashboards`](../dashboards/) and [decisions](decisions/)", "`dashboards` and decisions")

    def test_links_to_pages_of_the_root_lead_to_pages_of_the_book(self):
        self.check("[crates](../ARCHITECTURE.md#a-run)", "[crates](architecture.md#a-run)")
        self.check("[27](docs/decisions/0027-pods.md)", "[27](decisions/0027-pods.md)", "ARCHITECTURE.md", "docs/architecture.md")
        self.check("[code](crates/weir/src/main.rs)", "code", "ARCHITECTURE.md", "docs/architecture.md")

    def test_code_is_unchanged(self):
        text = "`[a](../b.md)`\n```\n[a](../b.md)\n```"
        self.check(text, text)

    def test_every_chapter_is_rewritten(self):
        def chapter(path, content, *below):
            return {"Chapter": {"path": path, "content": content, "sub_items": list(below)}}

        built = {"items": [chapter(None, "", chapter("a.md", "[x](../x.rs)")), {"PartTitle": "Explanation"}, chapter("architecture.md", "")]}
        draft, _, architecture = book.preprocess(built)["items"]
        self.assertEqual(draft["Chapter"]["sub_items"][0]["Chapter"]["content"], "x")
        self.assertTrue(architecture["Chapter"]["content"].startswith("# Architecture"))


class Built(unittest.TestCase):
    def check(self, pages, *expected):
        folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        for name, text in pages.items():
            (folder / name).write_text(text)
        self.assertEqual(list(book.wrong_in(folder)), list(expected))

    def test_links_to_missing_pages_and_anchors_are_reported(self):
        self.check({"a.html": '<a href="b.html#up"></a>', "b.html": '<h2 id="up"></h2><a href="#up"></a>'})
        self.check({"a.html": '<a href="b.html"></a>'}, "a.html: link to b.html, which the book does not have")
        self.check({"a.html": '<a href="#up"></a>'}, "a.html: link to #up, which has no such anchor")

    def test_resources_of_other_sites_are_reported(self):
        self.check({"a.html": '<a href="https://x.test/"></a><script src="https://x.test/y.js"></script>'}, "a.html: loads https://x.test/y.js")


if __name__ == "__main__":
    unittest.main()
