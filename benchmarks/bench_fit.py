"""Speed of one chain, compared with the paper's layout of the work and with its own floor.

    python -m benchmarks.bench_fit [--quick] [--sizes yaleb caltech101]

The whole fit of one chain (35 sweeps, float64, two threads) is compared with

- the paper's layout in NumPy. It keeps a residual matrix. For each atom, over all samples, it adds
  the contribution of the atom back (eq. 7), draws the atom (8), usage (9) and strengths (10), and
  subtracts the new contribution. Both updates are dense;
- the same layout, where updates and the draw of an atom use only the rows that use the atom;
- the floor: the matrix products, solves and sparse sums that every sweep needs, and the first
  codes, each timed alone with BLAS and SciPy at the sizes of each sweep of the chain.

The first two take minutes to hours. So some atoms of a few sweeps are timed in the state that the
chain had there, and their mean is multiplied by the number of atoms of each sweep. At the larger
size the floor is timed at some evenly spaced sweeps and scaled to all of them. With one thread the
chain is shorter. Fit and floor always count the same sweeps. If DBDL_DATA holds the real faces,
they replace the random rows of the YaleB size.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk, dtrmm, dtrsm
from scipy.sparse import csr_matrix
from threadpoolctl import threadpool_limits

from benchmarks.problems import splits
from dbdl.backends import numba_cpu
from dbdl.backends.base import Data
from dbdl.backends.numba_cpu import NumbaBackend
from dbdl.coding.omp import encode, gram_matrix
from dbdl.draws import Key, make_key
from dbdl.estimators._rows import unit_rows
from dbdl.learn import chain as chain_module
from dbdl.learn.chain import ChainSettings, LearnedChain, learn_chain
from dbdl.model.atom_priors import AtomPosterior, IsotropicPrior
from dbdl.model.codes import Scan
from dbdl.model.state import Codes, Parameters
from dbdl.model.statistics import AtomSums, UsageSums
from dbdl.sampler import gibbs
from dbdl.sampler import run as run_module

Floats = NDArray[np.float64]
Classes = NDArray[np.int64]

N_THREADS = 2
N_SWEEPS = 35
# What the project set itself; the third is an upper bound.
LEAST_OVER_DENSE, LEAST_OVER_ACTIVE, MOST_OVER_FLOOR = 40.0, 3.0, 1.5


@dataclass(frozen=True)
class Size:
    """A problem: rows, features, classes, and how much of it is timed.

    repeats : fits with several threads, of which the best counts; floor_sweeps : sweeps at which
    the floor is timed, at most; alone_sweeps : sweeps of the fit with one thread, at most;
    atom_seconds : for each timing of the paper's layout.
    """

    name: str
    n_rows: int
    n_features: int
    n_classes: int
    repeats: int
    floor_sweeps: int
    alone_sweeps: int
    atom_seconds: float


SIZES = {
    "yaleb": Size("YaleB", 1207, 504, 38, 3, 35, 35, 2.0),
    "caltech101": Size("Caltech-101", 3060, 3000, 102, 1, 5, 7, 3.0),
}
QUICK_SIZES = {
    "yaleb": Size("YaleB / 4", 302, 126, 10, 1, 5, 5, 0.2),
    "caltech101": Size("Caltech-101 / 6", 510, 500, 17, 1, 3, 3, 0.2),
}


# ------------------------------------------------------------------------------------- the chain


class Stopwatch:
    """Time by name; time inside a nested name counts for that name alone.

    With several threads it is wall time. One thread is timed by the processor time that it got,
    which the work of others on the machine disturbs less.
    """

    def __init__(self, n_threads: int) -> None:
        self.clock = time.perf_counter if n_threads > 1 else time.thread_time
        self.seconds: dict[str, float] = defaultdict(float)
        self._inner: list[float] = []

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        self._inner.append(0.0)
        start = self.clock()
        try:
            yield
        finally:
            passed = self.clock() - start
            self.seconds[name] += passed - self._inner.pop()
            if self._inner:
                self._inner[-1] += passed

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **options: Any) -> Any:
            with self(name):
                return function(*args, **options)

        return timed


class Snapshot(NamedTuple):
    """State of a chain right before a sweep over the codes."""

    codes: Codes
    parameters: Parameters


@dataclass
class TimedBackend:
    """The verbs of `NumbaBackend` on a stopwatch; remembers the codes of each sweep."""

    n_threads: int
    snapshots_at: Sequence[int] = ()
    start_atoms: Floats | None = None
    start_nonzero: int = 0
    gathered: list[tuple[Codes, int]] = field(default_factory=list)
    snapshots: dict[int, Snapshot] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.watch = Stopwatch(self.n_threads)
        self._backend = NumbaBackend(self.n_threads)

    def place(self, X: Floats, class_of_row: NDArray[np.int64]) -> Data:
        return self._backend.place(X, class_of_row)

    def start(self, data: Data, atoms: Floats, n_nonzero: int) -> Codes:
        self.start_atoms, self.start_nonzero = atoms, n_nonzero
        with self.watch("start"):
            return self._backend.start(data, atoms, n_nonzero)

    def sweep(
        self, key: Key, number: int, data: Data, codes: Codes, parameters: Parameters, scan: Scan
    ) -> tuple[Codes, UsageSums]:
        if number in self.snapshots_at:
            self.snapshots[number] = Snapshot(codes, parameters)
        with self.watch("sweep"):
            return self._backend.sweep(key, number, data, codes, parameters, scan)

    def usage(self, data: Data, codes: Codes, parameters: Parameters) -> UsageSums:
        with self.watch("usage"):
            return self._backend.usage(data, codes, parameters)

    def gather(
        self, data: Data, codes: Codes, n_atoms: int, class_weight: NDArray[np.float64]
    ) -> AtomSums:
        self.gathered.append((codes, n_atoms))
        with self.watch("gather"):
            return self._backend.gather(data, codes, n_atoms, class_weight)

    def draw_atoms(
        self,
        key: Key,
        number: int,
        posterior: AtomPosterior,
        atoms: Floats,
        births: NDArray[np.int64],
    ) -> Floats:
        with self.watch("draw_atoms"):
            return self._backend.draw_atoms(key, number, posterior, atoms, births)

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._backend, name)  # the rest, on the stopwatch under its own name
        return self.watch.wrap(name, verb) if callable(verb) else verb


@contextmanager
def watched(watch: Stopwatch) -> Iterator[None]:
    """Put what the sampler does outside the verbs on the stopwatch, too."""
    places = [
        (gibbs, "log_joint"),
        (run_module, "drop"),
        (chain_module, "drop"),
        (chain_module, "publish"),
        (numba_cpu, "_upper_gram"),
    ]
    with ExitStack() as stack:
        for module, name in places:
            function = watch.wrap(name, getattr(module, name))
            stack.enter_context(patch.object(module, name, function))
        yield


class Fit(NamedTuple):
    """A timed fit: its whole time and its parts, its chain, and the backend that watched it."""

    seconds: float
    parts: dict[str, float]
    learned: LearnedChain
    backend: TimedBackend


def fit(
    X: Floats, y: Classes, n_sweeps: int, n_threads: int, snapshots_at: Sequence[int] = ()
) -> Fit:
    backend = TimedBackend(n_threads, snapshots_at)
    watch = backend.watch
    with threadpool_limits(n_threads, user_api="blas"), watched(watch), watch("other"):
        learned = learn_chain(make_key(0), X, y, ChainSettings(n_sweeps=n_sweeps), backend)
    return Fit(sum(watch.seconds.values()), dict(watch.seconds), learned, backend)


# -------------------------------------------------------------------- the paper's layout of work


class PaperLayout:
    """Eqs. 7 to 10 for one atom after another over all samples, on a matrix of residuals.

    What is held: residuals (n_samples, n_features), usage and strengths (n_atoms, n_samples).
    """

    def __init__(self, data: Data, snapshot: Snapshot, atom_precision: float) -> None:
        codes, now = snapshot
        self.rng = np.random.default_rng(0)
        self.atoms = now.atoms.copy()
        sparse = csr_matrix(
            (codes.strength, codes.atom, codes.row_start), (len(data.X), now.n_atoms)
        )
        self.code = np.ascontiguousarray(sparse.T.toarray())
        self.residual = data.X - sparse @ self.atoms
        self.buffer = np.empty_like(self.residual)
        self.class_of_row = data.class_of_row
        self.selection_logit = now.selection_logit
        self.strength_precision = now.strength_precision[data.class_of_row]
        self.noise = float(now.noise_precision[0])
        self.atom_precision = atom_precision

    def update_dense(self, k: int) -> None:
        """One atom with dense rank-one updates."""
        code = self.code[k]
        self._add(code, self.atoms[k])
        self.atoms[k] = self._draw_atom(code @ self.residual, code @ code)
        self.code[k] = self._draw_code(k, self.residual @ self.atoms[k])
        self._add(-self.code[k], self.atoms[k])

    def update_active(self, k: int) -> None:
        """One atom with updates on the rows that use it; usage needs the match of all rows."""
        rows = np.flatnonzero(self.code[k])
        code, own = self.code[k, rows], self.residual[rows]
        own += np.multiply.outer(code, self.atoms[k])
        self.residual[rows] = own
        self.atoms[k] = self._draw_atom(code @ own, code @ code)
        self.code[k] = self._draw_code(k, self.residual @ self.atoms[k])
        rows = np.flatnonzero(self.code[k])
        self.residual[rows] -= np.multiply.outer(self.code[k, rows], self.atoms[k])

    def _add(self, code: Floats, atom: Floats) -> None:
        np.multiply.outer(code, atom, out=self.buffer)
        self.residual += self.buffer

    def _draw_atom(self, natural_mean: Floats, square: float) -> Floats:
        """Eq. 8."""
        precision = self.atom_precision + self.noise * square
        noise = self.rng.standard_normal(len(natural_mean))
        return self.noise / precision * natural_mean + noise / np.sqrt(precision)

    def _draw_code(self, k: int, match: Floats) -> Floats:
        """Eqs. 9 and 10; the strengths of unused atoms follow their prior."""
        n_rows = len(match)
        norm_square = self.atoms[k] @ self.atoms[k]
        prior = self.rng.standard_normal(n_rows) / np.sqrt(self.strength_precision)
        strength = np.where(self.code[k] != 0, self.code[k], prior)
        log_odds = self.selection_logit[self.class_of_row, k] - 0.5 * self.noise * strength * (
            norm_square * strength - 2.0 * match
        )
        uniform = self.rng.random(n_rows)
        used = np.log(uniform / (1.0 - uniform)) < log_odds
        precision = self.strength_precision + self.noise * norm_square
        drawn = self.rng.standard_normal(n_rows) / np.sqrt(precision)
        return np.where(used, self.noise * match / precision + drawn, 0.0)


class AtomTime(NamedTuple):
    """Seconds an atom at each sweep of the chain, and atoms timed."""

    at_sweep: Floats
    n_timed: int


def time_atoms(
    fit: Fit, update: Callable[[PaperLayout, int], None], seconds: float, n_threads: int
) -> AtomTime:
    """Time atoms in the chain's snapshots, for ``seconds`` each, and interpolate between them."""
    data, snapshots = fit.learned.data, fit.backend.snapshots
    clock = Stopwatch(n_threads).clock
    mean, n_timed = [], 0
    with threadpool_limits(n_threads, user_api="blas"):
        for snapshot in snapshots.values():
            layout = PaperLayout(data, snapshot, float(data.X.shape[1]))
            order = layout.rng.permutation(len(layout.atoms))
            update(layout, order[0])  # touches all pages
            n, start = 0, clock()
            while n < 5 or clock() - start < seconds:
                update(layout, order[(n + 1) % len(order)])
                n += 1
            mean.append((clock() - start) / n)
            n_timed += n
    sweeps = np.arange(1, len(atoms_of_sweeps(fit)) + 1)
    return AtomTime(np.interp(sweeps, list(snapshots), mean), n_timed)


def atoms_of_sweeps(fit: Fit) -> NDArray[np.int64]:
    """Atoms that each sweep of the chain went through."""
    return np.array([n_atoms for _, n_atoms in fit.backend.gathered[:-1]])


# ------------------------------------------------------------------------------------- the floor


def time_floor(fit: Fit, n_threads: int, most_sweeps: int) -> dict[str, float]:
    """Seconds of each part that a fit cannot do without, summed over the sweeps.

    At most ``most_sweeps`` of them are timed, evenly spaced, and stand for all. What SciPy and
    BLAS do is no floor where ours is faster: the lesser of the two counts.
    """
    data, backend = fit.learned.data, fit.backend
    watch = Stopwatch(n_threads)
    X = data.X
    assert backend.start_atoms is not None
    with watch("OMP"):
        gram = gram_matrix(backend.start_atoms, n_threads)
        encode(X, backend.start_atoms, gram, (backend.start_nonzero,), "forward", None, n_threads)
    rng = np.random.default_rng(0)
    room = {"products": np.empty(0), "gram": np.empty(0), "tile": np.empty(0)}

    def space(name: str, *shape: int) -> Floats:
        """Memory that is there already: the floor pays for no page."""
        n = int(np.prod(shape))
        if len(room[name]) < n:
            room[name] = np.zeros(n)
        return room[name][:n].reshape(shape)

    swept = backend.gathered[:-1]
    timed = np.unique(np.linspace(0, len(swept) - 1, most_sweeps).round().astype(int))
    ours = NumbaBackend(n_threads)
    with threadpool_limits(n_threads, user_api="blas"):
        for codes, n_atoms in (swept[number] for number in timed):
            atoms = rng.standard_normal((n_atoms, X.shape[1])) / np.sqrt(X.shape[1])
            usage = csr_matrix((codes.strength, codes.atom, codes.row_start), (len(X), n_atoms))
            products, tile = space("products", len(X), n_atoms), space("tile", *atoms.shape)
            with watch("sparse sums, ours"):
                sums = ours.gather(data, codes, n_atoms, np.ones(data.n_classes))
            posterior = IsotropicPrior(float(X.shape[1])).posterior(sums)
            with watch("draw of the atoms, ours"):
                ours.draw_atoms(make_key(0), 1, posterior, atoms, np.arange(n_atoms))
            del sums, posterior
            with watch("sparse sums"):
                by_atom = usage.T.tocsr()
                square = by_atom @ usage
                by_atom @ X
            precision = square.toarray(order="F")
            precision.flat[:: n_atoms + 1] += float(X.shape[1])
            # rows are atoms, so BLAS sees everything transposed: from the right, no copies
            with watch("U @ atoms"):
                dtrmm(1.0, precision, atoms.T, side=1, lower=1, diag=1, overwrite_b=1)
            tile[:] = atoms
            with watch("triangular solve"):
                dtrsm(1.0, precision, tile.T, side=1, lower=0, overwrite_b=1)
            atoms = rng.standard_normal((n_atoms, X.shape[1])) / np.sqrt(X.shape[1])
            with watch("GEMM"):
                np.matmul(X, atoms.T, out=products)
            own = space("gram", n_atoms, n_atoms).T
            with watch("Gram"):
                dsyrk(1.0, atoms.T, c=own, trans=1, overwrite_c=1)
    scale = len(swept) / len(timed)
    seconds = {name: s if name == "OMP" else scale * s for name, s in watch.seconds.items()}
    seconds["sparse sums"] = min(seconds["sparse sums"], seconds.pop("sparse sums, ours"))
    by_blas = seconds.pop("U @ atoms") + seconds.pop("triangular solve")
    seconds["draw of the atoms"] = min(by_blas, seconds.pop("draw of the atoms, ours"))
    return seconds


#: Parts of the floor, and where the fit spends its time on the same.
PARTS = {
    "OMP": ("start",),
    "sparse sums": ("gather",),
    "draw of the atoms": ("draw_atoms",),
    "Gram": ("_upper_gram",),
    "GEMM": ("sweep",),
}


# ------------------------------------------------------------------------------------ the report


def make_rows(size: Size) -> tuple[Floats, Classes]:
    """Random unit rows around random class centres."""
    rng = np.random.default_rng(0)
    y = np.arange(size.n_rows) % size.n_classes
    centres = unit_rows(rng.standard_normal((size.n_classes, size.n_features)))
    noise = unit_rows(rng.standard_normal((size.n_rows, size.n_features)))
    return unit_rows(centres[y] + 0.7 * noise), y


def load_faces() -> tuple[Floats, Classes] | None:
    """Half of each class of the real YaleB rows, where DBDL_DATA has them."""
    if "DBDL_DATA" not in os.environ:
        return None
    split = next(splits("yaleb", 1), None)
    if split is None:
        return None
    _, y = np.unique(split.y_train, return_inverse=True)
    return unit_rows(split.X_train.astype(np.float64)), y


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print columns of equal width, the first to the left and the others to the right."""
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[j]) for line in lines) for j in range(len(header))]
    for i, line in enumerate(lines):
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        print("  " + "  ".join(cells).rstrip())
        if i == 0:
            print("  " + "  ".join("-" * width for width in widths))
    print(flush=True)


class Measured(NamedTuple):
    """A fit with so many threads, and what it is set beside."""

    n_threads: int
    fit: Fit
    floor: dict[str, float]
    dense: AtomTime
    active: AtomTime

    @property
    def clock(self) -> str:
        threads = f"{self.n_threads} threads" if self.n_threads > 1 else "1 thread, processor time"
        return f"{threads}, {len(atoms_of_sweeps(self.fit))} sweeps"


def measure(size: Size, X: Floats, y: Classes, n_sweeps: int, n_threads: int) -> Measured:
    """Fit and floor take turns, so that what disturbs one disturbs the other; the best count.

    Once is enough for one thread, since processor time is hardly disturbed.
    """
    n_sweeps = n_sweeps if n_threads > 1 else min(n_sweeps, size.alone_sweeps)
    snapshots_at = sorted({1, (n_sweeps + 1) // 2, n_sweeps})
    fits, floors = [], []
    for _ in range(size.repeats if n_threads > 1 else 1):
        fits.append(fit(X, y, n_sweeps, n_threads, snapshots_at))
        floors.append(time_floor(fits[-1], n_threads, size.floor_sweeps))
    ours = min(fits, key=lambda f: f.seconds)
    floor = {part: min(f[part] for f in floors) for part in floors[0]}
    layouts = (PaperLayout.update_dense, PaperLayout.update_active)
    dense, active = (time_atoms(ours, layout, size.atom_seconds, n_threads) for layout in layouts)
    return Measured(n_threads, ours, floor, dense, active)


def report(size: Size, X: Floats, y: Classes, source: str, n_sweeps: int) -> None:
    """Measure one size with all threads and with one, and print tables."""
    n_start = ChainSettings().n_start(len(X))
    fit(X, y, 1, N_THREADS)  # compiles, where that is still to be done
    both, alone = (measure(size, X, y, n_sweeps, n_threads) for n_threads in (N_THREADS, 1))
    n_atoms = atoms_of_sweeps(both.fit)
    nonzero = [len(codes.atom) / len(X) for codes, _ in both.fit.backend.gathered]
    print(
        f"{size.name}: {X.shape[0]} x {X.shape[1]} {source}, {y.max() + 1} classes, "
        f"{n_start} initial atoms, {n_sweeps} sweeps, float64\n"
        f"  Atoms in the sweeps {n_atoms[0]} to {n_atoms[-1]} (copies and unused ones of the "
        f"initial atoms go before the first), non-zeros a row {nonzero[0]:.1f} to "
        f"{nonzero[-1]:.1f}.\n"
        f"  The paper's layout is given the same atoms; {both.dense.n_timed} and "
        f"{both.active.n_timed} of its updates were timed.\n"
    )
    _print_ratios(both, n_start)
    _print_ratios(alone, n_start)
    _print_parts(both)
    _print_parts(alone)
    print(
        f"  A second thread, a sweep: {_a_sweep(alone) / _a_sweep(both):.2f} times as fast.\n",
        flush=True,
    )


def _a_sweep(measured: Measured) -> float:
    """Seconds a sweep, without the first codes and the end."""
    verbs = ("gather", "draw_atoms", "_upper_gram", "sweep")
    return sum(measured.fit.parts[v] for v in verbs) / len(atoms_of_sweeps(measured.fit))


def _print_ratios(measured: Measured, n_start: int) -> None:
    ours = measured.fit.seconds
    floor = sum(measured.floor.values())
    n_atoms = atoms_of_sweeps(measured.fit)
    rows = [["ours", f"{ours:.2f}", "", ""]]
    for name, timed, target in (
        ("dense", measured.dense, LEAST_OVER_DENSE),
        ("active rows", measured.active, LEAST_OVER_ACTIVE),
    ):
        at_sweep = timed.at_sweep
        same, all_kept = float(at_sweep @ n_atoms), float(at_sweep.sum() * n_start)
        rows += [
            [
                f"paper's layout, {name}: {1e3 * at_sweep.mean():.2f} ms an atom",
                f"{same:.1f}",
                f"{same / ours:.1f} x ours",
                f">= {target:g}",
            ],
            [
                f"  with all {n_start} atoms in every sweep",
                f"{all_kept:.1f}",
                f"{all_kept / ours:.1f} x ours",
                "",
            ],
        ]
    rows.append(
        ["floor", f"{floor:.2f}", f"ours {ours / floor:.2f} x floor", f"<= {MOST_OVER_FLOOR:g}"]
    )
    print_table([f"whole fit, {measured.clock}", "seconds", "ratio", "target"], rows)


def _print_parts(measured: Measured) -> None:
    ours, floor = measured.fit, measured.floor
    left = dict(ours.parts)
    parts = []
    for part, verbs in PARTS.items():
        seconds = sum(left.pop(verb, 0.0) for verb in verbs)
        least = floor[part]
        parts.append((f"{', '.join(verbs)}: {part}", seconds, least))
    parts += [(verb, seconds, 0.0) for verb, seconds in left.items()]
    parts.sort(key=lambda part: -part[1])
    parts.append(("all", ours.seconds, sum(floor.values())))
    print_table(
        [f"where it goes, {measured.clock}", "ours s", "floor s", "ours / floor", "rest s"],
        [
            [
                name,
                f"{seconds:.3f}",
                f"{least:.3f}" if least else "",
                f"{seconds / least:.2f}" if least else "",
                f"{seconds - least:+.3f}",
            ]
            for name, seconds, least in parts
        ],
    )


def run(quick: bool, names: Sequence[str] = tuple(SIZES)) -> None:
    """Measure each size and print its tables."""
    for name in names:
        size = (QUICK_SIZES if quick else SIZES)[name]
        faces = load_faces() if name == "yaleb" and not quick else None
        if faces is None:
            X, y = make_rows(size)
            report(size, X, y, "random rows around class centres", 5 if quick else N_SWEEPS)
        else:
            report(size, *faces, "real faces", N_SWEEPS)


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, to try it out")
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), default=list(SIZES))
    arguments = parser.parse_args()
    run(arguments.quick, arguments.sizes)


if __name__ == "__main__":
    main()
