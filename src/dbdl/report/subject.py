"""What a report is about, and how its rows are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from dbdl.estimators.classifier import DBDLClassifier
from dbdl.plotting.pictures import Pictures, draw_rows
from dbdl.report.findings import Findings


@dataclass(frozen=True)
class Subject:
    """What a report is about, and how rows are drawn."""

    model: DBDLClassifier
    findings: Findings
    image_shape: tuple[int, int] | None
    order: str
    feature_names: Sequence[str]
    split_accuracy: Sequence[float]
    atoms_are_signed: bool
    unlearned_accuracy: float | None = None

    @property
    def names(self) -> list[str]:
        """Names of the classes."""
        return self.findings.names

    def draw(self, rows: NDArray[Any]) -> Pictures:
        """Draw rows or atoms (n_rows, n_features) as images or curves."""
        return draw_rows(rows, self.image_shape, self.order, signed=self.atoms_are_signed)

    @property
    def of_chain(self) -> str:
        """Words that name the chain that is shown, where there are several."""
        n = len(self.model.chains_)
        return f" of chain 1 of {n}" if n > 1 else ""
