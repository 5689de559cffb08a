"""The state of a chain, all unknowns of eq. 6: small global parameters and large local codes.

They are apart so that codes stay where their rows are, on a cluster too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from dbdl.model.record import ArrayRecord
from dbdl.model.trust import Array, Atoms, of_rows, reals, whole
from dbdl.model.trust import Classes as Classes
from dbdl.model.trust import Doubles as Doubles
from dbdl.model.trust import Floats as Floats


@dataclass(frozen=True)
class Codes(ArrayRecord):
    """Sparse codes, usage times strength, row by row (compressed sparse rows).

    A row uses exactly the atoms that are listed for it. The strengths of unused atoms follow their
    prior given everything else, so they are drawn where needed and never stored.

    Attributes
    ----------
    row_start : ndarray of shape (n_samples + 1,)
    atom : ndarray of shape (n_nonzero,)
        Indices of atoms, ascending within a row.
    strength : ndarray of shape (n_nonzero,)
    """

    row_start: Annotated[NDArray[np.int64], Array(("n_samples+1",), (np.int64,), least=0)]
    atom: Annotated[NDArray[np.int32], Array(("n_used",), (np.int32,), least=0, below="n_atoms")]
    strength: Annotated[Floats, of_rows("n_used")]

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return len(self.row_start) - 1

    def faults(self) -> Iterator[str]:
        """Report rows that are not listed in order, with each atom once."""
        if self.row_start[0] != 0 or self.row_start[-1] != len(self.atom):
            yield f"row_start does not lead from 0 to the {len(self.atom)} entries of atom"
        elif (self.row_start[1:] < self.row_start[:-1]).any():
            yield "row_start is not ascending"
        else:
            first = np.zeros(len(self.atom) + 1, dtype=bool)
            first[self.row_start] = True
            if not (first[1:-1] | (self.atom[1:] > self.atom[:-1])).all():
                yield "atom is not ascending within each row"

    def to_dense(self, n_atoms: int) -> Floats:
        """Return the codes as a dense array (n_samples, n_atoms), for small problems and tests."""
        return self.to_sparse(n_atoms).toarray()

    def times(self, atoms: Floats) -> Floats:
        """Return the rows ``codes @ atoms`` (n_samples, n_features)."""
        return self.to_sparse(len(atoms)) @ atoms

    def to_sparse(self, n_atoms: int) -> csr_matrix:
        """Return the codes as a sparse matrix (n_samples, n_atoms)."""
        parts = (self.strength, self.atom, self.row_start)
        return csr_matrix(parts, shape=(self.n_samples, n_atoms))

    @staticmethod
    def from_sparse(codes: csr_matrix) -> Codes:
        """Codes from a sparse matrix (n_samples, n_atoms)."""
        return Codes(codes.indptr.astype(np.int64), codes.indices.astype(np.int32), codes.data)

    @staticmethod
    def from_dense(dense: Floats) -> Codes:
        """Codes from the non-zero entries of ``dense`` (n_samples, n_atoms)."""
        return Codes.from_sparse(csr_matrix(dense))

    @staticmethod
    def stacked(parts: Sequence[Codes]) -> Codes:
        """Codes of all rows from the codes of consecutive parts."""
        listed = np.concatenate([np.diff(part.row_start) for part in parts])
        atom, strength = ([getattr(part, name) for part in parts] for name in ("atom", "strength"))
        row_start = np.concatenate([[0], np.cumsum(listed)])
        return Codes(row_start, np.concatenate(atom), np.concatenate(strength))

    def of_rows(self, rows: slice) -> Codes:
        """Codes of some rows."""
        start = self.row_start[rows.start : rows.stop + 1]
        entries = slice(start[0], start[-1])
        return Codes(start - start[0], self.atom[entries], self.strength[entries])

    def keep(self, kept: NDArray[np.intp], n_atoms: int) -> Codes:
        """Codes over the atoms in ``kept`` (ascending) of ``n_atoms``; the others are removed."""
        new_index = np.full(n_atoms, -1, dtype=np.int32)
        new_index[kept] = np.arange(len(kept), dtype=np.int32)
        atom = new_index[self.atom]
        stays = atom >= 0
        listed_before = np.concatenate([[0], np.cumsum(stays)])
        return Codes(listed_before[self.row_start], atom[stays], self.strength[stays])


@dataclass(frozen=True)
class Parameters(ArrayRecord):
    """Global parameters, with the paper's symbols in brackets.

    Attributes
    ----------
    atoms : ndarray of shape (n_atoms, n_features)
        [Phi, transposed]
    selection_logit : ndarray of shape (n_classes, n_atoms)
        log(pi / (1 - pi)), since the probabilities reach 1e-300 and below.
    strength_precision : ndarray of shape (n_classes,)
        [lambda_s]
    noise_precision : ndarray of shape (n_classes,)
        [lambda_epsilon]; equal entries unless the noise is modelled per class.
    births : ndarray of shape (n_atoms,)
        Number given to each atom when it was born, which addresses its random draws.
    """

    atoms: Atoms
    selection_logit: Annotated[Doubles, reals("n_classes", "n_atoms")]
    strength_precision: Annotated[Doubles, reals("n_classes", least=0)]
    noise_precision: Annotated[Doubles, reals("n_classes", least=0)]
    births: Annotated[NDArray[np.int64], whole("n_atoms", ascending=True)]

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""
        return len(self.atoms)

    def keep(self, kept: NDArray[np.intp]) -> Parameters:
        """Parameters of the atoms in ``kept``."""
        atoms, births, logit = self.atoms[kept], self.births[kept], self.selection_logit[:, kept]
        return replace(self, atoms=atoms, births=births, selection_logit=logit)


@dataclass(frozen=True)
class State:
    """State of a chain: everything that the next step needs.

    ``codes`` belong to the backend that made them: `Codes` on this machine, handles elsewhere.
    """

    parameters: Parameters
    codes: Any
    sweep: int
