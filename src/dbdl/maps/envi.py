"""ENVI rasters: a text header beside a file of plain numbers, which is mapped into memory.

The header says how the numbers are laid out. ``bsq`` has one band after the other, ``bil`` the
bands of each line, and ``bip`` the bands of each pixel. Data type numbers, interleaves and fields
follow the format's public description.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from dbdl._files import reading, write_atomically
from dbdl.maps.cube import Array, Cube, DataError, Georeference

#: NumPy's types by ENVI's numbers. 6 and 9 are complex.
DTYPES = {
    1: "u1", 2: "i2", 3: "i4", 4: "f4", 5: "f8", 12: "u2", 13: "u4", 14: "i8", 15: "u8",
}  # fmt: skip
#: Axes (lines 0, samples 1, bands 2) in the order in which they are stored.
INTERLEAVES = {"bsq": (2, 0, 1), "bil": (0, 2, 1), "bip": (0, 1, 2)}
#: Endings of the file of numbers beside a header, in the order in which they are looked for.
DATA_ENDINGS = (".img", ".dat", ".bsq", ".bil", ".bip", ".raw", ".bin", ".cube", ".rst", "")
FIELD = re.compile(r"^[ \t]*([^;=\n{}]+?)[ \t]*=[ \t]*(\{[^}]*\}|[^\n]*)", re.MULTILINE)
#: Longest header that is read: a file of numbers that is named .hdr is not a header.
LONGEST_HEADER = 2**24


@dataclass(frozen=True)
class Layout:
    """How the numbers of a raster are stored.

    ``shape`` is (lines, samples, bands), ``axes`` their order in the file, and ``offset`` the
    number of bytes before the first number.
    """

    path: Path
    shape: tuple[int, int, int]
    dtype: np.dtype[Any]
    axes: tuple[int, ...]
    offset: int = 0

    @property
    def n_bytes(self) -> int:
        """Number of bytes that the file needs."""
        return self.offset + math.prod(self.shape) * self.dtype.itemsize

    def open(self) -> Array:
        """Map the numbers into memory, as (lines, samples, bands)."""
        stored = tuple(self.shape[axis] for axis in self.axes)
        mapped = np.memmap(self.path, self.dtype, "r", self.offset, stored)
        return mapped.transpose(np.argsort(self.axes))

    def lines(self, bands: NDArray[np.intp] | None, start: int, stop: int) -> Array:
        """Read some lines, in the byte order of this machine.

        The file is mapped anew each time, so that pages that were read do not stay in memory.
        """
        part = self.open()[start:stop]
        read = np.array(part if bands is None else part[..., bands])
        return read.astype(read.dtype.newbyteorder("="), copy=False)


def read_envi(path: Path, ignore_value: float | str | None = "stored") -> Cube:
    """Open an ENVI cube by its header, or by its file of numbers.

    Bands that the header marks as bad (``bbl``) are left out. Gains, offsets and scale factors are
    not applied.
    """
    header, layout, fields = open_envi(path)
    n_bands = layout.shape[2]
    wavelengths = _wavelengths(fields, n_bands)
    good = _good_bands(fields, n_bands, header)
    shape = layout.shape
    if good is not None:
        shape = (*shape[:2], len(good))
        wavelengths = None if wavelengths is None else tuple(wavelengths[b] for b in good)
    if ignore_value == "stored":
        ignore_value = _number(fields, "data ignore value", header)
    return Cube(
        header.stem,
        shape,
        partial(layout.lines, good),
        layout.dtype.newbyteorder("="),
        wavelengths,
        read_georeference(fields, header),
        None if ignore_value is None else float(ignore_value),
        (header, layout.path),
    )


def open_envi(path: Path) -> tuple[Path, Layout, dict[str, str]]:
    """Find the header and the numbers of a raster, check that they fit, and return both."""
    header = find_header(path)
    fields = read_header(header)
    missing = [name for name in ("lines", "samples", "bands", "data type") if name not in fields]
    if missing:
        raise DataError(f"{header} does not say {missing[0]!r}; expected an ENVI header that does")
    lines, samples, bands = (_size(fields, name, header) for name in ("lines", "samples", "bands"))
    interleave = fields.get("interleave", "bsq").lower()
    if interleave not in INTERLEAVES:
        raise DataError(f"{header}: interleave is {interleave!r}; expected bsq, bil or bip")
    if fields.get("file compression", "0") != "0":
        raise DataError(f"{header}: the numbers are compressed; unpack them and set the field to 0")
    layout = Layout(
        find_data(header, path),
        (lines, samples, bands),
        _dtype(fields, header),
        INTERLEAVES[interleave],
        _size(fields, "header offset", header, least=0),
    )
    size = layout.path.stat().st_size
    if size < layout.n_bytes:
        raise DataError(
            f"{layout.path} has {size:,} bytes, but {header.name} describes {layout.n_bytes:,}: "
            f"{lines} lines, {samples} samples, {bands} bands of {layout.dtype.itemsize} bytes. "
            "The file is cut off, or the header belongs to another one."
        )
    return header, layout, fields


def find_header(path: Path) -> Path:
    """Return the header of a raster that is named by its header or by its file of numbers."""
    if path.suffix.lower() == ".hdr":
        places = [path]
    else:
        places = [path.with_suffix(".hdr"), path.with_name(f"{path.name}.hdr")]
    for place in places:
        if place.is_file():
            return place
    looked = " or ".join(str(place) for place in places)
    raise DataError(f"there is no ENVI header {looked}")


def find_data(header: Path, given: Path) -> Path:
    """Return the file of numbers beside a header."""
    if given != header:
        return given
    stem = header.with_suffix("")
    for name in [stem.name + ending for ending in DATA_ENDINGS]:
        for spelled in (name, name.upper()):
            place = header.with_name(spelled)
            if place.is_file():
                return place
    shown = ", ".join(stem.name + ending for ending in DATA_ENDINGS[:5])
    raise DataError(
        f"{header} has no file of numbers beside it; looked for {shown} and the like. Copy it to "
        f"{header.parent}."
    )


def read_header(path: Path) -> dict[str, str]:
    """Return the fields of a header: names in lower case, values without braces."""
    with path.open("rb") as file:
        text = file.read(LONGEST_HEADER).decode("latin-1").replace("\r\n", "\n")
    if not text.lstrip("\ufeff").startswith("ENVI"):
        raise DataError(f"{path} is not an ENVI header: its first line is not ENVI")
    found = FIELD.finditer(re.sub(r"^[ \t]*;.*$", "", text, flags=re.MULTILINE))
    return {" ".join(m[1].lower().split()): m[2].strip().strip("{}").strip() for m in found}


def values_of(text: str) -> list[str]:
    """Return the items of a list."""
    return [item.strip() for item in text.split(",")] if text else []


def _size(fields: Mapping[str, str], name: str, header: Path, least: int = 1) -> int:
    text = fields.get(name, "0")
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise DataError(f"{header}: {name} is {text!r}; expected a whole number from {least} on")
    return int(text)


def _number(fields: Mapping[str, str], name: str, header: Path) -> float | None:
    text = fields.get(name)
    try:
        return float(text) if text else None
    except ValueError as error:
        raise DataError(f"{header}: {name} is {text!r}; expected a number") from error


def _dtype(fields: Mapping[str, str], header: Path) -> np.dtype[Any]:
    number = _size(fields, "data type", header)
    if number not in DTYPES:
        what = "complex numbers" if number in (6, 9) else "unknown"
        known = ", ".join(map(str, DTYPES))
        raise DataError(f"{header}: data type {number} is {what}; expected one of {known}")
    order = fields.get("byte order", "0")
    if order not in ("0", "1"):
        raise DataError(f"{header}: byte order is {order!r}; expected 0 or 1")
    return np.dtype(DTYPES[number]).newbyteorder("<" if order == "0" else ">")


def _good_bands(fields: Mapping[str, str], n_bands: int, header: Path) -> NDArray[np.intp] | None:
    """Return the bands that are not marked as bad, or None where all are good."""
    marks = values_of(fields.get("bbl", ""))
    if not marks:
        return None
    if len(marks) != n_bands:
        raise DataError(f"{header}: bbl marks {len(marks)} bands, but there are {n_bands}")
    with reading(header, "ENVI header"):
        good = np.flatnonzero([float(mark) != 0 for mark in marks])
    if not len(good):
        raise DataError(f"{header}: bbl marks every band as bad")
    return None if len(good) == n_bands else good


def _wavelengths(fields: Mapping[str, str], n_bands: int) -> tuple[float, ...] | None:
    try:
        found = [float(value) for value in values_of(fields.get("wavelength", ""))]
    except ValueError:
        return None
    return (
        in_nanometres(found, fields.get("wavelength units", "")) if len(found) == n_bands else None
    )


def in_nanometres(wavelengths: Sequence[float], units: str) -> tuple[float, ...] | None:
    """Return wavelengths in nanometres; None where the unit is neither said nor plain."""
    units, shortest, longest = units.strip().lower(), min(wavelengths), max(wavelengths)
    if units in ("", "unknown"):
        units = "nm" if shortest >= 200 else "um" if shortest >= 0.2 and longest <= 20 else ""
    if units.startswith(("micro", "um", "µm", "μm")):
        return tuple(1000.0 * wavelength for wavelength in wavelengths)
    return tuple(map(float, wavelengths)) if units.startswith(("nano", "nm")) else None


# ---------------------------------------------------------------------------------------- maps


def read_georeference(fields: Mapping[str, str], header: Path) -> Georeference | None:
    """Return the place of a raster: ``map info`` and ``coordinate system string``."""
    text = fields.get("map info")
    if not text:
        return None
    items = values_of(text)
    turned = [item.split("=")[1] for item in items if item.lower().startswith("rotation=")]
    try:
        ref_sample, ref_line, x, y, width, height = map(float, items[1:7])
        angle = math.radians(float(turned[0])) if turned else 0.0
        plain = np.isfinite((ref_sample, ref_line, x, y, width, height, angle)).all()
        if not plain or width == 0 or height == 0:
            raise ValueError
    except ValueError as error:
        raise DataError(
            f"{header}: map info is {{{text}}}; expected a projection, the sample and line of a "
            "pixel, its x and y, and the size of pixels"
        ) from error
    cos, sin = math.cos(angle), math.sin(angle)
    # ENVI counts from 1, so that the upper left corner of the raster is (1, 1)
    a, b, d, e = width * cos, width * sin, height * sin, -height * cos
    line, sample = ref_line - 1, ref_sample - 1
    transform = (a, b, x - a * sample - b * line, d, e, y - d * sample - e * line)
    return Georeference(transform, fields.get("coordinate system string"), text)


def map_info_of(place: Georeference, utm: tuple[int, str] | None = None) -> str:
    """Return the field ``map info`` of a place; ``utm`` is its zone and "North" or "South"."""
    if place.map_info is not None:
        return place.map_info
    a, b, c, d, e, f = place.transform
    width, height, angle = math.hypot(a, b), math.hypot(d, e), math.atan2(b, a)
    if not np.allclose((d, e), (height * math.sin(angle), -height * math.cos(angle))):
        raise DataError("the pixels are sheared or mirrored, which ENVI cannot say; use .tif")
    name = "Arbitrary" if utm is None else "UTM"
    items = [name, "1", "1", *(repr(float(value)) for value in (c, f, width, height))]
    if utm is not None:
        items += [str(utm[0]), utm[1], "WGS-84", "units=Meters"]
    if angle:
        items.append(f"rotation={math.degrees(angle)!r}")
    return ", ".join(items)


# ------------------------------------------------------------------------------------- writing


def write_envi(
    header: Path,
    blocks: Iterable[Array],
    shape: tuple[int, int, int],
    dtype: np.dtype[Any],
    fields: Mapping[str, str],
) -> tuple[Path, Path]:
    """Write a raster in ``bip`` order from blocks of lines; the header comes last.

    Parameters
    ----------
    header : Path
        Ends in ``.hdr``; the numbers go to the same name with ``.img``.
    blocks : iterable of ndarray of shape (n_lines, n_samples, n_bands)
    shape : tuple of int
        Lines, samples, bands.
    dtype : dtype
    fields : mapping
        More fields of the header.
    """
    little = np.dtype(dtype).newbyteorder("<")
    data = header.with_suffix(".img")

    def fill(file: BinaryIO) -> None:
        for block in blocks:
            file.write(np.ascontiguousarray(block, dtype=little).tobytes())

    write_atomically(data, fill)
    write_atomically(header, header_text(shape, little, fields).encode("latin-1", "replace"))
    return header, data


def header_text(
    shape: tuple[int, int, int], dtype: np.dtype[Any], fields: Mapping[str, str]
) -> str:
    """Return the text of a header of a ``bip`` raster."""
    number = next(n for n, name in DTYPES.items() if np.dtype(name) == dtype.newbyteorder("="))
    lines, samples, bands = shape
    known = {
        "samples": str(samples), "lines": str(lines), "bands": str(bands), "header offset": "0",
        "file type": "ENVI Standard", "data type": str(number), "interleave": "bip",
        "byte order": "0",
    }  # fmt: skip
    return "\n".join(
        ["ENVI", *(f"{name} = {value}" for name, value in (known | dict(fields)).items()), ""]
    )


def as_list(values: Iterable[object]) -> str:
    """Return items as a list of a header; commas and braces inside an item become blanks."""
    return "{" + ", ".join(re.sub(r"[,{}\s]+", " ", str(value)).strip() for value in values) + "}"


def place_fields(place: Georeference | None, utm: tuple[int, str] | None = None) -> dict[str, str]:
    """Return the fields of a header that say where a raster lies."""
    if place is None:
        return {}
    fields = {"map info": f"{{{map_info_of(place, utm)}}}"}
    if place.crs:
        fields["coordinate system string"] = f"{{{place.crs}}}"
    return fields
