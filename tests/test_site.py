"""The site lists all that is public, every page can be reached, and the gallery's scripts run."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path

import pytest
from dbdl_site.commands import commands_page
from dbdl_site.links import faults
from dbdl_site.mathml import to_mathml
from dbdl_site.methods import GROUPS, QUESTIONS, methods_chart, methods_table, packaged, path_of
from dbdl_site.pages import write_pages
from dbdl_site.reference import public_names, reference_page, rooms

from dbdl.cli import COMMANDS
from dbdl.registry import PACKAGED

ROOT = Path(__file__).parents[1]
DOCS, EXAMPLES = ROOT / "docs", ROOT / "examples"
SCRIPTS = sorted(EXAMPLES.rglob("plot_*.py"))
NAMES = public_names()


def test_every_public_name_is_in_the_reference():
    listed = set(re.findall(r"(?:^   |autodata:: )(dbdl[\w.]+)$", reference_page(), re.MULTILINE))
    assert {name.path for name in NAMES} == listed
    assert {"dbdl.DBDLClassifier", "dbdl.coding.omp", "dbdl.views.View"} <= listed
    assert len(rooms()) >= 10


def test_every_method_has_a_page_to_look_at():
    """One of the reference, or one of scikit-learn's."""
    listed = {name.path for name in NAMES}
    paths = {path_of(method) for method in PACKAGED}
    assert {
        path for path in paths if path not in listed and not path.startswith("sklearn.")
    } == set()


@pytest.mark.parametrize(
    "name", [name for name in NAMES if name.example_is_due], ids=lambda name: name.path
)
def test_every_public_class_and_function_has_an_example(name):
    """`tests/test_documents.py` runs them."""
    assert ">>> " in (name.value.__doc__ or "")
    assert name.summary.endswith((".", ":", ","))


def test_the_chart_and_the_table_have_every_method():
    listed = re.findall(r"^\| (?:\[|{py:obj}`)(.+?)(?: <dbdl|\])", methods_table(), re.MULTILINE)
    assert sorted(listed) == sorted(packaged())
    named = {name for part in (*QUESTIONS, *GROUPS) for name in part.names}
    assert named <= set(packaged())
    assert methods_chart().count("<li>") == len(QUESTIONS)


def test_the_page_of_the_command_line_has_every_command():
    assert re.findall(r"^## dbdl ([\w-]+)$", commands_page(), re.MULTILINE) == list(COMMANDS)


def test_every_page_is_in_a_table_of_contents():
    """Otherwise nobody would find it, and `make docs` would fail."""
    listed = {"index"}
    for page in DOCS.glob("*.md"):
        for block in re.findall(r"```{toctree}\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
            listed |= {line for line in block.split("\n") if line and not line.startswith(":")}
    assert {page.stem for page in DOCS.glob("*.md")} <= listed


def test_pages_are_written_once(tmp_path):
    write_pages(tmp_path)
    pages = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*")}
    assert len(pages) == 4
    write_pages(tmp_path)
    assert pages == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*")}


def test_formulas_become_markup_that_browsers_draw():
    assert "<mfrac>" in to_mathml(r"\Big( \frac{a}{b} \Big)", block=True)


def test_there_is_a_gallery():
    assert len(SCRIPTS) >= 10


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_an_example_has_a_title_text_and_a_figure(script):
    text = script.read_text("utf-8")
    title, line, empty, first, *_ = ast.get_docstring(ast.parse(text)).split("\n")
    assert len(line) == len(title) and set(line) == {"="} and not empty and len(first) > 40
    assert text.count("# %%") >= 2 and "plt.show()" in text
    assert "fetch_" not in text  # nothing is downloaded


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_an_example_runs(script, monkeypatch):
    import matplotlib.pyplot as plt

    plt.switch_backend("Agg")
    figures = []

    def show():
        figures.extend(plt.get_fignums())
        plt.close("all")

    monkeypatch.setattr(plt, "show", show)
    runpy.run_path(str(script))
    assert figures


def test_links_of_the_built_site_are_followed(tmp_path):
    (tmp_path / "other.html").write_text('<h1 id="here">Here</h1>')
    (tmp_path / "index.html").write_text(
        '<a href="other.html#here">good</a> <a href="other.html#there">bad</a> <a href="no.html">'
        'bad</a> <a href="https://doi.org/1">away</a> <script src="https://example.org/x.js">'
        "</script>"
    )
    found = faults(tmp_path)
    assert len(found) == 3
    assert any("#there" in line for line in found) and any("no.html" in line for line in found)
    assert any("fetches https://example.org/x.js" in line for line in found)
