"""Fails on an include that points up: each folder of src/ may use those before it, never those after it. Public headers
count as the folder that they belong to, and provider/NAME/FOLDER/ counts as FOLDER: what one provider adds to it.

    python3 tests/layout/includes.py SOURCE_FOLDER
"""

import pathlib
import re
import sys

# Folders in the order of the data flow; those in one line may use each other.
ORDER = [
    ["core"],
    ["expr", "instruments"],
    ["op"],
    ["logs"],
    ["provider", "measure"],
    ["family"],
    ["features"],
    ["dataset", "backend", "generate"],
    ["forest"],
    ["lightgbm"],
    ["select"],
    ["dispatch", "search", "export", "evaluate"],
    ["run", "sweep", "capi", "preload"],
    ["train", "import", "report"],
    ["tune"],
]
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
# Code that is not compiled into the library: sources for generated projects.
NOT_OURS = re.compile(r"provider/\w+/generate/\w+\.hpp")
LEVEL = {folder: level for level, folders in enumerate(ORDER) for folder in folders}


def folder_of(path: str) -> str:
    of_provider = re.match(r"provider/\w+/(\w+)/", path)
    return of_provider[1] if of_provider else path.split("/")[0]


def pointing_up(source: pathlib.Path) -> list[str]:
    found = []
    for file in sorted(source.rglob("*")):
        name = file.relative_to(source).as_posix()
        if file.suffix not in {".h", ".cpp", ".cu", ".hpp"} or NOT_OURS.match(name):
            continue
        folder = folder_of(name)
        if folder not in LEVEL:
            found.append(f"{name}: folder '{folder}' has no place in the order of {__file__}")
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if own := re.match(r'#include "([^"/]+/[^"]+)"', line):
                target = folder_of(own[1])
            elif public := re.match(r"#include <kscout/(\w+)\.h>", line):
                target = PUBLIC.get(public[1], folder)
            else:
                continue
            if LEVEL.get(target, len(ORDER)) > LEVEL[folder]:
                found.append(f"{name}:{number}: {line.strip()} points up: {target} comes after {folder}")
    return found


if __name__ == "__main__":
    problems = pointing_up(pathlib.Path(sys.argv[1]))
    print("\n".join(problems) if problems else "no include points up")
    sys.exit(1 if problems else 0)
