"""Errors are planted on purpose, one at a time: do the tests notice?

    python -m benchmarks.mutants [--list] [--minutes 10] [name ...]

Each error of the table below is planted in a copy of the source tree, in a temporary folder. The
few test files that should notice it are run there. The resulting table says which test noticed. An
error that survives is a claim that no test makes: write that test. The same files are first run
without an error, because a test that fails anyway notices nothing.

The tests do not run this: an error in a kernel has to be compiled first, and all errors take about
half an hour on two cores.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
#: Parts of the source tree that the tests need.
COPIED = ("src", "tests", "benchmarks", "pyproject.toml")


class Mutant(NamedTuple):
    """An error: ``old`` becomes ``new`` in a file under ``src/dbdl``, noticed by files in tests.

    Keep ``old`` short, a line or a part of one, so that it survives other changes of the file; it
    must occur exactly once. Keep kernels of `dbdl.draws` out of it: all others are made of them.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def mutant(name: str, file: str, old: str, new: str, *tests: str) -> Mutant:
    return Mutant(name, file, old, new, tests)


MUTANTS = (
    # Survivors of the first study.
    mutant(
        "ridge-penalty-doubled",
        "model/ridge.py",
        "+= penalty",
        "+= 2 * penalty",
        "model/test_ridge.py",
    ),
    mutant(
        "unused-counts-used",
        "sampler/gibbs.py",
        "n_unused = data.n_rows * now.n_atoms - self.sums.n_strengths",
        "n_unused = data.n_rows * now.n_atoms",
        "sampler/test_gibbs.py",
    ),
    mutant(
        "sweep-number-off-by-one",
        "estimators/_progress.py",
        "if stop or chain.n_done == chain.n_sweeps:",
        "if stop or chain.n_done == chain.n_sweeps - 1:",
        "estimators/test_progress.py",
    ),
    mutant(
        "mean-of-one-draw-too-few",
        "sampler/posterior.py",
        "for draw in range(n_draws):",
        "for draw in range(n_draws - 1):",
        "sampler/test_posterior.py",
    ),
    mutant(
        "remainders-not-shared",
        "sampler/start.py",
        "share[order[:missing]] += 1",
        "share[order[:missing]] += 0",
        "sampler/test_start.py",
    ),
    mutant(
        "tol-reached-is-not-enough",
        "coding/omp.py",
        "taken out\n        while t < longest and remaining > limit",
        "taken out\n        while t < longest and remaining >= limit",
        "coding/test_omp.py",
    ),
    mutant(
        "screen-never-doubted",
        "coding/omp.py",
        "CORRELATION_SLACK = 1e-3",
        "CORRELATION_SLACK = 1e30",
        "coding/test_omp.py",
    ),
    mutant(
        "noise-floor-a-hundred-times",
        "coding/omp.py",
        "NOISE = 4.0",
        "NOISE = 400.0",
        "coding/test_omp.py",
    ),
    mutant(
        "last-of-equal-scores",
        "coding/omp.py",
        "k < best",
        "k > best",
        "coding/test_omp.py",
    ),
    mutant(
        "earlier-batches-in-full",
        "learn/choice.py",
        "weight = WEIGHT_OF_EARLIER * before.n_rows",
        "weight = before.n_rows",
        "learn/test_choice.py",
    ),
    mutant(
        "held-out-rows-learned",
        "learn/members.py",
        "rows = problem.rows_of(share.fold.learn)",
        "rows = problem.rows_of(np.concatenate(share.fold))",
        "views/test_views.py",
    ),
    mutant(
        "gibbs-labels-not-rescaled",
        "learn/labels.py",
        "backend.to_host(mean) / scale",
        "backend.to_host(mean)",
        "learn/test_labels.py",
    ),
    # The same errors in other places.
    mutant(
        "folds-overlap",
        "learn/held_out.py",
        "Fold(np.flatnonzero(fold_of_row != fold)",
        "Fold(np.arange(len(fold_of_row))",
        "learn/test_held_out.py",
    ),
    mutant(
        "batches-not-forgotten",
        "learn/batches.py",
        "known = forget(known, forgetting,",
        "known = forget(known, 1.0,",
        "estimators/test_partial_fit.py",
    ),
    mutant(
        "chain-begins-late",
        "estimators/_progress.py",
        "if chain.n_done == 1:",
        "if chain.n_done == 2:",
        "estimators/test_progress.py",
    ),
    mutant(
        "norm-screen-never-doubted",
        "coding/omp.py",
        "NORM_FLOOR = 3e-4",
        "NORM_FLOOR = 1e-30",
        "coding/test_omp.py",
    ),
    # The sampler and its sums.
    mutant(
        "noise-of-one-feature",
        "sampler/gibbs.py",
        "n_values = (priors.n_rows(data.n_rows) * now.atoms.shape[1])",
        "n_values = (priors.n_rows(data.n_rows) * 1)",
        "sampler/test_gibbs.py",
    ),
    mutant(
        "strengths-without-their-half",
        "model/conditionals.py",
        "priors.strength_rate + 0.5 * square",
        "priors.strength_rate + square",
        "model/test_conditionals.py",
    ),
    mutant(
        "tree-leans-right",
        "model/statistics.py",
        "return (n_parts + 1) // 2",
        "return n_parts // 2",
        "model/test_statistics.py",
    ),
    mutant(
        "weights-of-rows-lost",
        "backends/numba_cpu.py",
        "row_weight = data.row_weight(precision_of_class)",
        "row_weight = np.ones(len(data.X))",
        "backends/test_backends_agree.py",
    ),
    mutant(
        "snapshot-after-the-last-sweep",
        "sampler/run.py",
        "if done < n_sweeps and",
        "if done <= n_sweeps and",
        "sampler/test_checkpoint.py",
    ),
    # Diagnostics, draws and callbacks.
    mutant(
        "halves-of-chains-not-split",
        "sampler/diagnostics.py",
        "half = values.shape[1] // 2",
        "half = values.shape[1]",
        "sampler/test_diagnostics.py",
    ),
    mutant(
        "autocorrelation-time-halved",
        "sampler/diagnostics.py",
        "2.0 * float(np.minimum.accumulate",
        "1.0 * float(np.minimum.accumulate",
        "sampler/test_diagnostics.py",
    ),
    mutant(
        "views-diagnosed-together",
        "sampler/diagnostics.py",
        "if name == view]",
        "if name]",
        "sampler/test_diagnostics.py",
    ),
    mutant(
        "draws-of-dropped-atoms",
        "sampler/kept_draws.py",
        "np.searchsorted(draw.births, births)",
        "np.arange(len(births))",
        "sampler/test_kept_draws.py",
    ),
    mutant(
        "draws-of-the-first-half",
        "sampler/kept_draws.py",
        "n_sweeps // 2, 1",
        "n_sweeps // 3, 1",
        "sampler/test_kept_draws.py",
    ),
    mutant(
        "draws-forgotten-by-snapshots",
        "sampler/run.py",
        "state.sweep, priors, trace, draws=draws",
        "state.sweep, priors, trace",
        "sampler/test_kept_draws.py",
    ),
    mutant(
        "drawn-atoms-with-labels-of-unit-atoms",
        "learn/members.py",
        "label_atoms = self.label_atoms / norm[:, np.newaxis]",
        "label_atoms = self.label_atoms",
        "estimators/test_draws_of_the_classifier.py",
    ),
    mutant(
        "callbacks-cannot-stop",
        "sampler/run.py",
        "if journal.tell(records[-1], now):",
        "if journal.tell(records[-1], now) is None:",
        "estimators/test_progress.py",
    ),
    # Priors and pruning.
    mutant(
        "beta-of-all-atoms",
        "model/priors.py",
        "self.usage_b * (self.n_atoms - 1)",
        "self.usage_b * self.n_atoms",
        "model/test_priors.py",
    ),
    mutant(
        "dropped-atoms-conditioned-on",
        "model/atom_priors.py",
        "self.precision[np.ix_(kept, kept)] - link @ across",
        "self.precision[np.ix_(kept, kept)]",
        "model/test_priors.py",
    ),
    mutant(
        "new-atoms-with-old-precision",
        "model/atom_priors.py",
        "precision[n_atoms:, n_atoms:] = added.precision",
        "precision[n_atoms:, n_atoms:] = self.precision[0, 0] * np.eye(n_new)",
        "model/test_priors.py",
    ),
    mutant(
        "energy-at-the-bar-dropped",
        "model/prune.py",
        "energy * norm_square >= least_energy",
        "energy * norm_square > least_energy",
        "model/test_prune.py",
    ),
    mutant(
        "class-keeps-its-least-used-atom",
        "model/prune.py",
        "keep[np.argmax(class_count)] = True",
        "keep[np.flatnonzero(class_count)[0]] = True",
        "model/test_prune.py",
    ),
    mutant(
        "two-atoms-that-explain-least",
        "model/prune.py",
        "np.argsort(-sums.energy * norm_square, kind",
        "np.argsort(sums.energy * norm_square, kind",
        "model/test_prune.py",
    ),
    # Coders.
    mutant(
        "mean-of-the-path-without-its-start",
        "coding/greedy.py",
        "if start <= n < self.n_nonzero",
        "if start < n < self.n_nonzero",
        "coding/test_coders.py",
    ),
    mutant(
        "mean-over-one-length-too-many",
        "coding/omp.py",
        "+= part / len(parts)",
        "+= part / (len(parts) + 1)",
        "coding/test_omp.py",
    ),
    mutant(
        "lasso-with-one-atom-more",
        "coding/lasso.py",
        "else [int(n_nonzero)]",
        "else [int(n_nonzero) + 1]",
        "coding/test_lasso.py",
    ),
    mutant(
        "lasso-penalty-passed",
        "coding/lasso.py",
        "lowest = max(problem.penalty, floor)",
        "lowest = max(0.99 * problem.penalty, floor)",
        "coding/test_lasso.py",
    ),
    mutant(
        "lasso-passes-a-tie",
        "coding/lasso.py",
        "passed = not ties",
        "passed = True",
        "coding/test_lasso.py",
    ),
    mutant(
        "lasso-passed-with-the-next-atom",
        "coding/lasso.py",
        "n_coded = n_after - passed",
        "n_coded = n_after",
        "coding/test_lasso.py",
    ),
    # Choice on held-out rows, and calibration.
    mutant(
        "worst-coder-chosen",
        "learn/held_out.py",
        "best = int(np.argmin(losses))",
        "best = int(np.argmax(losses))",
        "learn/test_held_out.py",
    ),
    mutant(
        "labels-smoothed-twice",
        "learn/held_out.py",
        "smoothing = 1.0 / (total_weight",
        "smoothing = 2.0 / (total_weight",
        "learn/test_held_out.py",
    ),
    # Coders as objects, journals, settings.
    mutant(
        "posterior-mean-of-all-sweeps",
        "coding/posterior_mean.py",
        "if sweep >= n_skipped:",
        "if sweep >= 0:",
        "coding/test_posterior_mean.py",
    ),
    mutant(
        "posterior-mean-without-the-prior-s-precision",
        "coding/posterior_mean.py",
        "posterior = precision[k] + noise_precision * gram[k, k]",
        "posterior = noise_precision * gram[k, k]",
        "coding/test_posterior_mean.py",
    ),
    mutant(
        "draws-by-the-place-of-a-row",
        "coding/posterior_mean.py",
        "_key_of(X[rows][i])",
        "_key_of(X[rows][0])",
        "coding/test_coders.py",
    ),
    mutant(
        "chains-of-other-sizes-not-counted",
        "estimators/_base.py",
        "for k, n in one.sweeps_of_chains().items()",
        "for k, n in one.sweeps_of_chains().items() if one is problem",
        "estimators/test_progress.py",
    ),
    mutant(
        "chains-not-resumed",
        "learn/journal.py",
        "own.remember(kept.snapshot)",
        "pass",
        "estimators/test_resume.py",
    ),
    mutant(
        "calibrated-all-the-same",
        "learn/choice.py",
        "temperature = temperature if candidates.calibrate else 1.0",
        "pass",
        "learn/test_choice.py",
    ),
    mutant(
        "hyper-prior-ignored",
        "learn/chain.py",
        "noise_rate=self.hyper_prior",
        "noise_rate=1e-6",
        "learn/test_chain.py",
    ),
    mutant(
        "settings-of-the-start-ignored",
        "learn/chain.py",
        "selection=settings.start_selection",
        'selection="counts"',
        "model/test_settings.py",
    ),
    mutant(
        "left-over-work-has-one-thread",
        "backends/crew.py",
        "n_threads = max(self.n_threads // max(n_left, 1), 1)",
        "n_threads = 1",
        "backends/test_crew.py",
    ),
    mutant(
        "temperature-upside-down",
        "learn/choice.py",
        "temperature = 1.0 / (sharpness_of_all * unit)",
        "temperature = sharpness_of_all * unit",
        "learn/test_choice.py",
    ),
    mutant(
        "weights-judged-by-their-own-rows",
        "learn/choice.py",
        "others = [group.only(~own) for group, own in zip(groups, here, strict=True)]",
        "others = groups",
        "learn/test_choice.py",
    ),
    mutant(
        "results-by-weights-that-the-same-rows-chose",
        "learn/choice.py",
        "scores = weighted_by_others(groups, view_of_member, usual, weights)",
        "scores = np.concatenate([group.total(weights) for group in groups])",
        "learn/test_choice.py",
    ),
    mutant(
        "rows-dealt-by-the-names-of-classes",
        "learn/choice.py",
        "np.argsort(first[index],",
        "np.argsort(class_of_row,",
        "learn/test_choice.py",
    ),
    mutant(
        "trials-judged-without-weights",
        "learn/trial.py",
        "weight = some_weights(weights, asked)",
        "weight = None",
        "learn/test_trial.py",
    ),
    mutant(
        "trials-without-a-standard-error",
        "learn/trial.py",
        "mean <= np.sqrt(spread / len(asked))",
        "mean <= 0",
        "learn/test_trial.py",
    ),
    mutant(
        "views-of-all-folds-shared",
        "learn/members.py",
        "shared.get(share.fold.name)",
        "shared[min(shared)]",
        "views/test_shared_results.py",
    ),
    mutant(
        "spectra-of-all-scales-shared",
        "views/view.py",
        "(convert, self.scale), partial",
        "convert, partial",
        "views/test_shared_results.py",
    ),
    mutant(
        "bend-of-pooled-scores",
        "learn/choice.py",
        "results.link.bend * unit",
        "results.link.bend / unit",
        "learn/test_link.py",
    ),
    mutant(
        "scores-bent-without-evidence",
        "learn/link.py",
        "return best if evidence > STRONG_EVIDENCE else straight",
        "return best",
        "learn/test_link.py",
    ),
    mutant(
        "rivals-calibrated-on-seen-rows",
        "rivals/_base.py",
        "learn(lesson.of_rows(folds[0].learn))",
        "learn(lesson)",
        "rivals/test_base.py",
    ),
    mutant(
        "procrc-counts-pairs-of-one-class-too-rarely",
        "rivals/procrc.py",
        "n_classes - 2 + same",
        "n_classes - 2",
        "rivals/test_procrc.py",
    ),
    mutant(
        "procrc-compares-with-the-row",
        "rivals/procrc.py",
        "squared_class_residuals(codes @ self.atoms, codes",
        "squared_class_residuals(X, codes",
        "rivals/test_procrc.py",
    ),
    mutant(
        "sacrc-takes-the-sparse-code-away",
        "rivals/sacrc.py",
        "codes += sparse",
        "codes -= sparse",
        "rivals/test_sacrc.py",
    ),
    mutant(
        "lrsdl-shared-atoms-see-rows-once",
        "rivals/lrsdl.py",
        "left = 2 * problem.X",
        "left = problem.X",
        "rivals/test_lrsdl.py",
    ),
    mutant(
        "lrsdl-forgets-the-rank",
        "rivals/lrsdl.py",
        "penalty / size)",
        "0.0)",
        "rivals/test_lrsdl.py",
    ),
    mutant(
        "lrsdl-classes-keep-the-shared-part",
        "rivals/lrsdl.py",
        "squared_class_residuals(particular, codes",
        "squared_class_residuals(X, codes",
        "rivals/test_lrsdl.py",
    ),
    mutant(
        "plain-rows-scaled-by-the-queries",
        "rivals/_scaled_rows.py",
        "self.scaler_.transform(rows)",
        "StandardScaler().fit_transform(rows)",
        "rivals/test_scaled_rows.py",
    ),
    mutant(
        "lone-row-left-out",
        "learn/held_out.py",
        "% n_folds if len(own) > 1 else -1",
        "% n_folds",
        "learn/test_held_out.py",
    ),
    # Views.
    mutant(
        "view-learned-from-rows-left-out",
        "learn/members.py",
        "view = backend.fit_view(share.view, rows)",
        "view = share.view.fit(problem.rows_of(np.arange(len(problem.class_of_row))))",
        "views/test_views.py",
    ),
    mutant(
        "whitened-with-the-wrong-power",
        "views/view.py",
        "spectrum.power(-self.power,",
        "spectrum.power(-self.power / 2,",
        "views/test_views.py",
    ),
    mutant(
        "constant-coordinate-of-zero",
        "views/view.py",
        "np.full((len(X), 1), self.size, X.dtype)",
        "np.zeros((len(X), 1), X.dtype)",
        "views/test_views.py",
    ),
    mutant(
        "covariance-around-one-mean",
        "views/view.py",
        "partial(rows.spectrum, convert, centres, scale)",
        "partial(rows.spectrum, convert, np.broadcast_to(whole, centres.shape), scale)",
        "views/test_views.py",
    ),
    mutant(
        "covariance-not-shrunk",
        "views/whitening.py",
        "share = self.shrinkage()",
        "share = 0.0",
        "views/test_views.py",
    ),
    mutant(
        "rounding-errors-blown-up",
        "views/view.py",
        "rounding = max(CONSTANT, 4 * float(np.finfo(dtype).eps))",
        "rounding = 0",
        "views/test_views.py",
    ),
    mutant(
        "rows-back-without-their-mean",
        "views/view.py",
        "back = self._unscale(mapped * self.size) + self.mean",
        "back = self._unscale(mapped * self.size)",
        "views/test_views.py",
    ),
    mutant(
        "scale-squared",
        "views/view.py",
        "inverse[some] = 1.0 / np.sqrt(variance[some])",
        "inverse[some] = 1.0 / variance[some]",
        "views/test_views.py",
    ),
    mutant(
        "some-rows-of-some-rows-are-others",
        "rows/readers.py",
        "numbers, source = source.numbers[numbers], source.source",
        "source = source.source",
        "rows/test_lazy_rows.py",
    ),
    # Choice of coders and weights.
    mutant(
        "weights-do-not-add-up",
        "learn/choice.py",
        "weights = weights * sharpness / total",
        "weights = weights * sharpness",
        "learn/test_choice.py",
    ),
    mutant(
        "coder-of-another-view",
        "learn/choice.py",
        "index, sharpness = index[view_of_member], sharpness[view_of_member]",
        "index, sharpness = index[0 * view_of_member], sharpness[view_of_member]",
        "learn/test_choice.py",
    ),
    mutant(
        "rows-scored-by-members-that-saw-them",
        "learn/members.py",
        "self.problem.X[fold.held_out]",
        "self.problem.X[fold.learn[: len(fold.held_out)]]",
        "learn/test_members.py",
    ),
    mutant(
        "members-without-their-weights",
        "estimators/classifier.py",
        "np.concatenate([m.weight * m.label_atoms for m in chains])",
        "np.concatenate([m.label_atoms for m in chains])",
        "views/test_views.py",
    ),
    # Learning batch by batch.
    mutant(
        "labels-not-forgotten",
        "learn/online.py",
        "chain.label_sums.times(factor)",
        "chain.label_sums",
        "learn/test_online.py",
    ),
    mutant(
        "room-made-by-the-best",
        "learn/online.py",
        "worth = seen.energy * chain.dictionary.scale**2",
        "worth = -seen.energy * chain.dictionary.scale**2",
        "learn/test_online.py",
    ),
    mutant(
        "draws-of-a-batch-repeated",
        "learn/online.py",
        "number = known.sweep + 1",
        "number = known.sweep",
        "learn/test_online.py",
    ),
    mutant(
        "classes-never-seen-are-likely",
        "learn/batches.py",
        "prior_mean = priors.beta_a / (priors.beta_a + priors.beta_b)",
        "prior_mean = priors.beta_b / (priors.beta_a + priors.beta_b)",
        "estimators/test_partial_fit.py",
    ),
    # Files.
    mutant(
        "own-version-is-too-new",
        "persistence.py",
        "_major(theirs) > _major(ours)",
        "_major(theirs) >= _major(ours)",
        "test_persistence.py",
    ),
    mutant(
        "imported-names-are-trusted",
        "persistence.py",
        "or found.__module__ != module_name",
        "or False",
        "test_persistence.py",
    ),
    mutant(
        "checksum-not-compared",
        "_archives.py",
        "if file.read() != digest:",
        "if False:",
        "sampler/test_checkpoint.py",
    ),
    mutant(
        "another-format-is-read",
        "_archives.py",
        "if not kind.items() <= about.items():",
        "if False:",
        "sampler/test_checkpoint.py",
    ),
    # Refusals and densities.
    mutant(
        "coverage-without-the-new-row",
        "learn/refusals.py",
        "math.ceil(coverage * (n_rows + 1) - 1e-9)",
        "math.ceil(coverage * n_rows - 1e-9)",
        "learn/test_refusals.py",
    ),
    mutant(
        "threshold-tested-as-the-only-one",
        "learn/refusals.py",
        "level = (1 - confidence) / n_tests",
        "level = 1 - confidence",
        "learn/test_refusals.py",
    ),
    mutant(
        "refusals-of-an-earlier-model",
        "estimators/_rows.py",
        'self.__dict__.pop("refusals_", None)',
        "pass",
        "estimators/test_refusals_and_densities.py",
    ),
    mutant(
        "density-without-unused-atoms",
        "coding/evidence.py",
        "(none_used + logit[used].sum(axis=1))",
        "logit[used].sum(axis=1)",
        "coding/test_evidence.py",
    ),
    # Priors of the atoms.
    mutant(
        "smooth-atoms-are-too-large",
        "learn/basis.py",
        "precision * variance.mean()",
        "variance.mean()",
        "learn/test_basis.py",
    ),
    mutant(
        "covariance-is-not-mapped",
        "views/view.py",
        "mapped = scale[:, np.newaxis] * covariance * scale",
        "mapped = covariance",
        "learn/test_basis.py",
    ),
    mutant(
        "recoded-rows-are-turned",
        "learn/members.py",
        "if self.basis is not self.view:",
        "if False:",
        "estimators/test_priors_of_atoms.py",
    ),
    mutant(
        "initial-atoms-keep-their-size",
        "learn/basis.py",
        "unit_rows(settings.initial_atoms)",
        "settings.initial_atoms",
        "learn/test_basis.py",
    ),
)


class Outcome(NamedTuple):
    """How the tests ended: caught, survived, hung or broken; and the first that failed."""

    verdict: str
    noticed_by: str
    seconds: float


# ------------------------------------------------------------------------------------- one error


def planted(error: Mutant, tree: Path) -> str:
    """Text of the file with the error in it; fails where the place is not to be found."""
    source = (tree / "src" / "dbdl" / error.file).read_text()
    if (found := source.count(error.old)) != 1:
        raise SystemExit(
            f"{error.name}: {error.old!r} is {found} times in {error.file}, expected once. The "
            "file has changed: bring the table in benchmarks/mutants.py up to date."
        )
    return source.replace(error.old, error.new)


def plant(error: Mutant, tree: Path) -> None:
    """Write the error into a copy of the source tree."""
    text = planted(error, tree)
    (tree / "src" / "dbdl" / error.file).write_text(text)
    if "dbdl._compile" in text:
        for importer in importers(error.file, tree):
            forget_compiled(importer)


def importers(file: str, tree: Path) -> Iterator[Path]:
    """Files that import a module: kernels of the module may be compiled into theirs."""
    module = "dbdl." + file.removesuffix(".py").replace("/", ".")
    for path in (tree / "src").rglob("*.py"):
        if f"from {module} import" in path.read_text():
            yield path


def forget_compiled(path: Path) -> None:
    """Remove what numba has cached of a file: it looks at the changes of that file alone."""
    for cached in (path.parent / "__pycache__").glob(f"{path.stem}.*.nb[ic]"):
        cached.unlink()


def run_tests(tree: Path, tests: Sequence[str], limit: float) -> Outcome:
    """Run test files in a copy of the source tree until one test fails."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow"]
    command += ["-p", "no:cacheprovider", *(f"tests/{name}" for name in tests)]
    start = time.perf_counter()
    try:
        done = subprocess.run(
            command,
            cwd=tree,
            env=environment(tree),
            timeout=limit,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except subprocess.TimeoutExpired:
        return Outcome("hung", f"after {limit:.0f} s", time.perf_counter() - start)
    seconds = time.perf_counter() - start
    if done.returncode == 0:
        return Outcome("survived", "", seconds)
    failed = re.search(r"^FAILED tests/(.+?)( - .*)?$", done.stdout, re.MULTILINE)
    if done.returncode == 1 and failed:
        return Outcome("caught", failed.group(1), seconds)
    # no test could be asked: the error does not import, a test file is missing
    last = done.stdout.strip().splitlines()[-1:] or ["no output"]
    return Outcome("broken", last[0], seconds)


def environment(tree: Path) -> dict[str, str]:
    """Where Python finds the copy; without real data, which would only take longer."""
    kept = {name: value for name, value in os.environ.items() if name != "DBDL_DATA"}
    path = os.pathsep.join([str(tree / "src"), str(tree)])
    return {**kept, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "MPLBACKEND": "Agg"}


# ---------------------------------------------------------------------------------- all of them


def copy_tree(source: Path, target: Path) -> Path:
    """Copy what the tests need, with the times of the files: compiled kernels stay good."""
    for name in COPIED:
        if (source / name).is_dir():
            shutil.copytree(source / name, target / name)
        else:
            shutil.copy2(source / name, target / name)
    return target


def check_import(tree: Path) -> None:
    """Fail where Python would import another copy."""
    call = [sys.executable, "-c", "import dbdl; print(dbdl.__file__)"]
    found = subprocess.check_output(call, cwd=tree, env=environment(tree), text=True).strip()
    if not Path(found).is_relative_to(tree):
        raise SystemExit(f"Python imports {found}, expected dbdl in {tree}.")


def run(errors: Sequence[Mutant], limit: float) -> dict[str, Outcome]:
    """Plant each error in a copy of its own and run its tests."""
    for error in errors:  # all of them, before the first test is run
        planted(error, ROOT)
    outcomes = {}
    with tempfile.TemporaryDirectory() as folder:
        clean = copy_tree(ROOT, Path(folder, "clean"))
        check_import(clean)
        files = dict.fromkeys(name for error in errors for name in error.tests)
        for name in files:  # each by itself: kernels that it compiles are there for all errors
            outcome = run_tests(clean, [name], 4 * limit)
            if outcome.verdict != "survived":
                raise SystemExit(
                    f"tests/{name} does not pass without an error ({outcome.verdict}: "
                    f"{outcome.noticed_by}). Mend it first."
                )
            show("(no error)", Outcome("passes", name, outcome.seconds))
        for error in errors:
            tree = copy_tree(clean, Path(folder, error.name))
            plant(error, tree)
            outcomes[error.name] = run_tests(tree, error.tests, limit)
            show(error.name, outcomes[error.name])
            shutil.rmtree(tree)
    return outcomes


def show(name: str, outcome: Outcome) -> None:
    verdict, noticed_by, seconds = outcome
    print(f"{name:<36} {verdict:<9} {seconds:>5.0f} s  {noticed_by}", flush=True)


def main() -> None:
    """Parse the command line, run, and fail where an error was not caught."""
    names = [error.name for error in MUTANTS]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutants", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("names", nargs="*", metavar="name", help="errors to plant; all if none")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("--minutes", type=float, default=10, help="limit of the tests of one error")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(names):
        parser.error(f"unknown {', '.join(sorted(unknown))}; --list prints the names")
    if arguments.list:
        print("\n".join(names))
        return
    wanted = [error for error in MUTANTS if error.name in (arguments.names or names)]
    outcomes = run(wanted, 60 * arguments.minutes)
    missed = [name for name, outcome in outcomes.items() if outcome.verdict != "caught"]
    print(f"{len(outcomes) - len(missed)} of {len(outcomes)} caught", *missed, sep="\nnot caught: ")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
