#!/usr/bin/env python3
"""Draws docs/report_cpu.png, the picture of the README: ./dev readme.

    report_picture.py KSCOUT        the program

The picture is the first plot of the report on the shipped model of a CPU.
"""

import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/report"))
sys.dont_write_bytecode = True
from browser import Browser  # noqa: E402

MODEL, DATA = "models/gemm_fp32_any_cpu", "data/gemm_fp32_graniterapids-2c.sizes_held_out.parquet"
OUT = ROOT / "docs/report_cpu.png"
WIDTH, MAX_BYTES = 860, 150_000


def main():
    kscout = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        file = pathlib.Path(folder) / "report.html"
        subprocess.run([kscout, "report", MODEL, "--data", DATA, "--out", file], check=True, cwd=ROOT)
        page = browser.open(file, WIDTH)
        # The caption explains the page's plot to a reader of the page.
        page.evaluate("document.querySelector('figcaption').remove(), document.querySelector('figure').style.padding = '8px'")
        page.screenshot(OUT, "figure", scale=2)
    size = OUT.stat().st_size
    if size > MAX_BYTES:
        raise SystemExit(f"{OUT} has {size} bytes, more than {MAX_BYTES}")


if __name__ == "__main__":
    main()
