"""List what is known by name: ``data`` and ``methods``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import typer

import dbdl
from dbdl.cli import terminal
from dbdl.cli.options import AsJson
from dbdl.datasets import sources
from dbdl.registry import methods


def list_data(as_json: AsJson = False) -> None:
    """List the data sets that are known by name, and whether they were found."""
    names = ("name", "title", "found")
    rows = [(s.name, s.title, s.find() is not None) for s in sources().values()]
    if as_json:
        print(json.dumps([dict(zip(names, row, strict=True)) for row in rows]))
        return
    terminal.print_columns(names, ((*row, "yes" if found else "no") for *row, found in rows))
    print(
        "Set DBDL_DATA to the folder that holds them; dbdl reproduce NAME says where to get one.\n"
        "Your own data: an .npz, .csv, .parquet or .mat file, or a folder of images by class."
    )


def list_methods(as_json: AsJson = False) -> None:
    """List all methods with their papers and the settings that are tried."""
    if as_json:
        found = [
            {"name": m.name, "paper": m.paper, "grid": {k: list(v) for k, v in m.grid.items()}}
            for m in methods().values()
        ]
        print(json.dumps(found, default=float))
        return
    rows = ((m.name, m.paper, _grid_in_words(m.grid)) for m in methods().values())
    terminal.print_columns(("method", "paper", "settings tried"), rows)


def _grid_in_words(grid: Mapping[str, tuple[Any, ...]]) -> str:
    def words(values: tuple[Any, ...]) -> str:
        return ", ".join(value if isinstance(value, str) else f"{value:g}" for value in values)

    return "; ".join(f"{name} {words(values)}" for name, values in grid.items())


def show_version(asked: bool) -> None:
    """Print the version and end, if asked to."""
    if asked:
        print(f"dbdl {dbdl.__version__}")
        raise typer.Exit
