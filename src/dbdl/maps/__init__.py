"""Maps of scenes: cubes of spectra and labels of some pixels in, class maps out.

`read_cube` opens ENVI, GeoTIFF and xarray, and `read_truth` reads labels. `labelled_pixels` makes
rows to learn from. `classify_cube` maps a scene with any fitted classifier, block of lines by block
of lines; `write_map` and `draw_map` write the result. `make_scene` generates a scene of known
truth.
"""

from dbdl.maps.classify import ClassMap, classify_cube
from dbdl.maps.cube import Cube, Georeference
from dbdl.maps.picture import draw_map
from dbdl.maps.pixels import labelled_pixels
from dbdl.maps.reading import is_cube_file, read_cube
from dbdl.maps.scene import Scene, make_scene
from dbdl.maps.truth import Truth, read_truth
from dbdl.maps.writing import MapFiles, map_files, write_map

__all__ = [
    "ClassMap",
    "Cube",
    "Georeference",
    "MapFiles",
    "Scene",
    "Truth",
    "classify_cube",
    "draw_map",
    "is_cube_file",
    "labelled_pixels",
    "make_scene",
    "map_files",
    "read_cube",
    "read_truth",
    "write_map",
]
