"""THIRD_PARTY.md against what the programs are made of, and as an SPDX document.

    third_party.py check BUILD           each header that was compiled in, and each library that was linked, belongs to one entry
    third_party.py spdx VERSION OUT      SPDX 2.3 in JSON (https://spdx.github.io/spdx-spec/v2.3/), with the installed versions
"""

import json
import re
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = ("src/", "cli/", "python/", "kscout", "libkscout")  # outputs of the build


class Component(NamedTuple):
    name: str
    license: str
    copyright: str
    package: str
    files: re.Pattern
    where: str
    contained: bool


def components(text):
    found, contained = [], True
    for line in text.splitlines():
        if line.startswith("## "):
            contained = line == "## Contained"
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 6 and cells[4].startswith("`"):
            patterns = re.findall(r"`([^`]*)`", cells[4])
            files = re.compile("|".join(p if p.endswith(r"\.h") else re.sub(r"([.+])", r"\\\1", p) for p in patterns))
            found.append(Component(*cells[:4], files, cells[5], contained))
    return found


def compiled_and_linked(build):
    """Files outside of the project that the shipped objects include, and the libraries that they are linked with."""
    files = set()
    shown = subprocess.run(["ninja", "-C", build, "-t", "deps"], check=True, text=True, stdout=subprocess.PIPE).stdout
    shipped = False
    for line in shown.splitlines():
        if not line.startswith(" "):
            shipped = line.startswith(SHIPPED) and ".o: " in line  # newer linkers also list what they read
        elif shipped and line.strip():
            files.add((build / line.strip()).resolve())
    output = ""
    for line in (build / "build.ninja").read_text().splitlines():
        if line.startswith("build "):
            output = line.split()[1]
        elif line.startswith("  LINK_LIBRARIES") and output.startswith(SHIPPED):
            files.update(Path(word) for word in line.split() if re.match(r"/.*\.(a|so)(\.|$)", word))
    inside = (ROOT / name for name in ("include", "src", "cli", "python"))
    project = tuple(f"{folder}/" for folder in (build, *inside))
    return sorted(file for file in map(str, files) if not file.startswith(project))


def check(build):
    known, used, failures = components((ROOT / "THIRD_PARTY.md").read_text()), set(), 0
    files = compiled_and_linked(build)
    for file in files:
        owners = [component for component in known if component.files.search(file)]
        used.update(component.name for component in owners)
        if not owners:
            failures += 1
            print(f"{file} belongs to no entry of THIRD_PARTY.md")
    # What is built only where nvcc is, or is no header and no library.
    unused = {component.name for component in known if "cuda" not in component.where.lower() and "report" not in component.where} - used
    for name in sorted(unused):
        failures += 1
        print(f"THIRD_PARTY.md has '{name}', which nothing includes or links")
    print(f"{len(files)} headers and libraries of {len(used)} components, {failures} wrong")
    return 1 if failures or not files else 0


def installed_version(package):
    kind, _, name = package.partition(" ")
    if kind == "deb":
        command = ["dpkg-query", "--show", "--showformat=${Version}", name]
    elif kind == "pip":
        command = [ROOT / ".venv/bin/python", "-c", f"import importlib.metadata as m; print(m.version('{name}'))"]
    else:
        command = [kind, "--version"]
    text = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout
    return re.search(r"V(\d[\d.]*)", text)[1] if kind == "nvcc" else text.split()[-1]


def package(identifier, name, version, license_name, copyright_text):
    return {"SPDXID": identifier, "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
            "licenseConcluded": license_name, "licenseDeclared": license_name, "copyrightText": copyright_text}


def spdx(version, out):
    packages = [package("SPDXRef-kscout", "kscout", version, "MIT", "2026 The KernelScout authors")]
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-kscout")]
    for number, component in enumerate(components((ROOT / "THIRD_PARTY.md").read_text())):
        identifier = f"SPDXRef-{number}"
        packages.append(package(identifier, component.name, installed_version(component.package), component.license, component.copyright))
        relations.append(("SPDXRef-kscout", "CONTAINS" if component.contained else "DEPENDS_ON", identifier))
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"kscout-{version}",
        "documentNamespace": f"https://spdx.org/spdxdocs/kscout-{version}",
        "creationInfo": {"created": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: kscout-release"]},
        "hasExtractedLicensingInfos": [{"licenseId": "LicenseRef-NVIDIA-CUDA-EULA", "name": "NVIDIA CUDA Toolkit EULA",
                                        "extractedText": "https://docs.nvidia.com/cuda/eula/"}],
        "packages": packages,
        "relationships": [{"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b} for a, kind, b in relations],
    }
    Path(out).write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "check":
        sys.exit(check(Path(sys.argv[2]).resolve()))
    sys.exit(spdx(*sys.argv[2:]))
