"""Fails where a word of the table in words.md has come back, and names each place.

    python3 tests/docs/words.py FOLDER        (ctest: docs.words)

FOLDER holds TABLE. Each of its rows ends with a cell of forms: regular expressions in backticks, which match whole words in any case.
They are looked for in the text and in the names of the files of SEARCHED.
"""

import pathlib
import re
import sys

TABLE = "tests/docs/words.md"
SEARCHED = ["src", "include", "cli", "python", "tests", "bench", "examples", "docs", "families", "README.md"]
TEXTS = {".h", ".hpp", ".cpp", ".c", ".cu", ".in", ".py", ".test", ".txt", ".cmake", ".toml", ".sh", ".md"}
# This check and its own test; seeds of fuzzers; tables of reference values.
NOT_SEARCHED = re.compile(r"tests/(docs|fuzz/corpus|golden)/|/__pycache__/")


def rows(page: str) -> list[tuple[str, list[str]]]:
    """(private words, forms) of each row of the table."""
    found = []
    for line in page.splitlines():
        if not line.startswith("|") or line.startswith("|---") or line.startswith("| private word"):
            continue
        word = line.split("|")[1].strip()
        forms = re.findall(r"`([^`]+)`", line.split("|", 3)[3])
        found.append((word, forms))
    return found


def expression(forms: list[str]) -> re.Pattern:
    # A space also matches a line break, with the next line's comment mark.
    parts = [form.replace(" ", r"\s+(?:(?://+|\*|#)\s*)?") for form in forms]
    return re.compile(r"(?<![A-Za-z0-9_])(?:" + "|".join(parts) + r")(?![A-Za-z0-9_])", re.IGNORECASE)


def literals(form: str) -> list[str]:
    """Plain texts in lower case that every match of the form contains; a form with | has none."""
    if "|" in form:
        return []
    special = r"\(.*\)|\[[^]]*\]|\\.|.(?:[?*]|\{[^}]*\})|\{[^}]*\}|[.^$+*?]"
    return re.sub(special, " ", form).lower().split()  # a space of a form also matches line breaks


class Row:
    """Finds the forms of one row of the table."""

    def __init__(self, word: str, forms: list[str]):
        self.word, self.expression = word, expression(forms)
        self.literals = [literals(form) for form in forms]

    def finditer(self, text: str, lower: str):
        """Matches in the text, which `lower` repeats in lower case: searching that for literals first is much faster."""
        return self.expression.finditer(text) if any(all(part in lower for part in parts) for parts in self.literals) else ()


def searched_files(folder: pathlib.Path) -> list[pathlib.Path]:
    files = []
    for name in SEARCHED:
        path = folder / name
        files += [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    return [f for f in files if not NOT_SEARCHED.search(f.relative_to(folder).as_posix())]


def complaints(folder: pathlib.Path) -> list[str]:
    table = rows((folder / TABLE).read_text(encoding="utf-8"))
    if not table:
        return [f"{TABLE}: the table of words is missing"]
    found = [f"{TABLE}: '{word}' has no form to look for" for word, forms in table if not forms]
    searched = [Row(word, forms) for word, forms in table if forms]
    for file in searched_files(folder):
        name = file.relative_to(folder).as_posix()
        for row in searched:
            if match := row.expression.search(name):
                found.append(f"{name}: the file's name has '{match[0]}' ({row.word})")
        if file.suffix not in TEXTS:
            continue
        text = file.read_text(encoding="utf-8")
        lower = text.lower()
        for row in searched:
            for match in row.finditer(text, lower):
                line = text.count("\n", 0, match.start()) + 1
                shown = " ".join(match[0].split())
                found.append(f"{name}:{line}: '{shown}' ({row.word})")
    return found


if __name__ == "__main__":
    problems = complaints(pathlib.Path(sys.argv[1]))
    print("\n".join(problems) if problems else "no private word is back")
    print(f"{len(problems)} wrong; {TABLE} says what to write instead" if problems else "0 wrong")
    sys.exit(1 if problems else 0)
