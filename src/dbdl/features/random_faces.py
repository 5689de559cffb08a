"""Random faces: pixels projected on random directions (paper, section 5.1).

A direction is a draw of independent standard normal numbers, scaled to unit norm (Wright et al.,
"Robust face recognition via sparse representation", 2009). The paper projects 192×168 crops of
Extended YaleB on 504 directions and 165×120 crops of AR on 540.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.preprocessing import normalize as scale_rows
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from dbdl._arrays import near_one, refuse_huge, validate_rows
from dbdl._loaded import CheckedEstimator
from dbdl._parameters import Declared, PositiveCount, Seed
from dbdl.model.trust import Floats, Scope, reals

#: Part of the key of cached features: raise it with any change of the numbers that come out.
VERSION = 1

Directions = Annotated[Floats, reals("n_components", "n_features", some=True)]


class RandomFaces(Declared, ClassNamePrefixFeaturesOutMixin, TransformerMixin, CheckedEstimator):
    """Project rows on random directions of unit norm.

    Parameters
    ----------
    n_components : int, default=504
        Number of directions; 504 is the paper's for Extended YaleB, 540 for AR.
    normalize : bool, default=True
        Scale the projected rows to unit norm; rows of zeros stay.
    random_state : int, RandomState instance or None, default=0
        Seed of the directions. With an integer, rows of one width are projected on the same
        directions in any process.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The directions.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where X had them.

    References
    ----------
    J. Wright, A. Y. Yang, A. Ganesh, S. S. Sastry and Y. Ma, "Robust face recognition via sparse
    representation", IEEE TPAMI 31(2), 2009.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dbdl.features import RandomFaces
    >>> X, _ = load_digits(return_X_y=True)
    >>> RandomFaces(n_components=20).fit_transform(X).shape
    (1797, 20)
    """

    n_components: PositiveCount = field(default=504, kw_only=False)
    normalize: bool = True
    random_state: Seed = 0

    _learned: ClassVar[tuple[str, ...]] = ("components_",)

    components_: Directions = field(init=False)

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Draw the directions for rows (n_samples, n_features); only their width counts."""
        self._validate_params()
        rows = validate_rows(self, X)
        random = check_random_state(self.random_state)
        self.components_ = np.empty((self.n_components, rows.shape[1]), dtype=rows.dtype)
        for k in range(self.n_components):  # one by one: a block of float64 can be twice as large
            direction = random.standard_normal(rows.shape[1])
            self.components_[k] = direction / np.linalg.norm(direction)
        self._n_features_out = self.n_components
        return self

    def _check_fitted(self, scope: Scope) -> None:
        """Check the directions."""
        self._check_attributes(scope, "n_features_in_", "components_")

    def transform(self, X: ArrayLike) -> Floats:
        """Project rows (n_samples, n_features) on the directions: (n_samples, n_components)."""
        check_is_fitted(self)
        rows = validate_rows(self, X, reset=False)
        rows = near_one(rows) if self.normalize else refuse_huge(rows)
        projected = rows @ self.components_.T.astype(rows.dtype, copy=False)
        return scale_rows(near_one(projected), copy=False) if self.normalize else projected

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
