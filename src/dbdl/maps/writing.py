"""Write class maps: ENVI or GeoTIFF, in the projection of the scene."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbdl._files import checked_path
from dbdl.maps.classify import ClassMap
from dbdl.maps.colours import NO_DATA, REFUSED, class_colours
from dbdl.maps.cube import DataError
from dbdl.maps.envi import as_list, place_fields, write_envi
from dbdl.maps.geotiff import as_esri, utm_zone, write_geotiff
from dbdl.maps.reading import GEOTIFF_ENDINGS

ENDINGS = (".hdr", *GEOTIFF_ENDINGS)


class MapFiles(NamedTuple):
    """Files of a map: headers of ENVI, or GeoTIFFs; None where a map has no such part.

    Examples
    --------
    >>> from dbdl.maps import map_files
    >>> map_files("map.tif").refused.name
    'map_refused.tif'
    """

    classes: Path
    confidence: Path | None
    refused: Path | None


def map_files(path: str | Path) -> MapFiles:
    """Return the files that `write_map` writes for a path, if the map has all parts.

    Examples
    --------
    >>> from dbdl.maps import map_files
    >>> [file.name for file in map_files("map.hdr")]
    ['map.hdr', 'map_confidence.hdr', 'map_refused.hdr']
    """
    place = checked_path(path).expanduser()
    if place.suffix.lower() not in ENDINGS:
        raise DataError(f"{place}: maps end in {', '.join(ENDINGS)}, as {place.stem}.hdr does")
    parts = (place.with_stem(f"{place.stem}_{part}") for part in ("confidence", "refused"))
    return MapFiles(place, *parts)


def write_map(class_map: ClassMap, path: str | Path) -> MapFiles:
    """Write a class map, its confidences, and its refused pixels.

    Parameters
    ----------
    class_map : ClassMap
    path : str or path-like
        ``map.hdr`` for ENVI (the numbers go to ``map.img``), ``map.tif`` for GeoTIFF. In the class
        map 0 has no data, and refused pixels have a number of their own. Confidences go to
        ``map_confidence`` and, if refusals were asked for, the marks to ``map_refused``: 1 for
        refused pixels.

    Returns
    -------
    files : MapFiles

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from dbdl.maps import ClassMap, write_map
    >>> numbers = np.array([[1, 1, 2], [0, 2, 2]], np.uint16)
    >>> refused = np.zeros((2, 3), bool)
    >>> field = ClassMap("field", numbers, None, refused, (1, 2), ("maize", "wheat"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_map(field, f"{folder}/map.hdr").classes.name
    'map.hdr'
    """
    files = map_files(path)
    write = _write_tif if files.classes.suffix.lower() in GEOTIFF_ENDINGS else _write_hdr
    if class_map.confidence is None:
        files = files._replace(confidence=None)
    if not class_map.refuses:
        files = files._replace(refused=None)
    if files.confidence is not None and class_map.confidence is not None:
        write(class_map, files.confidence, class_map.confidence, {"data ignore value": "NaN"})
    if files.refused is not None:
        write(class_map, files.refused, class_map.refused.astype(np.uint8), {})
    dtype = np.uint8 if class_map.refused_value <= np.iinfo(np.uint8).max else np.uint16
    write(class_map, files.classes, class_map.shown.astype(dtype), _class_fields(class_map))
    return files


def colour_table(class_map: ClassMap) -> dict[int, tuple[str, tuple[int, int, int]]]:
    """Return the name and the colour of each number of a map, 0 and refused pixels among them."""
    table = {0: ("Unclassified", NO_DATA)}
    colours = class_colours(len(class_map.values)).tolist()
    for value, name, (r, g, b) in zip(class_map.values, class_map.names, colours, strict=True):
        table[value] = (name, (r, g, b))
    if class_map.refuses:
        table[class_map.refused_value] = ("refused", REFUSED)
    return table


def _class_fields(class_map: ClassMap) -> dict[str, str]:
    """Return the fields of an ENVI classification; numbers that no class has are named so."""
    table = colour_table(class_map)
    every = [table.get(n, (f"unused {n}", NO_DATA)) for n in range(max(table) + 1)]
    return {
        "file type": "ENVI Classification",
        "classes": str(len(every)),
        "class names": as_list(name for name, _ in every),
        "class lookup": as_list(level for _, colour in every for level in colour),
        "data ignore value": "0",
    }


def _write_hdr(
    class_map: ClassMap, path: Path, raster: NDArray[Any], fields: dict[str, str]
) -> None:
    place = class_map.georeference
    utm = None
    if place is not None and place.map_info is None:  # the scene was not an ENVI file
        place, utm = as_esri(place), utm_zone(place)
    lines, samples = raster.shape
    known = {**fields, **place_fields(place, utm)}
    write_envi(path, [raster[..., np.newaxis]], (lines, samples, 1), raster.dtype, known)


def _write_tif(
    class_map: ClassMap, path: Path, raster: NDArray[Any], fields: dict[str, str]
) -> None:
    ignored = fields.get("data ignore value")
    options: dict[str, Any] = {"nodata": None if ignored is None else float(ignored)}
    if "class names" in fields:
        table = colour_table(class_map)
        options["colours"] = {n: (*colour, 255) for n, (_, colour) in table.items()}
        options["tags"] = {f"class_{n}": name for n, (name, _) in table.items()}
        options["descriptions"] = ("class",)
    write_geotiff(path, raster, class_map.georeference, **options)
