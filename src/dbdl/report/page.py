"""The report on a fitted classifier: one HTML file with everything in it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dbdl._files import write_atomically
from dbdl.estimators.classifier import DBDLClassifier
from dbdl.plotting.pictures import Pictures, check_image_shape, draw_rows
from dbdl.report import atoms, rivals, sections
from dbdl.report.findings import Answers, examine, examine_answers, last_step
from dbdl.report.rendering import render
from dbdl.report.rivals import about_method, method_name

#: Letters at the beginning of a page among which its identity is looked for.
LARGEST_HEAD = 4000


def write_report(
    model: Any,
    X_test: ArrayLike,
    y_test: ArrayLike,
    path: str | os.PathLike[str],
    *,
    image_shape: tuple[int, int] | None = None,
    class_names: Sequence[object] | Mapping[Any, object] | None = None,
    title: str | None = None,
    feature_names: Sequence[str] | None = None,
    row_names: Sequence[str] | None = None,
    order: str = "C",
    split_accuracy: Sequence[float] = (),
    unlearned_accuracy: float | None = None,
    origin: Mapping[str, str] | None = None,
    identity: str = "",
) -> Path:
    """Write a report on a fitted classifier and rows that it has not seen.

    The page is one file that fetches nothing: accuracy, confusion, calibration, the views, the
    atoms of the first chain, the selection probabilities, the sweeps, whether the chains have
    converged, and explained decisions. It contains pictures of some of the test rows. On any other
    classifier it says what it can: accuracy, confusion, calibration where there are probabilities,
    and atoms where there are any.

    Parameters
    ----------
    model : DBDLClassifier, another classifier or Pipeline
        Fitted.
    X_test : array-like of shape (n_samples, n_features)
    y_test : array-like of shape (n_samples,)
        Labels that the model has seen.
    path : str or path-like
        The HTML file, in a folder that exists. An existing file is replaced.
    image_shape : (int, int), optional
        Height and width where features are pixels; without it atoms are drawn as curves.
    class_names : sequence or mapping, optional
        Names in the order of ``classes_``, or by label.
    title : str, optional
    feature_names : sequence of str, optional
        By default ``feature_names_in_``.
    row_names : sequence of str, optional
        What the test rows are called; by default "Row 1", "Row 2" and so on.
    order : {"C", "F"}, default="C"
        Order of the pixels in a row of features.
    split_accuracy : sequence of float, optional
        Accuracies of the same classifier on other splits, from 0 to 1, to show their spread.
    unlearned_accuracy : float, optional
        Accuracy from 0 to 1 on the same test rows with random training rows in place of the
        learned atoms, to show how much learning and views add. The method "DBDL unlearned" of
        ``dbdl compare`` measures it.
    origin : mapping of str to str, optional
        How to get the page again: its ``command``, the ``file`` of the data and the ``seed``.
    identity : str, optional
        Kept in the page, for `identity_of`.

    Returns
    -------
    path : Path

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_digits
    >>> from dbdl import DBDLClassifier
    >>> from dbdl.report import write_report
    >>> X, y = load_digits(n_class=3, return_X_y=True)
    >>> model = DBDLClassifier(n_sweeps=5, n_chains=1, random_state=0).fit(X[:100], y[:100])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/report.html"
    ...     path = write_report(model, X[100:], y[100:], path, image_shape=(8, 8))
    ...     path.name
    'report.html'
    """
    model, X_test = last_step(model, X_test)
    if image_shape is not None:
        check_image_shape(image_shape, model.n_features_in_)
    names = _feature_names(model, feature_names)
    rows = _row_names(row_names, np.shape(X_test)[0])
    draw = partial(draw_rows, image_shape=image_shape, order=order)
    common = {
        "image_shape": image_shape,
        "split_accuracy": 100 * np.asarray(split_accuracy, dtype=np.float64),
        "unlearned_accuracy": unlearned_accuracy,
        "origin": dict(origin or {}),
        "identity": identity,
    }
    if not isinstance(model, DBDLClassifier):
        answers = examine_answers(model, X_test, y_test, class_names)
        title = title or f"{method_name(model)} on test rows"
        page = _rival_page(model, answers, draw, None if image_shape else names, title, common)
        return write_atomically(path, page)
    found = examine(model, X_test, y_test, class_names)
    page = render(
        "report.html",
        title=title or "The learned dictionary",
        found=found,
        **common,
        accuracy=sections.accuracy(found),
        confusion=sections.confusion(found),
        views=sections.views(found),
        gallery=atoms.gallery(found, draw, None if image_shape else names),
        selection=atoms.selection(found),
        sweeps=sections.sweeps(model),
        convergence=sections.convergence(model),
        decisions=atoms.decisions(found, draw, None if image_shape else names),
        settings=sections.settings(model),
        row_names=rows,
    )
    return write_atomically(path, page)


def identity_of(path: str | os.PathLike[str]) -> str:
    """Return the identity that a page was written with; empty where there is none.

    Examples
    --------
    >>> from dbdl.report import identity_of
    >>> identity_of("no such page.html")
    ''
    """
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as file:
            head = file.read(LARGEST_HEAD)
    except OSError:
        return ""
    found = re.search(r'<meta name="dbdl-identity" content="(\w*)">', head)
    return "" if found is None else found.group(1)


def _rival_page(
    model: Any,
    answers: Answers,
    draw: Callable[[Any], Pictures],
    feature_names: Sequence[str] | None,
    title: str,
    common: dict[str, Any],
) -> bytes:
    """Return the page on a classifier that is not DBDL."""
    return render(
        "rival.html",
        title=title,
        found=answers,
        method=method_name(model),
        about=about_method(model),
        n_features=model.n_features_in_,
        accuracy=sections.accuracy(answers),
        confusion=sections.confusion(answers),
        gallery=rivals.gallery(model, draw, feature_names),
        settings=rivals.settings(model),
        **common,
    )


def _row_names(given: Sequence[str] | None, n_rows: int) -> list[str] | None:
    if given is not None and len(given) != n_rows:
        raise ValueError(f"row_names has {len(given)} names, but there are {n_rows} test rows")
    return None if given is None else list(map(str, given))


def _feature_names(model: Any, given: Sequence[str] | None) -> list[str]:
    names = getattr(model, "feature_names_in_", ()) if given is None else given
    if len(names) not in (0, model.n_features_in_):
        raise ValueError(
            f"feature_names has {len(names)} names, but there are {model.n_features_in_} features"
        )
    return [str(name) for name in names]
