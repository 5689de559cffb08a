"""The built site in a real browser: every kind of page fits the screen and fetches nothing.

Run `make docs` first; without a built site these tests are skipped.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SITE = Path(__file__).parents[2] / "docs" / "_build" / "html"
SCREENSHOTS = Path(os.environ.get("DBDL_SCREENSHOTS", "browser_output")) / "site"
#: One page of every kind.
PAGES = (
    "index", "getting_started", "guide", "dictionary", "methods", "recipes", "results", "glossary",
    "command_line", "contributing", "changelog", "gallery/index", "gallery/data/plot_scene",
    "api/index", "api/dbdl.DBDLClassifier", "api/dbdl.rivals.fddl.FDDLClassifier",
)  # fmt: skip
#: Elements to the right of the screen that no box around them lets a reader scroll to.
LOST = """() => {
  const width = document.documentElement.clientWidth;
  const boxes = ["auto", "scroll", "hidden"];
  const scrolls = (e) => e && e !== document.body &&
    (boxes.includes(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
  return [...document.querySelectorAll("article *")]
    .filter((e) => e.getBoundingClientRect().right > width + 2 && !scrolls(e.parentElement))
    .map((e) => e.outerHTML.slice(0, 80));
}"""


@pytest.mark.skipif(not SITE.is_dir(), reason="needs the built site: make docs")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_every_kind_of_page_fits_the_screen_and_fetches_nothing(browser, width, scheme):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    complaints = []
    page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    page.on("request", lambda r: complaints.append(r.url) if r.url.startswith("http") else None)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    for name in PAGES:
        page.goto((SITE / f"{name}.html").as_uri())
        page.screenshot(path=SCREENSHOTS / f"{name.replace('/', '_')}_{width}_{scheme}.png")
        assert page.evaluate(LOST) == [], name
        sizes = page.evaluate("[document.body.scrollWidth, document.documentElement.clientWidth]")
        assert sizes[0] <= sizes[1], name
    page.close()
    assert complaints == []
