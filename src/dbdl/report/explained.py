"""The page of one explained decision."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from dbdl._files import write_atomically
from dbdl.estimators.explanation import Explanation
from dbdl.plotting.explanation import MOST_BARS, ExplanationDisplay
from dbdl.report.rendering import render

#: Features, atoms and training rows that the page lists.
N_FEATURES, N_ATOMS, N_ROWS = 24, 12, 8
#: Width and height of a picture in inches: its words can be read on a phone.
SIZE = (4.8, 3.6)


def write_explanation(
    explanation: Explanation,
    path: str | os.PathLike[str],
    *,
    title: str = "A decision explained",
    subtitle: str = "",
    image_shape: tuple[int, int] | None = None,
    order: Literal["C", "F"] = "C",
    name_of_row: Callable[[int], str] = str,
) -> Path:
    """Write an explanation as a page: one HTML file that fetches nothing.

    Parameters
    ----------
    explanation : Explanation
        Of `DBDLClassifier.explain`.
    path : str or path-like
        The HTML file, in a folder that exists. An existing file is replaced.
    title, subtitle : str
    image_shape : (int, int), optional
        Height and width where features are pixels.
    order : {"C", "F"}, default="C"
        Order of the pixels in a row of features.
    name_of_row : callable
        Names of training rows, given their indices.

    Returns
    -------
    path : Path

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> from dbdl import DBDLClassifier
    >>> from dbdl.report import write_explanation
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DBDLClassifier(n_chains=1, n_sweeps=2, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_explanation(model.explain(X[0]), f"{folder}/why.html").name
    'why.html'
    """
    shown, others = explanation.largest(N_FEATURES)
    sections = {"why": "Why", "features": "Features", "atoms": "Atoms"}
    if explanation.training_rows:
        sections["rows"] = "Training rows"
    page = render(
        "explanation.html",
        title=title,
        subtitle=subtitle,
        sections=sections,
        data={},
        why=explanation,
        shown=shown,
        others=others,
        words=explanation.in_words(name_of_row),
        picture=_picture(explanation, image_shape, order),
        atoms=explanation.atoms[:N_ATOMS],
        rows=[(name_of_row(row.row), row) for row in explanation.training_rows[:N_ROWS]],
    )
    return write_atomically(path, page)


def _picture(explanation: Explanation, image_shape: tuple[int, int] | None, order: Any) -> str:
    """A picture as an address that contains it; none for a table, which has bars."""
    from matplotlib.figure import Figure

    if image_shape is None and len(explanation.shares) <= MOST_BARS:
        return ""
    figure = Figure(figsize=SIZE, layout="constrained")
    ax = figure.subplots()
    ExplanationDisplay.from_explanation(explanation, image_shape=image_shape, order=order, ax=ax)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=150)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
