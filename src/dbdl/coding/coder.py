"""Coders: objects that turn rows into sparse codes over atoms.

A coder has a family (matching pursuit, the lasso's path, ...) and a number of non-zeros. It says on
which devices it runs, and encodes rows over atoms that were prepared once. `dbdl.coding.FAMILIES`
is the table of families: a new one is a file with a class and a line in that table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from scipy.sparse import csr_matrix

from dbdl.coding._scales import by_scale, unsafe_exponents
from dbdl.coding.omp import gram_matrix
from dbdl.model.record import Record
from dbdl.model.trust import AtLeastOne, Doubles, Positive, reals
from dbdl.model.trust import Floats as Floats


@dataclass(frozen=True)
class CodePrior(Record):
    """The model's distribution of the code of a new row of unknown class.

    Attributes
    ----------
    probability : ndarray of shape (n_atoms,)
        Probability that a row uses the atom: the mean over the classes, by their frequency.
    precision : ndarray of shape (n_atoms,)
        Precision of the coefficient of an atom that is used.
    noise_precision : float

    Examples
    --------
    >>> import numpy as np
    >>> from dbdl.coding import CodePrior
    >>> CodePrior(np.array([0.9, 0.1]), np.ones(2), 100.0).noise_precision
    100.0
    """

    probability: Annotated[Doubles, reals("n_atoms", least=0)]
    precision: Annotated[Doubles, reals("n_atoms", least=0)]
    noise_precision: Positive


class PreparedAtoms:
    """Atoms with their Gram matrices, which coders share and which are computed once.

    Parameters
    ----------
    atoms : ndarray of shape (n_atoms, n_features)
    prior : CodePrior, optional
        Needed by coders that sample.

    Examples
    --------
    >>> import numpy as np
    >>> from dbdl.coding import PreparedAtoms
    >>> atoms = PreparedAtoms(np.array([[1.0, 0.0], [0.6, 0.8]]))
    >>> atoms.gram()
    array([[1. , 0.6],
           [0.6, 1. ]])
    >>> atoms.longest(10)
    2
    """

    def __init__(self, atoms: Floats, prior: CodePrior | None = None) -> None:
        self.atoms, self.prior = atoms, prior
        self._grams: dict[np.dtype[Any], Floats] = {}

    def __len__(self) -> int:
        return len(self.atoms)

    def gram(self, n_threads: int = 1) -> Floats:
        """Inner products of the atoms. The first call computes them, on this many threads."""
        return self._gram_in(self.atoms.dtype, n_threads)

    def wide_gram(self, n_threads: int = 1) -> Floats:
        """Inner products in float64, which the lasso needs for similar atoms."""
        return self._gram_in(np.dtype(np.float64), n_threads)

    def _gram_in(self, dtype: np.dtype[Any], n_threads: int) -> Floats:
        if dtype not in self._grams:
            self._grams[dtype] = gram_matrix(self.atoms.astype(dtype, copy=False), n_threads)
        return self._grams[dtype]

    def longest(self, n_nonzero: int) -> int:
        """Return ``n_nonzero``, or the largest number of non-zeros that these atoms allow."""
        return min(n_nonzero, *self.atoms.shape)


class Paths(Protocol):
    """Greedy paths of rows."""

    def to_csr(self, which: Sequence[int], n_atoms: int) -> csr_matrix:
        """Codes (n_samples, n_atoms): the mean over the path lengths at these indices."""


class CodingBackend(Protocol):
    """The part of a backend that codes rows."""

    #: "cpu" or "cuda".
    device_kind: ClassVar[str]

    @property
    def n_threads(self) -> int:
        """Number of threads on the CPU."""

    def pursue(self, X: Floats, atoms: PreparedAtoms, lengths: Sequence[int], rule: Any) -> Paths:
        """Greedy paths of rows, as `dbdl.coding.omp.encode`."""


class CodedRow(NamedTuple):
    """A row with its code, and what the code was made with."""

    row: Doubles  # (n_features,)
    code: csr_matrix  # (1, n_atoms)
    atoms: PreparedAtoms
    backend: CodingBackend


@dataclass(frozen=True)
class Coder(Record, ABC):
    """Codes rows over atoms, with at most ``n_nonzero`` non-zeros each.

    A family is a subclass.

    Attributes
    ----------
    name : str
        Name of the family.
    devices : frozenset of str
        Devices with kernels for the family. On others it runs on the CPU, and "auto" skips it.
    automatic : bool
        Whether "auto" tries the family.
    n_nonzero : int
    """

    name: ClassVar[str]
    devices: ClassVar[frozenset[str]] = frozenset({"cpu"})
    automatic: ClassVar[bool] = True

    n_nonzero: AtLeastOne

    @classmethod
    def candidates(cls, lengths: Sequence[int], alone: bool) -> list[Self]:
        """Coders of the family worth trying for these numbers of non-zeros.

        ``alone`` is True if no other family is tried.
        """
        return [cls(n) for n in lengths]

    @classmethod
    @abstractmethod
    def encode_each(
        cls, coders: Sequence[Any], X: Floats, atoms: PreparedAtoms, backend: CodingBackend
    ) -> list[csr_matrix]:
        """Codes (n_samples, n_atoms) of rows by several coders of the family, which share work.

        The squares of the rows neither overflow nor vanish.
        """

    @property
    def label(self) -> str:
        """Short name for tables: F28 for "forward" with 28 non-zeros."""
        return f"{self.name[0].upper()}{self.n_nonzero}"

    def encode(self, X: Floats, atoms: PreparedAtoms, backend: CodingBackend) -> csr_matrix:
        """Codes (n_samples, n_atoms) of rows on any scale, in the dtype of the atoms."""
        return encode_each(X, atoms, [self], backend)[0]

    def slopes(self, coded: CodedRow, weights: Doubles) -> Doubles:
        """Slopes (n_features,) of ``weights @ code`` in the features of a row, for explanations.

        ``coded`` has the row with its code by this coder, and ``weights`` the shape (n_atoms,). A
        family whose codes are linear in the row, given the atoms that they use, returns the exact
        slopes. Others have these differences, which are useful only if a small change of the row
        changes its code a little.
        """
        row, _, atoms, backend = coded
        dtype = atoms.atoms.dtype
        step = float(np.finfo(dtype).eps) ** (1 / 3) * (np.abs(row).max() or 1.0)
        near = np.concatenate([row + step * np.eye(len(row)), row - step * np.eye(len(row))])
        up, down = np.split(self.encode(near.astype(dtype), atoms, backend) @ weights, 2)
        return (up - down) / (2 * step)


def slopes_of_least_squares(atoms: Doubles, weights: Doubles, penalty: Any = 0.0) -> Doubles:
    """Slopes (n_features,) of ``weights @ code`` for least squares over a few atoms.

    ``penalty`` (n_atoms,) or a number is that of the squared coefficients.
    """
    if np.any(penalty):
        gram = atoms @ atoms.T + np.diag(np.broadcast_to(penalty, len(atoms)))
        return np.linalg.solve(gram, weights) @ atoms
    return np.asarray(np.linalg.lstsq(atoms, weights, rcond=None)[0], dtype=np.float64)


def encode_each(
    X: Floats, atoms: PreparedAtoms, coders: Sequence[Coder], backend: CodingBackend
) -> list[csr_matrix]:
    """Codes of rows by each coder; coders of one family share their work.

    Examples
    --------
    >>> import numpy as np
    >>> from dbdl.backends import NumbaBackend
    >>> from dbdl.coding import Forward, PreparedAtoms, encode_each
    >>> X, atoms = np.array([[3.0, 0.0, 1.0]]), PreparedAtoms(np.eye(3))
    >>> short, long = encode_each(X, atoms, [Forward(1), Forward(2)], NumbaBackend())
    >>> short.toarray(), long.toarray()
    (array([[3., 0., 0.]]), array([[3., 0., 1.]]))
    """
    X = np.ascontiguousarray(X, dtype=atoms.atoms.dtype)

    def encode(rows: Floats, exponent: int) -> list[csr_matrix]:
        codes: dict[Coder, csr_matrix] = {}
        for family in {type(coder): None for coder in coders}:
            own = [coder for coder in coders if type(coder) is family]
            codes.update(zip(own, family.encode_each(own, rows, atoms, backend), strict=True))
        return [codes[coder] for coder in coders]

    return by_scale(encode, X, unsafe_exponents(X))
