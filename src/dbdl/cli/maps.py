"""Classify the pixels of a cube: ``map``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from dbdl.cli import outputs, progress, terminal
from dbdl.cli.errors import UserError, user_mistakes
from dbdl.cli.inputs import check_probabilities
from dbdl.cli.options import AsJson, Truth
from dbdl.cli.outputs import MAP_NUMBERS, MAPS, PICTURES
from dbdl.cli.terminal import note, say
from dbdl.maps import ClassMap, classify_cube, draw_map, map_files, read_cube, read_truth, write_map
from dbdl.maps import Truth as Labels
from dbdl.maps.classify import check_bands, check_wavelengths
from dbdl.maps.picture import truth_in_numbers
from dbdl.persistence import load as load_model
from dbdl.persistence import read_columns


def map_scene(
    model: Annotated[Path, typer.Argument(help="File that dbdl fit wrote.")],
    scene: Annotated[str, typer.Argument(help="A cube: an ENVI header (.hdr) or a GeoTIFF.")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The map: .hdr (ENVI) or .tif, and its confidences."),
    ],
    picture: Annotated[
        Path | None, typer.Option(help="A picture with a legend, beside the scene: .png.")
    ] = None,
    truth: Truth = None,
    window: Annotated[
        int,
        typer.Option(min=1, help="Side of the window of pixels that decide together; odd, to 99."),
    ] = 1,
    together: Annotated[
        str, typer.Option(help="What pixels of a window share: scores, or the atoms of codes.")
    ] = "scores",
    refuse_below: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Refuse pixels whose class is less probable."),
    ] = None,
    max_error: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Refuse so many pixels that at most this share of the others is wrong; for models "
            "of dbdl fit --blocks.",
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(help="Threads; -1 for all cores.")] = -1,
    as_json: AsJson = False,
) -> None:
    """Classify every pixel of a cube: a class map, its confidences and its refused pixels.

    Lines are read and classified block by block. The map lies where the scene lies. Pixels without
    data have class 0.
    """
    estimator, cube = load_model(model), read_cube(scene)
    files = map_files(output)
    numbers = [file.with_suffix(".img") for file in files if file and file.suffix == ".hdr"]
    read = [model, *cube.files, truth]
    outputs.check_outputs(read, {MAPS: files, MAP_NUMBERS: numbers, PICTURES: [picture]})
    labels = None if truth is None else read_truth(truth, cube)
    if not hasattr(estimator, "predict") or not hasattr(estimator, "classes_"):
        raise UserError(f"{model} holds a {type(estimator).__name__}, expected a classifier")
    asked = {"--window": window > 1, "--refuse-below": refuse_below, "--max-error": max_error}
    for option, value in asked.items():
        if value:
            check_probabilities(estimator, option)
    check_bands(estimator, cube)
    check_wavelengths(read_columns(model).features, cube)
    if "n_jobs" in estimator.get_params():
        estimator.set_params(n_jobs=jobs)
    with user_mistakes(), progress.steps_bar("lines", quiet=as_json) as on_step:
        found = classify_cube(
            estimator,
            cube,
            window=window,
            together=together,  # type: ignore[arg-type]
            min_probability=refuse_below,
            max_error=max_error,
            on_block=lambda done, lines: on_step(done, lines, ""),
        )
    written = [*write_map(found, output)]
    if picture is not None:
        written.append(draw_map(found, picture, cube=cube, truth=labels))
    for file in filter(None, written):
        say(f"wrote {file}")
    if refuse_below is not None and found.n_pixels and found.refused.sum() == found.n_pixels:
        largest = np.nanmax(found.confidence)
        note(
            f"every pixel is refused: no class is as probable as {refuse_below}, the most "
            f"probable one has {largest:.4g}; give --refuse-below a smaller number"
        )
    _print(found, labels, as_json)


def _print(found: ClassMap, labels: Labels | None, as_json: bool) -> None:
    lines, samples = found.numbers.shape
    shown: dict[str, Any] = {"lines": lines, "samples": samples, "pixels": found.n_pixels}
    shown["without_data"] = lines * samples - found.n_pixels
    if found.refuses:
        shown["refused"] = int(found.refused.sum())
    if found.confidence is not None and found.n_pixels:
        shown["mean_confidence"] = float(np.nanmean(found.confidence, dtype=np.float64))
    if labels is not None:
        shown |= _agreement(found, labels)
    counts = found.counts()
    if as_json:
        terminal.print_pairs({**shown, "classes": counts}, as_json)
        return
    terminal.print_pairs(shown, as_json)
    share = 100 / max(1, found.n_pixels)
    if found.refuses:
        counts = {**counts, "(refused)": shown["refused"]}
    parts = ((name, f"{n:,}", f"{share * n:.1f} %") for name, n in counts.items())
    terminal.print_columns(("class", "pixels", "share"), parts)


def _agreement(found: ClassMap, labels: Labels) -> dict[str, Any]:
    """Say how many known labels the map has, among the pixels that are not refused."""
    known = (labels.numbers > 0) & (found.numbers > 0) & ~found.refused
    same = found.numbers == truth_in_numbers(labels, found)
    share = float(same[known].mean()) if known.any() else None
    return {"known_labels": int(known.sum()), "share_as_labelled": share}
