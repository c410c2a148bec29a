"""Tests the pages that the documentation site is made of (docs/site/pages.py): each page of the repository is there, links
hold, and a link to nothing is an error.

    python3 tests/docs/site_test.py ROOT        (ctest: docs.site)
"""

import json
import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(ROOT / "docs" / "site"))

import check  # noqa: E402
import pages  # noqa: E402


class SiteTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name)

    def test_every_link_of_a_page_leads_to_a_file(self):
        pages.Site(self.out).build()
        made = sorted((self.out / "pages").rglob("*.md"))
        self.assertGreater(len(made), 60)
        links = 0
        for page in made:
            if "files" in page.parts:
                continue
            code = False
            for line in page.read_text(encoding="utf-8").split("\n"):
                code ^= line.lstrip().startswith("```")
                for link in [] if code or line.startswith("    ") else pages.LINK.findall(line):
                    if link[1] and not re.match(r"[a-z]+:", link[1]):
                        links += 1
                        self.assertTrue((page.parent / link[1]).is_file(), f"{page}: {link[1]}")
        self.assertGreater(links, 200)

    def test_every_page_is_in_the_navigation(self):
        pages.Site(self.out).build()
        named = re.findall(r'"([\w/-]+\.md)"', json.dumps(json.loads((self.out / "mkdocs.yml").read_text())["nav"]))
        self.assertEqual(len(named), len(set(named)))
        for path in pages.repository_pages().values():
            self.assertIn(path, named)

    def test_links(self):
        site = pages.Site(self.out)
        for source, text, expected in [
            ("README.md", "[a](docs/tuning.md#options)", "[a](tuning.md#options)"),
            ("docs/tuning.md", "[a](../README.md) [b](bench/tune_gpu.md)", "[a](index.md) [b](bench/tune_gpu.md)"),
            ("docs/bench/tune_gpu.md", "[a](../tuning.md)", "[a](../tuning.md)"),
            ("README.md", "[a](docs/bench)", "[a](bench/index.md)"),
            ("README.md", "[a](https://example.org/x) [b](#limits)", "[a](https://example.org/x) [b](#limits)"),
            ("README.md", "    [code](nowhere.md)", "    [code](nowhere.md)"),
            ("docs/c.md", "[a](../examples/c/select_and_run.c)", "[a](files/examples/c/select_and_run.c)"),
        ]:
            self.assertEqual(site.rewritten(source, text), expected)
        with self.assertRaisesRegex(pages.BrokenLink, "docs/c.md: link to nowhere.md"):
            site.rewritten("docs/c.md", "[a](nowhere.md)")

    def test_the_check_finds_what_is_wrong(self):
        for name, text in {
            "index.html": '<a href="one.html">1</a><a href="gone.html">x</a><a href="one.html#nowhere">y</a>',
            "one.html": '<h1 id="here"></h1><a href="two.html">2</a><script src="https://example.org/x.js"></script>',
            "two.html": '<a href="three.html">3</a>',
            "three.html": '<a href="one.html#here">1</a>',
        }.items():
            (self.out / name).write_text(text)
        self.assertEqual(
            check.complaints(self.out),
            [
                "index.html: gone.html leads to no file",
                "index.html: one.html#nowhere leads to no anchor",
                "one.html: fetches https://example.org/x.js",
                "three.html: 3 clicks from the start page; at most 2",
            ],
        )


if __name__ == "__main__":
    unittest.main()
