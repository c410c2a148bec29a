"""Whether a log of the GPU tests allows a release: all ran or say why not.

    gpu_log.py LOG.xml      LOG: what `./dev test --gpu` wrote, in JUnit's format

Prints each skipped test with its reason. Exits with 1 where a test failed, was skipped without a reason, or ran without a GPU.
"""

import re
import sys
import xml.etree.ElementTree as ET


def reason(output):
    """What GTEST_SKIP() printed below the line of the source; "" for none."""
    found = re.search(r"^\S+:\d+: Skipped\n+(\S.*)$", output, re.MULTILINE)
    return found[1].strip() if found else ""


def complaints(log):
    """What stands against a release, and the skipped tests with their reasons."""
    against, skipped = [], []
    cases = log.findall(".//testcase")
    for case in cases:
        name, why = case.get("name"), reason(case.findtext("system-out") or "")
        if case.find("failure") is not None:
            against.append(f"{name} failed")
        elif case.find("skipped") is None:
            continue
        elif not why:
            against.append(f"{name} was skipped and does not say why")
        elif why.startswith("NO GPU TESTED"):
            against.append(f"{name}: {why}")
        else:
            skipped.append(f"{name}: {why}")
    return against if cases else ["it has no tests"], skipped


def main(file):
    against, skipped = complaints(ET.parse(file))
    for line in skipped:
        print(f"skipped: {line}")
    for line in against:
        print(f"{file}: {line}")
    return 1 if against else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
