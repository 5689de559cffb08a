"""Coders by matching pursuit, and the mean of the codes along a greedy path.

The coefficients of the last atoms on a greedy path are the least certain. The mean of the codes
along the path, from a quarter of its length on, shrinks them towards zero at no cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_matrix

from dbdl.coding.coder import (
    CodedRow,
    Coder,
    CodingBackend,
    Floats,
    PreparedAtoms,
    encode_each,
    slopes_of_least_squares,
)
from dbdl.coding.omp import Rule
from dbdl.model.trust import Doubles

#: Path lengths that are tried and averaged over, at nearly equal ratios.
LENGTHS: tuple[int, ...] = (1, 2, 3, 4, 5, 7, 10, 14, 20, 28, 40, 56, 80, 112)
#: The mean along a path starts at this fraction of its length.
PATH_START = 0.25


@dataclass(frozen=True)
class Greedy(Coder):
    """Matching pursuit by one rule.

    Attributes
    ----------
    path_average : bool
        Whether a code is the mean of the codes along its path.

    Examples
    --------
    >>> from dbdl.coding import Forward, Greedy, Orthogonal
    >>> issubclass(Forward, Greedy), Orthogonal(28, path_average=True).label
    (True, 'O28m')
    """

    devices: ClassVar[frozenset[str]] = frozenset({"cpu", "cuda"})
    rule: ClassVar[Rule]

    path_average: bool = False

    @classmethod
    def candidates(cls, lengths: Sequence[int], alone: bool) -> list[Self]:
        """Each number of non-zeros, with and without the mean along the path."""
        return [cls(*choice) for choice in product(lengths, (False, True))]

    @property
    def lengths(self) -> tuple[int, ...]:
        """Path lengths whose codes are averaged."""
        if not self.path_average:
            return (self.n_nonzero,)
        start = PATH_START * self.n_nonzero
        return (*(n for n in LENGTHS if start <= n < self.n_nonzero), self.n_nonzero)

    @classmethod
    def encode_each(
        cls, coders: Sequence[Any], X: Floats, atoms: PreparedAtoms, backend: CodingBackend
    ) -> list[csr_matrix]:
        """Codes by each coder from one pass: a path contains the codes of all shorter ones."""
        lengths = sorted({n for coder in coders for n in coder.lengths})
        paths = backend.pursue(X, atoms, [atoms.longest(n) for n in lengths], cls.rule)
        return [paths.to_csr([lengths.index(n) for n in c.lengths], len(atoms)) for c in coders]

    def slopes(self, coded: CodedRow, weights: Doubles) -> Doubles:
        """Slopes of least squares over the atoms of the path, or their mean along it."""
        row, code, atoms, backend = coded
        shorter = [type(self)(n) for n in self.lengths[:-1]]
        dtype = atoms.atoms.dtype
        codes = encode_each(row[np.newaxis].astype(dtype), atoms, shorter, backend)
        slopes = np.zeros(len(row))
        for used in (c.indices for c in [*codes, code]):
            own = atoms.atoms[used].astype(np.float64)
            slopes += slopes_of_least_squares(own, weights[used]) / len(self.lengths)
        return slopes

    @property
    def label(self) -> str:
        """Short name for tables: F28m for the mean along a path of 28."""
        return f"{super().label}{'m' * self.path_average}"

    def __str__(self) -> str:
        return f"{self.name} pursuit{', averaged along its path' * self.path_average}"


@dataclass(frozen=True)
class Forward(Greedy):
    """Matching pursuit by the atom that lowers the residual most after projection.

    Examples
    --------
    >>> from dbdl.coding import Forward
    >>> Forward(20).label, Forward(20, path_average=True).lengths
    ('F20', (5, 7, 10, 14, 20))
    """

    name: ClassVar[str] = "forward"
    rule: ClassVar[Rule] = "forward"


@dataclass(frozen=True)
class Orthogonal(Greedy):
    """Textbook matching pursuit, by the atom best correlated with the residual.

    Examples
    --------
    As the coder of a model:

    >>> from dbdl import DBDLClassifier
    >>> from dbdl.coding import Orthogonal
    >>> DBDLClassifier(coder=Orthogonal(20)).coder.label
    'O20'
    """

    name: ClassVar[str] = "orthogonal"
    rule: ClassVar[Rule] = "orthogonal"
    automatic: ClassVar[bool] = False  # forward selection is as accurate: docs/defaults.md
