"""Learn from labelled rows, and classify new ones: ``fit`` and ``predict``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from dbdl._columns import Columns
from dbdl.cli import inputs, outputs, scenes, terminal
from dbdl.cli.errors import UserError, kept_in, user_mistakes
from dbdl.cli.options import AsJson, Blocks, Data, Label, PerClass, Seed, Truth
from dbdl.cli.outputs import MODELS, PREDICTIONS
from dbdl.cli.terminal import say
from dbdl.experiments.measure import UNBALANCED, class_ratio
from dbdl.learn.choice import ENSEMBLE_RESULTS
from dbdl.learn.held_out import by_class
from dbdl.persistence import load as load_model
from dbdl.persistence import save as save_model


def fit(
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="File of the model.")],
    label: Label = None,
    truth: Truth = None,
    blocks: Blocks = None,
    per_class: PerClass = scenes.PER_CLASS,
    method: Annotated[str, typer.Option(help="Method (see: dbdl methods).")] = "DBDL",
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A parameter, as n_chains=3; repeatable.")
    ] = None,
    seed: Seed = 0,
    jobs: Annotated[int, typer.Option(help="Threads; -1 for all cores.")] = -1,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Folder to keep the fit in, and to resume it from.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Learn from labelled rows and save the model.

    Of a cube, --truth has the labels of pixels. With --blocks a fifth of the blocks of the scene is
    set aside to measure the accuracy, and when dbdl map --max-error should refuse.
    """
    outputs.check_outputs([data, truth], {MODELS: [output]})
    test = None
    if truth is not None:
        rows, test = scenes.read_scene_parts(data, truth, per_class, blocks, seed)
    else:
        scenes.refuse_options(blocks, per_class)
        rows = inputs.read_data(data, label=label)
    model = inputs.make_model(method, settings or [], seed, jobs)
    if checkpoint is not None:
        if "checkpoint" not in model.get_params():
            raise UserError(f"{method} keeps no checkpoints; leave --checkpoint out")
        model.set_params(checkpoint=str(checkpoint))
    with user_mistakes(), kept_in(checkpoint):
        inputs.with_progress_bar(model, quiet=as_json).fit(rows.X, rows.y)
    tested = {} if test is None else scenes.measure_on_blocks(model, test)
    save_model(model, output, Columns(rows.feature_names, rows.label_name, rows.column_roles))
    found = {
        "model": str(output),
        "method": method,
        "rows": rows.n_samples,
        "features": rows.n_features,
        "classes": len(rows.classes),
        "atoms": getattr(model, "n_atoms_", None),
    }
    held_out = getattr(model, "held_out_", None)
    if held_out is not None:
        for name in ENSEMBLE_RESULTS:
            found[f"held_out_{name}"] = getattr(held_out, f"ensemble_{name}")
    terminal.print_pairs(found | tested, as_json)


def predict(
    model: Annotated[Path, typer.Argument(help="File that dbdl fit wrote.")],
    data: Data,
    label: Label = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", "-p", help="Add a column of probabilities per class.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File of the answers, .csv.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Classify rows; where their labels are known, say how many answers are right."""
    outputs.check_outputs([model, data], {PREDICTIONS: [output]})
    estimator = load_model(model)
    if probabilities and not hasattr(estimator, "predict_proba"):
        raise UserError(f"{type(estimator).__name__} gives no probabilities; leave -p out")
    rows = inputs.read_data_for(estimator, model, data, label)
    classes, probability = [], np.empty((rows.n_samples, 0))
    with user_mistakes():
        predicted = np.asarray(estimator.predict(rows.X))
        if probabilities:
            classes, probability = estimator.classes_.tolist(), estimator.predict_proba(rows.X)
    found: dict[str, Any] = {"rows": rows.n_samples}
    if rows.y is not None:
        true, answers = rows.y.astype(str), predicted.astype(str)
        found["accuracy"] = float(np.mean(answers == true))
        found |= by_class(true, answers)
    if as_json:
        found["predicted"] = predicted.tolist()
        if probabilities:
            found |= {"classes": classes, "probabilities": probability.tolist()}
        print(json.dumps(found))
    elif "accuracy" in found:
        means = ""
        if class_ratio(true) >= UNBALANCED:
            means = "; balanced accuracy {balanced_accuracy:.2%}, macro F1 {macro_f1:.2%}"
        say(f"{100 * found['accuracy']:.2f} % right of {found['rows']} rows{means.format(**found)}")
    if output is not None or not as_json:
        lines = zip(predicted, probability, strict=True)
        rounded = ([answer, *(f"{p:.6g}" for p in row)] for answer, row in lines)
        terminal.write_csv(output, ["predicted", *map(str, classes)], rounded)
