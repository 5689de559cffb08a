"""The posterior mean of a code given its row, by Gibbs sampling with fixed atoms.

Usage and strengths are drawn as in the model (eqs. 9 and 10, with the strength integrated out of
the usage), starting from the greedy code. The class of a new row is unknown, so the probability
that it uses an atom is the mean over the classes. The first few draws are discarded and the rest
averaged. Draws are addressed by the row's content, not by its position, so that a single query has
the same code as in a batch.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_matrix

from dbdl._compile import kernel
from dbdl._products import row_products
from dbdl._threads import block_slices, run_blocks
from dbdl.coding.coder import (
    CodedRow,
    Coder,
    CodingBackend,
    Floats,
    PreparedAtoms,
    slopes_of_least_squares,
)
from dbdl.draws import Site, two_normals, two_uniforms
from dbdl.model.trust import AtLeastOne, Doubles

#: Fraction of the sweeps that are discarded, in which the chain moves away from the greedy code.
BURN_IN = 0.2
#: Rows sampled by one call of the kernel.
ROWS = 32
#: Probabilities are clipped this far from 0 and 1.
SURE = 1e-12

_USAGE, _STRENGTH = np.int64(Site.USAGE), np.int64(Site.STRENGTH)
_PLACE, _FIRST = np.int64(0), np.int64(0)


@dataclass(frozen=True)
class PosteriorMean(Coder):
    """Mean of Gibbs draws of a code, of which the ``n_nonzero`` largest entries are kept.

    Attributes
    ----------
    n_sweeps : int
        Passes over the atoms.

    Examples
    --------
    >>> import numpy as np
    >>> from dbdl.backends import NumbaBackend
    >>> from dbdl.coding import CodePrior, PosteriorMean, PreparedAtoms
    >>> prior = CodePrior(np.full(3, 0.5), np.ones(3), 1e4)
    >>> atoms = PreparedAtoms(np.eye(3), prior)
    >>> X = np.array([[3.0, 0.0, 1.0]])
    >>> PosteriorMean(2).encode(X, atoms, NumbaBackend()).toarray().round(1)
    array([[3., 0., 1.]])
    """

    name: ClassVar[str] = "posterior mean"
    automatic: ClassVar[bool] = False

    n_sweeps: AtLeastOne = 30

    @classmethod
    def encode_each(
        cls, coders: Sequence[Any], X: Floats, atoms: PreparedAtoms, backend: CodingBackend
    ) -> list[csr_matrix]:
        """Codes by each coder, from its own greedy start."""
        lengths = [atoms.longest(coder.n_nonzero) for coder in coders]
        paths = backend.pursue(X, atoms, lengths, "forward")
        starts = [paths.to_csr([i], len(atoms)) for i in range(len(lengths))]
        return [
            sample_codes(X, start, atoms, coder.n_sweeps, n, backend.n_threads)
            for coder, n, start in zip(coders, lengths, starts, strict=True)
        ]

    def slopes(self, coded: CodedRow, weights: Doubles) -> Doubles:
        """Slopes of the posterior mean given that exactly the atoms of the code are used.

        The draws of a row are addressed by its content, so those of a row nearby are others, and
        differences between their codes would be noise.
        """
        used, atoms, prior = coded.code.indices, coded.atoms.atoms, coded.atoms.prior
        assert prior is not None
        penalty = prior.precision[used] / prior.noise_precision
        return slopes_of_least_squares(atoms[used].astype(np.float64), weights[used], penalty)

    def __str__(self) -> str:
        return "the posterior mean"


def sample_codes(
    X: Floats,
    start: csr_matrix,
    atoms: PreparedAtoms,
    n_sweeps: int,
    n_nonzero: int,
    n_threads: int = 1,
) -> csr_matrix:
    """Posterior means of the codes of rows (n_samples, n_features), starting from given codes.

    Returns
    -------
    codes : csr_matrix of shape (n_samples, n_atoms)
        The ``n_nonzero`` largest entries of each mean, in the dtype of the rows.
    """
    prior = atoms.prior
    if prior is None:
        raise ValueError(
            "these atoms have no prior for codes: the posterior mean needs a dictionary learned by "
            "DBDLClassifier or BetaProcessDictionary. Use another coder."
        )
    wide, dictionary = X.astype(np.float64), atoms.atoms.astype(np.float64)
    probability = prior.probability.clip(SURE, 1 - SURE)
    logit = np.log(probability / (1 - probability))
    n_skipped = int(BURN_IN * n_sweeps)
    gram, means = atoms.wide_gram(n_threads), np.zeros((len(X), len(atoms)))

    def sample(rows: slice) -> None:
        match = row_products(wide[rows], dictionary)
        code = start[rows].toarray().astype(np.float64)
        for i in np.flatnonzero(X[rows].any(axis=1)):  # the mean of a zero row's code is zero
            _sample_row(
                _key_of(X[rows][i]), match[i], code[i], gram, logit, prior.precision,
                prior.noise_precision, n_sweeps, n_skipped, means[rows][i],
            )  # fmt: skip

    run_blocks(sample, block_slices(len(X), ROWS), n_threads)
    if n_nonzero < means.shape[1]:
        smallest = np.argpartition(-np.abs(means), n_nonzero, axis=1)[:, n_nonzero:]
        np.put_along_axis(means, smallest, 0.0, axis=1)
    return csr_matrix(means.astype(X.dtype))


def _key_of(row: Floats) -> tuple[int, int]:
    """Key of the draws of a row; adding zero turns -0.0 into 0.0."""
    digest = hashlib.blake2b((row + 0.0).tobytes(), digest_size=8).digest()
    low, high = np.frombuffer(digest, dtype="<u4")
    return int(low), int(high)


@kernel()
def _sample_row(
    key, match, code, gram, logit, precision, noise_precision, n_sweeps, n_skipped, mean
):
    """Add up draws of one row's code; ``match`` holds its inner products with the atoms.

    ``match`` is updated to exclude what the code explains: drawing an entry then reads one value.
    """
    n_atoms = len(match)
    for k in range(n_atoms):
        if code[k] != 0.0:
            for j in range(n_atoms):
                match[j] -= code[k] * gram[k, j]
    for sweep in range(n_sweeps):
        for k in range(n_atoms):
            own = match[k] + code[k] * gram[k, k]
            posterior = precision[k] + noise_precision * gram[k, k]
            centre = noise_precision * own / posterior
            log_odds = (
                logit[k]
                + 0.5 * math.log(precision[k] / posterior)
                + 0.5 * centre * centre * posterior
            )
            uniform = two_uniforms(key, _USAGE, _PLACE, k, sweep, _FIRST)[0]
            drawn = 0.0
            if math.log(uniform / (1.0 - uniform)) < log_odds:
                noise = two_normals(key, _STRENGTH, _PLACE, k, sweep, _FIRST)[0]
                drawn = centre + noise / math.sqrt(posterior)
            change = drawn - code[k]
            if change != 0.0:
                for j in range(n_atoms):
                    match[j] -= change * gram[k, j]
                code[k] = drawn
        if sweep >= n_skipped:
            for k in range(n_atoms):
                mean[k] += code[k] / (n_sweeps - n_skipped)
