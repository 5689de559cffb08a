"""A picture of a class map with a legend, beside the scene."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbdl._files import checked_path
from dbdl.maps.classify import ClassMap
from dbdl.maps.cube import Cube, DataError
from dbdl.maps.reading import read_cube
from dbdl.maps.truth import Truth, read_truth
from dbdl.maps.writing import colour_table

#: Longest side of a panel in pixels of the scene; larger scenes are thinned out.
MOST_PIXELS = 1200
#: Wavelengths of red, green and blue in nanometres, and how far a band may be from them.
RED_GREEN_BLUE, NEAR = (650.0, 550.0, 460.0), 60.0
#: Shares of the values that are drawn black and white.
DARKEST, BRIGHTEST = 0.02, 0.98
#: Width of all panels in inches, at most.
WIDEST = 13.0
#: Longest name in a legend.
LONGEST_NAME = 28

Pixels = NDArray[np.uint8]


def draw_map(class_map: ClassMap, path: str | Path, *, cube: Any = None, truth: Any = None) -> Path:
    """Draw a class map with a legend: names, colours and shares of the classes.

    Parameters
    ----------
    class_map : ClassMap
    path : str or path-like
        ``.png``, ``.svg`` or ``.pdf``.
    cube : Cube, str, path-like or DataArray, optional
        The scene, drawn beside the map: in its colours where bands are near red, green and blue,
        else in grey.
    truth : Truth, str, path-like or array-like, optional
        Known labels, drawn between the two; needs ``cube``.

    Returns
    -------
    path : Path

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from dbdl.maps import ClassMap, draw_map
    >>> numbers = np.array([[1, 1, 2], [0, 2, 2]], np.uint16)
    >>> refused = np.zeros((2, 3), bool)
    >>> field = ClassMap("field", numbers, None, refused, (1, 2), ("maize", "wheat"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draw_map(field, f"{folder}/map.png").name
    'map.png'
    """
    from dbdl.plotting.accuracy import write_figure

    place = checked_path(path).expanduser()
    step = max(1, -(-max(class_map.numbers.shape) // MOST_PIXELS))
    panels: list[tuple[str, Pixels]] = []
    if cube is not None:
        opened = read_cube(cube)
        if opened.shape[:2] != class_map.numbers.shape:
            raise DataError(
                f"{opened.name} has {opened.shape[0]} lines of {opened.shape[1]} samples, but the "
                f"map has the shape {class_map.numbers.shape}"
            )
        title, picture = scene_picture(opened, step)
        panels.append((f"{opened.name}: {title}", picture))
        if truth is not None:
            labels = read_truth(truth, opened)
            numbers = truth_in_numbers(labels, class_map)
            panels.append(("known labels", _coloured(numbers[::step, ::step], class_map)))
    panels.append(("classes", _coloured(class_map.shown[::step, ::step], class_map)))
    figure = _figure(panels, class_map)
    write_figure(figure, place)
    return place


def truth_in_numbers(truth: Truth, class_map: ClassMap) -> NDArray[np.uint16]:
    """Known labels by the numbers that a map gives to their names; 0 for other labels."""
    value_of = dict(zip(class_map.names, class_map.values, strict=True))
    table = [0, *(value_of.get(str(label), 0) for label in truth.classes)]
    return np.array(table, np.uint16)[truth.numbers]


def scene_picture(cube: Cube, step: int = 1) -> tuple[str, Pixels]:
    """Return words and pixels (n_lines, n_samples, 3) of every ``step``-th pixel of a scene."""
    chosen, words = _bands(cube)
    lines, samples = (range(0, n, step) for n in cube.shape[:2])
    picture = np.zeros((len(lines), len(samples), len(chosen)), np.float32)
    known = np.zeros(picture.shape[:2], bool)
    for block in cube.blocks():
        first = -(-block.start // step)
        own = range(first * step, block.stop, step)
        if not len(own):
            continue
        spectra, has_data = cube.read(block.start, block.stop)
        rows = np.array(own) - block.start
        place = slice(first, first + len(own))
        known[place] = has_data[rows][:, ::step]
        thinned = spectra[rows][:, ::step]
        picture[place] = np.stack([thinned[..., band].mean(axis=-1) for band in chosen], axis=-1)
    return words, _stretched(picture, known)


def _bands(cube: Cube) -> tuple[list[NDArray[np.intp]], str]:
    """Bands that are averaged for each colour, and what the picture shows."""
    if cube.wavelengths is not None:
        waves = np.array(cube.wavelengths)
        nearest = [int(np.abs(waves - colour).argmin()) for colour in RED_GREEN_BLUE]
        far = np.abs(waves[nearest] - RED_GREEN_BLUE).max() > NEAR
        if not far and len(set(nearest)) == 3:
            return [np.array([band]) for band in nearest], "red, green, blue"
    return [np.arange(cube.shape[2])], "mean of the bands"


def _stretched(picture: NDArray[np.float32], known: NDArray[np.bool_]) -> Pixels:
    """Spread the values of each colour from black to white; pixels without data stay white."""
    shown = np.full((*picture.shape[:2], 3), 255, np.uint8)
    if known.any():
        low, high = np.quantile(picture[known], (DARKEST, BRIGHTEST), axis=0)
        share = (picture - low) / np.where(high > low, high - low, 1)
        shown[known] = (255 * np.clip(share, 0, 1))[known].round()
    return shown


def _coloured(numbers: NDArray[np.uint16], class_map: ClassMap) -> Pixels:
    table = colour_table(class_map)
    colours = np.full((max(max(table), int(numbers.max(initial=0))) + 1, 3), 255, np.uint8)
    for number, (_, colour) in table.items():
        colours[number] = colour
    return colours[numbers]


def _figure(panels: list[tuple[str, Pixels]], class_map: ClassMap) -> Any:
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    lines, samples = panels[0][1].shape[:2]
    width = float(np.clip(4.2 * samples / lines, 2.2, WIDEST / len(panels)))
    entries = _legend(class_map)
    longest = max(len(words) for words, _ in entries)
    most = max(1, int(len(panels) * width / (0.45 + 0.067 * longest)))
    n_rows = -(-len(entries) // most)
    n_columns = -(-len(entries) // n_rows)  # rows of nearly equal length
    height = width * lines / samples
    figure = Figure(
        figsize=(len(panels) * (width + 0.15), height + 0.5 + 0.25 * n_rows), layout="constrained"
    )
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for own, (title, pixels) in zip(axes, panels, strict=True):
        own.imshow(pixels, interpolation="nearest")
        own.set_title(title, fontsize=10)
        own.set_xticks([])
        own.set_yticks([])
    patches = [
        Patch(facecolor=(r / 255, g / 255, b / 255), edgecolor="0.4", linewidth=0.5, label=words)
        for words, (r, g, b) in entries
    ]
    figure.legend(handles=patches, loc="outside lower center", ncols=n_columns, frameon=False,
                  fontsize=10)  # fmt: skip
    return figure


def _legend(class_map: ClassMap) -> list[tuple[str, tuple[int, int, int]]]:
    """Names with their shares of the pixels with data, and colours."""
    shown, entries = class_map.shown, []
    counts = np.bincount(shown.ravel(), minlength=class_map.refused_value + 1)
    n_pixels = max(1, class_map.n_pixels)
    for number, (name, colour) in colour_table(class_map).items():
        if number == 0:
            if counts[0]:
                entries.append(("no data", colour))
            continue
        short = name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
        entries.append((f"{short}  {100 * counts[number] / n_pixels:.1f} %", colour))
    return entries[1:] + entries[:1] if entries[0][0] == "no data" else entries
