"""Spatial pyramids: which visual words occur where in an image (paper, section 5.3).

Descriptors of patches are coded over a codebook of words found by k-means. The image is cut into
``2^l × 2^l`` regions at each level ``l``, the codes of a region are pooled into one row of
``n_words``, and the rows of all regions stand side by side: 21 × 1024 numbers for levels 0, 1, 2.

Two ways to code and pool, each with its own paper:

- ``"hard"`` (Lazebnik et al. 2006): a patch counts for its nearest word; the mean over a region. We
  leave out that paper's weights of the levels, which belong to its kernel.
- ``"llc"`` (Wang et al. 2010): a patch is an affine combination of its nearest words; the maximum
  over a region, which is at least zero as most patches do not use a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from numbers import Integral
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.cluster import KMeans
from sklearn.preprocessing import normalize as scale_rows
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.validation import check_is_fitted

from dbdl._loaded import CheckedEstimator
from dbdl._parameters import Declared, PositiveCount, Seed
from dbdl._threads import resolve_n_jobs, run_blocks
from dbdl.coding.llc import codes_of_nearest
from dbdl.features.dense_sift import DenseSIFT, Jobs, LocalDescriptors
from dbdl.features.images import ImageLike, check_images
from dbdl.model.trust import Array, Scope

#: Part of the key of cached features: raise it with any change of the numbers that come out.
VERSION = 2

Coding = Literal["hard", "llc"]
Words = Annotated[NDArray[np.float32], Array(("n_words", "n_entries"), (np.float32,), some=True)]

# Enough for words of 128 numbers to settle; later steps move few descriptors.
MOST_KMEANS_STEPS = 50


class SpatialPyramid(Declared, ClassNamePrefixFeaturesOutMixin, TransformerMixin, CheckedEstimator):
    """Pool coded descriptors over the regions of a pyramid.

    Parameters
    ----------
    n_words : int, default=1024
        Size of the codebook.
    levels : sequence of int, default=(0, 1, 2)
        Level ``l`` has ``2^l × 2^l`` regions.
    coding : {"llc", "hard"}, default="llc"
        Locality-constrained codes under the maximum, or the nearest word under the mean.
    n_neighbors : int, default=5
        Words that a patch uses with ``coding="llc"``.
    extractor : object, optional
        Has a method ``describe(image)`` that gives `LocalDescriptors`; by default `DenseSIFT`.
    n_sampled : int, default=100000
        Descriptors that the codebook is learned from, equally many from each image as far as it
        has them.
    normalize : bool, default=True
        Scale the rows to unit norm.
    n_jobs : int, optional
        Number of threads; None uses all that are free. Given a codebook, any number gives the same
        bits.
    random_state : int, RandomState instance or None, default=0
        Seed of the sample and of k-means.

    Attributes
    ----------
    words_ : ndarray of shape (n_words, n_descriptor_features), float32
        The codebook.

    References
    ----------
    S. Lazebnik, C. Schmid and J. Ponce, "Beyond bags of features: spatial pyramid matching for
    recognizing natural scene categories", CVPR 2006.

    J. Wang, J. Yang, K. Yu, F. Lv, T. Huang and Y. Gong, "Locality-constrained linear coding for
    image classification", CVPR 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from dbdl.features import SpatialPyramid
    >>> images = np.random.default_rng(0).random((3, 40, 50))
    >>> SpatialPyramid(n_words=8).fit_transform(images).shape
    (3, 168)
    """

    n_words: PositiveCount = field(default=1024, kw_only=False)
    levels: Annotated[Sequence[int], "array-like"] = (0, 1, 2)
    coding: Coding = "llc"
    n_neighbors: PositiveCount = 5
    extractor: Annotated[Any, None, HasMethods("describe")] = None
    n_sampled: PositiveCount = 100_000
    normalize: bool = True
    n_jobs: Jobs = None
    random_state: Seed = 0

    _learned: ClassVar[tuple[str, ...]] = ("words_",)

    words_: Words = field(init=False)

    def fit(self, X: Sequence[ImageLike | LocalDescriptors], y: object = None) -> Self:
        """Learn the codebook from images, which are described and forgotten one by one.

        Parameters
        ----------
        X : list of images, of paths to images, or of LocalDescriptors
        y : ignored

        Returns
        -------
        self : object
        """
        self._validate_params()
        levels = check_levels(self.levels)
        self._extractor = DenseSIFT() if self.extractor is None else clone(self.extractor)
        random = check_random_state(self.random_state)
        sample = self._sample(check_images(X), int(random.randint(np.iinfo(np.int32).max)))
        if len(sample) < self.n_words:
            raise ValueError(
                f"n_words={self.n_words}, but there are only {len(sample)} descriptors to learn "
                "them from; pass more images, or ask for fewer words"
            )
        kmeans = KMeans(self.n_words, n_init=1, max_iter=MOST_KMEANS_STEPS, random_state=random)
        words = kmeans.fit(sample).cluster_centers_
        self._publish(np.ascontiguousarray(words, dtype=np.float32), levels)
        return self

    def _publish(self, words: NDArray[np.float32], levels: list[int]) -> None:
        """Set what follows from the codebook."""
        self.words_ = words
        self._wide_words = words.astype(np.float64)
        self._gram = self._wide_words @ self._wide_words.T
        self._n_features_out = len(words) * sum(4**level for level in levels)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: state[name] for name in state if name not in ("_wide_words", "_gram")}

    def _check_fitted(self, scope: Scope) -> None:
        """Check the codebook; what follows from it is found again."""
        scope.sizes["n_words"] = self.n_words
        self._check_attributes(scope, "words_")
        self._publish(np.ascontiguousarray(self.words_), check_levels(self.levels))

    def transform(self, X: Sequence[ImageLike | LocalDescriptors]) -> NDArray[np.float32]:
        """Make one row of each image.

        Parameters
        ----------
        X : list of images, of paths to images, or of LocalDescriptors

        Returns
        -------
        rows : ndarray of shape (n_images, n_regions * n_words), float32
            Regions of the first level first, row by row; words run fastest.
        """
        check_is_fitted(self)
        stacked = np.stack(run_blocks(self._row, check_images(X), resolve_n_jobs(self.n_jobs)))
        return scale_rows(stacked, copy=False) if self.normalize else stacked

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags

    def _describe(self, image: ImageLike | LocalDescriptors) -> LocalDescriptors:
        return image if isinstance(image, LocalDescriptors) else self._extractor.describe(image)

    def _sample(self, images: Sequence[Any], seed: int) -> NDArray[np.float32]:
        """Descriptors to learn from; which ones depends on the seed and the image's number only."""
        quota = -(-self.n_sampled // len(images))

        def draw(i: int) -> NDArray[np.float32]:
            values = self._describe(images[i]).values
            rng = np.random.default_rng([seed, i])
            chosen = rng.permutation(len(values))[:quota]
            return values[np.sort(chosen)]

        return np.concatenate(run_blocks(draw, range(len(images)), resolve_n_jobs(self.n_jobs)))

    def _row(self, image: ImageLike | LocalDescriptors) -> NDArray[np.float32]:
        described = self._describe(image)
        levels = check_levels(self.levels)
        region = _regions(described, max(levels))
        pool = self._pool_nearest if self.coding == "hard" else self._pool_local
        return pool(described.values, region, levels)

    def _pool_nearest(
        self, values: NDArray[np.float32], region: NDArray[np.int64], levels: list[int]
    ) -> NDArray[np.float32]:
        n_regions = 4 ** max(levels)
        # the nearest word has the highest product, less half of its squared norm
        closeness = values @ self.words_.T
        closeness -= 0.5 * np.einsum("ij,ij->i", self.words_, self.words_)
        word = closeness.argmax(axis=1)
        counts = np.bincount(region * self.n_words + word, minlength=n_regions * self.n_words)
        finest = counts.reshape(n_regions, self.n_words).astype(np.float32)
        sums = [_coarsen(finest, level, np.add) for level in levels]
        return np.concatenate([scale_rows(part, norm="l1").ravel() for part in sums])

    def _pool_local(
        self, values: NDArray[np.float32], region: NDArray[np.int64], levels: list[int]
    ) -> NDArray[np.float32]:
        n_used = min(self.n_neighbors, self.n_words)
        wide = values.astype(np.float64)
        nearest, codes = codes_of_nearest(wide, self._wide_words, self._gram, n_used)
        finest = np.zeros((4 ** max(levels), self.n_words), dtype=np.float32)
        place = region[:, np.newaxis] * self.n_words + nearest
        np.maximum.at(finest.ravel(), place.ravel(), codes.astype(np.float32).ravel())
        return np.concatenate([_coarsen(finest, level, np.maximum).ravel() for level in levels])


def check_levels(levels: Sequence[int]) -> list[int]:
    """Return the levels as a list, or say what was expected."""
    found = list(levels)
    if not found or any(not isinstance(level, Integral) or not 0 <= level <= 8 for level in found):
        raise ValueError(f"levels={levels!r}: expected whole numbers from 0 to 8, as in (0, 1, 2)")
    return [int(level) for level in found]


def _regions(described: LocalDescriptors, level: int) -> NDArray[np.int64]:
    """Number of the region of each patch at a level, row by row, by the middle of the patch."""
    place = described.centers * 2**level // np.array(described.image_shape)
    return place[:, 0] * 2**level + place[:, 1]


def _coarsen(finest: NDArray[np.float32], level: int, join: np.ufunc) -> NDArray[np.float32]:
    """Join the finest regions (4^finest, n_words) into those of a level, (4^level, n_words)."""
    side = 2**level
    parts = round(len(finest) ** 0.5) // side
    split = finest.reshape(side, parts, side, parts, -1)
    return join.reduce(split, axis=(1, 3)).reshape(side * side, -1)
