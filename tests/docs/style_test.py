"""The checks of words, of pages and of the table of weaknesses notice what they are for: style_test.py (ctest: docs.style_checks)."""

import pathlib
import tempfile
import sys
import unittest

sys.dont_write_bytecode = True

import pages
import weaknesses
import words

TABLE = """| private word | use | forms that fail |
|---|---|---|
| doomed, serve rule | crashed twice, applicability rule | `\\w*doomed`, `serve rules?`, `kLeast[A-Z]\\w*`, `--again` |
"""


class Style(unittest.TestCase):
    def found(self, check, **files):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for path, text in files.items():
                file = folder / path.replace("__", "/").replace("_md", ".md").replace("_cpp", ".cpp")
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            return check(folder)

    def test_words_are_found_in_text_names_and_over_line_breaks(self):
        found = self.found(words.complaints, tests__docs__words_md=TABLE, README_md="Fine.\nA Serve\nrule.\n", src__doomed_cpp="int x;\n",
                           src__a_cpp="// a serve\n// rule\nint record_doomed = kLeastBytes;\n", docs__p_md="`sweep --again`\n")
        self.assertEqual([f.split(" (")[0] for f in found],
                         ["src/a.cpp:1: 'serve // rule'", "src/a.cpp:3: 'record_doomed'", "src/a.cpp:3: 'kLeastBytes'",
                          "src/doomed.cpp: the file's name has 'doomed'", "docs/p.md:1: '--again'", "README.md:2: 'Serve rule'"])

    def test_other_words_pass(self):
        text = "again, a server ruled; undoomedly; kLeast; served rules\n"
        self.assertEqual(self.found(words.complaints, tests__docs__words_md=TABLE, README_md=text, src__a_cpp=text), [])

    def test_every_match_of_a_form_contains_its_literals(self):
        for form, parts in (("opinions?", ["opinion"]), (r"\w*doomed", ["doomed"]), (r"kLeast[A-Z]\w*", ["kleast"]),
                            ("serves? rules?", ["serve", "rule"]), (r"(?<!bit-)sliced forests?", ["sliced", "forest"]),
                            (r"rules_?\.ask", ["rules", "ask"]), ("rows.of.16", ["rows", "of", "16"]), (r"--least-\w+", ["--least-"]),
                            ("one|other", []), (r"\w+", []), ("ab?c", ["a", "c"]), ("ab{0,3}", ["a"]), (r"\w{2}ab+c", ["ab", "c"]),
                            ("[xyz]{2}k(?:a)?", ["k"])):
            self.assertEqual(words.literals(form), parts, form)

    def test_a_row_without_forms_and_a_missing_table_are_errors(self):
        self.assertIn("no form", self.found(words.complaints, tests__docs__words_md="| merit | score | |\n")[0])
        self.assertIn("missing", self.found(words.complaints, tests__docs__words_md="none\n")[0])

    def test_long_pages(self):
        found = self.found(pages.complaints, README_md="a\n" * 151, docs__guide_md="one two three " * 20 + "\n" + "w " * 1201,
                           docs__bench__b_md="b\n" * 121, docs__design__d_md="d\n" * 121, docs__formats__f_md="f\n" * 400)
        self.assertEqual([f for f in found if "characters" not in f],
                         ["README.md: 151 lines, at most 150", "docs/bench/b.md: 121 lines, at most 120",
                          "docs/design/d.md: 121 lines, at most 120", "docs/guide.md: 1261 words, at most 1200"])

    def test_datasets_that_pages_name_are_there(self):
        text = "data/there.parquet, `data/gone.parquet`, my/data/gone.parquet, data/{a,b}.parquet\n"
        found = self.found(pages.complaints, docs__a_md=text, **{"data__there.parquet": ""})
        self.assertEqual(found, ["docs/a.md: data/gone.parquet is not in the repository"])

    def test_a_named_test_that_does_not_exist(self):
        page = pathlib.Path(weaknesses.PAGE)
        rows = "".join(f"| {row} | w | h | `A.B`, `test_c`, `docs/d*.md` |\n" for row in weaknesses.ROWS)
        there = {"tests__a_cpp": "TEST_F(A, B) {}\n", "docs__d1_md": "d", "python/tests/test_a.py": "def test_c():\n"}
        there = {name.replace("/", "__"): text for name, text in there.items()}
        wrong = rows.replace("| W2 | w | h | `A.B`", "| W2 | w | h | `A.Gone`").replace("| 19 |", "| 20 |")
        wrong = wrong.replace("| W3 | w | h | `A.B`, `test_c`, `docs/d*.md` |", "| W3 | w | h | a test |")
        at = page.as_posix().replace("/", "__")
        self.assertEqual(self.found(weaknesses.complaints, **there, **{at: rows}), [])
        found = self.found(weaknesses.complaints, **there, **{at: wrong})
        self.assertEqual([f.removeprefix(f"{page}: ") for f in found],
                         ["row 19 is missing", "row W2: there is no test A.Gone", "row W3 names no test"])
        self.assertEqual(len(self.found(weaknesses.complaints, **{at: rows})), 3 * len(weaknesses.ROWS))

    def test_wide_lines_of_text_only(self):
        wide = "x" * 121
        right = f"| {wide} |\n\n```\n{wide}\n```\n\n    {wide}\n\n[a]({wide})\nhttps://{wide}\n{'y' * 120}\n"
        self.assertEqual(self.found(pages.complaints, README_md=right), [])
        wrong = f"{wide}\n* item\n    {wide}\n"
        self.assertEqual(self.found(pages.complaints, README_md=wrong),
                         ["README.md:1: 121 characters, at most 120", "README.md:3: 125 characters, at most 120"])


if __name__ == "__main__":
    unittest.main()
