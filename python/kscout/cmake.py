"""Prints the folder that CMake needs to find the C++ library of this package:

    cmake -B build -Dkscout_DIR="$(python -m kscout.cmake)"
"""

from pathlib import Path


def folder():
    """The folder of kscoutConfig.cmake; None where the package was built without it (only `./dev wheel` puts it there)."""
    found = Path(__file__).parent / "cmake"
    return found if (found / "kscoutConfig.cmake").exists() else None


if __name__ == "__main__":
    where = folder()
    if not where:
        raise SystemExit("this package has no files for CMake: install a wheel of ./dev wheel, or use cmake --install")
    print(where)
