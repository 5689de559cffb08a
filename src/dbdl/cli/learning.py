"""Learn from labelled rows, and classify new ones: ``fit`` and ``predict``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline

from dbdl.cli import answers, inputs, outputs, scenes, terminal
from dbdl.cli.answers import Answers
from dbdl.cli.errors import UserError, kept_in, user_mistakes
from dbdl.cli.options import (
    AsJson,
    Blocks,
    Data,
    Drop,
    Id,
    Label,
    MinRows,
    OnlyColumns,
    PerClass,
    Seed,
    Truth,
)
from dbdl.cli.outputs import MODELS, PREDICTIONS
from dbdl.cli.terminal import note, say
from dbdl.datasets import Dataset
from dbdl.datasets.preparation import (
    COLUMNS,
    MODEL,
    as_numbers,
    preparation_for,
    remember_names,
    takes_gaps,
)
from dbdl.learn.held_out import Figures
from dbdl.persistence import load as load_model
from dbdl.persistence import save as save_model
from dbdl.registry import name_of
from dbdl.rows.copies import first_copies

#: Figures of fewer rows than these are mentioned: one row changes the accuracy by 5 points or more.
FEW_HELD_OUT = 20


def fit(
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="File of the model.")],
    label: Label = None,
    truth: Truth = None,
    blocks: Blocks = None,
    per_class: PerClass = scenes.PER_CLASS,
    drop: Drop = None,
    columns: OnlyColumns = None,
    ids: Id = None,
    min_rows: MinRows = 1,
    method: Annotated[str, typer.Option(help="Method (see: dbdl methods).")] = "DBDL",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="A parameter, as n_chains=3 or model__noise_precision=1e4; repeatable."
        ),
    ] = None,
    seed: Seed = 0,
    jobs: Annotated[int, typer.Option(help="Threads; -1 for all cores.")] = -1,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Folder to keep the fit in, and to resume it from.")
    ] = None,
    refusals: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=0.9,
            help="Share of the rows to keep back, on which predict --refuse rests.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Learn from labelled rows and save the model.

    Of a table, categories become columns of zeros and ones, and missing cells are left to the
    method, or filled by the mean for methods that do not take them. All this is saved with the
    model.

    Of a cube, --truth has the labels of pixels. With --blocks a fifth of the blocks of the scene is
    set aside to measure the accuracy, and when dbdl map --max-error should refuse.
    """
    outputs.check_outputs([data, truth], {MODELS: [output]})
    model = inputs.make_model(method, settings or [], seed, jobs)
    if checkpoint is not None:
        if "checkpoint" not in model.get_params():
            raise UserError(f"{method} keeps no checkpoints; leave --checkpoint out")
        model.set_params(checkpoint=str(checkpoint))
    if refusals is not None and not hasattr(model, "fit_refusals"):
        raise UserError(f"{method} cannot refuse rows; leave --refusals out")
    options: dict[str, Any] = {"drop": drop, "only": columns, "ids": ids, "min_rows": min_rows}
    test = None
    if truth is not None:
        inputs.refuse_options_of_tables(label=label, **options, refusals=refusals)
        rows, test = scenes.read_scene_parts(data, truth, per_class, blocks, seed)
    else:
        scenes.refuse_options(blocks, per_class)
        rows = inputs.read_data(data, label=label, **options)
        inputs.check_classes(rows)
        inputs.note_odd_classes(rows, label)
    learned, kept_back = _split(rows, refusals, seed)
    model = inputs.with_progress_bar(model, quiet=as_json)
    with user_mistakes(), kept_in(checkpoint):
        whole = _learn(model, learned, kept_back)
        if kept_back is not None:
            _, numbers = inputs.prepared(whole, kept_back)
            model.fit_refusals(numbers.X, numbers.y)
    tested = {} if test is None else scenes.measure_on_blocks(model, test)
    save_model(whole, output, rows.columns)
    found = {
        "model": str(output),
        "method": method,
        "rows": learned.n_samples,
        "rows_kept_back": None if kept_back is None else kept_back.n_samples,
        "columns": rows.n_features if whole is not model else None,
        "features": model.n_features_in_,
        "classes": len(rows.classes),
        "chains": len(model.chains_) if hasattr(model, "chains_") else None,
        "atoms": getattr(model, "n_atoms_", None),  # of all chains together
    }
    held_out = getattr(model, "held_out_", None)
    if held_out is not None:
        for name in Figures._fields:
            found[f"held_out_{name}"] = getattr(held_out.ensemble, name, None)
        if held_out.n_rows < FEW_HELD_OUT:
            note(
                f"the held out figures are of {held_out.n_rows} rows only, and may be far from "
                "those of new rows"
            )
    curve = getattr(model, "size_curve_", None)
    if curve is not None and not model.verbose:  # a verbose model has printed it
        say(str(curve))
    terminal.print_pairs(found | tested, as_json)


def _learn(model: Any, rows: Dataset, kept_back: Dataset | None) -> Any:
    """Fit a model; it stands at the end of a pipeline where columns have to be prepared for it."""
    later = None if kept_back is None else kept_back.X
    preparation = preparation_for(rows.X, rows.column_kinds, model, later)
    if preparation is None:
        model.fit(rows.X, rows.y)
        if rows.column_kinds is not None:
            remember_names(model, rows.feature_names)
        return model
    preparation.fit(rows.X)
    remember_names(preparation, rows.feature_names)
    model.fit(as_numbers(preparation.transform(rows.X)), rows.y)
    return Pipeline([(COLUMNS, preparation), (MODEL, model)])


def _split(rows: Dataset, share: float | None, seed: int) -> tuple[Dataset, Dataset | None]:
    """Return rows to learn from, and rows of each class that are kept back, if any.

    Copies of a row are on its side.
    """
    if share is None:
        return rows, None
    try:
        copy_of = first_copies(rows.X)
        copy_of = np.arange(rows.n_samples) if copy_of is None else copy_of
        single, labels = np.unique(copy_of), np.asarray(rows.y)
        learned, _ = train_test_split(
            single, test_size=share, stratify=labels[single], random_state=seed
        )
    except ValueError as error:  # a class with one row, or fewer rows than classes
        raise UserError(
            f"--refusals {share} cannot keep back rows of each class ({error}); leave out small "
            "classes with --min-rows, or give another share"
        ) from error
    is_learned = np.isin(copy_of, learned)
    return rows.rows(np.flatnonzero(is_learned)), rows.rows(np.flatnonzero(~is_learned))


def predict(
    model: Annotated[Path, typer.Argument(help="File that dbdl fit wrote.")],
    data: Data,
    label: Label = None,
    ids: Id = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", "-p", help="Add a column of probabilities per class.")
    ] = False,
    refuse: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Refuse rows, so that at most this share of the other answers is wrong, as 0.05; "
            "for models of dbdl fit --refusals.",
        ),
    ] = None,
    refuse_below: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Refuse rows whose class is less probable than this."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File of the answers: .csv, .parquet or .json."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Classify rows; where their labels are known, say how many answers are right.

    The answers begin with the id of each row, the file of each image, or the number of the row and
    its line in the file. DATA may be one image, or a folder of images with or without classes.
    """
    outputs.check_outputs([model, data], {PREDICTIONS: [output]})
    answers.check_parquet(output)
    whole = load_model(model)
    classifier = whole[-1] if isinstance(whole, Pipeline) else whole
    _check_abilities(classifier, probabilities, refuse, refuse_below)
    rows = inputs.read_data_for(whole, model, data, label, ids=ids)
    inputs.note_unknown_categories(whole, rows)
    inputs.note_unknown_labels(classifier.classes_, rows)
    inputs.note_empty_rows(rows)
    with user_mistakes():
        classifier, numbers = inputs.prepared(whole, rows)
        if not takes_gaps(classifier):
            inputs.check_complete(numbers, name_of(classifier))
        found = Answers(
            rows,
            np.asarray(classifier.predict(numbers.X)),
            classifier.classes_.tolist() if probabilities else (),
            classifier.predict_proba(numbers.X) if probabilities else None,
            _refused(classifier, numbers, refuse, refuse_below),
        )
    if as_json:
        print(json.dumps(_for_programs(found), default=str))
    if output is not None or not as_json:
        answers.write_answers(found, output)
    if not as_json:
        say(found.in_words() + ("" if output is None else f"; wrote {output}"))


def _check_abilities(
    classifier: Any, probabilities: bool, refuse: float | None, refuse_below: float | None
) -> None:
    if refuse is not None and refuse_below is not None:
        raise UserError("--refuse and --refuse-below cannot both be given; leave one out")
    if probabilities or refuse_below is not None:
        inputs.check_probabilities(classifier, "-p" if probabilities else "--refuse-below")
    if refuse is not None and getattr(classifier, "refusals_", None) is None:
        raise UserError(
            "--refuse needs a model that kept rows back to measure its errors on: fit it with dbdl "
            "fit --refusals 0.2, or use --refuse-below, which promises nothing"
        )


def _refused(
    classifier: Any, rows: Dataset, refuse: float | None, refuse_below: float | None
) -> Any:
    """Return which rows (n_samples,) are refused; None where nothing was asked."""
    if refuse is not None:
        return classifier.refuse(rows.X, max_error=refuse)
    if refuse_below is not None:
        return classifier.predict_proba(rows.X).max(axis=1) < refuse_below
    return None


def _for_programs(found: Answers) -> dict[str, Any]:
    """Return figures and answers, each answer at the place of its row."""
    table = found.columns()
    shown = found.figures() | {"names": found.names, "predicted": table[answers.PREDICTED]}
    if found.refused is not None:
        shown["refused_rows"] = table[answers.REFUSED]
    if found.probability is not None:
        shown |= {"classes": found.classes, "probabilities": found.probability.tolist()}
    return shown
