"""Label atoms: the linear map from sparse codes to class scores (paper, section 4.3 and eq. 15)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from dbdl._arrays import unit_rows
from dbdl.backends.base import Backend
from dbdl.draws import Key
from dbdl.learn.chain import ChainSettings, LearnedChain
from dbdl.model.atom_priors import IsotropicPrior
from dbdl.model.ridge import ridge
from dbdl.model.state import Classes, Floats, Parameters, State
from dbdl.model.statistics import Weights
from dbdl.sampler.posterior import Dictionary
from dbdl.sampler.run import run

#: Least norm of the features of an atom, as a fraction of its norm over features and labels.
LEAST_FEATURES = 1e-100


def one_hot(class_of_row: Classes, n_classes: int) -> NDArray[np.float64]:
    """Label rows (n_samples, n_classes): 1 at the class, 0 elsewhere [H, transposed]."""
    return np.eye(n_classes)[class_of_row]


def ridge_label_atoms(
    codes: csr_matrix,
    class_of_row: Classes,
    n_classes: int,
    penalty: float,
    backend: Backend | None = None,
    sample_weight: Weights = None,
) -> NDArray[np.float64]:
    """Ridge regression of the labels on codes (eq. 15): label atoms (n_atoms, n_classes)."""
    solve = ridge if backend is None else backend.ridge
    target = one_hot(class_of_row, n_classes)
    return solve(*root_weighted(codes, target, sample_weight), penalty)


def root_weighted(
    codes: csr_matrix, target: NDArray[np.float64], sample_weight: Weights
) -> tuple[csr_matrix, NDArray[np.float64]]:
    """Codes and targets times the roots of the weights, so that their products are weighted."""
    if sample_weight is None:
        return codes, target
    root = np.sqrt(sample_weight)
    return csr_matrix(codes.multiply(root[:, np.newaxis])), target * root[:, np.newaxis]


def gibbs_label_atoms(
    key: Key, learned: LearnedChain, settings: ChainSettings, penalty: float, backend: Backend
) -> NDArray[np.float64]:
    """Infer label atoms by the model itself, with fixed selection probabilities (section 4.3).

    The labels take the place of the data, H = codes W + noise. Their precisions are separate and
    have the same initial values as those of the dictionary. W starts at the ridge solution, and the
    codes at those of the dictionary. Returns label atoms (n_atoms, n_classes) for the published
    codes.
    """
    last, data, dtype = learned.chain.state, learned.data, learned.dictionary.atoms.dtype
    labels = backend.labels(data)
    scale = learned.dictionary.scale[:, np.newaxis]
    start = scale * backend.ridge_labels(data, last.codes, learned.dictionary.scale, penalty)
    parameters = Parameters(
        atoms=backend.put(start.astype(dtype)),
        selection_logit=last.parameters.selection_logit,
        strength_precision=np.full(data.n_classes, settings.strength_precision),
        noise_precision=np.full(data.n_classes, settings.noise_precision),
        births=last.parameters.births,
    )
    # The paper's lambda_k is the number of features, which for labels is n_classes.
    priors = replace(learned.chain.priors, atoms=IsotropicPrior(float(data.n_classes)))
    chain = run(
        key,
        State(parameters, last.codes, last.sweep + settings.n_atom_draws),  # skips used draws
        labels,
        priors,
        replace(settings.options, sample_selection=False),
        backend,
        settings.n_sweeps,
        drop_unused=False,
    )
    now = chain.state.parameters
    sums = backend.gather(labels, chain.state.codes, now.n_atoms, now.noise_precision)
    mean = backend.mean_atoms(priors.atoms.posterior(sums, backend))
    return backend.to_host(mean) / scale


def append_labels(X: Floats, class_of_row: Classes, n_classes: int, weight: float) -> Floats:
    """Append sqrt(weight) times the labels to the rows: (n_samples, n_features + n_classes)."""
    labels = np.sqrt(weight) * one_hot(class_of_row, n_classes)
    return np.hstack([X, labels.astype(X.dtype)])


def split_labels(
    dictionary: Dictionary, n_features: int, weight: float
) -> tuple[Dictionary, NDArray[np.float64]]:
    """Split a dictionary of `append_labels` rows into atoms of unit norm and label atoms."""
    features, labels = dictionary.atoms[:, :n_features], dictionary.atoms[:, n_features:]
    norm = np.linalg.norm(features.astype(np.float64), axis=1)
    # an atom of labels alone becomes zero and is not published
    features = np.where(norm[:, np.newaxis] > LEAST_FEATURES, features, 0.0)
    norm[norm <= LEAST_FEATURES] = 1.0
    atoms = unit_rows(features).astype(dictionary.atoms.dtype)
    split = replace(dictionary, atoms=atoms, scale=dictionary.scale * norm)
    return split, labels / (np.sqrt(weight) * norm[:, np.newaxis])
