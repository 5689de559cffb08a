"""Follow every link of the built site that stays within it.

    python docs/dbdl_site/links.py docs/_build/html

Ends with status 1 if a link leads nowhere, if a heading that it names does not exist, or if a page
would fetch a script, a style or a picture from elsewhere.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Attributes whose content a browser fetches by itself.
FETCHED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src"}
#: Relations of <link> that name another page and fetch nothing.
NAMED = ("canonical", "next", "prev", "index", "search", "author", "copyright")


@dataclass
class Page(HTMLParser):
    """Links, fetched files and anchors of a page."""

    links: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the addresses and the name of an element."""
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in FETCHED and FETCHED[tag] in given and given.get("rel") not in NAMED:
            self.fetched.append(given[FETCHED[tag]])


def read(path: Path) -> Page:
    """Return what a page names."""
    page = Page()
    page.feed(path.read_text("utf-8"))
    return page


def faults(root: Path) -> list[str]:
    """Return a line for each address that leads nowhere, or elsewhere if a browser fetches it."""
    files = [path.resolve() for path in sorted(root.rglob("*.html"))]
    pages = {path: read(path) for path in files if path.parent.name != "_static"}
    found = []
    for path, page in pages.items():
        name = path.relative_to(root.resolve())
        elsewhere = [url for url in page.fetched if urlsplit(url).scheme in ("http", "https")]
        found += [f"{name} fetches {url}" for url in elsewhere]
        for url in {*page.links, *page.fetched}:
            if problem := _problem(url, path, pages):
                found.append(f"{name}: {url} {problem}")
    return found


def _problem(url: str, path: Path, pages: dict[Path, Page]) -> str | None:
    parts = urlsplit(url)
    if parts.scheme or parts.netloc:
        return None
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.is_file():
        return "leads nowhere"
    anchor = unquote(parts.fragment)
    if anchor and target in pages and anchor not in pages[target].anchors:
        return "names a heading that does not exist"
    return None


def main(root: str) -> int:
    """Print the faults; return 1 if there are any."""
    found = faults(Path(root))
    print(*found, sep="\n", end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
