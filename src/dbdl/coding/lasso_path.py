"""The coder that follows the lasso's path, which shrinks all coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from scipy.sparse import csr_matrix

from dbdl.coding.coder import Coder, CodingBackend, Floats, PreparedAtoms
from dbdl.coding.lasso import lasso


@dataclass(frozen=True)
class LassoPath(Coder):
    """The last code on the lasso's path with at most ``n_nonzero`` non-zeros."""

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
        """Codes by each coder, one path each."""
        return [
            lasso(
                X,
                atoms.atoms,
                gram=atoms.wide_gram,
                n_threads=backend.n_threads,
                n_nonzero=atoms.longest(coder.n_nonzero),
            )
            for coder in coders
        ]

    def __str__(self) -> str:
        return "the lasso's path"
