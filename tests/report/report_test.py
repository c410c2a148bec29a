#!/usr/bin/env python3
"""Opens reports in a headless Chromium: ./dev test report, and a part of ./dev test (ctest: report.browser).

    report_test.py FOLDER_OF_PROGRAMS FOLDER_OF_THE_REPOSITORY [FOLDER_FOR_SCREENSHOTS]

Every page is opened at two widths, light and dark. Nothing may reach the console or the network, every plot has marks, no labels
overlap or are cut off, the page does not scroll sideways, a hover names the problem and the config, tables sort and copy.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zlib

sys.dont_write_bytecode = True
from browser import Browser, find_chromium  # noqa: E402

SKIPPED = 77
WIDTHS = (1280, 400)
MAX_BYTES = 5_000_000

ONE_PROBLEM = """m,n,k,config,time_us
16,64,128,native_gemm_fp32_rcr__avx2_tiled_6x16_packab_b144x256x4096_n_s1_t1x2,3.62144
"""

# Complaints about the plots of the page, as texts.
CHECK = r"""
(() => {
  const found = [];
  const plots = [...document.querySelectorAll(".plot, [data-plot]")];
  if (plots.length === 0) found.push("no plot");
  for (const [i, plot] of plots.entries()) {
    const name = `plot ${i} (${plot.closest("div, figure")?.parentElement?.querySelector("h3, h2")?.textContent ?? ""})`;
    const marks = [...plot.querySelectorAll(".role-mark path, .role-mark line, .role-mark rect")]
      .filter((mark) => mark.getAttribute("opacity") !== "0" && mark.getBBox().width + mark.getBBox().height > 0);
    if (marks.length === 0) found.push(`${name}: no marks`);
    const frame = plot.querySelector("svg")?.getBoundingClientRect();
    const labels = [...plot.querySelectorAll("text")]
      .filter((label) => label.textContent.trim() && getComputedStyle(label).opacity !== "0")
      .map((label) => ({ text: label.textContent, box: label.getBoundingClientRect() }));
    for (const { text, box } of labels) {
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
        found.push(`${name}: '${text}' is cut off`);
      if (text.includes("…")) found.push(`${name}: '${text}' is shortened`);
    }
    for (let a = 0; a < labels.length; ++a) {
      for (let b = a + 1; b < labels.length; ++b) {
        const one = labels[a].box, other = labels[b].box;
        const wide = Math.min(one.right, other.right) - Math.max(one.left, other.left);
        const high = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
        if (wide > 1 && high > 1) found.push(`${name}: '${labels[a].text}' overlaps '${labels[b].text}'`);
      }
    }
  }
  const width = document.documentElement.scrollWidth;
  if (width > innerWidth) found.push(`the page is ${width} pixels wide, the window ${innerWidth}`);
  return found;
})()
"""

# Sorts every column of every table, and copies: complaints as texts.
TABLES = r"""
(async () => {
  const found = [];
  for (const table of document.querySelectorAll("table")) {
    if (table.closest("#vg-tooltip-element")) continue;
    const rows = () => [...table.tBodies[0].rows];
    for (const [i, head] of [...table.tHead.rows[0].cells].entries()) {
      const cells = () => rows().map((row) => row.cells[i].textContent.replace(/^copy /, ""));
      const number = head.classList.contains("number");
      const value = (text) => (number ? (text === "-" ? -1 : Number(text.replace(/[ ,%]/g, ""))) : text);
      for (const direction of ["ascending", "descending"]) {
        head.querySelector("button").click();
        const sign = direction === "ascending" ? 1 : -1, shown = cells().map(value);
        const order = (a, b) => sign * (number ? a - b : a.localeCompare(b));
        if (head.getAttribute("aria-sort") !== direction || shown.some((v, at) => at > 0 && order(shown[at - 1], v) > 0))
          found.push(`column '${head.textContent}' is not ${direction}`);
      }
    }
  }
  let text = "";
  Object.defineProperty(navigator, "clipboard", { value: { writeText: async (copied) => { text = copied; } } });
  for (const button of document.querySelectorAll("td button, .scroll + button")) {
    const command = button.parentElement.querySelector("code")?.textContent;
    const wanted = button.matches("td button") ? command : button.previousElementSibling.querySelector("table").rows.length;
    button.click();
    for (let i = 0; i < 100 && button.textContent !== "copied"; ++i) await new Promise((done) => setTimeout(done, 5));
    if (button.textContent !== "copied" || (button.matches("td button") ? text : text.split("\n").length) !== wanted)
      found.push(`a button copies '${text}', not '${wanted}'`);
  }
  return found;
})()
"""

# Another pair of sizes for the maps: complaints as texts.
SIZES = r"""
(async () => {
  const select = document.querySelector("select");
  if (!select) return [];  // a sweep without a complete problem
  const titles = () => [...document.querySelectorAll(".role-axis-title text")].map((t) => t.textContent);
  if (titles().includes("K, from")) return ["the maps begin with K"];
  select.value = 1;
  select.dispatchEvent(new Event("change"));
  for (let i = 0; i < 200 && !titles().includes("K, from"); ++i) await new Promise((done) => setTimeout(done, 10));
  return titles().includes("K, from") ? [] : ["the maps do not change to K"];
})()
"""

# A page that breaks every rule: the checks themselves must find that.
BROKEN = """<!DOCTYPE html><body style="width:3000px"><h2>Broken</h2><div><figure data-plot><svg width="100" height="50">
<text x="5" y="20">first label</text><text x="9" y="22">second label</text><text x="80" y="40">far too long</text></svg></figure></div>
<script>console.error("a complaint"); fetch("https://example.invalid/"); document.documentElement.dataset.drawn = 1;</script>"""


def journal_line(payload):
    """A line with its checksum (docs/formats/journal.md)."""
    digits, crc = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_", zlib.crc32(payload.encode())
    return "".join(digits[crc >> 6 * i & 63] for i in reversed(range(6))) + payload + "\n"


def write_failing_journal(of, out):
    """The journal of a sweep that goes on, with failures and clocks; its first line is that of a journal of the same manifest."""
    lines = ["S1700000000 boot", "Pa0.1:0-5", "a0o10,5,4", "a1o20,30,4", "a2O30,200,4", "TC(1,2) is 3 instead of 4", "a3w,,,,0",
             "Tsignal 11", "a4c,,,,1", "a5t", *(f"Ca{2500 - 20 * i}" for i in range(12))]
    out.write_text(of.read_text().splitlines(keepends=True)[0] + "".join(map(journal_line, lines)))


def check_the_checks(browser, folder):
    file = folder / "broken.html"
    file.write_text(BROKEN)
    page = browser.open(file, 400)
    found = "\n".join(page.evaluate(CHECK) + page.problems)
    for wanted in ("no marks", "'first label' overlaps 'second label'", "'far too long' is cut off", "pixels wide", "a complaint",
                   "requests https://example.invalid/"):
        if wanted not in found:
            raise SystemExit(f"the checks do not find '{wanted}' in a broken page, only:\n{found}")


def check_hover(page):
    """Some tooltip of every plot names a problem and a config; those of means over problems have their number, and
    those of the clock their batch."""
    found = []
    for plot, texts in enumerate(page.hover(".role-mark path")):
        if not any("problem" in text and "config" in text or re.search(r"(problems|batch)\d", text) for text in texts):
            found.append(f"plot {plot}: no hover names a problem and a config, only {texts}")
    return found


def check_colours(page):
    """The plots follow a change of the system's colours."""
    colour = "document.querySelector('.role-axis-label text').getAttribute('fill')"
    light = page.evaluate(colour)
    page.set_dark(True)
    try:
        page.wait(f"{colour} !== '{light}'")
    except RuntimeError:
        return ["the plots keep their light colours"]
    page.set_dark(False)
    page.wait(f"{colour} === '{light}'")
    return []


def check_page(browser, file, name, pictures):
    complaints = []
    size = file.stat().st_size
    if size > MAX_BYTES:
        complaints.append(f"{name}: {size} bytes, at most {MAX_BYTES}")
    for width in WIDTHS:
        for dark in (False, True):
            page = browser.open(file, width, dark=dark)
            found = page.evaluate(CHECK)
            if not dark and width == WIDTHS[0]:
                found += check_hover(page) + check_colours(page) + page.evaluate(TABLES) + page.evaluate(SIZES)
            found += page.problems
            if pictures:
                page.screenshot(pictures / f"{name}_{width}_{'dark' if dark else 'light'}.png")
            complaints += [f"{name} at {width} pixels, {'dark' if dark else 'light'}: {text}" for text in found]
            page.close()
    return complaints


def main():
    programs, root = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    pictures = pathlib.Path(sys.argv[3]).resolve() if len(sys.argv) > 3 else None
    if find_chromium() is None:
        print("NO REPORT TESTED: chromium is not here (./dev test report installs it)")
        return SKIPPED
    kscout = programs / "kscout"
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        folder = pathlib.Path(folder)

        def run(*arguments):
            done = subprocess.run([kscout, *map(str, arguments)], cwd=folder, env=os.environ | {"HOME": str(folder)},
                                  capture_output=True, text=True)
            if done.returncode != 0:
                raise SystemExit(f"kscout {' '.join(map(str, arguments))}: {done.stderr}")

        data = root / "data"
        reports = {
            "model_cpu": (root / "tests/models/gemm_fp32_zen3-2c", "--data", data / "gemm_fp32_zen3-2c.held_out.parquet"),
            "model_gpu": (root / "models/conv_fwd_bf16_h200", "--data", data / "conv_fwd_bf16_h200.joint_held_out.parquet"),
            "dataset": (data / "gemm_fp8_h200.held_out.parquet",),
        }
        run("sweep", "--problems", "smoke", "--rules", "default", "--budget", 5, "--out", folder / "sweep")
        reports["sweep"] = (folder / "sweep",)
        (folder / "failing").mkdir()
        shutil.copy(folder / "sweep/manifest.json", folder / "failing")
        write_failing_journal(folder / "sweep/journal.log", folder / "failing/journal.log")
        reports["failing_sweep"] = (folder / "failing",)
        (folder / "one.csv").write_text(ONE_PROBLEM)
        run("dataset", "import", "one.csv", "--device", "epyc-7763", "--out", "one.parquet")
        reports["one_problem"] = (folder / "one.parquet",)
        check_the_checks(browser, folder)
        complaints = []
        for name, arguments in reports.items():
            file = folder / f"{name}.html"
            run("report", *arguments, "--out", file)
            complaints += check_page(browser, file, name, pictures)
    print("\n".join(complaints) or f"{len(reports)} reports, each at {len(WIDTHS)} widths, light and dark: no complaint")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
