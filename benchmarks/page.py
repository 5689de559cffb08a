"""Fill the tables of README.md and of pages of docs/ from the cells that were measured.

    python -m benchmarks.page

Reads the cells that `benchmarks.accuracy`, `benchmarks.frontier` and `benchmarks.ablation` keep in
``benchmarks/output``, so that all figures of a page come from the same runs. In a page, a table
stands between ``<!-- table: yaleb -->`` and ``<!-- end -->``. The text between these two lines is
replaced, and the rest of the page is not touched. If there are no cells for a table, it stays as it
is, with a message.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.accuracy import OUTPUT
from dbdl.experiments.printing import Grid, grid_to_markdown, text_cells, to_markdown
from dbdl.experiments.run import latest, read_records
from dbdl.experiments.spec import load_table
from dbdl.experiments.summary import MAJORITY, OURS, UNLEARNED, Line, in_splits, summarise

PAGES = (Path("README.md"), Path("docs/results.md"), Path("docs/details.md"))
BLOCK = re.compile(r"(<!-- (\w+): ?([\w ]*) -->\n).*?(<!-- end -->)", re.DOTALL)

TABLES = (
    "yaleb", "botswana", "coil20", "scene15", "usps", "digits", "digits_half", "wine",
    "breast_cancer", "iris",
)  # fmt: skip
#: Methods of scikit-learn; the other methods that are not ours are dictionary rivals.
PLAIN = ("shrunken LDA", "RBF SVM", "logistic", "linear SVM", "1-NN", "ridge", "boosting")
#: Methods of scikit-learn that have a column of their own in the README.
SHOWN = PLAIN[:5]
#: Rivals that are also run in whitened views, with the names of those runs.
WHITENED = {
    "CRC": "CRC (whitened)",
    "SRC (OMP)": "SRC (OMP whitened)",
    "LLC": "LLC (whitened)",
    "DPL": "DPL (whitened)",
}


@cache
def lines_of(name: str) -> list[Line]:
    """Lines of a table of `benchmarks.accuracy`; none if it was not run."""
    records = list(read_records(OUTPUT / f"accuracy_{name}.jsonl"))
    return summarise(load_table(name), latest(records)) if records else []


def table(name: str) -> str:
    """The whole table of a data set."""
    lines = lines_of(name)
    if not lines:
        return ""
    text = to_markdown(load_table(name), lines)
    return text.partition("\n\n")[2]  # the page has its own heading


def made_by(kind: str) -> Callable[[str], str]:
    """Return a function that reads the table which another benchmark wrote for a data set."""

    def read(name: str) -> str:
        path = OUTPUT / f"{kind}_{name}.md"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    return read


def summary(_: str) -> str:
    """DBDL on every data set, beside the best other method."""
    headings = [
        "data, rows to learn from", "DBDL %", "log-loss", "calibration error %",
        "of which chance", "training rows, not learned %", "best other method %", "difference",
    ]  # fmt: skip
    rows = []
    for name in filter(lines_of, TABLES):
        of_method = {line.method: line for line in lines_of(name)}
        ours, unlearned = of_method[OURS], of_method.get(UNLEARNED)
        other = best(line for line in lines_of(name) if not line.method.startswith(OURS))
        chance = f" (p {other.p_value:.2g})" if np.isfinite(other.p_value) else ""
        rows.append([
            title_of(name, ours), text_cells(ours)["accuracy %"], f"{ours.log_loss:.3f}",
            f"{ours.calibration_error:.1f}", f"{ours.calibration_floor:.1f}",
            "" if unlearned is None else f"{unlearned.accuracy:.2f}",
            f"{other.method} {other.accuracy:.2f}", f"{-other.difference:+z.2f}{chance}",
        ])  # fmt: skip
    return grid_to_markdown(Grid(headings, rows)) if rows else ""


def whitened(_: str) -> str:
    """Rivals as they are and in whitened views."""
    rows = []
    for name in filter(lines_of, TABLES):
        accuracy = {line.method: f"{line.accuracy:.2f}" for line in lines_of(name)}
        pairs = [f"{accuracy.get(a, '')}, {accuracy.get(b, '')}" for a, b in WHITENED.items()]
        if any(b in accuracy for b in WHITENED.values()):
            rows.append([short_title(name), *pairs, accuracy[OURS]])
    return grid_to_markdown(Grid(["data", *WHITENED, OURS], rows)) if rows else ""


def readme(_: str) -> str:
    """DBDL beside the methods that most people know, with the best accuracy in bold."""
    rows = []
    for name in filter(lines_of, TABLES):
        of_method = {line.method: line for line in lines_of(name)}
        rival = best(
            line
            for line in of_method.values()
            if line.method not in PLAIN and not line.method.startswith(OURS)
        )
        shown = [of_method.get(method) for method in (OURS, *SHOWN)]
        top = max(line.accuracy for line in (*shown, rival) if line is not None)
        cells = ["" if line is None else in_bold(line, top) for line in shown]
        rows.append([title_of(name, of_method[OURS]), *cells, in_bold(rival, top, named=True)])
    headings = ["data, rows to learn from", OURS, *SHOWN, "best dictionary rival"]
    return grid_to_markdown(Grid(headings, rows)) if rows else ""


def best(lines: Iterable[Line]) -> Line:
    """The most accurate of some lines."""
    return max(
        (line for line in lines if line.method != MAJORITY and np.isfinite(line.accuracy)),
        key=lambda line: line.accuracy,
    )


def in_bold(line: Line, top: float, *, named: bool = False) -> str:
    """An accuracy, in bold if it is the highest."""
    text = f"{line.method} " * named + f"{line.accuracy:.2f}"
    return f"**{text}**" if line.accuracy >= top else text


def short_title(name: str) -> str:
    """The name of a data set."""
    return load_table(name).title.partition(",")[0]


def title_of(name: str, line: Line) -> str:
    """The name of a data set, with its rows to learn from and its number of splits."""
    return f"{short_title(name)}, {line.column} ({in_splits(line.n_splits)})"


KINDS: dict[str, Callable[[str], str]] = {
    "table": table,
    "summary": summary,
    "whitened": whitened,
    "readme": readme,
    "frontier": made_by("frontier"),
    "ablation": made_by("ablation"),
}


def filled(page: str) -> str:
    """A page with its tables written anew."""

    def replaced(block: re.Match[str]) -> str:
        begin, kind, name, end = block.groups()
        text = KINDS[kind](name)
        if not text:
            print(f"no cells for {kind} {name}: the table stays as it is", file=sys.stderr)
            return block.group()
        return f"{begin}\n{text.strip()}\n\n{end}"

    return BLOCK.sub(replaced, page)


def main() -> None:
    """Fill the pages."""
    for path in PAGES:
        page = path.read_text(encoding="utf-8")
        path.write_text(filled(page), encoding="utf-8")
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
