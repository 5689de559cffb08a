"""One row's pass over its usage and strengths (eqs. 9 and 10), written for clarity.

The fast backends do the same in Gram space and are tested against this.
"""

from __future__ import annotations

import math
from typing import Literal

from dbdl.model.conditionals import (
    contribution,
    strength_posterior,
    usage_log_odds,
    usage_log_odds_collapsed,
)
from dbdl.model.trust import Floats

Scan = Literal["paper", "collapsed"]


def sweep_row(
    x: Floats,
    code: Floats,
    atoms: Floats,
    selection_logit: Floats,
    strength_precision: float,
    noise_precision: float,
    scan: Scan,
    uniform: Floats,
    normal: Floats,
    prior_normal: Floats,
) -> Floats:
    """Draw the usage and strength of every atom in turn for one sample.

    Parameters
    ----------
    x : ndarray of shape (n_features,)
    code : ndarray of shape (n_atoms,)
        Current code; zero where the atom is not used.
    atoms : ndarray of shape (n_atoms, n_features)
    selection_logit, strength_precision, noise_precision : ndarray of shape (n_atoms,), float, float
        Those of the sample's class.
    scan : {"paper", "collapsed"}
        Usage given the strength (unused strengths drawn from their prior first), or with the
        strength integrated out.
    uniform, normal, prior_normal : ndarray of shape (n_atoms,)
        Random numbers for the usage, the strength, and the strength of an unused atom.

    Returns
    -------
    code : ndarray of shape (n_atoms,)
    """
    code, precisions = code.copy(), (strength_precision, noise_precision)
    for k, atom in enumerate(atoms):
        match = atom @ contribution(x, code, atoms, k)
        norm_square, logit = atom @ atom, selection_logit[k]
        if scan == "collapsed":
            log_odds = usage_log_odds_collapsed(match, norm_square, logit, *precisions)
        else:
            strength = code[k] or prior_normal[k] / math.sqrt(strength_precision)
            log_odds = usage_log_odds(match, norm_square, strength, logit, noise_precision)
        if math.log(uniform[k] / (1.0 - uniform[k])) < log_odds:
            mean, precision = strength_posterior(match, norm_square, *precisions)
            code[k] = mean + normal[k] / math.sqrt(precision)
        else:
            code[k] = 0.0
    return code
