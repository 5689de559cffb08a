"""The command ``dbdl``: parse, one public call, print.

A mistake of the user is one line on standard error and exit code 2, never a stack trace;
Ctrl-C ends with exit code 130, and says where what was finished is kept.
"""

from __future__ import annotations

import _thread
import ast
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from dbdl._columns import Columns, some
from dbdl._terminal import (
    cells_bar,
    complain,
    print_columns,
    print_pairs,
    print_results,
    say,
    say_warm_up,
    show_warnings_as_notes,
    steps_bar,
    write_csv,
)
from dbdl.datasets import DataError, DataNotFoundError, Dataset, load, sources
from dbdl.datasets.images import is_image
from dbdl.experiments.protocol import Protocol
from dbdl.experiments.rows import LabelledRows, labelled_rows
from dbdl.experiments.run import Record, cells, fit_cell, latest, read_records, run_table
from dbdl.experiments.spec import (
    Entry,
    SpecError,
    Table,
    load_table,
    nothing_chosen,
    table_names,
    with_search_note,
)
from dbdl.experiments.summary import OURS, UNLEARNED, summarise
from dbdl.persistence import ModelFileError, read_columns
from dbdl.persistence import load as load_model
from dbdl.persistence import save as save_model
from dbdl.registry import methods

FAILED, USER_ERROR, INTERRUPTED = 1, 2, 130
#: Endings of outputs, by what is written; the first is the usual one.
ENDINGS = {
    "models": (".skops",),
    "tables of predictions": (".csv",),
    "pages": (".html", ".htm"),
    "pictures": (".png", ".svg", ".pdf"),
    "files of results": (".jsonl",),
}

app = typer.Typer(
    name="dbdl",
    help="Discriminative Bayesian dictionary learning, and the methods it is compared with.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Data = Annotated[
    str, typer.Argument(help="A data set by name (see: dbdl data), a file, or a folder of images.")
]
Label = Annotated[
    str | None, typer.Option(help="Column or array of the labels; by default the last, or y.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same answer.")]
Only = Annotated[
    list[str] | None,
    typer.Option("--methods", "--only", "-m", help="Methods by name: repeat, or use commas."),
]
Quick = Annotated[
    bool, typer.Option("--quick", help="Fixed settings: no method searches, nor does DBDL.")
]
Workers = Annotated[int, typer.Option(min=1, help="Methods that run at the same time.")]


class UserError(Exception):
    """Something that the user can put right; the message says how."""


def main() -> None:
    """Run the command.

    Exit codes: 0 done, 1 nothing could be measured, 2 a mistake of the user, 130 interrupted.
    """
    show_warnings_as_notes()
    raise_swallowed_interrupts()
    try:
        app()
    except (
        UserError,
        DataError,
        DataNotFoundError,
        SpecError,
        ModelFileError,
    ) as error:
        complain(str(error))
        sys.exit(USER_ERROR)
    except OSError as error:
        if error.filename is None:  # no file of the user's
            raise
        complain(f"{error.filename}: {error.strerror}")
        sys.exit(USER_ERROR)


def raise_swallowed_interrupts() -> None:
    """Raise Ctrl-C again that met a callback of the compiler, where nothing can be raised."""
    before = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            threading.Timer(0.05, _thread.interrupt_main).start()
        else:
            before(unraisable)

    sys.unraisablehook = hook


def command(name: str | None = None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Enrol a command; Ctrl-C ends it with its own exit code."""

    def enrol(function: Callable[..., None]) -> Callable[..., None]:
        @wraps(function)
        def interruptible(*arguments: Any, **options: Any) -> None:
            try:
                function(*arguments, **options)
            except KeyboardInterrupt:
                complain("interrupted")
                raise typer.Exit(INTERRUPTED) from None

        app.command(name)(interruptible)
        return function

    return enrol


# ------------------------------------------------------------------------------------- commands


@command()
def fit(
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="File of the model.")],
    label: Label = None,
    method: Annotated[str, typer.Option(help="Method (see: dbdl methods).")] = "DBDL",
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A parameter, as n_chains=3; repeatable.")
    ] = None,
    seed: Seed = 0,
    jobs: Annotated[int, typer.Option(help="Threads; -1 for all cores.")] = -1,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Folder to keep the fit in, and to go on from.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Learn from labelled rows and save the model."""
    _check_outputs([data], models=[output])
    rows = _read(data, label=label)
    model = _make(method, settings or [], seed, jobs)
    if checkpoint is not None:
        if "checkpoint" not in model.get_params():
            raise UserError(f"{method} keeps no checkpoints; leave --checkpoint out")
        model.set_params(checkpoint=str(checkpoint))
    with _user_mistakes(), _kept(checkpoint):
        _with_progress(model, quiet=as_json).fit(rows.X, rows.y)
    save_model(model, output, Columns(rows.feature_names, rows.label_name, rows.column_roles))
    found = {
        "model": str(output),
        "method": method,
        "rows": rows.n_samples,
        "features": rows.n_features,
        "classes": len(rows.classes),
        "atoms": getattr(model, "n_atoms_", None),
    }
    if getattr(model, "held_out_", None) is not None:
        best = model.held_out_.best
        found["held_out_accuracy"] = float(model.held_out_.accuracy[best])
        found["held_out_log_loss"] = float(model.held_out_.log_loss[best])
    print_pairs(found, as_json)


@command()
def predict(
    model: Annotated[Path, typer.Argument(help="File that dbdl fit wrote.")],
    data: Data,
    label: Label = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", "-p", help="One column a class beside it.")
    ] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A .csv file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Classify rows; with labels (--label, or data that has them) say how many were right."""
    _check_outputs([model, data], tables_of_predictions=[output])
    estimator = load_model(model)
    if probabilities and not hasattr(estimator, "predict_proba"):
        raise UserError(f"{type(estimator).__name__} gives no probabilities; leave -p out")
    rows = _rows_for(estimator, model, data, label)
    with _user_mistakes():
        predicted = estimator.predict(rows.X)
        probability = estimator.predict_proba(rows.X) if probabilities else None
    found: dict[str, Any] = {"rows": rows.n_samples}
    if rows.y is not None:
        right = np.asarray(predicted).astype(str) == np.asarray(rows.y).astype(str)
        found["accuracy"] = float(np.mean(right))
    if as_json:
        found["predicted"] = np.asarray(predicted).tolist()
        if probability is not None:
            found["classes"] = estimator.classes_.tolist()
            found["probabilities"] = probability.tolist()
        print(json.dumps(found))
        if output is None:
            return
    header = ["predicted", *(map(str, estimator.classes_) if probability is not None else ())]
    lines = (
        [label, *(() if probability is None else (f"{p:.6g}" for p in probability[i]))]
        for i, label in enumerate(predicted)
    )
    write_csv(output, header, lines)
    if "accuracy" in found and not as_json:
        say(f"{100 * found['accuracy']:.2f} % right of {found['rows']} rows")


@command()
def compare(
    data: Data,
    label: Label = None,
    only: Only = None,
    folds: Annotated[int, typer.Option(min=2, help="Folds of the cross-validation.")] = 5,
    quick: Quick = False,
    workers: Workers = 1,
    seed: Seed = 0,
    results: Annotated[
        Path | None, typer.Option(help="Keep cells here, and go on from them.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Picture of the accuracies, .png.")] = None,
    report: Annotated[Path | None, typer.Option(help="A page of the results, .html.")] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="A folder for all of it: accuracy.png, report.html, of DBDL model.html, and the "
            "cells, to go on from.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare methods on your data: the same folds, settings chosen inside each.

    Rows are taken as they are. Each dictionary method scales them to unit norm itself; ridge, the
    linear SVM, logistic regression and 1-NN do not, so scale your features first where their units
    differ.
    """
    page = None
    if output is not None:
        _make_folder(output)
        plot, report = plot or output / "accuracy.png", report or output / "report.html"
        results, page = results or output / "cells.jsonl", output / "model.html"
    _check_results(results)
    _check_outputs([data], pictures=[plot], pages=[report, page], files_of_results=[results])
    rows = _read(data, label=label)
    smallest = _smallest_class(rows)
    if smallest < folds:
        fewer = f"Use --folds {smallest}, or drop" if smallest > 1 else "Drop"
        raise UserError(
            f"the smallest class has {smallest} row{'s' * (smallest > 1)}, too few for {folds} "
            f"folds. {fewer} classes that have so few rows."
        )
    table = Table(
        name=f"compare-{seed}",
        title=f"{rows.name}: {rows.n_samples} rows, {rows.n_features} features, "
        f"{len(rows.classes)} classes",
        dataset=data,
        columns={f"{folds} folds": Protocol(folds=folds)},
        entries=tuple(Entry(name) for name in _known(only)),
    )
    data_rows, records = _run_and_print(
        table,
        rows,
        results=results,
        quick=quick,
        workers=workers,
        plot=plot,
        page=report,
        as_json=as_json,
    )
    if page is not None and OURS in (entry.method for entry in table.entries):
        if quick:
            table = nothing_chosen(table, rows.n_features)
        _write_model_page(table, rows, data_rows, records, page)
        say("open the pages in a browser")


@command()
def reproduce(
    table: Annotated[str, typer.Argument(help=f"One of: {', '.join(table_names())}.")],
    only: Only = None,
    splits: Annotated[int | None, typer.Option(min=1, help="Splits at most.")] = None,
    quick: Quick = False,
    workers: Workers = 1,
    results: Annotated[
        Path | None, typer.Option(help="File of cells; by default results/TABLE.jsonl.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Picture of the accuracies, .png.")] = None,
    report: Annotated[Path | None, typer.Option(help="A page of the results, .html.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run one of the paper's tables, its printed numbers beside ours; goes on after a stop.

    Every method is given the same rows, of unit norm as in the paper.
    """
    spec = load_table(table)
    wanted = _known(only)
    named = {entry.method for entry in spec.entries}
    if only and (absent := [name for name in wanted if name not in named]):
        raise UserError(
            f"table {table} has no method {absent[0]!r}; it has {', '.join(sorted(named))}"
        )
    chosen = tuple(entry for entry in spec.entries if entry.method in wanted)
    spec = replace(spec, entries=chosen)
    kept = results or Path("results") / f"{table}{'-quick' if quick else ''}.jsonl"
    _check_results(kept)
    _check_ending(kept, "files of results")  # its folder is made where it is absent
    _check_outputs([spec.dataset, kept], pictures=[plot], pages=[report])
    rows = load(spec.dataset)
    _run_and_print(
        spec,
        rows,
        results=kept,
        quick=quick,
        workers=workers,
        splits=splits,
        plot=plot,
        page=report,
        as_json=as_json,
    )


@command()
def figures(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the pictures.")],
    data: Annotated[
        str | None,
        typer.Argument(help="As elsewhere; by default yaleb where it is there, else digits."),
    ] = None,
    label: Label = None,
    splits: Annotated[int, typer.Option(min=1, help="Splits of figure 2.")] = 1,
    share: Annotated[
        float, typer.Option(min=0.05, max=0.95, help="Rows of each class to learn from.")
    ] = 0.5,
    quick: Annotated[bool, typer.Option("--quick", help="Three sizes and ten sweeps.")] = False,
    seed: Seed = 0,
) -> None:
    """Draw the paper's figures: accuracy by dictionary size, selection probabilities, atoms left.

    Figure 2 has K-SVD, D-KSVD and LC-KSVD1; figures 4 and 9 are of DBDL with the paper's settings.
    """
    import matplotlib

    from dbdl.figures import FILES, write_figures

    matplotlib.use("Agg")  # draws into files, with or without a screen
    _make_folder(output)
    data = data or _faces_or_digits()
    _check_outputs([data], pictures=[output / name for name in FILES])
    rows = _read(data, label=label)
    _smallest_class(rows)
    with _user_mistakes(), steps_bar("fits", quiet=False) as on_fit:
        curves = write_figures(
            labelled_rows(rows, unit=True),
            rows.name,
            output,
            share=share,
            n_splits=splits,
            quick=quick,
            seed=seed,
            on_fit=on_fit,
        )
    for name in FILES:
        say(f"wrote {output / name}")
    print_columns(
        ("atoms", *(curve.method for curve in curves)),
        (
            (str(n_atoms), *(f"{curve.mean[i]:.2f} %" for curve in curves))
            for i, n_atoms in enumerate(curves[0].n_atoms)
        ),
    )


@command()
def report(
    source: Annotated[Path, typer.Argument(help="A model of dbdl fit, or a file of results.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page, .html.")],
    data: Annotated[str | None, typer.Option(help="Labelled rows to test a model on.")] = None,
    label: Label = None,
    table: Annotated[
        str | None, typer.Option(help="The table that results belong to, by name.")
    ] = None,
) -> None:
    """Write a page to look at: of a model and test rows, or of the results of a table."""
    _check_outputs([source, data], pages=[output])
    if not source.exists():
        raise UserError(f"{source} does not exist. Pass a model of dbdl fit, or a .jsonl file.")
    from dbdl.report import write_report, write_results

    if source.suffix == ".jsonl":
        records = latest(read_records(source))
        if not records:
            raise UserError(f"{source} holds no results; dbdl reproduce and compare write them")
        spec = _table_of(records, table, title=f"Results of {source.stem}")
        write_results(spec, summarise(spec, records), output, records=records)
    else:
        if data is None:
            raise UserError("a report of a model needs labelled rows: pass --data")
        model = load_model(source)
        rows = _rows_for(model, source, data, label, labelled=True)
        with _user_mistakes():
            write_report(
                model,
                rows.X,
                _labels(rows),
                output,
                image_shape=rows.image_shape,
                feature_names=rows.feature_names,
            )
    say(f"wrote {output}")


@command("data")
def list_data(as_json: AsJson = False) -> None:
    """List the data sets that are known by name, and whether they are there."""
    rows: list[dict[str, Any]] = [
        {"name": source.name, "title": source.title, "found": source.find() is not None}
        for source in sources().values()
    ]
    if as_json:
        print(json.dumps(rows))
        return
    print_columns(
        ("name", "what", "there"),
        ((row["name"], row["title"], "yes" if row["found"] else "no") for row in rows),
    )
    print(
        "Set DBDL_DATA to the folder that holds them; dbdl reproduce NAME says where to get one.\n"
        "Your own: an .npz, .csv, .parquet or .mat file, or a folder of images by class."
    )


@command("methods")
def list_methods(as_json: AsJson = False) -> None:
    """List all methods with their papers and the settings that are tried."""
    rows: list[dict[str, Any]] = [
        {"name": m.name, "paper": m.paper, "grid": {k: list(v) for k, v in m.grid.items()}}
        for m in methods().values()
    ]
    if as_json:
        print(json.dumps(rows, default=float))
        return
    print_columns(
        ("method", "paper", "settings tried"),
        ((row["name"], row["paper"], _grid_in_words(row["grid"])) for row in rows),
    )


# ---------------------------------------------------------------------------------------- parts


def _grid_in_words(grid: dict[str, list[Any]]) -> str:
    return "; ".join(f"{k} {', '.join(f'{x:g}' for x in v)}" for k, v in grid.items())


@contextmanager
def _user_mistakes() -> Iterator[None]:
    """Turn what the estimators complain about into one line for the user."""
    try:
        yield
    except (ValueError, TypeError, AttributeError, MemoryError) as error:
        raise UserError(str(error)) from error


def _check_outputs(inputs: Sequence[str | Path | None], **outputs: Sequence[Path | None]) -> None:
    """Refuse outputs that cannot or should not be written, before hours are spent on them.

    These are files in folders that are not there or may not be written to, files that are read
    (`inputs`: paths or names of data sets), and those whose ending promises another format.
    ``outputs`` are by the kinds of `ENDINGS`, with a dash below for each blank.
    """
    read = [path for path in map(_path_of, inputs) if path is not None]
    written: set[str] = set()
    for kind, paths in outputs.items():
        for path in filter(None, paths):
            _check_writable(path)
            _check_not_read(path, read)
            _check_ending(path, kind.replace("_", " "))
            if (place := os.path.realpath(path)) in written:
                raise UserError(f"{path} is given for two outputs; give each a name of its own")
            written.add(place)


def _path_of(data: str | Path | None) -> Path | None:
    """Return the file or folder that data are read from, if it is there."""
    if data is None or str(data) == "digits":
        return None
    source = sources().get(str(data))
    found = None if source is None else source.find()
    path = Path(data).expanduser() if found is None else found[1]
    return path if path.exists() else None


def _check_writable(path: Path) -> None:
    folder = path.absolute().parent
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}; make it first")
    if path.is_dir():
        raise UserError(f"{path} is a folder; give the name of a file")
    # a file is written beside its place and then moved there; a device or a pipe is not
    places = [path] if path.exists() and not path.is_file() else [folder, path]
    if not all(os.access(place, os.W_OK) for place in places if place.exists()):
        raise UserError(f"{path} cannot be written: permission denied")


def _check_not_read(path: Path, inputs: Sequence[Path]) -> None:
    for read in inputs:
        if path.exists() and path.samefile(read):
            raise UserError(f"{path} is read by this command and would be lost; give another name")
        if read.is_dir() and is_image(path) and read.resolve() in path.resolve().parents:
            raise UserError(
                f"{path} is in {read}, whose images are read: it would count as one of them; give "
                "another folder"
            )


def _check_ending(path: Path, kind: str) -> None:
    """Refuse an ending of another format; no ending promises nothing, but pictures need one."""
    endings = ENDINGS[kind]
    if path.suffix.lower() in endings or (path.suffix == "" and kind != "pictures"):
        return
    raise UserError(f"{path}: {kind} end in {', '.join(endings)}, as {path.stem}{endings[0]} does")


def _check_results(path: Path | None) -> None:
    """Refuse to append to a file of something else."""
    if path is None or not path.exists() or path.stat().st_size == 0:
        return
    if next(iter(read_records(path)), None) is None:
        raise UserError(f"{path} is no file of results; give the name of a new file")


@contextmanager
def _kept(path: Path | None) -> Iterator[None]:
    """Say, when work is interrupted, where what was finished is kept."""
    try:
        yield
    except KeyboardInterrupt:
        if path is not None:
            say(f"what was finished is kept in {path}; the same command goes on from there")
        raise


def _make_folder(folder: Path) -> Path:
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; give the name of a folder")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _make(method: str, settings: Sequence[str], seed: int, jobs: int) -> Any:
    (name,) = _known([method])
    parameters = methods()[name]().get_params()
    given = dict(map(_setting, settings))
    if unknown := set(given) - set(parameters):
        raise UserError(
            f"{method} has no parameter {min(unknown)!r}; it has {', '.join(sorted(parameters))}"
        )
    common = {k: v for k, v in {"random_state": seed, "n_jobs": jobs}.items() if k in parameters}
    return methods()[name](**{**common, **given})


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"--set {text}: expected name=value, as in --set n_chains=3")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value  # a word


def _known(only: Sequence[str] | None) -> list[str]:
    """Names of methods, all by default; an unknown one is refused with those that exist."""
    by_lower = {name.lower(): name for name in methods()}
    asked = [name.strip() for given in only or () for name in given.split(",") if name.strip()]
    for name in asked:
        if name.lower() not in by_lower:
            raise UserError(f"unknown method {name!r}; there are {', '.join(methods())}")
    return list(dict.fromkeys(by_lower[name.lower()] for name in asked)) or list(methods())


def _read(data: str, **options: Any) -> Dataset:
    """Load data, and say which columns of a table are used."""
    rows = load(data, **options)
    if rows.column_roles is not None:
        places = [str(j + 1) for j, role in enumerate(rows.column_roles) if role == "f"]
        names = rows.feature_names or places
        label = "" if rows.label_name is None else f"; labels: {rows.label_name}"
        say(f"{len(names)} column{'s' * (len(names) > 1)} used: {some(names)}{label}")
    return rows


def _rows_for(
    estimator: Any, model: Path, data: str, label: str | None, *, labelled: bool = False
) -> Dataset:
    """Rows with or without labels, their columns those that the model in a file was fitted on.

    Where columns have names, these decide. Else a table as wide as the model's features has no
    labels, and one that is wider by a column has them where the model's own table had them.
    """
    n_features = estimator.n_features_in_
    columns = read_columns(model)
    names = columns.features or tuple(getattr(estimator, "feature_names_in_", ())) or None
    roles = columns.roles or "f" * n_features + "l"
    known = Columns(names, columns.label, roles)
    rows = _read(data, label=label, labelled=labelled or label is not None, columns=known)
    if rows.n_features != n_features:
        raise UserError(
            f"{data} has {rows.n_features} features, but the model was fitted on {n_features}"
        )
    _check_labels_by_place(rows, estimator, data)
    return rows


def _check_labels_by_place(rows: Dataset, estimator: Any, data: str) -> None:
    """Refuse labels of a table without header of which the model knows none: they are others."""
    if rows.y is None or rows.column_roles is None or rows.label_name is not None:
        return
    if not set(map(str, rows.classes)) & set(map(str, estimator.classes_)):
        raise UserError(
            f"{data} has one column more than the model has features, but it does not hold the "
            f"model's classes: {str(rows.y[0])!r} is none of them. Add a header that names columns."
        )


def _with_progress(model: Any, *, quiet: bool) -> Any:
    """Show a bar while a model is fitted, where scikit-learn has them and somebody looks."""
    if quiet or not sys.stderr.isatty() or not hasattr(model, "set_callbacks"):
        return model
    try:
        from sklearn.callback import ProgressBar
    except ImportError:
        return model
    return model.set_callbacks(ProgressBar())


def _labels(rows: Dataset) -> Any:
    assert rows.y is not None  # they were asked for
    return rows.y


def _smallest_class(rows: Dataset) -> int:
    """Return the number of rows of the smallest class; one class alone is refused."""
    counts = np.unique(_labels(rows), return_counts=True)[1]
    if len(counts) < 2:
        raise UserError(
            f"{rows.name} has one class alone, {str(rows.classes[0])!r}; there is nothing to tell "
            "apart. Name the column of the labels with --label."
        )
    return int(counts.min())


def _run_and_print(
    table: Table,
    rows: Dataset,
    *,
    results: Path | None,
    quick: bool,
    workers: int,
    splits: int | None = None,
    plot: Path | None,
    page: Path | None,
    as_json: bool,
) -> tuple[LabelledRows, list[Record]]:
    """Run a table, print it, and write its picture and its page.

    Returns the rows it was run on, and the records of its cells.
    """
    table = with_search_note(table, quick)
    data = labelled_rows(rows, table.unit_rows)
    with _kept(results), cells_bar(quiet=as_json) as on_cell, _user_mistakes():
        records = run_table(
            table,
            data,
            results,
            n_splits=splits,
            quick=quick,
            n_workers=workers,
            n_threads=1 if workers > 1 else -1,
            on_cell=on_cell,
            on_warm_up=None if as_json else say_warm_up,
        )
    lines = summarise(table, records)
    print_results(table, lines, as_json)
    if not any(line.n_splits for line in lines):
        complain("every cell failed; the table says why")
        raise typer.Exit(FAILED)
    if plot is not None:
        from dbdl.plotting.accuracy import plot_accuracies

        plot_accuracies(lines, plot, title=table.title)
        say(f"wrote {plot}")
    if page is not None:
        from dbdl.report import write_results

        write_results(table, lines, page, records=records)
        say(f"wrote {page}")
    return data, records


def _faces_or_digits() -> str:
    return "yaleb" if sources()["yaleb"].find() is not None else "digits"


def _write_model_page(
    table: Table, rows: Dataset, data: LabelledRows, records: Sequence[Record], page: Path
) -> None:
    """Write a report on DBDL as it was fitted in the first cell of a table."""
    from dbdl.report import write_report

    first = next(cells(table, data, only=[OURS]))
    unlearned = (
        r.get("accuracy")
        for r in records
        if r["method"] == UNLEARNED and r["split"] == first.number
    )
    with _user_mistakes():
        model, test = fit_cell(first, data)
        write_report(
            model,
            test.X,
            test.y,
            page,
            image_shape=rows.image_shape,
            feature_names=rows.feature_names,
            title=f"What DBDL learned of {rows.name}",
            unlearned_accuracy=next(unlearned, None),
        )
    say(f"wrote {page}")


def _table_of(records: Sequence[Record], name: str | None, title: str) -> Table:
    """Return the table that records belong to; one made of them where it has no name."""
    name = name or str(records[0]["table"])
    quick = bool(records[0].get("quick", False))
    if name in table_names():
        return with_search_note(load_table(name), quick)
    columns = dict.fromkeys(str(r["column"]) for r in records)
    found = dict.fromkeys(str(r["method"]) for r in records)
    table = Table(
        name,
        title,
        "",
        {column: Protocol(folds=2) for column in columns},
        tuple(Entry(method) for method in found),
    )
    return with_search_note(table, quick)
