"""Walk the cells of a table, each a method on a split, and keep the results.

A finished cell is written as one line of JSON, with the data and the machine it was run on. A run
that was killed is started again with the same file: cells that are there are not run again, a line
that was cut off is dropped, and a cell that failed is tried again, as is one of other data or with
other effort (``quick``), or of a user's own method whose code has changed. The records do not
depend on the order in which cells finish.
"""

from __future__ import annotations

import json
import os
import platform
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

import dbdl
from dbdl.experiments.measure import (
    N_FOLDS,
    Part,
    choose_settings,
    class_ratio,
    common_settings,
    majority_figures,
    measure,
)
from dbdl.experiments.protocol import Split, seed_of
from dbdl.experiments.rows import LabelledRows, parts
from dbdl.experiments.spec import Entry, Table, nothing_chosen
from dbdl.experiments.warm import warm_up_once
from dbdl.registry import Method, methods

Record = dict[str, Any]
CellKey = tuple[Any, ...]

#: Fields of a record that tell cells apart; the settings belong to them.
KEY_FIELDS = ("table", "column", "method", "settings", "split")


class Cell(NamedTuple):
    """One method on one split of one column."""

    table: str
    column: str
    entry: Entry
    number: int
    split: Split
    method: Method  #: Here too, because the processes of workers know only methods of the package.

    @property
    def key(self) -> CellKey:
        """Values of `KEY_FIELDS`."""
        settings = json.dumps(dict(self.entry.settings), sort_keys=True, default=repr)
        return self.table, self.column, self.entry.method, settings, self.number

    @property
    def seed(self) -> int:
        """Seed of the method on this split."""
        return seed_of(self.table, self.column, self.number)

    def n_fits(self, quick: bool) -> int:
        """Number of fits: one, and those of a search."""
        tried = [len(v) for k, v in self.method.grid.items() if k not in self.entry.settings]
        return 1 if quick or not tried else 1 + N_FOLDS * int(np.prod(tried))


def cells(
    table: Table, data: LabelledRows, only: Sequence[str] = (), n_splits: int | None = None
) -> Iterator[Cell]:
    """Yield the cells of a table, split by split, so that a partial run is a fair one."""
    for column, protocol in table.columns.items():
        seed = seed_of(table.name, column)
        parts = protocol.splits(data.y, seed, groups=data.groups, own=data.own)
        for number, split in enumerate(islice(parts, n_splits)):
            for entry in table.entries:
                if not only or entry.method in only:
                    method = methods()[entry.method]
                    yield Cell(table.name, column, entry, number, split, method)


def run_table(
    table: Table,
    data: LabelledRows,
    results: Path | None,
    *,
    only: Sequence[str] = (),
    n_splits: int | None = None,
    quick: bool = False,
    n_workers: int = 1,
    n_threads: int = -1,
    origin: Mapping[str, str] | None = None,
    on_cell: Callable[[Record, int, int], None] | None = None,
    on_warm_up: Callable[[Sequence[str]], None] | None = None,
    on_running: Callable[[Sequence[Cell], float, int, int], None] | None = None,
) -> list[Record]:
    """Run the missing cells of a table and return all its records.

    The file of results is made if it is absent and resumed if not; without one, nothing is kept.
    ``only`` names methods, ``n_splits`` is the most splits of each column, and ``quick`` fixes
    settings where the table gives none (`dbdl.experiments.spec.nothing_chosen`). ``n_workers``
    cells run at the same time, in separate processes, with ``n_threads`` threads each. ``origin``
    is kept with each record: the command, the file of the data and the seed, for instance.
    ``on_cell`` is called with each record and with the number of cells done and in all,
    ``on_warm_up`` with the names of the methods that are about to be warmed up, before any cell,
    and ``on_running`` with the cells that are running, the seconds that are left as far as earlier
    cells tell (`seconds_left`), and again the number of cells done and in all.
    """
    if quick:
        table = nothing_chosen(table)
    wanted = list(cells(table, data, only, n_splits))
    done = _finished(wanted, data, quick, results)
    missing = [cell for cell in wanted if cell.key not in done]
    if on_warm_up is not None and missing:
        on_warm_up(list(dict.fromkeys(cell.entry.method for cell in missing)))
    for cell in missing:  # here too where workers run the cells: compiled code lies in a cache
        warm_up_cell(cell, data, n_threads)
    # cells are taken in turn, one by one: the first that are not finished are running
    finished = Parallel(n_jobs=n_workers, return_as="generator_unordered", batch_size=1)(
        delayed(run_cell)(cell, data, quick, n_threads) for cell in missing
    )

    def tell_running() -> None:
        left = [cell for cell in missing if cell.key not in done]
        if on_running is not None and left:
            seconds = seconds_left(left, done.values(), quick, n_workers)
            on_running(left[:n_workers], seconds, len(done), len(wanted))

    tell_running()
    for record in finished:
        record |= dict(origin or {})
        if results is not None:
            append_record(results, record)
        done[record_key(record)] = record
        if on_cell is not None:
            on_cell(record, len(done), len(wanted))
        tell_running()
    return [done[cell.key] for cell in wanted]


def _finished(
    wanted: Sequence[Cell], data: LabelledRows, quick: bool, results: Path | None
) -> dict[CellKey, Record]:
    """Return the records of a file that belong to the cells, their data, effort and code."""
    origin = {"data": data.fingerprint, "quick": quick}
    found = {
        record_key(record): record
        for record in ([] if results is None else read_records(results))
        if "failure" not in record and {**origin, **record}.items() >= origin.items()
    }
    codes = {cell.entry.method: cell.method.code for cell in wanted}
    return {
        cell.key: found[cell.key]
        for cell in wanted
        if cell.key in found and found[cell.key].get("code", "") == codes[cell.entry.method]
    }


def seconds_left(
    left: Sequence[Cell], records: Iterable[Record], quick: bool, n_workers: int = 1
) -> float:
    """Return how long cells will take, judged by those that are done; NaN if none is.

    A cell takes as long as others of its method. If there are none, its fits take as long as those
    of the methods that are known.
    """
    known: dict[str, list[float]] = {}
    for record in records:
        if "seconds" in record:
            known.setdefault(record["method"], []).append(record["seconds"])
    if not known:
        return np.nan
    mean = {method: float(np.mean(seconds)) for method, seconds in known.items()}
    fits = {cell.entry.method: cell.n_fits(quick) for cell in left}
    per_fit = np.mean([seconds / fits.get(method, 1) for method, seconds in mean.items()])
    each = [mean.get(c.entry.method, per_fit * fits[c.entry.method]) for c in left]
    return float(sum(each)) / n_workers


def warm_up_cell(cell: Cell, data: LabelledRows, n_threads: int = -1) -> None:
    """Compile the kernels that a cell needs, where this process has not done so."""
    given = {**common_settings(cell.method, 0, n_threads), **cell.entry.settings}
    rows = np.empty((0, data.X.shape[1])) if data.X.dtype == object else data.X
    warm_up_once(cell.method, given, rows)


def run_cell(cell: Cell, data: LabelledRows, quick: bool = False, n_threads: int = -1) -> Record:
    """Run one cell, its kernels compiled before its clock starts; a failure is a record too.

    Warnings are kept in the record: whoever shows it also decides how to show them.
    """
    record: Record = {
        **dict(zip(KEY_FIELDS, cell.key, strict=True)),
        "data": data.fingerprint,
        "quick": quick,
        "n_train": len(cell.split.train),
        "n_test": len(cell.split.test),
        "class_ratio": class_ratio(data.y),
        **machine(),
    }
    if cell.method.code:
        record["code"] = cell.method.code
    warm_up_cell(cell, data, n_threads)  # a worker's process is not the one that began
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        try:
            method, given, train, test = _set_up(cell, data, n_threads)
            chosen = {} if quick else choose_settings(method, given, train, cell.seed)
            record["chosen"] = chosen
            record["majority"] = majority_figures(train.y, test.y)
            record |= measure(method, {**given, **chosen}, train, test)
        except Exception as error:  # a table shows what failed
            record["failure"] = f"{type(error).__name__}: {error}"
    shown = (str(w.message) for w in caught if not issubclass(w.category, FutureWarning))
    if said := list(dict.fromkeys(" ".join(text.split()) for text in shown)):
        record["warnings"] = said
    return {**record, "seconds": time.perf_counter() - start}


def fit_cell(cell: Cell, data: LabelledRows) -> tuple[Any, Part]:
    """Return the model of a cell, with the settings given and nothing chosen, and its test rows."""
    method, given, train, test = _set_up(cell, data, n_threads=-1)
    return method(**given).fit(train.X, train.y), test


def _set_up(
    cell: Cell, data: LabelledRows, n_threads: int
) -> tuple[Method, dict[str, Any], Part, Part]:
    method = cell.method
    given = {**common_settings(method, cell.seed, n_threads), **cell.entry.settings}
    return method, given, *parts(data, cell.split, method(**given))


def record_key(record: Record) -> CellKey:
    """Key of the cell that a record belongs to."""
    return tuple(record[name] for name in KEY_FIELDS)


def append_record(results: Path, record: Record) -> None:
    """Append one line and bring it to the disk; a line before it that was cut off is ended."""
    results.parent.mkdir(parents=True, exist_ok=True)
    with results.open("ab+") as file:
        if file.tell() > 0:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write(json.dumps(record, default=np.generic.item).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read_records(results: Path) -> Iterator[Record]:
    """Yield the records of a file; lines that were cut off are skipped."""
    if not results.exists():
        return
    for line in results.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(record, Mapping) and set(KEY_FIELDS) <= set(record):
            yield dict(record)


def latest(records: Iterable[Record]) -> list[Record]:
    """Return the last record of each cell of the run that was written to last.

    Cells of other tables, data or effort (``quick``) in the same file are left out.
    """
    records = list(records)

    def run_of(record: Record) -> CellKey:
        return record["table"], record.get("data"), record.get("quick")

    last = [r for r in records if run_of(r) == run_of(records[-1])]
    return list({record_key(record): record for record in last}.values())


@cache
def machine() -> dict[str, str]:
    """Say on which machine and with which versions a record was measured."""
    packages = ("numpy", "scipy", "scikit-learn", "numba")
    versions = (f"{name} {version(name)}" for name in packages)
    return {
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "versions": ", ".join((f"dbdl {dbdl.__version__}", *versions)),
    }
