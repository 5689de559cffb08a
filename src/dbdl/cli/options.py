"""Arguments and options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[
    str,
    typer.Argument(
        help="A data set by name (see: dbdl data), a file, a folder of images, or - for a table, "
        "or one image to predict, from standard input."
    ),
]
Label = Annotated[
    str | None, typer.Option(help="Labels: by default the last column, or the array y.")
]
#: How names of columns are listed; exact names win, see `dbdl._columns.Listing`.
_LIST = "repeat, or use commas. A name may have a comma itself, with or without double quotes."
Drop = Annotated[list[str] | None, typer.Option(help=f"Columns to leave out: {_LIST}")]
OnlyColumns = Annotated[
    list[str] | None,
    typer.Option("--columns", help=f"Columns to learn from, and no others: {_LIST}"),
]
Id = Annotated[
    str | None, typer.Option("--id", help="Column that names the rows; not learned from.")
]
MinRows = Annotated[
    int,
    typer.Option("--min-rows", min=1, help="Leave out classes with fewer rows than this."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same answer.")]
Only = Annotated[
    list[str] | None,
    typer.Option("--methods", "--only", "-m", help="Methods by name: repeat, or use commas."),
]
Quick = Annotated[
    bool, typer.Option("--quick", help="Fixed settings: no method searches, nor does DBDL.")
]
Workers = Annotated[int, typer.Option(min=1, help="Methods to run at the same time.")]
Results = Annotated[Path | None, typer.Option(help="File of finished cells, to resume from.")]
Plot = Annotated[Path | None, typer.Option(help="Picture of the accuracies: .png, .pdf or .svg.")]
Page = Annotated[Path | None, typer.Option("--report", help="A page of the results, .html.")]
Estimators = Annotated[
    list[str] | None,
    typer.Option(
        "--estimator",
        metavar="MODULE:CLASS",
        help="A classifier of your own, as my_methods:NearestMean; repeatable.",
    ),
]


class PictureForm(StrEnum):
    """Formats of pictures."""

    png = "png"
    pdf = "pdf"
    svg = "svg"


class Form(StrEnum):
    """Forms of a printed table."""

    csv = "csv"
    latex = "latex"
    markdown = "markdown"


Format = Annotated[Form | None, typer.Option("--format", help="Form of the printed table.")]
PerSplit = Annotated[
    bool, typer.Option("--per-split", help="Print every split, not the means over splits.")
]
Truth = Annotated[
    Path | None,
    typer.Option(
        help="Labels of the pixels of a cube: a raster (.hdr, .tif, .npy, .mat; 0 = unlabelled), "
        "or a .csv of points."
    ),
]
Blocks = Annotated[
    int | None,
    typer.Option(
        min=1, help="Blocks per side of a cube's scene; whole blocks are learned from or tested on."
    ),
]
PerClass = Annotated[
    int, typer.Option(min=2, help="Labelled pixels of a cube to use per class, at most.")
]
