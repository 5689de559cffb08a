"""Options of `dbdl.datasets.load`, as every reader gets them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dbdl._columns import Columns


@dataclass(frozen=True)
class Options:
    """How to read a data set; the parameters of `dbdl.datasets.load` say more."""

    features: str | None = None  # kind of features; that of the form where None
    settings: Mapping[str, Any] = field(default_factory=dict)  # parameters of the extractor
    cache: str | Path | None = None  # folder of cached features
    n_jobs: int | None = None  # threads of the extractor
    label: str | None = None  # name of the column or array that holds the labels
    labelled: bool = True  # whether labels are needed
    image_shape: tuple[int, int] | None = None  # height and width of images
    columns: Columns | None = None  # columns of a table to use as features
