"""Gathers the pages of the documentation site, and the configuration of MkDocs, from the repository.

    python3 docs/site/pages.py FOLDER        writes FOLDER/mkdocs.yml and FOLDER/pages; ./dev docs builds the site from them

Pages stay where readers of the repository look for them: README.md becomes the start page, and its section "Read on" the
navigation. A link to a file that is no page leads to a copy of the file; a link to a folder, to a list of its pages.
"""

import json
import pathlib
import posixpath
import re
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Pages outside docs/, and what they are called on the site.
OUTSIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "data/README.md": "data.md",
    "models/README.md": "models.md",
    "examples/README.md": "examples.md",
}
FOLDERS = {"bench": "Results", "design": "Design notes", "formats": "Formats"}
API = [{"C++ and C": [{"Classes": "cpp/annotated.md"}, {"Headers": "cpp/files.md"}, {"Namespaces": "cpp/namespaces.md"}]}, {"Python": "python_api.md"}]
LINK = re.compile(r"(?<!`)(\]\()([^)\s#]*)(#[^)\s]*)?(\))")


class BrokenLink(Exception):
    pass


def repository_pages() -> dict[str, str]:
    """Path in the repository -> path on the site."""
    pages = {path.relative_to(ROOT).as_posix(): path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    return OUTSIDE | pages


def title_of(text: str) -> str:
    return next(line for line in text.splitlines() if line.startswith("# "))[2:].replace("`", "")


class Site:
    def __init__(self, out: pathlib.Path):
        self.out = out
        self.pages = repository_pages()
        self.copied: set[str] = set()

    def target(self, source: str, link: str) -> str:
        """Where a relative link of a page leads on the site."""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
        if path in self.pages:
            return self.pages[path]
        if f"{path}/README.md" in self.pages:
            return self.pages[f"{path}/README.md"]
        if (ROOT / path).is_dir() and path.removeprefix("docs/") in FOLDERS:
            return f"{path.removeprefix('docs/')}/index.md"
        if (ROOT / path).is_dir():
            return self.list_of_files(path)
        if not (ROOT / path).is_file():
            raise BrokenLink(f"{source}: link to {link}, which is no file of the repository")
        self.copied.add(path)
        return f"files/{path}"

    def list_of_files(self, folder: str) -> str:
        """A page for a folder that has none of its own."""
        names = sorted(path.name for path in (ROOT / folder).iterdir() if path.is_file())
        self.copied.update(f"{folder}/{name}" for name in names)
        self.write(f"files/{folder}.md", f"# {folder}\n\n" + "\n".join(f"* [{n}]({posixpath.basename(folder)}/{n})" for n in names) + "\n")
        return f"files/{folder}.md"

    def rewritten(self, source: str, text: str) -> str:
        """The page with links that hold on the site. Code keeps its text."""
        here = posixpath.dirname(self.pages[source])

        def link(match: re.Match) -> str:
            if not match[2] or re.match(r"[a-z]+:", match[2]):
                return match[0]
            to = posixpath.relpath(self.target(source, match[2]), here or ".")
            return f"{match[1]}{to}{match[3] or ''}{match[4]}"

        lines, fenced = [], False
        for line in text.split("\n"):
            fenced ^= line.lstrip().startswith("```")
            lines.append(line if fenced or line.startswith("    ") else LINK.sub(link, line))
        return "\n".join(lines)

    def write(self, path: str, text: str) -> None:
        file = self.out / "pages" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def build(self) -> None:
        shutil.rmtree(self.out / "pages", ignore_errors=True)
        texts = {source: (ROOT / source).read_text(encoding="utf-8") for source in self.pages}
        for source, text in texts.items():
            self.write(self.pages[source], self.rewritten(source, text))
        for folder, title in FOLDERS.items():
            names = sorted(path for path in self.pages.values() if posixpath.dirname(path) == folder)
            listed = [f"* [{title_of(texts['docs/' + name])}]({posixpath.basename(name)})" for name in names]
            self.write(f"{folder}/index.md", f"# {title}\n\n" + "\n".join(listed) + "\n")
        self.write("python_api.md", "# Python API\n\n::: kscout\n")
        for path in sorted(self.copied):
            file = self.out / "pages" / "files" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / path, file)
        shutil.copyfile(ROOT / "docs" / "site" / "worker.js", self.out / "pages" / "worker.js")
        settings = json.loads((ROOT / "docs" / "site" / "mkdocs.json").read_text(encoding="utf-8"))
        settings["nav"] = self.navigation(texts)
        text = json.dumps(settings, indent=1).replace("@ROOT@", str(ROOT))
        (self.out / "mkdocs.yml").write_text(text, encoding="utf-8")  # JSON is YAML

    def navigation(self, texts: dict[str, str]) -> list:
        """The groups of README's section "Read on", then folders, the API, and the pages that README does not name."""
        readme = texts["README.md"]
        groups = re.findall(r"^\* (\w[\w ]*): (.*?)(?=^\* |^$)", readme[readme.index("\n## Read on") :] + "\n\n", re.M | re.S)
        navigation, named = [{"Start": "index.md"}], {"index.md"}
        for group, text in groups:
            entries = []
            for title, link in re.findall(r"\[([^]]*)\]\(([^)#]*)\)", text):
                path = self.target("README.md", link)
                if path.endswith(".md") and path not in named and posixpath.dirname(path) not in FOLDERS:
                    entries.append({" ".join(title.split()): path})
                    named.add(path)
            navigation.append({group if group != "Start" else "Guides": entries})
        rest = sorted(path for path in self.pages.values() if path not in named and posixpath.dirname(path) == "")
        titles = {path: title_of(texts[source]) for source, path in self.pages.items()}
        navigation.append({"More": [{titles[path]: path} for path in rest]})
        for folder, title in FOLDERS.items():
            inside = sorted(path for path in self.pages.values() if posixpath.dirname(path) == folder)
            navigation.append({title: [f"{folder}/index.md"] + [{titles[path]: path} for path in inside]})
        return navigation + [{"API": API}]


def main() -> int:
    try:
        Site(pathlib.Path(sys.argv[1])).build()
    except BrokenLink as error:
        print(f"pages.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
