"""Accuracy and calibration of every method on real data, on the same splits.

    python -m benchmarks.accuracy [yaleb scene15 botswana coil20 usps ...] [--splits 5]
                                  [--only DBDL SRC ...] [--quick] [--workers 2] [--seconds]

Runs several tables of `dbdl reproduce` one after the other, with fewer splits, and prints them as
Markdown. Rows, splits and seeds are the same. Cells are kept in ``benchmarks/output``, so that a
run that was stopped is resumed. A missing data set is skipped with a message.

``--seconds`` measures the seconds of cells again, with the settings that they chose: for cells that
ran beside other work, or several at the same time.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.problems import rows_of
from dbdl import methods
from dbdl.experiments.printing import to_markdown
from dbdl.experiments.run import (
    LabelledRows,
    Record,
    append_record,
    cells,
    latest,
    read_records,
    record_key,
    run_cell,
    run_table,
)
from dbdl.experiments.spec import Table, load_table, table_names, with_search_note
from dbdl.experiments.summary import summarise
from dbdl.experiments.warm import in_words

OUTPUT = Path("benchmarks/output")
DEFAULT_TABLES = ["yaleb", "scene15", "botswana", "coil20", "usps"]
N_SPLITS = {"yaleb": 5}


def say(record: Record, n_done: int, n_cells: int) -> None:
    """Print a cell as it is finished."""
    result = record.get("failure") or f"{100 * record['accuracy']:.2f} % {record['chosen']}"
    print(f"  {n_done}/{n_cells} {record['method']}, split {record['split']}: {result}", flush=True)


def measure_seconds(table: Table, rows: LabelledRows, results: Path, only: Sequence[str]) -> None:
    """Append the cells of a file again, with new seconds: of two cells the last counts."""
    done = {record_key(record): record for record in latest(list(read_records(results)))}
    for cell in cells(table, rows, only):
        record = done.get(cell.key)
        if record is None or "failure" in record:
            continue
        settings = {**cell.entry.settings, **record["chosen"]}
        again = run_cell(
            cell._replace(entry=replace(cell.entry, settings=settings)), rows, quick=True
        )
        new = {name: again[name] for name in ("fit_seconds", "query_milliseconds")}
        append_record(results, {**record, **new})
        print(f"  {cell.entry.method}, split {cell.number}: {new['fit_seconds']:.2f} s", flush=True)


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", default=DEFAULT_TABLES)
    parser.add_argument("--splits", type=int, default=None, help="default: 5 for yaleb, else 3")
    parser.add_argument("--only", nargs="*", choices=list(methods()), default=())
    parser.add_argument("--quick", action="store_true", help="one split, nothing searched")
    parser.add_argument("--workers", type=int, default=1, help="cells at the same time")
    parser.add_argument("--seconds", action="store_true", help="measure seconds again, alone")
    arguments = parser.parse_args()
    if unknown := set(arguments.tables) - set(table_names()):
        parser.error(f"unknown table {min(unknown)!r}; there are {', '.join(table_names())}")
    warnings.filterwarnings("ignore", category=UserWarning)
    for table in map(load_table, arguments.tables):
        rows = rows_of(table)
        if rows is None:
            continue
        kind = "quick" if arguments.quick else "accuracy"
        results = OUTPUT / f"{kind}_{table.name}.jsonl"
        if arguments.seconds:
            measure_seconds(table, rows, results, arguments.only)
            continue
        records = run_table(
            table,
            rows,
            results,
            only=arguments.only,
            n_splits=1 if arguments.quick else arguments.splits or N_SPLITS.get(table.name, 3),
            quick=arguments.quick,
            n_workers=arguments.workers,
            n_threads=1 if arguments.workers > 1 else -1,
            on_cell=say,
            on_warm_up=lambda names: print(f"  {in_words(names)}", flush=True),
        )
        noted = with_search_note(table, arguments.quick)
        print("\n" + to_markdown(noted, summarise(noted, records)), flush=True)


if __name__ == "__main__":
    main()
