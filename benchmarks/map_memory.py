"""Memory of a map of 2,000 × 2,000 pixels of 200 bands, above what the process needs anyway.

    python -m benchmarks.map_memory [folder] [--lines 40]

The cube (int16, 1.6 GB) is written to the folder, by default a temporary one, and classified from
its memory map. Shrunken LDA classifies the whole of it. DBDL, with the default settings, classifies
the first lines only, since the whole would take an hour or more: each block of lines is read
and forgotten, so the peak does not grow with the number of lines but for the map itself, which
has seven bytes per pixel.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from benchmarks.bench_memory import MIB, forget_peak, peak_bytes, resident_bytes
from dbdl import DBDLClassifier
from dbdl.maps import Cube, classify_cube, labelled_pixels, make_scene, read_cube
from dbdl.maps.envi import write_envi

SIDE, N_BANDS, TILE, PER_CLASS = 2000, 200, 200, 200
SCALE = 5000  # of reflectances as whole numbers


def write_cube(folder: Path) -> tuple[Path, NDArray[np.int32]]:
    """Write a large scene of repeated tiles; its header, and the truth of a tile."""
    scene = make_scene((TILE, TILE), n_bands=N_BANDS)
    tile = np.clip(SCALE * scene.spectra, -32000, 32000).astype(np.int16)

    def blocks() -> Iterator[NDArray[np.int16]]:
        for _ in range(SIDE // TILE):
            yield from (np.tile(line, (SIDE // TILE, 1))[np.newaxis] for line in tile)

    header = folder / "large.hdr"
    write_envi(header, blocks(), (SIDE, SIDE, N_BANDS), np.dtype(np.int16), {})
    return header, scene.truth


def show(name: str, model: Any, cube: Cube, **options: Any) -> None:
    """Print the peak above the memory before, and pixels per second of a processor."""
    classify_cube(model, first_lines(cube, 2), **options)  # compiles and prepares what is kept
    before = resident_bytes()
    forget_peak()
    start = time.process_time()
    classify_cube(model, cube, **options)
    seconds, peak = time.process_time() - start, peak_bytes() - before
    lines, samples = cube.shape[:2]
    print(
        f"{name}: {lines} lines of {samples} pixels: peak {peak / MIB:.0f} MiB above "
        f"{before / MIB:.0f} MiB, {lines * samples / seconds:,.0f} pixels per processor second",
        flush=True,
    )


def first_lines(cube: Cube, n_lines: int) -> Cube:
    """The cube up to a line."""
    return replace(cube, shape=(n_lines, *cube.shape[1:]))


def main() -> None:
    """Write the cube, fit two models on pixels of its first tile, and map it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--lines", type=int, default=40)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        header, truth = write_cube(Path(folder))
        cube = read_cube(header)
        known = np.zeros(cube.shape[:2], np.int32)
        known[:TILE, :TILE] = truth
        pixels = labelled_pixels(cube, known, per_class=PER_CLASS)
        lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(pixels.X, pixels.y)
        show("shrunken LDA", lda, cube)
        dbdl = DBDLClassifier(random_state=0, n_jobs=2).fit(pixels.X, pixels.y)
        print(f"DBDL: {pixels.n_samples} rows, {dbdl.n_atoms_} atoms, {len(dbdl.chains_)} chains")
        for lines in (given.lines // 2, given.lines):
            show("DBDL", dbdl, first_lines(cube, lines))
        show("DBDL, window 3, scores", dbdl, first_lines(cube, given.lines // 2), window=3)
        show(
            "DBDL, window 3, codes", dbdl, first_lines(cube, given.lines // 2), window=3,
            together="codes",
        )  # fmt: skip


if __name__ == "__main__":
    main()
