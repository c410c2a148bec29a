"""Fails on pages that are longer than CONTRIBUTING.md allows, on lines of text that are too wide, and on datasets of the
repository that are not there; names each.

    python3 tests/docs/pages.py FOLDER        (ctest: docs.pages)

Words are what stands between blanks and has a letter or a digit. Tables, code blocks and the targets of links may be wide.
"""

import pathlib
import re
import sys

WIDTH = 120
# (files, most lines, most words); the first that matches counts. None: no limit.
LIMITS = [
    (r"README\.md|docs/[^/]+\.md", 150, 1200),
    (r"docs/bench/[^/]+\.md", 120, 1000),
    (r"docs/design/[^/]+\.md", 120, None),
]
PAGES = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**/*.md", "data/README.md", "models/README.md", "examples/README.md"]
GENERATED = {"docs/features.md"}


def is_code(line: str, before: str) -> bool:
    """Of an indented line, which belongs to a list where the text before it does."""
    return line.startswith("    ") and not re.match(r"\s*([*+-]|\d+\.)\s", line) and (not before or before.startswith("    "))


def wide_lines(text: str) -> list[tuple[int, int]]:
    """(number, width) of lines of text that are too wide."""
    found, fence, before, code_before = [], None, "", False
    for number, line in enumerate(text.splitlines(), 1):
        mark = re.match(r"\s*(```|~~~)", line)
        if mark and fence in (None, mark[1]):
            fence = None if fence else mark[1]
            before = line
            continue
        code = fence is not None or (is_code(line, before) and (not before or code_before))
        if not code and not line.lstrip().startswith("|"):
            shown = re.sub(r"\]\([^)]*\)|https?://\S+", "]", line)
            if len(shown) > WIDTH:
                found.append((number, len(shown)))
        before, code_before = line, code
    return found


def complaints(folder: pathlib.Path) -> list[str]:
    found = []
    for page in sorted({page for pattern in PAGES for page in folder.glob(pattern)}):
        name = page.relative_to(folder).as_posix()
        if name in GENERATED:
            continue
        text = page.read_text(encoding="utf-8")
        lines, words = len(text.splitlines()), len([w for w in text.split() if re.search(r"\w", w)])
        limit = next((limit for limit in LIMITS if re.fullmatch(limit[0], name)), (None, None, None))
        if limit[1] and lines > limit[1]:
            found.append(f"{name}: {lines} lines, at most {limit[1]}")
        if limit[2] and words > limit[2]:
            found.append(f"{name}: {words} words, at most {limit[2]}")
        found += [f"{name}:{number}: {width} characters, at most {WIDTH}" for number, width in wide_lines(text)]
        named = set(re.findall(r"(?<![\w/.])data/[\w.-]+\.parquet", text))
        found += [f"{name}: {file} is not in the repository" for file in sorted(named) if not (folder / file).exists()]
    return found


if __name__ == "__main__":
    problems = complaints(pathlib.Path(sys.argv[1]))
    print("\n".join(problems) if problems else "every page is short enough")
    print(f"{len(problems)} wrong")
    sys.exit(1 if problems else 0)
