"""Have the chains converged? Split R-hat, effective sample sizes and Monte Carlo errors.

The formulas are those of A. Vehtari, A. Gelman, D. Simpson, B. Carpenter and P.-C. Bürkner,
"Rank-normalization, folding, and localization: an improved R-hat for assessing convergence of
MCMC", Bayesian Analysis 16, 2021. Values of a scalar are arrays (n_chains, n_draws), without the
burn-in.

Only chains of one view are compared: chains of different views have different rows, so that their
posteriors differ whatever the sampler does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import rankdata

from dbdl.sampler.run import Trace

Values = NDArray[np.floating[Any]]

#: Each half of a chain needs at least this many draws for R-hat, and for effective sample sizes.
#: Few draws cannot show a long autocorrelation, and would seem to be worth more than they are.
LEAST_DRAWS, LEAST_FOR_SIZES = 4, 8
#: Sweeps of a chain, burn-in included, that have effective sample sizes.
LEAST_SWEEPS = 4 * LEAST_FOR_SIZES
#: Limits of the paper (section 4.3): chains agree if R-hat is below, and estimates of means and
#: of quantiles are stable if the effective sample sizes are above.
LARGEST_R_HAT = 1.01
LEAST_EFFECTIVE = 400
#: Quantiles whose estimates the tail effective sample size is about.
TAILS = (0.05, 0.95)


def r_hat(values: Values) -> float:
    """Rank-normalised split R-hat of values (n_chains, n_draws), the larger of bulk and tails.

    It is 1 if all halves of all chains have one distribution. NaN if the values are constant or too
    few.
    """
    halves = split(values)
    if _says_nothing(halves, LEAST_DRAWS):
        return np.nan
    folded = np.abs(halves - np.median(halves))
    return max(_plain_r_hat(rank_normalised(part)) for part in (halves, folded))


def effective_size(values: Values) -> float:
    """Effective sample size of values (n_chains, n_draws), for the estimate of their mean."""
    return _of_halves(values, _effective_size)


def bulk_effective_size(values: Values) -> float:
    """Effective sample size of the ranks of values (n_chains, n_draws), for their location."""
    return _of_halves(values, lambda halves: _effective_size(rank_normalised(halves)))


def tail_effective_size(values: Values) -> float:
    """Effective sample size for the 5 % or the 95 % quantile, the smaller one."""

    def smaller(halves: Values) -> float:
        below = (halves <= limit for limit in np.quantile(values, TAILS))
        return min(_effective_size(part.astype(np.float64)) for part in below)

    return _of_halves(values, smaller)


def standard_error(values: Values) -> float:
    """Monte Carlo standard error of the mean of values (n_chains, n_draws)."""
    spread = float(np.std(values, ddof=1)) if np.size(values) > 1 else np.nan
    return spread / float(np.sqrt(effective_size(values)))


def split(values: Values) -> Values:
    """Cut each chain into halves: (2 n_chains, n_draws // 2). A draw in the middle is left out."""
    values = np.atleast_2d(np.asarray(values, dtype=np.float64))
    half = values.shape[1] // 2
    return np.concatenate([values[:, :half], values[:, values.shape[1] - half :]])


def rank_normalised(values: Values) -> Values:
    """Normal scores of the ranks of all values, which need not have a variance."""
    rank = rankdata(values, method="average").reshape(values.shape)
    return ndtri((rank - 0.375) / (values.size + 0.25))


def _says_nothing(halves: Values, least_draws: int) -> bool:
    few = halves.shape[1] < least_draws
    return few or not np.isfinite(halves).all() or bool(np.ptp(halves) == 0)


def _of_halves(values: Values, size: Callable[[Values], float]) -> float:
    halves = split(values)
    return np.nan if _says_nothing(halves, LEAST_FOR_SIZES) else size(halves)


def _plain_r_hat(values: Values) -> float:
    n_draws = values.shape[1]
    between, within = values.mean(axis=1).var(ddof=1), values.var(axis=1, ddof=1).mean()
    if within == 0:
        return np.inf if between > 0 else np.nan
    return float(np.sqrt((n_draws - 1) / n_draws + between / within))


def _effective_size(values: Values) -> float:
    """Number of values over the autocorrelation time, by Geyer's initial monotone sequence."""
    n_chains, n_draws = values.shape
    covariance = autocovariance(values).mean(axis=0)
    within = covariance[0] * n_draws / (n_draws - 1)
    total = covariance[0] + (values.mean(axis=1).var(ddof=1) if n_chains > 1 else 0.0)
    if total == 0:  # a constant is known exactly
        return float(values.size)
    correlation = 1.0 - (within - covariance) / total
    correlation[0] = 1.0
    pairs = correlation[: (n_draws - 1) // 2 * 2].reshape(-1, 2)  # the last lags are noise
    sums = pairs.sum(axis=1)
    # The last pair, if none before it is negative, and the first negative one count half at most.
    n_summed = int(np.argmin(np.append(sums[:-1] > 0, False)))
    time = -1.0 + 2.0 * float(np.minimum.accumulate(sums[:n_summed]).sum())
    time += max(float(pairs[n_summed, 0]), 0.0)
    # Negative correlations may make chains better than independent draws, up to a limit.
    return values.size / max(time, 1.0 / float(np.log10(values.size)))


def autocovariance(values: Values) -> Values:
    """Autocovariance of each chain (n_chains, n_draws), at lags 0 to n_draws - 1."""
    n_draws = values.shape[1]
    centred = values - values.mean(axis=1, keepdims=True)
    spectrum = np.abs(np.fft.rfft(centred, 2 * n_draws, axis=1)) ** 2
    return np.fft.irfft(spectrum, 2 * n_draws, axis=1)[:, :n_draws] / n_draws


# -------------------------------------------------------------------------------------- the table


class Diagnostic(NamedTuple):
    """One traced scalar over the chains of one view.

    Attributes
    ----------
    view, quantity : str
    n_chains, n_sweeps : int
        Number of chains, and of sweeps of each after the burn-in.
    mean, standard_error : float
    r_hat, bulk, tail : float
        Split R-hat, and the effective sample sizes. NaN if the quantity is constant, or if there
        are too few sweeps: a chain needs 16 of them for R-hat, and 32 for the others.
    """

    view: str
    quantity: str
    n_chains: int
    n_sweeps: int
    mean: float
    standard_error: float
    r_hat: float
    bulk: float
    tail: float

    @property
    def is_constant(self) -> bool:
        """Whether the quantity has one value in all sweeps, which are enough to tell."""
        return self.standard_error == 0 and self.n_sweeps >= 2 * LEAST_DRAWS


@dataclass(frozen=True)
class Diagnostics:
    """Diagnostics of every traced scalar, view by view; printed as a table.

    Attributes
    ----------
    lines : tuple of Diagnostic
    least_sweeps : int
        Sweeps that a chain needs to have effective sample sizes.
    """

    least_sweeps: ClassVar[int] = LEAST_SWEEPS

    lines: tuple[Diagnostic, ...]

    @property
    def worst_r_hat(self) -> float:
        """The largest R-hat, but for the number of atoms; NaN if one of them cannot be told."""
        return float(np.max([one.r_hat for one in self._drawn] or np.nan))

    @property
    def least_effective(self) -> float:
        """The smallest effective sample size, of bulk or tails; NaN if one cannot be told."""
        return float(np.min([(one.bulk, one.tail) for one in self._drawn] or np.nan))

    @property
    def _drawn(self) -> list[Diagnostic]:
        # the number of atoms is not drawn: atoms are dropped, and chains start with different ones
        drawn = (one for one in self.lines if one.quantity != "n_atoms")
        return [one for one in drawn if not one.is_constant]

    @property
    def has_converged(self) -> bool:
        """Whether chains of one view agree and are long enough, by the limits of Vehtari et al.

        They have not if some quantity has too few sweeps, or values that are not finite.
        """
        agree = self.worst_r_hat < LARGEST_R_HAT
        return bool(agree and self.least_effective > LEAST_EFFECTIVE)

    def __repr__(self) -> str:
        titles = ("view", "quantity", "chains", "sweeps", "mean", "error", "R-hat", "bulk", "tail")
        table: list[tuple[str, ...]] = [titles]
        for before, one in zip((None, *self.lines), self.lines, strict=False):
            view = "" if before is not None and before.view == one.view else one.view
            table.append((view, *_texts(one)))
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        sides = "<<" + ">" * (len(titles) - 2)  # words to the left, numbers to the right
        form = "  ".join(f"{{:{side}{n}}}" for side, n in zip(sides, widths, strict=True))
        lines = [form.format(*words).rstrip() for words in table]
        return "\n".join([*lines, "", *_explained(self.lines)])


def _texts(one: Diagnostic) -> tuple[str, ...]:
    """Words of a line of the table, without the view."""
    numbers = (
        (one.mean, ".4g"), (one.standard_error, ".2g"),
        (one.r_hat, ".2f"), (one.bulk, ".0f"), (one.tail, ".0f"),
    )  # fmt: skip
    return (
        one.quantity, str(one.n_chains), str(one.n_sweeps),
        *("–" if np.isnan(number) else format(number, form) for number, form in numbers),
    )  # fmt: skip


def _explained(lines: Sequence[Diagnostic]) -> list[str]:
    """Return lines on what was compared, and on what is missing."""
    text = ["R-hat compares the halves of all chains of a view."]
    if any(one.n_chains == 1 for one in lines):
        text = [
            "A view with one chain: R-hat compares the two halves of the chain, and cannot see",
            "that other chains of this view would stay elsewhere.",
        ]
    if any(one.n_sweeps < 2 * LEAST_FOR_SIZES for one in lines):
        text.append(f"Errors and effective sample sizes need chains of {LEAST_SWEEPS} sweeps.")
    return text


def diagnose(traces: Sequence[Trace], views: Sequence[str]) -> Diagnostics:
    """Diagnose every traced scalar, for the chains of each view, without the first half of each.

    Parameters
    ----------
    traces : sequence of Trace
        One per chain. Of chains of different lengths, the last sweeps that all have are compared.
    views : sequence of str
        The view of each chain.
    """
    lines = []
    for view in dict.fromkeys(views):
        own = [trace for trace, name in zip(traces, views, strict=True) if name == view]
        for field in fields(Trace):
            values = kept_values(own, field.name)
            lines.append(_diagnostic(view, field.name, values))
    return Diagnostics(tuple(lines))


def kept_values(traces: Sequence[Trace], name: str) -> Values:
    """Return one traced scalar of several chains after the burn-in, (n_chains, n_kept)."""
    chains = [np.asarray(getattr(trace, name), dtype=np.float64) for trace in traces]
    n_kept = min(n_after_burn_in(len(chain)) for chain in chains)
    return np.stack([chain[len(chain) - n_kept :] for chain in chains])


def n_after_burn_in(n_sweeps: int) -> int:
    """Return the number of sweeps that are not burn-in: the second half."""
    return n_sweeps - n_sweeps // 2


def _diagnostic(view: str, quantity: str, values: Values) -> Diagnostic:
    n_chains, n_sweeps = values.shape
    error = 0.0 if np.ptp(values) == 0 else standard_error(values)
    judged = r_hat(values), bulk_effective_size(values), tail_effective_size(values)
    return Diagnostic(view, quantity, n_chains, n_sweeps, float(values.mean()), error, *judged)
