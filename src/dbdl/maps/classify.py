"""Class maps of cubes, block of lines by block of lines.

Each block is read, its pixels with data are classified, and only the map is kept: a class number,
a confidence and a mark per pixel, seven bytes. A pixel has the same answer whatever block it is in.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbdl._extras import how_to_install
from dbdl._threads import block_slices
from dbdl.estimators.classifier import DBDLClassifier
from dbdl.learn.refusals import CONFIDENCE, highest_refused
from dbdl.maps.cube import BLOCK_PIXELS, Cube, DataError, Floats, Georeference, spectra_and_gaps
from dbdl.maps.data_array import dimensions, is_data_array
from dbdl.maps.reading import read_cube
from dbdl.maps.windows import Mask, Rule, coded_together, smoothed

Numbers = NDArray[np.uint16]
#: Windows that share their neighbours' answers are computed on blocks of this many times as many
#: lines, so that few lines at the edges of blocks are classified twice.
WINDOW_BLOCKS = 4
#: Side of the largest window.
LARGEST_WINDOW = 99
#: Wavelengths in nanometres that differ by less are those of the same band.
SAME_WAVELENGTH = 5.0


@dataclass(frozen=True, eq=False)
class ClassMap:
    """The classes of the pixels of a scene.

    Attributes
    ----------
    name : str
    numbers : ndarray of shape (n_lines, n_samples), uint16
        ``values[c]`` for pixels of class ``c``, also where the answer is refused; 0 for pixels
        without data.
    confidence : ndarray of shape (n_lines, n_samples), float32, or None
        Probability of the class; NaN in pixels without data. None for a classifier without
        probabilities.
    refused : ndarray of shape (n_lines, n_samples), bool
        Pixels whose answer should not be used.
    values : tuple of int
        Number of each class: the label itself if labels are whole numbers from 1 on.
    names : tuple of str
    refuses : bool
        Whether refusals were asked for.
    georeference : Georeference or None

    Examples
    --------
    >>> import numpy as np
    >>> from dbdl.maps import ClassMap
    >>> numbers = np.array([[1, 1, 2], [0, 2, 2]], np.uint16)
    >>> refused = np.zeros((2, 3), bool)
    >>> ClassMap("field", numbers, None, refused, (1, 2), ("maize", "wheat")).counts()
    {'maize': 2, 'wheat': 3}
    """

    name: str
    numbers: Numbers
    confidence: NDArray[np.float32] | None
    refused: Mask
    values: tuple[int, ...]
    names: tuple[str, ...]
    refuses: bool = False
    georeference: Georeference | None = None

    @property
    def refused_value(self) -> int:
        """Number that stands for refused pixels in `shown`."""
        return max(self.values) + 1

    @property
    def shown(self) -> Numbers:
        """The numbers, where refused pixels have one of their own."""
        return np.where(self.refused, self.refused_value, self.numbers).astype(np.uint16)

    @property
    def n_pixels(self) -> int:
        """Number of pixels with data."""
        return int(np.count_nonzero(self.numbers))

    def counts(self) -> dict[str, int]:
        """Return the number of pixels of each class, without those that are refused."""
        found = np.bincount(self.numbers[~self.refused].ravel(), minlength=self.refused_value)
        return {name: int(found[v]) for name, v in zip(self.names, self.values, strict=True)}

    def to_xarray(self) -> Any:
        """Return the map as an `xarray.Dataset`, with the coordinates of the pixels' centres."""
        coords = {}
        place = self.georeference
        if place is not None and place.transform[1] == place.transform[3] == 0:
            lines, samples = (np.arange(n) for n in self.numbers.shape)
            coords = {"x": place.centres(0, samples)[0], "y": place.centres(lines, 0)[1]}
        return _dataset(
            ("y", "x"), coords, self.numbers, self.confidence, self.refused, self.values, self.names
        )


@dataclass(frozen=True)
class Answers:
    """How the pixels of a block are answered."""

    model: Any
    window: int = 1
    rule: Rule = "scores"
    threshold: float | None = None
    values: tuple[int, ...] = ()

    @property
    def half(self) -> int:
        """Number of lines that a window reaches beyond its pixel."""
        return self.window // 2

    def of_block(
        self, spectra: Floats, has_data: Mask, inner: slice
    ) -> tuple[Numbers, NDArray[np.float32] | None, Mask]:
        """Class numbers, confidences and refusals (n_inner_lines, n_samples) of a block's lines."""
        index, confidence = self._decide(spectra, has_data, inner)
        known = has_data[inner]
        numbers = np.where(known, np.array(self.values, np.uint16)[index], 0).astype(np.uint16)
        if confidence is None:
            return numbers, None, np.zeros_like(known)
        refused = np.zeros_like(known)
        if self.threshold is not None:
            refused = known & (confidence <= self.threshold)
        return numbers, np.where(known, confidence, np.nan).astype(np.float32), refused

    def _decide(
        self, spectra: Floats, has_data: Mask, inner: slice
    ) -> tuple[NDArray[np.intp], NDArray[np.float64] | None]:
        if self.window > 1 and self.rule == "codes":
            probability = coded_together(self.model, spectra, has_data, self.window, inner)
        elif not hasattr(self.model, "predict_proba"):
            index = np.zeros(has_data.shape, np.intp)
            answers = self._by_parts(self.model.predict, spectra[has_data])
            index[has_data] = np.searchsorted(self.model.classes_, answers)
            return index[inner], None
        else:
            probability = np.full((*has_data.shape, len(self.values)), 1.0 / len(self.values))
            if has_data.any():
                answers = self._by_parts(self.model.predict_proba, spectra[has_data])
                probability[has_data] = answers
            if self.window > 1:
                probability = smoothed(probability, has_data, self.window)
            probability = probability[inner]
        return probability.argmax(axis=-1), probability.max(axis=-1)

    def _by_parts(self, method: Callable[[Any], Any], rows: Floats) -> Any:
        parts = [np.asarray(method(rows[part])) for part in block_slices(len(rows), BLOCK_PIXELS)]
        return np.concatenate(parts) if parts else np.empty(0)


def classify_cube(
    model: Any,
    cube: Any,
    *,
    window: int = 1,
    together: Rule = "scores",
    min_probability: float | None = None,
    max_error: float | None = None,
    bands: Hashable | None = None,
    n_lines: int | None = None,
    on_block: Callable[[int, int], None] | None = None,
) -> Any:
    """Classify every pixel of a cube.

    Parameters
    ----------
    model : classifier
        Fitted on spectra with as many bands: a `DBDLClassifier`, a rival, or one of scikit-learn.
    cube : Cube, str, path-like or DataArray
        As for `read_cube`.
    window : int, default=1
        Side in pixels of the window of neighbours that decide with a pixel; odd, at most 99.
    together : {"scores", "codes"}, default="scores"
        What the pixels of a window share: the mean of their scores, or the atoms of their codes
        (simultaneous matching pursuit, for a `DBDLClassifier` only).
    min_probability : float, optional
        Refuse pixels whose class is less probable than this.
    max_error : float, optional
        Refuse pixels so that the error rate of the others is at most this, as measured by
        ``model.fit_refusals`` on single pixels.
    bands : hashable, optional
        Name of the dimension of bands of a `DataArray`.
    n_lines : int, optional
        Lines that are classified together; the map does not depend on it.
    on_block : callable, optional
        Called with the number of lines done and of all.

    Returns
    -------
    found : ClassMap or xarray.Dataset
        A data set with the coordinates of the array for a `DataArray`; if that is of Dask, the data
        set is lazy too.

    Examples
    --------
    >>> from dbdl.maps import classify_cube, labelled_pixels, make_scene
    >>> from sklearn.linear_model import LogisticRegression
    >>> scene = make_scene((30, 40), n_bands=20, n_classes=3)
    >>> pixels = labelled_pixels(scene.cube, scene.truth, per_class=30)
    >>> model = LogisticRegression().fit(pixels.X, pixels.y)
    >>> found = classify_cube(model, scene.cube, window=3)
    >>> found.numbers.shape, found.names
    ((30, 40), ('1', '2', '3'))
    """
    opened = read_cube(cube, bands=bands)
    answers = _answers(model, opened, window, together, min_probability, max_error)
    if is_data_array(cube):
        if hasattr(cube.data, "dask"):
            return _lazily(answers, cube, opened, bands)
        found = _map_of(answers, opened, n_lines, on_block)
        line, sample, band = dimensions(cube, bands)
        coords = {name: c for name, c in cube.coords.items() if band not in c.dims}
        parts = (found.numbers, found.confidence, found.refused, found.values, found.names)
        return _dataset((line, sample), coords, *parts)
    return _map_of(answers, opened, n_lines, on_block)


def _map_of(
    answers: Answers,
    cube: Cube,
    n_lines: int | None,
    on_block: Callable[[int, int], None] | None,
) -> ClassMap:
    lines, samples = cube.shape[:2]
    numbers = np.zeros((lines, samples), np.uint16)
    refused = np.zeros((lines, samples), bool)
    confidence = np.full((lines, samples), np.nan, np.float32)
    has_confidence = True
    if n_lines is None and answers.window > 1 and answers.rule == "scores":
        n_lines = max(1, WINDOW_BLOCKS * BLOCK_PIXELS // samples)
    for block in cube.blocks(n_lines):
        first, last = max(0, block.start - answers.half), min(lines, block.stop + answers.half)
        spectra, has_data = cube.read(first, last)
        inner = slice(block.start - first, block.stop - first)
        numbers[block], found, refused[block] = answers.of_block(spectra, has_data, inner)
        if found is None:
            has_confidence = False
        else:
            confidence[block] = found
        if on_block is not None:
            on_block(block.stop, lines)
    return ClassMap(
        cube.name,
        numbers,
        confidence if has_confidence else None,
        refused,
        answers.values,
        tuple(map(str, answers.model.classes_)),
        answers.threshold is not None,
        cube.georeference,
    )


# ------------------------------------------------------------------------------------- checks


def _answers(
    model: Any,
    cube: Cube,
    window: int,
    rule: Rule,
    min_probability: float | None,
    max_error: float | None,
) -> Answers:
    check_bands(model, cube)
    if isinstance(window, bool) or window not in range(1, LARGEST_WINDOW + 1) or window % 2 == 0:
        raise DataError(
            f"window={window!r}; expected an odd number of pixels from 1 to {LARGEST_WINDOW}"
        )
    if rule not in ("scores", "codes"):
        raise DataError(f"together={rule!r}; expected 'scores' or 'codes'")
    has_probabilities = hasattr(model, "predict_proba")
    if window > 1 and rule == "codes" and not isinstance(model, DBDLClassifier):
        raise DataError(
            f"together='codes' needs the atoms of a DBDLClassifier, got {type(model).__name__}; "
            "use together='scores'"
        )
    wanted = window > 1 or min_probability is not None or max_error is not None
    if wanted and not has_probabilities:
        raise DataError(
            f"{type(model).__name__} gives no probabilities, which windows and refusals need; use "
            "another classifier"
        )
    threshold = _threshold(model, window, min_probability, max_error)
    return Answers(model, window, rule, threshold, _values(model.classes_))


def check_bands(model: Any, cube: Cube) -> None:
    """Refuse a cube whose bands are not those that a model was fitted on."""
    n_bands = cube.shape[2]
    expected = int(getattr(model, "n_features_in_", n_bands))
    if expected != n_bands:
        raise DataError(
            f"{cube.name} has {n_bands} bands, but the model was fitted on {expected}; use the "
            "bands of the scene that it learned from"
        )


def check_wavelengths(names: Sequence[str] | None, cube: Cube) -> None:
    """Refuse a cube whose wavelengths are not near those that features are named after."""
    if names is None or cube.wavelengths is None or len(names) != cube.shape[2]:
        return
    for band, (name, wavelength) in enumerate(zip(names, cube.wavelengths, strict=True), 1):
        number, _, unit = name.partition(" ")
        if unit == "nm" and abs(float(number) - wavelength) > SAME_WAVELENGTH:
            raise DataError(
                f"band {band} of {cube.name} is at {wavelength:.6g} nm, but the model learned from "
                f"{name}; use a scene with the same bands"
            )


def _threshold(
    model: Any, window: int, min_probability: float | None, max_error: float | None
) -> float | None:
    """Return the highest probability that is still refused."""
    if min_probability is not None and max_error is not None:
        raise DataError("give either min_probability or max_error, not both")
    for name, value in (("min_probability", min_probability), ("max_error", max_error)):
        if value is not None and not 0 < value < 1:
            raise DataError(f"{name}={value!r}; expected a number above 0 and below 1")
    if min_probability is not None:
        return float(np.nextafter(min_probability, 0))
    if max_error is None:
        return None
    if window > 1:
        raise DataError(
            "max_error was measured on single pixels and does not hold for windows; use "
            "min_probability, or window=1"
        )
    measured = getattr(model, "refusals_", None)
    if measured is None:
        raise DataError(
            "the model has not measured when to refuse; call fit_refusals with labelled pixels "
            "that it did not learn from, or use min_probability"
        )
    return highest_refused(measured, max_error, CONFIDENCE)


def _values(classes: NDArray[Any]) -> tuple[int, ...]:
    """Return the numbers of classes in a map: the labels, if these are whole numbers from 1 on."""
    most = np.iinfo(np.uint16).max - 1
    whole = classes.dtype.kind in "iu" and classes.min() >= 1 and classes.max() <= most
    return tuple(map(int, classes)) if whole else tuple(range(1, len(classes) + 1))


# ------------------------------------------------------------------------------------- xarray


def _dataset(
    dims: tuple[Hashable, Hashable],
    coords: Any,
    numbers: Any,
    confidence: Any,
    refused: Any,
    values: tuple[int, ...],
    names: tuple[str, ...],
) -> Any:
    try:
        import xarray
    except ImportError as error:
        raise DataError(f"a Dataset needs xarray: {how_to_install('xarray')}") from error

    meanings = {"flag_values": list(values), "flag_meanings": list(names)}
    about = "class of each pixel; 0 has no data"
    variables = {"class": (dims, numbers, {**meanings, "long_name": about})}
    if confidence is not None:
        variables["confidence"] = (dims, confidence, {"long_name": "probability of the class"})
    variables["refused"] = (dims, refused, {"long_name": "whether the answer should not be used"})
    return xarray.Dataset(variables, coords)


def _lazily(answers: Answers, array: Any, cube: Cube, bands: Hashable | None) -> Any:
    """Return a data set whose blocks are classified when they are computed."""
    from dask.array.overlap import overlap, trim_internal
    from dask.delayed import delayed

    line, sample, band = dimensions(array, bands)
    stored = array.transpose(line, sample, band).data.rechunk({2: -1})
    reach = {0: answers.half, 1: answers.half, 2: 0}
    if answers.half:
        stored = overlap(stored, depth=reach, boundary="none")
    found = stored.map_blocks(
        _block_of_dask,
        answers=delayed(answers, pure=False, traverse=False),
        ignore_value=cube.ignore_value,
        chunks=(*stored.chunks[:2], (3,)),
        dtype=np.float32,
        meta=np.empty((0, 0, 0), np.float32),
    )
    if answers.half:
        found = trim_internal(found, reach, boundary="none")
    coords = {name: c for name, c in array.coords.items() if band not in c.dims}
    confidence = found[..., 1] if hasattr(answers.model, "predict_proba") else None
    parts = (found[..., 0].astype(np.uint16), confidence, found[..., 2].astype(bool))
    names = tuple(map(str, answers.model.classes_))
    return _dataset((line, sample), coords, *parts, answers.values, names)


def _block_of_dask(
    stored: NDArray[Any], answers: Answers, ignore_value: float | None
) -> NDArray[np.float32]:
    """Numbers, confidences and refusals (n_lines, n_samples, 3); float32 holds such numbers."""
    spectra, has_data = spectra_and_gaps(np.asarray(stored), ignore_value)
    numbers, confidence, refused = answers.of_block(spectra, has_data, slice(None))
    if confidence is None:
        confidence = np.full(numbers.shape, np.nan, np.float32)
    return np.stack([numbers.astype(np.float32), confidence, refused.astype(np.float32)], axis=-1)
