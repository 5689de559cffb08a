"""Every method of the package and the plain ones beside it: names, papers, settings to try.

The experiments, the benchmarks and the command line walk this list, and so do the tests: a line
here enrols a method. `dbdl.own_methods.register` adds methods of the user's own.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC, LinearSVC

from dbdl.coding import LassoPath
from dbdl.estimators.classifier import DBDLClassifier
from dbdl.rivals._scaled_rows import ScaledRowsClassifier
from dbdl.rivals._viewed_rows import ViewedRowsClassifier
from dbdl.rivals.copar import CoparClassifier
from dbdl.rivals.crc import CRCClassifier
from dbdl.rivals.dksvd import DKSVDClassifier
from dbdl.rivals.dlsi import DLSIClassifier
from dbdl.rivals.dpl import DPLClassifier
from dbdl.rivals.fddl import FDDLClassifier
from dbdl.rivals.ksvd import KSVDClassifier
from dbdl.rivals.lcksvd import LCKSVDClassifier
from dbdl.rivals.ldl import LDLClassifier
from dbdl.rivals.llc import LLCClassifier
from dbdl.rivals.lrsdl import LRSDLClassifier
from dbdl.rivals.procrc import ProCRCClassifier
from dbdl.rivals.sacrc import SACRCClassifier
from dbdl.rivals.src import SRCClassifier
from dbdl.rivals.training_rows import RandomRowsClassifier, TrainingRowsClassifier

#: Names of the parameter that sets the number of atoms: in all, or of each class.
_SIZES = ("n_initial_atoms", "n_atoms_per_class")


@dataclass(frozen=True)
class Method:
    """A classifier under the name that tables print.

    Called with parameters, it gives a fresh estimator.

    Attributes
    ----------
    name : str
    make : callable
        The class, or a function that makes an estimator.
    paper : str
        Where the method comes from.
    settings : mapping
        Parameters that define the method under this name.
    grid : mapping of str to tuple
        Settings worth trying: chosen by cross-validation on training rows where none are given.
    fixed : mapping
        Values for parameters that the method would otherwise choose by itself inside `fit`, on
        held-out training rows: used where no method may choose anything.
    has_size : bool
        Whether the number of atoms can be set, where there is a parameter for it.
    only_where_named : bool
        Whether the tables of the experiments leave it out unless they name it: it takes too long
        on the larger data sets.
    can_be_saved : bool
        Whether `dbdl.persistence` takes its fitted models.
    about : str
        What it does, in one line; by default the first line of the docstring of ``make``.

    Examples
    --------
    >>> import dbdl
    >>> method = dbdl.methods()["SRC (OMP)"]
    >>> method.paper
    'Wright, Yang, Ganesh, Sastry and Ma 2009'
    >>> method(n_nonzero=10)
    SRCClassifier(coder='omp', n_nonzero=10)
    >>> dbdl.methods()["DPL"].size
    'n_atoms_per_class'
    """

    name: str
    make: Callable[..., ClassifierMixin]
    paper: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    has_size: bool = True
    only_where_named: bool = False
    can_be_saved: bool = True
    about: str = ""

    def __call__(self, **settings: Any) -> ClassifierMixin:
        """Return a fresh estimator; parameters given win over those of the method."""
        return self.make(**{**self.settings, **settings})

    @property
    def size(self) -> str | None:
        """Name of the parameter that sets the number of atoms; None where it cannot be set."""
        parameters = self().get_params() if self.has_size else {}
        return next((name for name in _SIZES if name in parameters), None)

    @property
    def in_a_line(self) -> str:
        """What the method does, without a full stop; empty where nobody said."""
        own = self.make if isinstance(self.make, type) or inspect.isfunction(self.make) else None
        said = self.about or (inspect.getdoc(own) or "").partition("\n")[0]
        return said.strip().removesuffix(".")

    @property
    def code(self) -> str:
        """Short hash of the file that the user's own method is written in; empty for others.

        Results of code that has changed since are not reused.
        """
        if self.name not in OWN:
            return ""
        made = self.make.args[0] if isinstance(self.make, partial) else self.make
        with suppress(TypeError, OSError):
            file = inspect.getsourcefile(made if callable(made) else type(made))
            return hashlib.sha256(Path(file or "").read_bytes()).hexdigest()[:16]
        return ""


def _behind(rows: Callable[[Any], Any], kind: Callable[[], Any], **settings: Any) -> Any:
    """Return a classifier that sees rows which another estimator has scaled or mapped."""
    return rows(kind()).set_params(**settings)


def _plain(
    name: str, kind: Callable[[], ClassifierMixin], grid: Mapping[str, tuple[Any, ...]], *,
    about: str, **settings: Any,
) -> Method:  # fmt: skip
    """Return a method of scikit-learn, which may choose how rows are scaled.

    The dictionary methods scale rows themselves. Without the choice, plain methods would lose on
    tables of measurements by their rows alone.
    """
    choices = {"scaling": ("unit", "standard"), **grid}
    make = partial(_behind, ScaledRowsClassifier, kind)
    return Method(name, make, "", settings, choices, about=about)


#: Whitened views that rivals may choose from: those of our linear chains.
WHITENED = (
    "unit half-whitened + constant",
    "unit whitened + constant",
    "unit scaled and half-whitened + constant",
    "scaled and half-whitened + constant",
)


def _whitened(name: str, method: Method) -> Method:
    """Return a rival that sees whitened rows, in a view that it chooses with its other settings.

    A gain that a view brings to any method is no merit of DBDL.
    """
    make = partial(_behind, ViewedRowsClassifier, method.make)
    grid = {"view": WHITENED, **method.grid}
    about = f"{method.name} on whitened rows, in a view that it chooses"
    return replace(method, name=name, make=make, grid=grid, about=about)


# A coder that nobody chose: of those that held-out rows choose in the tables, one of the most
# frequent. Weights and temperatures are fitted all the same.
_FIXED = {"coder": LassoPath(14)}

_DBDL_PAPER = "Akhtar, Shafait and Mian 2016"
_SRC_PAPER = "Wright, Yang, Ganesh, Sastry and Ma 2009"
_FDDL_PAPER = "Yang, Zhang, Feng and Zhang 2011"
_COPAR_PAPER = "Kong and Wang 2012"
_LCKSVD_PAPER = "Jiang, Lin and Davis 2013"
_LCKSVD_GRID = {"n_nonzero": (10, 30), "consistency_weight": (1e-6, 1e-4, 1e-2)}

# fmt: off
_ALL = (
    Method("DBDL", DBDLClassifier, _DBDL_PAPER, fixed=_FIXED,
           about="Bayesian dictionaries learned with the labels; several chains, each with "
                 "its own view of the rows, are averaged"),
    Method("DBDL 1 chain", DBDLClassifier, _DBDL_PAPER, {"n_chains": 1}, fixed=_FIXED,
           about="DBDL with a single chain"),
    Method("DBDL (paper)", DBDLClassifier.paper, _DBDL_PAPER,
           about="DBDL with the settings of its paper: one chain, rows of unit norm"),
    # Rows like those that DBDL's chains start from, its coders and its ridge regression; no sweeps
    # and no views.
    Method("DBDL unlearned", RandomRowsClassifier, "", {"n_members": 5, "initial_ratio": 1.5},
           fixed=_FIXED, has_size=False,
           about="random training rows in place of the atoms that DBDL learns, with the "
                 "same coders and without views"),
    Method("CRC", CRCClassifier, "Zhang, Yang and Feng 2011",
           grid={"penalty": (1e-4, 1e-3, 1e-2, 0.1, 1.0)},
           about="ridge regression of a row on all training rows; the class whose rows "
                 "explain it best"),
    Method("ProCRC", ProCRCClassifier, "Cai, Zhang, Zuo and Feng 2016",
           grid={"penalty": (1e-3, 1e-2, 0.1), "agreement": (1.0, 30.0)},
           about="as CRC, and the classes have to agree on the row"),
    Method("SA-CRC", SACRCClassifier, "Akhtar, Shafait and Mian 2017",
           grid={"penalty": (1e-3, 1e-2, 0.1), "n_nonzero": (5, 30)},
           about="as CRC, helped by a sparse code of the same row"),
    Method("SRC", SRCClassifier, _SRC_PAPER, grid={"tolerance": (0.05, 0.1, 0.2, 0.4, 0.8)},
           about="sparse code of a row over all training rows by the lasso; the class whose "
                 "rows explain it best"),
    Method("SRC (OMP)", SRCClassifier, _SRC_PAPER, {"coder": "omp"},
           grid={"n_nonzero": (5, 10, 30, 50, 80)},
           about="as SRC, with codes by matching pursuit"),
    Method("training rows", TrainingRowsClassifier, grid={"n_nonzero": (5, 10, 20, 30, 50, 80)},
           about="all training rows as atoms, codes by matching pursuit, the class with the "
                 "largest sum"),
    Method("random rows + ridge", RandomRowsClassifier, fixed=_FIXED,
           about="one set of random training rows as atoms, and ridge regression on the codes"),
    Method("bagged rows", RandomRowsClassifier, "", {"n_members": 5}, fixed=_FIXED,
           about="five such sets of random rows, averaged"),
    Method("LLC", LLCClassifier, "Wang, Yang, Yu, Lv, Huang and Gong 2010",
           grid={"n_nonzero": (5, 10, 20, 40, 70, 120)},
           about="code of a row over its nearest training rows, and a linear classifier"),
    Method("DPL", DPLClassifier, "Gu, Zhang, Zuo and Feng 2014",
           grid={"tie": (0.01, 0.05), "discrimination": (3e-4, 3e-3, 3e-2)},
           about="a dictionary and a projection for each class, so that codes need no search"),
    Method("DLSI", DLSIClassifier, "Ramirez, Sprechmann and Sapiro 2010",
           grid={"penalty": (1e-3, 1e-2), "incoherence": (0.0, 1e-3, 1e-2)},
           about="a dictionary for each class, kept different from those of the others"),
    Method("FDDL", FDDLClassifier, _FDDL_PAPER,
           grid={"test_penalty": (0.005, 0.02), "fisher": (0.005, 0.05)},
           about="dictionaries whose codes are close within a class and far between "
                 "classes; decided by all atoms together"),
    Method("FDDL (local)", FDDLClassifier, _FDDL_PAPER, {"decision": "local"},
           grid={"mean_weight": (0.0, 0.005, 0.05)},
           about="as FDDL, decided by each class's atoms alone"),
    Method("LRSDL", LRSDLClassifier, "Vu and Monga 2017",
           grid={"test_penalty": (0.005, 0.02), "n_shared_atoms": (2, 8)},
           about="as FDDL, with further atoms that all classes share"),
    Method("DL-COPAR", CoparClassifier, _COPAR_PAPER,
           grid={"penalty": (1e-3, 3e-2), "incoherence": (1e-3, 1e-2)},
           about="atoms of each class and atoms that all share, kept apart"),
    Method("DL-COPAR (global)", CoparClassifier, _COPAR_PAPER,
           {"decision": "global", "test_penalty": 0.01},
           grid={"penalty": (1e-3, 1e-2), "test_penalty": (0.01, 0.03)},
           about="as DL-COPAR, decided by all atoms together"),
    Method("LDL", LDLClassifier, "Yang, Dai, Shen and Van Gool 2014",
           grid={"test_penalty": (0.005, 0.02), "other_weight": (0.0, 0.01)},
           about="one dictionary, with learned weights that say how much a class uses each atom"),
    Method("K-SVD", KSVDClassifier, "Aharon, Elad and Bruckstein 2006",
           grid={"n_nonzero": (10, 30), "penalty": (1e-3, 1e-1)},
           about="a dictionary learned without labels, then ridge regression on the codes"),
    Method("D-KSVD", DKSVDClassifier, "Zhang and Li 2010",
           grid={"n_nonzero": (10, 30), "label_weight": (1e-6, 1e-3, 1e-1)},
           about="K-SVD of rows and labels together"),
    Method("LC-KSVD1", LCKSVDClassifier, _LCKSVD_PAPER, {"variant": 1}, grid=_LCKSVD_GRID,
           about="K-SVD in which rows of a class are pushed towards the same atoms"),
    Method("LC-KSVD2", LCKSVDClassifier, _LCKSVD_PAPER, {"variant": 2}, grid=_LCKSVD_GRID,
           about="as LC-KSVD1, with a linear classifier learned along"),
    _plain("ridge", RidgeClassifier, {"alpha": tuple(np.logspace(-3, 1, 5).tolist())},
           about="least squares on the labels with a penalty"),
    _plain("linear SVM", LinearSVC, {"C": (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)},
           about="linear support vector machine"),
    _plain("logistic", LogisticRegression, {"C": (1.0, 10.0, 100.0, 1000.0, 10000.0)},
           max_iter=300,
           about="logistic regression"),
    # brute: a tree of neighbours cannot be saved, see `dbdl.persistence`
    _plain("1-NN", KNeighborsClassifier, {}, n_neighbors=1, algorithm="brute",
           about="the class of the nearest training row"),
    _plain("shrunken LDA", LinearDiscriminantAnalysis,
           {"shrinkage": ("auto", 0.01, 0.1, 0.5)}, solver="lsqr", shrinkage="auto",
           about="linear discriminant analysis with a shrunken covariance"),
    _plain("RBF SVM", SVC, {"C": (10.0, 1000.0), "gamma": (0.03, 0.1, 1.0, 10.0)},
           C=100.0, gamma=0.1,
           about="support vector machine with a Gaussian kernel"),
    # Trees do not see the scales of features, so there is none to choose.
    Method("boosting", HistGradientBoostingClassifier, "", {"max_iter": 200},
           grid={"learning_rate": (0.03, 0.1), "min_samples_leaf": (5, 20),
                 "max_features": (0.3, 1.0)},
           only_where_named=True, can_be_saved=False,  # nothing checks trees when they are loaded
           about="gradient boosting of decision trees"),
)
# fmt: on

#: Rivals that are compared in whitened views too, and their names there.
_IN_VIEWS = {
    "CRC": "CRC (whitened)",
    "SRC (OMP)": "SRC (OMP whitened)",
    "LLC": "LLC (whitened)",
    "DPL": "DPL (whitened)",
}
PACKAGED = (*_ALL, *(_whitened(_IN_VIEWS[m.name], m) for m in _ALL if m.name in _IN_VIEWS))

#: Methods that `register` added, by name.
OWN: dict[str, Method] = {}


def methods() -> dict[str, Method]:
    """Return all methods by name: those of the package, then those that were registered.

    Examples
    --------
    >>> import dbdl
    >>> dbdl.methods()["CRC"](penalty=0.01)
    CRCClassifier(penalty=0.01)
    """
    return {method.name: method for method in (*PACKAGED, *OWN.values())}


def name_of(estimator: Any) -> str:
    """Return the name of the method that an estimator is of; that of its class if it is of none.

    Of the methods of its kind it is that with the most parameters alike.

    Examples
    --------
    >>> import dbdl
    >>> from dbdl.registry import name_of
    >>> name_of(dbdl.methods()["RBF SVM"](C=10.0))
    'RBF SVM'
    """
    fresh = {method.name: method() for method in methods().values()}
    alike = {name: model for name, model in fresh.items() if _kind(model) == _kind(estimator)}
    own = _written(estimator)
    return max(
        alike, key=lambda name: len(own & _written(alike[name])), default=type(estimator).__name__
    )


def _kind(estimator: Any) -> tuple[type, type]:
    return type(estimator), type(getattr(estimator, "classifier", None))


def _written(estimator: Any) -> set[tuple[str, str]]:
    """Parameters and their values as texts, which are equal or not whatever they are."""
    return {(name, repr(value)) for name, value in estimator.get_params().items()}
