"""Declared parameters: the signature, the constraints and the docstring are made from them."""

from __future__ import annotations

import inspect
import re
from dataclasses import field
from typing import Literal

import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_digits
from sklearn.utils._param_validation import InvalidParameterError

import dbdl
from dbdl._parameters import Declared, PositiveCount, PositiveWeight
from dbdl.rivals.ksvd import KSVD

CLASSES = {m.make for m in dbdl.methods().values() if m.make.__module__.startswith("dbdl.rivals")}
every_class = pytest.mark.parametrize(
    "kind", sorted([*CLASSES, KSVD], key=lambda kind: kind.__name__)
)


class Plain(Declared, BaseEstimator):
    """A base.

    Parameters
    ----------
    size : int, default=3
        How large it is.
    mode : {"slow", "fast"}, default="slow"
        How it goes.

    Attributes
    ----------
    found_ : int
        As many as there are.
    """

    size: PositiveCount = field(default=3, kw_only=False)
    mode: Literal["slow", "fast"] = "slow"


class Child(Plain):
    """A child.

    Parameters
    ----------
    weight : float, default=0.5
        How heavy it is.

    Examples
    --------
    >>> Child()
    Child()
    """

    weight: PositiveWeight | None = 0.5
    mode: Literal["slow", "fast"] = "fast"


def section(kind, title):
    """Lines of a section that are not indented."""
    text = inspect.getdoc(kind).split(f"{title}\n{'-' * len(title)}\n")[1]
    return re.findall(r"^(?=\S)(.+?) : (.*)$", text.split("\n\n")[0], flags=re.MULTILINE)


def test_a_child_has_its_own_parameters_first_then_those_of_its_base():
    parameters = inspect.signature(Child).parameters
    assert list(parameters) == ["size", "weight", "mode"]
    assert (parameters["size"].kind, parameters["mode"].kind) == (
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    )
    model = Child(7, weight=None)
    assert model.get_params() == {"size": 7, "weight": None, "mode": "fast"}
    assert clone(model).get_params() == model.get_params()
    assert repr(model) == "Child(size=7, weight=None)"
    with pytest.raises(TypeError, match="unexpected keyword argument 'sise'"):
        Child(sise=3)


def test_a_child_takes_the_text_of_its_base_with_its_own_default():
    assert inspect.getdoc(Child).split("\n\n")[1:4] == [
        "Parameters\n----------\n"
        "size : int, default=3\n    How large it is.\n"
        "weight : float, default=0.5\n    How heavy it is.\n"
        'mode : {"slow", "fast"}, default="fast"\n    How it goes.',
        "Attributes\n----------\nfound_ : int\n    As many as there are.",
        "Examples\n--------\n>>> Child()\nChild()",
    ]
    assert 'default="slow"' in Plain.__doc__


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("size", 0, "int in the range"),
        ("weight", -1.0, "float in the range"),
        ("mode", "swift", "a str among"),
    ],
)
def test_values_outside_the_annotation_are_refused(name, value, words):
    with pytest.raises(InvalidParameterError, match=f"'{name}' parameter of Child.*{words}"):
        Child(**{name: value})._validate_params()
    Child(weight=None)._validate_params()


@every_class
def test_the_docstring_of_a_rival_has_every_parameter_with_its_default(kind):
    documented = [(name, words.split("default=")[1]) for name, words in section(kind, "Parameters")]
    assert documented == [
        (name, f'"{value.default}"' if isinstance(value.default, str) else str(value.default))
        for name, value in inspect.signature(kind).parameters.items()
    ]


@every_class
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_docstring_of_a_rival_has_every_attribute_that_a_fit_sets(kind):
    X, y = load_digits(n_class=3, return_X_y=True)
    model = kind(random_state=0).fit(X[:60], y[:60])
    documented = {part for names, _ in section(kind, "Attributes") for part in names.split(", ")}
    fitted = {name for name in vars(model) if name.endswith("_")}
    later = {"feature_names_in_", "refusals_"}  # by rows with names, and by fit_refusals
    assert documented - later == fitted
