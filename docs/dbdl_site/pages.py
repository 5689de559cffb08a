"""Write the pages that are made from the code, before Sphinx reads the others."""

from __future__ import annotations

from pathlib import Path

from dbdl_site.commands import commands_page
from dbdl_site.methods import methods_chart, methods_table
from dbdl_site.reference import reference_page


def write_pages(docs: Path) -> None:
    """Write them, if they have changed, below the folder of the other pages."""
    pages = {
        "api/index.rst": reference_page(),
        "generated/methods_chart.md": methods_chart(),
        "generated/methods_table.md": methods_table(),
        "generated/commands.md": commands_page(),
    }
    for name, text in pages.items():
        path = docs / name
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
