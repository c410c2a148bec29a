"""Is the C interface still the one that KSCOUT_ABI_VERSION promises? Compares it with the description in tests/abi.

    abi_test.py HEADER INCLUDE LIBRARY DESCRIPTIONS [--store]

HEADER: kscout/kscout.h. INCLUDE: the folder for its includes. LIBRARY: libkscout.so, which has to have every function. A function
that is new breaks nothing; one that is gone or takes other arguments, and a struct that changed, do: they need a higher number.
--store writes the description of this interface: after the number was raised, and for a release.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77
FUNCTION = re.compile(r"^((?:const )?\w+\*? (kscout_\w+)\([^;{}]*\));", re.MULTILINE)


def bodies(header):
    """The header as a C file that defines each function, and their names."""
    text = re.sub(r"///.*", "", header)
    return FUNCTION.sub(r"\1 { __builtin_trap(); }", text), [match[2] for match in FUNCTION.finditer(text)]


def describe(header, include, folder):
    """A shared object with the interface and its debug information, the description of abidw, and the names of the functions."""
    source, names = bodies(header)
    (folder / "interface.c").write_text(source)
    compiled, described = folder / "interface.so", folder / "interface.abi"
    subprocess.run(["cc", "-g", f"-ffile-prefix-map={folder}=.", "-shared", "-fPIC", "-w", f"-I{include}", "-o", compiled,
                    folder / "interface.c"], check=True)
    subprocess.run(["abidw", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--out-file", described, compiled], check=True)
    return described, names


def differences(stored, described):
    """What breaks programs that were compiled before, as abidiff says it; "" where nothing does."""
    done = subprocess.run(["abidiff", "--no-added-syms", stored, described], text=True, stdout=subprocess.PIPE)
    return done.stdout if done.returncode else ""


def check_differences(text, include, described, folder):
    """Differences are seen at all: of a function that is gone, and of a struct with another member; a new function is none. The
    same interface has the same description, in whatever folder it is made."""
    (folder / "again").mkdir()
    assert describe(text, include, folder / "again")[0].read_bytes() == described.read_bytes()
    function = "int32_t kscout_abi_version(void);"
    changed = {
        "gone": (text.replace(function, ""), True),
        "struct": (re.sub(r"int64_t m\b", "int32_t m", text, count=1), True),
        "new": (text.replace(function, function + "\nint32_t kscout_new(void);"), False),
    }
    for name, (header, breaks) in changed.items():
        assert header != text, name
        (folder / name).mkdir()
        assert bool(differences(described, describe(header, include, folder / name)[0])) == breaks, name


def main(header, include, library, descriptions, *store):
    if not shutil.which("abidw"):
        print("NO ABI TESTED: abidw is not here (Debian's abigail-tools)")
        return SKIPPED
    text = Path(header).read_text()
    number = re.search(r"#define KSCOUT_ABI_VERSION (\d+)", text)[1]
    stored = Path(descriptions) / f"kscout-{number}.abi"
    with tempfile.TemporaryDirectory() as name:
        described, names = describe(text, include, Path(name))
        if store == ("--store",):
            stored.write_bytes(described.read_bytes())
            return 0
        check_differences(text, include, described, Path(name))
        shown = subprocess.run(["nm", "--dynamic", "--defined-only", library], check=True, text=True, stdout=subprocess.PIPE).stdout
        missing = set(names) - {line.split()[-1] for line in shown.splitlines()}
        found = differences(stored, described) if stored.exists() else f"{stored} is missing"
    if missing:
        print(f"{library} lacks {', '.join(sorted(missing))}")
    if found:
        print(f"{found}\nPrograms compiled before would break: raise KSCOUT_ABI_VERSION, then store the description with --store")
    return 1 if missing or found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
