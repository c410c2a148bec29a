"""Fails on an include that points up: each folder of src/ may use those before it, never those after it. CONTRIBUTING.md
("Map of the sources") has the order. Public headers count as the folder that they belong to, and provider/NAME/FOLDER/
counts as FOLDER: what one provider adds to it.

    python3 tests/layout/includes.py SOURCE_FOLDER
"""

import pathlib
import re
import sys

MAP = pathlib.Path(__file__).parents[2] / "CONTRIBUTING.md"
SOURCES = {".h", ".hpp", ".cpp", ".c", ".cu", ".cuh"}
# Public headers that belong to a folder of src/. The others hold data and interfaces for all folders: problems, configs,
# devices; launches and memory. What measures knows backends by their interface.
PUBLIC = {
    "backend": "measure",
    "measurement": "measure",
    "provider": "provider",
    "family": "family",
    "kernel_library": "backend",
    "selector": "select",
    "registry": "dispatch",
    "dispatcher": "dispatch",
    "kscout": "capi",
}


def levels(page: str) -> dict[str, int]:
    """The place of each folder: a bullet of the map names folders before its colon; those with only commas between them
    may use each other."""
    entries = re.findall(r"^\* (`\w+`(?:[,;] `\w+`)*): ", page.split("\n## Map of the sources\n")[1].split("\n## ")[0], re.MULTILINE)
    groups = "; ".join(entries).split("; ")
    return {folder: level for level, group in enumerate(groups) for folder in re.findall(r"\w+", group)}


def folder_of(path: str) -> str:
    of_provider = re.match(r"provider/\w+/(\w+)/", path)
    return of_provider[1] if of_provider else path.split("/")[0]


def pointing_up(source: pathlib.Path, level: dict[str, int]) -> list[str]:
    found = []
    for file in sorted(source.rglob("*")):
        name = file.relative_to(source).as_posix()
        if file.suffix not in SOURCES:
            continue
        folder = folder_of(name)
        if folder not in level:
            found.append(f"{name}: folder '{folder}' is not in the map of {MAP.name}")
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            included = re.match(r'\s*#\s*include\s*["<]([^">]+/[^">]+)[">]', line)
            if not included:
                continue
            public = re.fullmatch(r"kscout/(\w+)\.h", included[1])
            target = PUBLIC.get(public[1], folder) if public else folder_of(included[1])
            # What has no place is a header of another project.
            if level.get(target, 0) > level[folder]:
                found.append(f"{name}:{number}: {line.strip()} points up: {target} comes after {folder}")
    return found


if __name__ == "__main__":
    problems = pointing_up(pathlib.Path(sys.argv[1]), levels(MAP.read_text(encoding="utf-8")))
    print("\n".join(problems) if problems else "no include points up")
    sys.exit(1 if problems else 0)
