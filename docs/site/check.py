"""Checks a built documentation site: every link leads to a file of the site and to an anchor that is there, nothing is
fetched from a network, and every page is at most two clicks from the start page.

    python3 docs/site/check.py SITE        (./dev docs)
"""

import collections
import html.parser
import pathlib
import posixpath
import re
import shutil
import subprocess
import sys
import urllib.parse

CLICKS = 2
# Written by MkDoxy, whose anchors of unnamed types lead nowhere; sources and lists of members repeat other pages.
GENERATED = re.compile(r"cpp/")
REPEATS = re.compile(r"cpp/(.*_source|class_member|namespace_member|functions|variables|macros|links|hierarchy|modules|pages|examples|classes)")


class Page(html.parser.HTMLParser):
    def __init__(self, text: str):
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors.update(found[key] for key in ("id", "name") if found.get(key))
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if tag in ("script", "img", "link", "iframe"):
            self.fetched += [found[key] for key in ("src", "href") if found.get(key)]


def complaints(site: pathlib.Path) -> list[str]:
    files = [path for path in site.rglob("*.html") if path.name != "404.html"]  # a server's page, with links from its root
    pages = {path.relative_to(site).as_posix(): Page(path.read_text(encoding="utf-8")) for path in files}
    found, leads = [], collections.defaultdict(set)
    for name, page in sorted(pages.items()):
        for link in page.fetched:
            if re.match(r"(https?:)?//", link):
                found.append(f"{name}: fetches {link}")
        for link in page.links + page.fetched:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            to = posixpath.normpath(posixpath.join(posixpath.dirname(name), urllib.parse.unquote(parts.path))) if parts.path else name
            if not (site / to).is_file():
                found.append(f"{name}: {link} leads to no file")
            elif to in pages:
                leads[name].add(to)
                anchor = urllib.parse.unquote(parts.fragment)
                if anchor and anchor not in pages[to].anchors and not GENERATED.match(to):
                    found.append(f"{name}: {link} leads to no anchor")
    clicks, queue = {"index.html": 0}, collections.deque(["index.html"])
    while queue:
        at = queue.popleft()
        for to in leads[at] - clicks.keys():
            clicks[to] = clicks[at] + 1
            queue.append(to)
    for name in sorted(pages):
        if clicks.get(name, CLICKS + 1) > CLICKS and not REPEATS.match(name):
            found.append(f"{name}: {clicks.get(name, 'no number of')} clicks from the start page; at most {CLICKS}")
    return found


def search_complaints(site: pathlib.Path) -> list[str]:
    """The search of a page that was opened as a file, in a browser without a network."""
    browser = shutil.which("chromium")
    if not browser:
        print("SEARCH NOT TESTED: chromium is not installed")
        return []
    address = (site / "index.html").resolve().as_uri() + "?q=prototypes"
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", "--dump-dom"]
    page = subprocess.run([browser, *options, address], capture_output=True, text=True, timeout=120).stdout
    return [] if "md-search-result__item" in page else ["index.html: the search finds no page with 'prototypes'"]


def main() -> int:
    site = pathlib.Path(sys.argv[1])
    found = complaints(site) + search_complaints(site)
    print("\n".join(found))
    print(f"{len(list(site.rglob('*.html')))} pages, {len(found)} wrong")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
