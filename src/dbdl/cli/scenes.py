"""Labelled pixels of a cube, for ``fit`` and ``compare``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dbdl.cli.errors import UserError, user_mistakes
from dbdl.cli.inputs import check_classes
from dbdl.cli.terminal import say
from dbdl.datasets import Dataset
from dbdl.experiments.measure import Part
from dbdl.experiments.protocol import FoldError, Protocol, group_folds
from dbdl.maps import labelled_pixels, read_cube, read_truth

#: Labelled pixels per class, and blocks per side of a scene, unless others are asked for.
PER_CLASS, BLOCKS = 200, 8
#: One fold of so many is set aside to test a fit on.
FIFTH = 5


def read_scene(data: str, truth: Path, per_class: int, blocks: int | None, seed: int) -> Dataset:
    """Read labelled pixels, and say how many; 1 block means that pixels have no groups."""
    cube = read_cube(data)
    labels = read_truth(truth, cube)
    wanted = None if blocks == 1 else blocks
    rows = labelled_pixels(cube, labels, per_class=per_class, n_blocks=wanted, random_state=seed)
    check_classes(rows)
    say(
        f"{rows.n_samples:,} of {labels.n_labelled:,} labelled pixels of {cube.name} used, at most "
        f"{per_class} per class (--per-class); {rows.n_features} bands, {len(rows.classes)} classes"
    )
    return rows


def folds_of_blocks(rows: Dataset, folds: int) -> tuple[str, Protocol]:
    """Return the name and the protocol of folds of whole blocks, or of pixels without blocks."""
    if rows.groups is None:
        say("folds of random pixels (--blocks 1): pixels side by side are alike, so the accuracies "
            "are too high for other places")  # fmt: skip
        return f"{folds} folds of pixels", Protocol(folds=folds)
    assert rows.y is not None
    with user_mistakes():  # folds that cannot be made are refused before anything is learned
        group_folds(rows.y, rows.groups, folds, seed=0)
    return f"{folds} folds of whole blocks", Protocol(folds=folds, whole_groups=True)


def read_scene_parts(
    data: str, truth: Path, per_class: int, blocks: int | None, seed: int
) -> tuple[Dataset, Part | None]:
    """Return pixels to learn from, and those in blocks set aside where there are blocks."""
    rows = read_scene(data, truth, per_class, blocks, seed)
    if rows.groups is None:
        return rows, None
    assert rows.y is not None
    n_blocks, none = len(np.unique(rows.groups)), "without --blocks, none is set aside"
    if n_blocks < FIFTH:
        raise UserError(
            f"--blocks {blocks} cuts the scene into {n_blocks} blocks with labels, too few to set "
            f"one in {FIFTH} aside to test on. Expected at least {FIFTH}. Give a larger number; "
            f"{none}."
        )
    try:
        fold = group_folds(rows.y, rows.groups, FIFTH, seed)[0]
    except FoldError as error:
        raise UserError(
            f"all labelled pixels of class {error.label!r} may be set aside to test on, since "
            f"they are in one fifth of the blocks. Give --blocks a larger number; {none}."
        ) from error
    test = Part(rows.X[fold.test], rows.y[fold.test])
    learn = replace(
        rows, X=rows.X[fold.train], y=rows.y[fold.train], groups=rows.groups[fold.train]
    )
    return learn, test


def measure_on_blocks(model: Any, test: Part) -> dict[str, Any]:
    """Return the accuracy on blocks set aside; the model learns on them when to refuse."""
    with user_mistakes():
        found = {
            "pixels_set_aside": len(test.y),
            "accuracy_on_blocks_set_aside": float(np.mean(model.predict(test.X) == test.y)),
        }
        if hasattr(model, "fit_refusals") and hasattr(model, "predict_proba"):
            model.fit_refusals(test.X, test.y)
    return found


def refuse_options(blocks: int | None, per_class: int) -> None:
    """Refuse options of cubes for other data."""
    if blocks is not None or per_class != PER_CLASS:
        option = "--blocks" if blocks is not None else "--per-class"
        raise UserError(f"{option} is for cubes; name the labels of the pixels with --truth")
