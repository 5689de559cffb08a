"""Windows of neighbouring pixels, and folds of pixels against folds of blocks, on known truth.

    python -m benchmarks.windows

Scenes of `dbdl.maps.make_scene` of 96 × 96 pixels, cut into 6 × 6 blocks. A third of the blocks is
tested on; 60 pixels per class are drawn from the others to learn from. Only test pixels whose whole
window lies in test blocks count. "Random pixels" are those of the learning blocks that were not
drawn. Means over scenes in %.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import binary_erosion

from dbdl import DBDLClassifier
from dbdl.maps import Scene, classify_cube, make_scene
from dbdl.maps.pixels import block_of_pixel

N_SCENES, N_BLOCKS, PER_CLASS, REGION = 3, 6, 60, 8.0
NOISES = (0.03, 0.08, 0.15)
WINDOWS: tuple[tuple[int, Any], ...] = (
    (1, "scores"), (3, "scores"), (3, "codes"), (5, "scores"), (5, "codes"),
)  # fmt: skip


def parts(scene: Scene, seed: int) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Test pixels (n_lines, n_samples), and the numbers of the pixels to learn from."""
    rows, columns = np.indices(scene.truth.shape)
    blocks = block_of_pixel(rows, columns, scene.truth.shape, N_BLOCKS)
    rng = np.random.default_rng(seed)
    test = np.isin(blocks, rng.permutation(N_BLOCKS**2)[: N_BLOCKS**2 // 3])
    drawn = []
    for number in np.unique(scene.truth):
        own = np.flatnonzero((scene.truth == number) & ~test)
        drawn.append(rng.choice(own, min(PER_CLASS, len(own)), replace=False))
    return test, np.concatenate(drawn)


def measure(noise: float, seed: int) -> dict[str, float]:
    """Accuracies in % of one scene."""
    scene = make_scene(noise=noise, region_size=REGION, random_state=seed)
    test, drawn = parts(scene, seed)
    X, y = scene.spectra.reshape(-1, scene.spectra.shape[2]), scene.truth.ravel()
    model = DBDLClassifier(random_state=seed, n_jobs=-1).fit(X[drawn], y[drawn])
    inside = binary_erosion(test, np.ones((5, 5)))
    found = {}
    for window, together in WINDOWS:
        shown = classify_cube(model, scene.cube, window=window, together=together)
        right = shown.numbers == scene.truth
        name = f"window {window}, {together}" if window > 1 else "single pixels"
        found[name] = 100 * right[inside].mean()
        if window == 1:
            other = ~test
            other.ravel()[drawn] = False
            found["single pixels, random pixels"] = 100 * right[other].mean()
    return found


def main() -> None:
    """Print the means over scenes for each size of the noise."""
    for noise in NOISES:
        found = [measure(noise, seed) for seed in range(N_SCENES)]
        print(f"noise {noise}")
        for name in found[0]:
            values = [one[name] for one in found]
            print(f"  {name}: {np.mean(values):.1f} ± {np.std(values, ddof=1):.1f}", flush=True)


if __name__ == "__main__":
    main()
