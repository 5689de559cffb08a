"""Images per second: dense SIFT alone, and spatial pyramids with both ways of coding.

    python -m benchmarks.bench_features [--quick]

Images have 300×250 pixels (1920 patches) of smooth noise, and are read from JPEG files as real
ones are. The target is 40 images per second on two cores. On a busy machine processor time says
more than wall time.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from scipy.ndimage import gaussian_filter

from dbdl.features import DenseSIFT, SpatialPyramid

LEAST_IMAGES_A_SECOND = 40
N_WORDS = 1024


def write_images(folder: Path, n_images: int) -> list[Path]:
    """Write JPEG files of 250×300 pixels."""
    paths = []
    for i in range(n_images):
        noise = gaussian_filter(np.random.default_rng(i).standard_normal((250, 300)), 2.0)
        grey = np.clip(128 + 60 * noise / noise.std(), 0, 255).astype(np.uint8)
        paths.append(folder / f"{i:04d}.jpg")
        Image.fromarray(grey).save(paths[-1], quality=90)
    return paths


def measure(work: Callable[[], Any], n_images: int, repeats: int) -> tuple[float, float]:
    """Return images a second and milliseconds of a processor for each image, best of several."""
    work()  # compiles
    wall, busy = [], []
    for _ in range(repeats):
        start = time.perf_counter(), time.process_time()
        work()
        wall.append(time.perf_counter() - start[0])
        busy.append(time.process_time() - start[1])
    return n_images / min(wall), 1e3 * min(busy) / n_images


def run(quick: bool) -> None:
    """Measure and print."""
    n_images, repeats = (10, 2) if quick else (40, 5)
    with tempfile.TemporaryDirectory() as folder:
        paths = write_images(Path(folder), n_images)
        pyramid = SpatialPyramid(N_WORDS, n_sampled=10_000).fit(paths)
        print(
            f"  {'images of 300×250':<32}{'threads':>8}{'images/s':>10}{'CPU ms':>8}{'target':>8}"
        )
        for n_jobs in (1, 2):
            target = f">= {LEAST_IMAGES_A_SECOND}" if n_jobs == 2 else ""
            sift = DenseSIFT(n_jobs=n_jobs)
            figures = measure(partial(sift.transform, paths), n_images, repeats)
            _line("dense SIFT", n_jobs, *figures, target)
            for coding in ("hard", "llc"):
                pyramid.set_params(n_jobs=n_jobs, coding=coding)
                figures = measure(partial(pyramid.transform, paths), n_images, repeats)
                _line(f"pyramid, {N_WORDS} words, {coding}", n_jobs, *figures, target)


def _line(name: str, n_jobs: int, images: float, milliseconds: float, target: str) -> None:
    print(f"  {name:<32}{n_jobs:>8}{images:>10.1f}{milliseconds:>8.1f}{target:>8}", flush=True)


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few images and repeats")
    run(parser.parse_args().quick)


if __name__ == "__main__":
    main()
