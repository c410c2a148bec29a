"""Fails where a row of ck_tile_weaknesses.md names a test that does not exist, or none, or where a row is missing.

    python3 tests/docs/weaknesses.py FOLDER        (ctest: docs.weaknesses)

The last column of a row holds tests in backticks: Suite.Name of a C++ test, a function of python/tests, or a file (with * as
wildcard) for cases of the command line and pages of benchmarks.
"""

import pathlib
import re
import sys

PAGE = "tests/docs/ck_tile_weaknesses.md"
ROWS = [f"W{number}" for number in range(1, 32)] + [str(number) for number in range(1, 20)]
CPP = re.compile(r"\b(?:TEST|TEST_F|TEST_P|TYPED_TEST|RC_GTEST_PROP|RC_GTEST_FIXTURE_PROP)\(\s*(\w+),\s*(\w+)")
PYTHON = re.compile(r"^def (test_\w+)", re.MULTILINE)


def tests_in(folder: pathlib.Path) -> set[str]:
    """Suite.Name of each C++ test, and the functions of the Python tests."""
    found = {f"{suite}.{name}" for file in (folder / "tests").rglob("*.cpp") for suite, name in CPP.findall(file.read_text(encoding="utf-8"))}
    return found.union(*(PYTHON.findall(file.read_text(encoding="utf-8")) for file in (folder / "python/tests").glob("test_*.py")))


def complaints(folder: pathlib.Path) -> list[str]:
    known = tests_in(folder)
    rows = [line.strip("| ").split(" | ") for line in (folder / PAGE).read_text(encoding="utf-8").splitlines() if re.match(r"\| W?\d", line)]
    found = [f"{PAGE}: row {row} is missing" for row in ROWS if row not in [cells[0] for cells in rows]]
    for cells in rows:
        named = re.findall(r"`([^`]+)`", cells[-1])
        if not named:
            found.append(f"{PAGE}: row {cells[0]} names no test")
        for name in named:
            if name not in known and not ("/" in name and any(folder.glob(name))):
                found.append(f"{PAGE}: row {cells[0]}: there is no test {name}")
    return found


if __name__ == "__main__":
    problems = complaints(pathlib.Path(sys.argv[1]))
    print("\n".join(problems) if problems else "every test exists")
    sys.exit(1 if problems else 0)
