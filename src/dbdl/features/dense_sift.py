"""Dense SIFT: Lowe's descriptor on a regular grid (paper, section 5.3: 16×16 patches, step 6).

A patch is cut into 4×4 cells with 8 directions of the gradient each. Every pixel shares the length
of its gradient between the two nearest directions and the nearest cells of each axis, linearly,
under a Gaussian window of half the patch's width (Lowe, "Distinctive image features from
scale-invariant keypoints", 2004, section 6). The histogram is scaled to unit norm, clipped at 0.2,
and scaled again. There is no scale space and no turning of the patch: all patches have one size and
stand upright.

Cells lie along the two axes, and the window is a product of one for each axis. So is the whole
weight of a pixel in a cell: ``weight[b, dy] * weight[a, dx]``. Two passes, first down the columns
for every row of the grid, then along the rows, replace the sum over patches × pixels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import normalize as scale_rows
from sklearn.utils._param_validation import Interval

from dbdl._compile import REORDERED, inlined, kernel
from dbdl._parameters import Declared, PositiveCount
from dbdl._threads import resolve_n_jobs, run_blocks
from dbdl.features.images import ImageLike, check_images, read_grey

#: Part of the key of cached features: raise it with any change of the numbers that come out.
VERSION = 2

Pixels = Annotated[int, Interval(Integral, 4, None, closed="left")]
NotNegative = Annotated[float, Interval(Real, 0, None, closed="left")]
Jobs = Annotated[int | None, None, Integral]

N_CELLS = 4  # along each axis of a patch
N_DIRECTIONS = 8
N_FEATURES = N_CELLS * N_CELLS * N_DIRECTIONS

# Lowe 2004, section 6.1: no entry of a unit descriptor may be larger, against strong single edges.
LARGEST_ENTRY = 0.2


@dataclass(frozen=True)
class LocalDescriptors:
    """Descriptors of the patches of one image.

    Attributes
    ----------
    values : ndarray of shape (n_patches, 128), float32
        Of unit norm, zero for patches without contrast. The direction of the gradient runs
        fastest, then the cell's column, then its row.
    centers : ndarray of shape (n_patches, 2), int64
        Row and column of the pixel in the middle of each patch.
    image_shape : tuple of int
        Height and width of the image.

    Examples
    --------
    >>> import numpy as np
    >>> from dbdl.features import dense_sift
    >>> found = dense_sift(np.random.default_rng(0).random((32, 32)))
    >>> found.values.shape[1], found.image_shape
    (128, (32, 32))
    """

    values: NDArray[np.float32]
    centers: NDArray[np.int64]
    image_shape: tuple[int, int]


def dense_sift(
    image: ImageLike,
    *,
    patch_size: int = 16,
    step: int = 6,
    smoothing: float = 1.0,
    least_contrast: float = 0.0005,
    longest_side: int | None = None,
) -> LocalDescriptors:
    """Describe the patches of an image.

    Parameters
    ----------
    image : path or array-like of shape (height, width) or (height, width, 3)
        At least one patch high and wide. Arrays hold uint8, or floats between 0 and 1.
    patch_size, step, smoothing, least_contrast, longest_side
        As in `DenseSIFT`; by default the image keeps its size.

    Returns
    -------
    descriptors : LocalDescriptors

    Examples
    --------
    >>> import numpy as np
    >>> from dbdl.features import dense_sift
    >>> dense_sift(np.eye(40)).values.shape
    (25, 128)
    """
    grey = read_grey(image, longest_side)
    if min(grey.shape) < patch_size:
        which = image if isinstance(image, str | Path) else "the image"
        raise ValueError(
            f"{which} has {grey.shape[0]}×{grey.shape[1]} pixels, smaller than a patch of "
            f"{patch_size}×{patch_size}; pass larger images or a smaller patch_size"
        )
    rows, columns = (grid_centers(length, patch_size, step) for length in grey.shape)
    smooth = gaussian_filter(grey, smoothing, mode="mirror")
    weights = cell_weights(patch_size)
    histograms = _pool(_gradient_shares(smooth), weights, rows, columns)
    histograms[histograms.sum(axis=1) <= least_contrast * weights.sum() ** 2] = 0
    clipped = np.minimum(scale_rows(histograms, copy=False), np.float32(LARGEST_ENTRY))
    values = scale_rows(clipped, copy=False)
    centers = np.stack(np.meshgrid(rows, columns, indexing="ij"), axis=-1).reshape(-1, 2)
    return LocalDescriptors(values, centers, (grey.shape[0], grey.shape[1]))


class DenseSIFT(Declared, TransformerMixin, BaseEstimator):
    """Describe the patches of images by SIFT on a regular grid.

    A transformer from images to lists of descriptors, as `SpatialPyramid` takes them.

    Parameters
    ----------
    patch_size : int, default=16
        Height and width of a patch in pixels, a multiple of 4.
    step : int, default=6
        Distance of neighbouring patches in pixels. The grid stands in the middle of the image.
    smoothing : float, default=1.0
        Standard deviation in pixels of the Gaussian that the image is smoothed with before its
        gradient is taken; 0 for none.
    least_contrast : float, default=0.0005
        Patches whose mean gradient under the window (grey levels per pixel, white being 1) is
        smaller have a descriptor of zeros: they hold nothing but noise.
    longest_side : int or None, default=300
        A larger image is made smaller to this many pixels first, as is usual for Caltech-101.
    n_jobs : int, optional
        Number of threads; None uses all that are free. Any number gives the same bits.

    References
    ----------
    D. G. Lowe, "Distinctive image features from scale-invariant keypoints", IJCV 60(2), 2004.

    S. Lazebnik, C. Schmid and J. Ponce, "Beyond bags of features: spatial pyramid matching for
    recognizing natural scene categories", CVPR 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from dbdl.features import DenseSIFT
    >>> [described] = DenseSIFT().fit_transform([np.eye(40)])
    >>> described.values.shape
    (25, 128)
    """

    patch_size: Pixels = 16
    step: PositiveCount = 6
    smoothing: NotNegative = 1.0
    least_contrast: NotNegative = 0.0005
    longest_side: Pixels | None = 300
    n_jobs: Jobs = None

    def fit(self, X: object = None, y: object = None) -> Self:
        """Check the parameters; nothing is learned, and X and y are ignored."""
        self._check()
        return self

    def transform(self, X: Sequence[ImageLike]) -> list[LocalDescriptors]:
        """Describe images.

        Parameters
        ----------
        X : list of images or of paths to images
            Images may differ in size.

        Returns
        -------
        descriptors : list of LocalDescriptors
        """
        self._check()
        return run_blocks(self.describe, check_images(X), resolve_n_jobs(self.n_jobs))

    def describe(self, image: ImageLike) -> LocalDescriptors:
        """Describe one image, an array or a path."""
        settings = self.get_params(deep=False)
        del settings["n_jobs"]
        return dense_sift(image, **settings)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags

    def _check(self) -> None:
        self._validate_params()
        if self.patch_size % N_CELLS:
            raise ValueError(
                f"patch_size={self.patch_size} is not a multiple of {N_CELLS}, the number of cells "
                "along each axis of a patch"
            )


def grid_centers(length: int, patch_size: int, step: int) -> NDArray[np.int64]:
    """Middle pixels, along one axis, of the patches inside the image, which stand in its middle."""
    n_steps = (length - patch_size) // step
    first = (length - patch_size - n_steps * step) // 2 + patch_size // 2
    return first + step * np.arange(n_steps + 1)


def cell_weights(patch_size: int) -> NDArray[np.float32]:
    """Weight of a pixel in each cell, along one axis: linear share times Gaussian window.

    The weights (4, 2 * reach + 1) are those of pixels from ``-reach`` to ``reach`` off the middle
    one; beyond, all are zero. Pixels up to half a cell outside of the patch still have a share in
    its outer cells.
    """
    width = patch_size / N_CELLS
    reach = math.ceil(width * (N_CELLS + 1) / 2) - 1
    offset = np.arange(-reach, reach + 1) / width
    middle = np.arange(N_CELLS) - (N_CELLS - 1) / 2
    share = np.maximum(0, 1 - np.abs(offset[np.newaxis] - middle[:, np.newaxis]))
    window = np.exp(-0.5 * (offset / (N_CELLS / 2)) ** 2)
    return (share * window).astype(np.float32)


# ---------------------------------------------------------------------------------------- kernels


@kernel(REORDERED, allocates=True)
def _gradient_shares(grey):
    """Gradient lengths, shared between the two nearest of 8 directions: (height, width, 8).

    Central differences; the outermost pixels have none. Directions are counted from the one along
    the rows, by 45 degrees, from the image's right to its top.
    """
    height, width = grey.shape
    shares = np.zeros((height, width, N_DIRECTIONS), dtype=np.float32)
    to_directions = np.float32(N_DIRECTIONS / (2 * math.pi))
    for r in range(1, height - 1):
        for c in range(1, width - 1):
            dx = (grey[r, c + 1] - grey[r, c - 1]) / 2
            dy = (grey[r - 1, c] - grey[r + 1, c]) / 2
            length = math.sqrt(dx * dx + dy * dy)
            direction = math.atan2(dy, dx) * to_directions
            if direction < 0:
                direction += N_DIRECTIONS
            lower = int(direction)
            share = length * (direction - lower)
            shares[r, c, lower % N_DIRECTIONS] += length - share
            shares[r, c, (lower + 1) % N_DIRECTIONS] += share
    return shares


@inlined(REORDERED)
def _sum_around(lines, middle, weights, total):
    """Fill ``total`` (n,) with the sum of lines (n_lines, n) around a middle one, under weights."""
    total[:] = 0
    first = middle - len(weights) // 2
    for i in range(max(first, 0), min(first + len(weights), len(lines))):
        weight = weights[i - first]
        if weight > 0:
            for j in range(len(total)):
                total[j] += weight * lines[i, j]


@kernel(REORDERED, allocates=True)
def _pool(shares, weights, rows, columns):
    """Sums of the shares under the weights of each cell of each patch: (n_patches, 128)."""
    height, width, _ = shares.shape
    lines = shares.reshape(height, width * N_DIRECTIONS)
    histograms = np.empty((len(rows), len(columns), N_CELLS, N_CELLS, N_DIRECTIONS), np.float32)
    band = np.empty((width, N_DIRECTIONS), np.float32)
    for i in range(len(rows)):
        for b in range(N_CELLS):
            _sum_around(lines, rows[i], weights[b], band.reshape(width * N_DIRECTIONS))
            for j in range(len(columns)):
                for a in range(N_CELLS):
                    _sum_around(band, columns[j], weights[a], histograms[i, j, b, a])
    return histograms.reshape(len(rows) * len(columns), N_FEATURES)
