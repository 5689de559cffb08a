"""Give the package a new version: turn "Unreleased" in the changelog into it.

    python tools/new_version.py 0.3.0 [2027-01-31]

The version is in `src/dbdl/__init__.py`, from which the build reads it. CITATION.cff and the conda
recipe repeat it, because their formats cannot read it; a test compares them. Nothing is written if
any of the files does not look as expected. Commit the change afterwards, and tag it.
"""

from __future__ import annotations

import re
import sys
from datetime import UTC, date, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
CHANGELOG = "CHANGELOG.md"
UNRELEASED = "## [Unreleased]\n"
#: Where a version stands: file, the words around it, and what it is, the version or the date.
PLACES = (
    ("src/dbdl/__init__.py", r'^__version__ = "(.*)"$', "version"),
    ("CITATION.cff", r"^version: (.*)$", "version"),
    ("CITATION.cff", r'^date-released: "(.*)"$', "date"),
    ("conda-recipe/recipe.yaml", r'^  version: "(.*)"$', "version"),
)


def put(text: str, pattern: str, value: str, name: str) -> str:
    """Return a text with a value in the one place that a pattern finds."""
    found = list(re.finditer(pattern, text, re.MULTILINE))
    if len(found) != 1:
        sys.exit(f"{name} has {len(found)} lines like {pattern}, expected one; nothing was written")
    return text[: found[0].start(1)] + value + text[found[0].end(1) :]


def renewed(texts: dict[str, str], version: str, day: date) -> dict[str, str]:
    """Return the texts of all files with the new version.

    An empty section "Unreleased" stays above the new one in the changelog.
    """
    new = dict(texts)
    for name, pattern, kind in PLACES:
        new[name] = put(new[name], pattern, version if kind == "version" else str(day), name)
    _, heading, body = new[CHANGELOG].partition(UNRELEASED)
    if not heading or body.lstrip().startswith("## "):
        sys.exit(f'{CHANGELOG} has nothing under "Unreleased"; nothing was written')
    if f"## [{version}]" in body:
        sys.exit(f"{CHANGELOG} has {version} already; nothing was written")
    headings = f"{UNRELEASED}\n## [{version}] - {day}\n"
    new[CHANGELOG] = new[CHANGELOG].replace(UNRELEASED, headings, 1)
    return new


def main() -> None:
    """Change the files in place."""
    if len(sys.argv) not in (2, 3) or not re.fullmatch(r"\d+\.\d+\.\d+", sys.argv[1]):
        sys.exit("expected a version of three numbers: python tools/new_version.py 0.3.0")
    day = date.fromisoformat(sys.argv[2]) if len(sys.argv) == 3 else datetime.now(UTC).date()
    names = {CHANGELOG, *(name for name, _, _ in PLACES)}
    texts = {name: (ROOT / name).read_text("utf-8") for name in names}
    for name, text in renewed(texts, sys.argv[1], day).items():
        (ROOT / name).write_text(text, "utf-8", newline="\n")
    print(f"dbdl {sys.argv[1]}: look at the changes, commit them and tag v{sys.argv[1]}")


if __name__ == "__main__":
    main()
