"""Discriminative Bayesian dictionary learning (DBDL), and the methods that it is compared with.

`DBDLClassifier` and `BetaProcessDictionary` are scikit-learn estimators. `ModelSettings` holds the
settings of their model, among them `SmoothAtoms`, a prior for spectra, signals and images.
`methods` lists every method, and `register` adds one of your own. `open_rows` opens files larger
than memory. `dbdl.coding` has the coders, and `dbdl.views` the maps through which chains see the
rows; `ViewTransformer` is such a map for any estimator of scikit-learn, and `KSVD` another
transformer.
"""

from __future__ import annotations

from importlib import import_module
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
    from dbdl.own_methods import register
    from dbdl.registry import Method, methods
    from dbdl.rivals.ksvd import KSVD

__all__ = [
    "KSVD",
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
    "register",
]
__version__ = "0.2.0"


#: Names whose modules import every rival, and where they are.
_LATER = {
    "KSVD": "dbdl.rivals.ksvd",
    "Method": "dbdl.registry",
    "methods": "dbdl.registry",
    "register": "dbdl.own_methods",
}


def __getattr__(name: str) -> Any:
    """Import the registry, and with it every rival, when it is first needed."""
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
