"""Writes the plot library that reports embed (Vega, Vega-Lite, Vega-Embed) as gzip of JavaScript.

    python bundle_plots.py VERSION OUT.js.gz      VERSION: that of the installed wheel vl-convert-python
"""

import gzip
import sys

import vl_convert


def main():
    version, out = sys.argv[1:]
    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    if "</script" in script.lower():
        raise SystemExit(f"the library of vl-convert-python {version} cannot stand in an HTML file: it has '</script'")
    with open(out, "wb") as file:
        file.write(gzip.compress(script.encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
