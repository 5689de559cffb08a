"""The page on the path from ``fit`` to ``step`` shows the code and the path of a fit."""

import ast
import inspect
import re
import textwrap
from pathlib import Path

import pytest
from sklearn.datasets import load_iris

from benchmarks.path import stack_of
from dbdl import DBDLClassifier
from dbdl.coding import Forward

PAGE = (Path(__file__).parents[1] / "docs" / "path.md").read_text(encoding="utf-8")


def live_stack(**settings):
    model = DBDLClassifier(n_chains=2, n_sweeps=2, random_state=0, coder=Forward(2), **settings)
    model.fit(*load_iris(return_X_y=True))  # compiles
    stack = stack_of(model)
    return stack[: next(i for i, name in enumerate(stack) if name.endswith(":step")) + 1]


def body_of(function):
    """Source of a function without its signature and docstring."""
    source = textwrap.dedent(inspect.getsource(inspect.unwrap(function)))
    [definition] = ast.parse(source).body
    lines = source.splitlines()[definition.body[1].lineno - 1 :]
    return textwrap.dedent("\n".join(lines))


def test_the_page_lists_the_live_stack():
    listed = re.findall(r"^\d+\. `([^`]+)`", PAGE, flags=re.MULTILINE)
    assert listed == live_stack()


def test_the_page_shows_the_code_of_fit():
    [shown] = re.findall(r"^```text\n(.*?)\n```$", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert shown == body_of(DBDLClassifier.fit)


def test_the_files_that_the_page_names_exist():
    source = Path(inspect.getfile(DBDLClassifier)).parents[1]
    named = re.findall(r"`([a-z_/]+\.py)", PAGE)
    assert len(named) > 12
    assert [name for name in named if not (source / name).is_file()] == []


@pytest.mark.parametrize(
    "settings", [{}, {"calibrate": False}, {"views": "plain"}, {"n_initial_atoms": "auto"}]
)
def test_there_are_at_most_eight_frames_from_fit_to_step_whatever_is_chosen(settings):
    stack = live_stack(**settings)
    assert len(stack) - 1 <= 8
    assert stack == live_stack()
