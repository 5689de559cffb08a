"""Discriminative Bayesian dictionary learning (DBDL), and the methods that it is compared with.

`DBDLClassifier` and `BetaProcessDictionary` are scikit-learn estimators. `ModelSettings` holds the
settings of their model, among them `SmoothAtoms`, a prior for spectra, signals and images.
`methods` lists every method. `open_rows` opens files larger than memory. `dbdl.coding` has the
coders, and `dbdl.views` the maps through which chains see the rows; `ViewTransformer` is such a map
for any estimator of scikit-learn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dbdl.estimators.classifier import DBDLClassifier
from dbdl.estimators.dictionary import BetaProcessDictionary
from dbdl.estimators.explanation import Explanation
from dbdl.estimators.view_transformer import ViewTransformer
from dbdl.model.settings import ModelSettings
from dbdl.model.smooth_atoms import SmoothAtoms
from dbdl.rows import open_rows
from dbdl.sampler.checkpoint import CheckpointError

if TYPE_CHECKING:
    from dbdl.registry import Method, methods

__all__ = [
    "BetaProcessDictionary",
    "CheckpointError",
    "DBDLClassifier",
    "Explanation",
    "Method",
    "ModelSettings",
    "SmoothAtoms",
    "ViewTransformer",
    "methods",
    "open_rows",
]
__version__ = "0.2.0"


def __getattr__(name: str) -> Any:
    """Import the registry, and with it every rival, when it is first needed."""
    if name in ("Method", "methods"):
        from dbdl import registry

        return getattr(registry, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
