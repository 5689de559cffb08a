"""The coder along the lasso's path, which shrinks all coefficients by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from scipy.sparse import csr_matrix

from dbdl.coding.coder import Coder, CodingBackend, Floats, PreparedAtoms
from dbdl.coding.lasso import lasso


@dataclass(frozen=True)
class LassoPath(Coder):
    """The lasso's code where its path would pass ``n_nonzero`` non-zeros."""

    name: ClassVar[str] = "lasso"

    @classmethod
    def candidates(cls, lengths: Sequence[int], alone: bool) -> list[Self]:
        """Every second number beside other families: codes change slowly along the path."""
        every = 1 if alone or len(lengths) == 1 else 2
        return [cls(n) for n in lengths[every - 1 :: every]]

    @classmethod
    def encode_each(
        cls, coders: Sequence[Any], X: Floats, atoms: PreparedAtoms, backend: CodingBackend
    ) -> list[csr_matrix]:
        """Codes by each coder, along a path of its own."""
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
