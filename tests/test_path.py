"""The page on the path from ``fit`` to ``step`` lists the path that a fit takes."""

import inspect
import re
import textwrap
from pathlib import Path

from sklearn.datasets import load_iris

from benchmarks.path import stack_of
from dbdl import DBDLClassifier
from dbdl.coding import Forward

PAGE = Path(__file__).parents[1] / "docs" / "path.md"


def make(**settings):
    return DBDLClassifier(n_chains=1, n_sweeps=2, random_state=0, coder=Forward(2), **settings)


def live_stack(**settings):
    model = make(calibrate=False).fit(*load_iris(return_X_y=True))  # compiles
    stack = stack_of(model.set_params(**settings))
    return stack[: next(i for i, name in enumerate(stack) if name.endswith(":step")) + 1]


def test_the_page_lists_the_live_stack():
    listed = re.findall(r"^\d+\. `([^`]+)`", PAGE.read_text(), flags=re.MULTILINE)
    assert listed == live_stack(calibrate=False)


def test_there_are_at_most_eight_frames_from_fit_to_step():
    assert len(live_stack(calibrate=False)) - 1 <= 8


def test_chains_that_leave_out_rows_take_the_same_path():
    assert live_stack(calibrate=True) == live_stack(calibrate=False)


def test_the_page_shows_the_lines_of_fit():
    shown = re.search(r"```text\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)[1]
    assert textwrap.indent(shown, " " * 8) in inspect.getsource(inspect.unwrap(DBDLClassifier.fit))
