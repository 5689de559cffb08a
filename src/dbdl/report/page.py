"""The report on a fitted classifier: one HTML file with everything in it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dbdl._files import write_atomically
from dbdl.estimators.classifier import DBDLClassifier
from dbdl.plotting.arrangement import trace_panels
from dbdl.plotting.pictures import check_image_shape, is_signed
from dbdl.report.accuracy import accuracy_section, calibration_section, summary_section
from dbdl.report.atoms import atoms_section
from dbdl.report.charts import trace_chart
from dbdl.report.findings import examine, last_step, size_in_words
from dbdl.report.heat import confusion_section, packed_selection, selection_section
from dbdl.report.markup import (
    Cell,
    document,
    folded,
    footer,
    head,
    json_script,
    number_cell,
    table,
    text,
)
from dbdl.report.samples import samples_section
from dbdl.report.subject import Subject


def write_report(
    model: Any,
    X_test: ArrayLike,
    y_test: ArrayLike,
    path: str | os.PathLike[str],
    *,
    image_shape: tuple[int, int] | None = None,
    class_names: Sequence[object] | Mapping[Any, object] | None = None,
    title: str = "What the dictionary learned",
    feature_names: Sequence[str] | None = None,
    order: str = "C",
    split_accuracy: Sequence[float] = (),
    unlearned_accuracy: float | None = None,
) -> Path:
    """Write a report on a fitted classifier and rows that it has not seen.

    The page is one file with nothing to fetch: accuracy, confusion, calibration, the atoms, the
    selection probabilities, the sweeps, and decisions taken apart. It holds pictures of some of
    the test rows.

    Parameters
    ----------
    model : DBDLClassifier or Pipeline
        Fitted; of a pipeline the last step is a DBDLClassifier.
    X_test : array-like of shape (n_samples, n_features)
    y_test : array-like of shape (n_samples,)
        Labels that the model has seen.
    path : str or path-like
        Of the HTML file, in a folder that exists. A file that is there is replaced.
    image_shape : (int, int), optional
        Height and width where features are pixels; atoms are drawn as curves without it.
    class_names : sequence or mapping, optional
        Names in the order of ``classes_``, or by label.
    title : str
    feature_names : sequence of str, optional
        Those of ``feature_names_in_`` by default.
    order : {"C", "F"}, default="C"
        Order of the pixels in a row of features.
    split_accuracy : sequence of float, optional
        Accuracies of the same classifier on other splits, from 0 to 1, to show their spread.
    unlearned_accuracy : float, optional
        Accuracy on the same test rows, from 0 to 1, of random training rows that stand in for the
        learned atoms, to show what learning adds; ``dbdl compare`` has the method DBDL unlearned.

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
    classifier, X_test = last_step(model, X_test)
    n_features = classifier.n_features_in_
    if image_shape is not None:
        check_image_shape(image_shape, n_features)
    subject = Subject(
        model=classifier,
        findings=examine(classifier, X_test, y_test, class_names),
        image_shape=image_shape,
        order=order,
        feature_names=_feature_names(classifier, feature_names),
        split_accuracy=split_accuracy,
        atoms_are_signed=is_signed(classifier.chains_[0].atoms),
        unlearned_accuracy=unlearned_accuracy,
    )
    return write_atomically(path, _page(subject, title).encode())


def _feature_names(model: DBDLClassifier, given: Sequence[str] | None) -> Sequence[str]:
    if given is None:
        given = list(getattr(model, "feature_names_in_", ()))
    if len(given) not in (0, model.n_features_in_):
        raise ValueError(
            f"feature_names has {len(given)} names, but there are {model.n_features_in_} features"
        )
    return [str(name) for name in given]


def _page(subject: Subject, title: str) -> str:
    gallery, gallery_style, atoms_data = atoms_section(subject)
    samples, samples_style = samples_section(subject)
    sweeps, charts = sweeps_section(subject)
    sections = [
        _section("summary", "At a glance", summary_section(subject)),
        _section("accuracy", "Accuracy, class by class", accuracy_section(subject)),
        _section("confusion", "What is taken for what", confusion_section(subject)),
        _section("calibration", "Can the probabilities be trusted?", calibration_section(subject)),
        _section("atoms", "The atoms", gallery),
        _section("selection", "Which class uses which atom", selection_section(subject)),
        _section("sweeps", "Sweep by sweep", sweeps),
        _section("samples", "Which atoms, which class, why", samples),
        _section("settings", "Settings", settings_section(subject)),
    ]
    names = {
        "summary": "At a glance", "accuracy": "Accuracy", "confusion": "Confusion",
        "calibration": "Calibration", "atoms": "Atoms", "selection": "Selection",
        "sweeps": "Sweeps", "samples": "Decisions", "settings": "Settings",
    }  # fmt: skip
    data = {
        "names": subject.names,
        "atoms": atoms_data,
        "selection": packed_selection(subject),
        "confusion": subject.findings.confusion.tolist(),
        "charts": charts,
    }
    body = head(title, _subtitle(subject), names) + f'<main id="main">{"".join(sections)}</main>'
    return document(
        title, gallery_style + samples_style, body + footer(), json_script("data", data)
    )


def _section(name: str, heading: str, content: str) -> str:
    return (
        f'<section id="{name}" aria-labelledby="{name}-heading">'
        f'<h2 id="{name}-heading">{text(heading)}</h2>{content}</section>'
    )


def _subtitle(subject: Subject) -> str:
    n_chains = len(subject.model.chains_)
    return (
        f"{len(subject.findings.true)} test rows, {len(subject.names)} classes, "
        f"{subject.model.n_features_in_} features; {n_chains} chain{'s' * (n_chains > 1)} · "
        f"{datetime.now(UTC):%d %B %Y}"
    )


def sweeps_section(subject: Subject) -> tuple[str, list[dict[str, Any]]]:
    """Return charts along the sweeps, and what the script needs for them."""
    model = subject.model
    panels = trace_panels(model.trace_, [chain.n_initial_atoms for chain in model.chains_])
    figures, charts = [], []
    for number, panel in enumerate(panels):
        picture, data = trace_chart(panel)
        charts.append(data)
        figures.append(
            f'<figure class="chart" data-chart="{number}" tabindex="0" role="group" '
            f'aria-label="{text(panel.title)}; arrow keys move along the sweeps">'
            f"<h3>{text(panel.title)}</h3>{picture}"
            '<output class="readout" aria-live="polite"></output></figure>'
        )
    keys = "".join(
        f'<li><svg viewBox="0 0 24 8" aria-hidden="true"><line class="chain chain-{c % 5}" '
        f'x1="0" x2="24" y1="4" y2="4"/></svg> chain {c + 1}</li>'
        for c in range(len(model.chains_))
    )
    shown = np.unique(np.linspace(0, model.n_sweeps - 1, 12).astype(int))
    rows = []
    trace = {p.field: np.atleast_2d(getattr(model.trace_, p.field)).mean(axis=0) for p in panels}
    for s in shown:
        if s < len(trace["n_atoms"]):
            cells = [number_cell(float(values[s]), ".5g") for values in trace.values()]
            rows.append([Cell(str(s + 1), int(s)), *cells])
    return (
        f"<p>Each line is a chain. {text(size_in_words(model.chains_))} "
        '<span class="screen-only">Point at a chart, or use the arrow keys on it.</span></p>'
        f'<ul class="keys">{keys}</ul><div class="charts">{"".join(figures)}</div>'
        + folded(
            "Table of the sweeps",
            table("Means over chains", ["sweep", *(p.title for p in panels)], rows),
        ),
        charts,
    )


def settings_section(subject: Subject) -> str:
    """Return parameters, and what was chosen on held-out rows."""
    model = subject.model
    default = DBDLClassifier().get_params()
    rows = []
    for name, value in model.get_params(deep=False).items():
        changed = value is not default[name] and value != default[name]
        shown = f"<b>{text(value)}</b>" if changed else text(value)
        rows.append([Cell(f"<code>{text(name)}</code>", name), Cell(shown, text(value) or " ")])
    said = f"<p>{text(_choice_in_words(model))} Parameters in bold differ from the defaults.</p>"
    return said + folded("Parameters", table("Parameters", ["parameter", "value"], rows))


def _choice_in_words(model: DBDLClassifier) -> str:
    """Say which of coder and temperature were chosen on held-out rows, and which were given."""
    coder = f"{model.coder_.n_nonzero} non-zeros, {model.coder_}"
    temperature = f"temperature {model.temperature_:.3g}"
    if model.held_out_ is None:
        return f"No training row could be left out to choose on: {coder}, {temperature}."
    unseen = "on training rows that pilot chains did not see"
    if len(model.held_out_.coders) > 1:
        return f"Chosen {unseen}: {coder}, {temperature}."
    return f"Given: {coder}. Fitted {unseen}: {temperature}."
