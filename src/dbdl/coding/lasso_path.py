"""The coder that follows the lasso's path, which shrinks all coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from dbdl.coding.coder import CodedRow, Coder, CodingBackend, Floats, PreparedAtoms
from dbdl.coding.lasso import lasso_each
from dbdl.model.trust import Doubles


@dataclass(frozen=True)
class LassoPath(Coder):
    """The last code on the lasso's path with at most ``n_nonzero`` non-zeros.

    Examples
    --------
    >>> import numpy as np
    >>> from dbdl.backends import NumbaBackend
    >>> from dbdl.coding import LassoPath, PreparedAtoms
    >>> row = np.array([[3.0, 0.0, 1.0]])
    >>> LassoPath(1).encode(row, PreparedAtoms(np.eye(3)), NumbaBackend()).toarray()  # 3 - 1
    array([[2., 0., 0.]])
    """

    name: ClassVar[str] = "lasso"

    @classmethod
    def candidates(cls, lengths: Sequence[int], alone: bool) -> list[Self]:
        """Every second length if other families are tried too: codes change slowly on the path."""
        every = 1 if alone or len(lengths) == 1 else 2
        return [cls(n) for n in lengths[every - 1 :: every]]

    @classmethod
    def encode_each(
        cls, coders: Sequence[Any], X: Floats, atoms: PreparedAtoms, backend: CodingBackend
    ) -> list[csr_matrix]:
        """Codes by each coder from one pass: a path contains the codes of all shorter ones."""
        lengths = [coder.n_nonzero for coder in coders]
        gram = atoms.wide_gram(backend.n_threads)
        return lasso_each(X, atoms.atoms, lengths, gram, backend.n_threads)

    def slopes(self, coded: CodedRow, weights: Doubles) -> Doubles:
        """Slopes given the atoms of the code, their signs, and the atom that would join next.

        With the Gram matrix G of the atoms, their correlations c with the row and their signs s,
        the code is ``G^-1 (c - p s)``. The path ends at the penalty p at which the next atom would
        join. Its correlation with the residual is then p, up to its sign, so p is linear in the
        row, and so is the code.
        """
        row, code, atoms, _ = coded
        used, coefficients = code.indices, code.data.astype(np.float64)
        if not len(used):
            return np.zeros(len(row))
        own, every = atoms.atoms[used].astype(np.float64), atoms.atoms.astype(np.float64)
        signs = np.sign(coefficients)
        inverse = np.linalg.pinv(own)  # (n_features, n_used)
        by_sign = inverse @ signs  # the residual falls by it as the penalty falls by one
        rest = every @ (row - coefficients @ own)
        penalty = float(np.mean(signs * rest[used]))
        tied = TIED[atoms.atoms.dtype.name]
        found = _next_atom(rest, every @ by_sign, used, penalty, tied)
        slopes: Doubles = inverse @ weights[used]
        if found is None:
            return slopes  # the path ended at a penalty of zero
        joining = np.sign(rest[found]) * every[found]
        joining_off = joining - inverse @ (own @ joining)  # projected off the atoms of the code
        of_penalty = joining_off / (1.0 - joining @ by_sign)
        shrinkage = float(weights[used] @ np.linalg.solve(own @ own.T, signs))
        return slopes - shrinkage * of_penalty

    def __str__(self) -> str:
        return "the lasso's path"


#: The correlation of the next atom equals the penalty, up to this fraction: the code is rounded.
TIED = {"float64": 1e-6, "float32": 1e-2}
#: An atom that depends on those of the code cannot join: its slope against the penalty is zero.
LEAST_SLOPE = 1e-6


def _next_atom(
    rest: Doubles, by_sign: Doubles, used: NDArray[Any], penalty: float, tied: float
) -> int | None:
    """Return the atom that would join the path next, if there is one.

    ``rest`` (n_atoms,) are the correlations with the residual, and ``by_sign`` those with the
    direction in which it falls.
    """
    apart = 1.0 - np.sign(rest) * by_sign
    ties = np.abs(np.abs(rest) - penalty) / max(penalty, np.finfo(np.float64).tiny)
    ties[used] = np.inf
    ties[apart < LEAST_SLOPE] = np.inf
    best = int(ties.argmin())
    return best if ties[best] < tied else None
