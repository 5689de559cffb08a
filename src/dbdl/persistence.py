"""Models in files, without pickle: reading a file runs no code that the file brings along.

A model file is an archive of `dbdl._archives` with the entries of a skops file (arrays and a JSON
description); its ``about.json`` names the versions it was written with and the columns of the table
that the model was fitted on. Only types that are known to be harmless are built when it is read:
those of scikit-learn, NumPy and SciPy that skops trusts, and the estimators and plain records of
the rooms in `TRUSTED_ROOMS`. Everything that our kernels will trust is checked as a model is
restored: see `dbdl.model.trust`. A scikit-learn model is as safe as skops makes it.
"""

from __future__ import annotations

import copy
import dataclasses
import importlib
import io
import os
import platform
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import version
from math import inf
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from dbdl._archives import ArchiveError, open_archive, write_archive
from dbdl._columns import Columns as Columns
from dbdl._files import reason
from dbdl.model.trust import RecordError

ROOMS = "coding estimators features learn missing model rivals sampler views"
#: Rooms whose estimators, dataclasses and named tuples may be in a file.
TRUSTED_ROOMS = tuple(f"dbdl.{room}." for room in ROOMS.split())
#: Types of NumPy that skops does not trust by itself. A dtype is read from an empty array, without
#: pickle; scikit-learn's imputer keeps one.
HARMLESS = frozenset({"numpy.dtype"})
KIND = {"marker": "dbdl model", "format": 1}
#: Packages whose versions a file records, besides dbdl and Python.
RECORDED_PACKAGES = ("numpy", "scipy", "scikit-learn", "skops")


class ModelFileError(Exception):
    """A model file cannot be written or read; the message says why and what to do.

    Examples
    --------
    >>> from dbdl.persistence import ModelFileError, load
    >>> try:
    ...     load("no such file.skops")
    ... except ModelFileError as error:
    ...     print(error)
    cannot read a model from no such file.skops: ...
    """


def save(
    model: BaseEstimator, path: str | os.PathLike[str], columns: Columns | None = None
) -> Path:
    """Write an estimator to a file that `load` reads.

    The file appears whole or not at all. Callbacks are not kept: they belong to a fit.

    Parameters
    ----------
    model : estimator
        Of this package or of scikit-learn, fitted or not.
    path : str or path-like
        The ending ``.skops`` is customary.
    columns : Columns, optional
        Of the table that it was fitted on; `read_columns` gives them back.

    Returns
    -------
    path : Path

    Raises
    ------
    ModelFileError
        Where the path cannot be written, or the model holds types that `load` would refuse.

    Examples
    --------
    >>> import tempfile
    >>> import dbdl
    >>> from dbdl.persistence import load, save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save(dbdl.DBDLClassifier(n_chains=1), f"{folder}/model.skops")
    ...     load(path)
    DBDLClassifier(n_chains=1)
    """
    from skops import io as skops_io

    if not isinstance(model, BaseEstimator):
        raise ModelFileError(
            f"{type(model).__name__} is not an estimator. Expected an object with scikit-learn's "
            "interface, such as a DBDLClassifier."
        )
    try:
        content = skops_io.dumps(_without_callbacks(model))
    except Exception as error:  # skops meets whatever a user put into the model
        raise ModelFileError(
            f"{type(model).__name__} cannot be saved: {error}. Expected parameters and attributes "
            "made of numbers, strings, arrays, containers and estimators."
        ) from error
    if unknown := untrusted_types(skops_io.get_untrusted_types(data=content)):
        raise ModelFileError(
            f"{type(model).__name__} cannot be saved: it holds types that would be refused on "
            f"loading: {', '.join(unknown)}. Use another method, remove them from its parameters, "
            "or save it with skops itself."
        )
    versions = {name: version(name) for name in RECORDED_PACKAGES}
    versions |= {"dbdl": _own_version(), "python": platform.python_version()}
    about = {"versions": versions, "columns": dataclasses.asdict(columns or Columns())}
    try:
        return write_archive(path, {**KIND, **about}, content=content)
    except OSError as error:
        raise ModelFileError(
            f"cannot write the model to {os.fspath(path)}: {reason(error)}"
        ) from error


def load(path: str | os.PathLike[str]) -> Any:
    """Read an estimator from a file that `save` wrote.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    model : estimator
        Its predictions are the same bits as before.

    Raises
    ------
    ModelFileError
        Where there is no such file, it is cut off or damaged, it is not a model file, it would
        unpack to far more than its size, it holds types that are not trusted or values that a model
        does not have, or it was written by a newer major version of dbdl.

    Examples
    --------
    >>> import tempfile
    >>> import dbdl
    >>> from dbdl.persistence import load, save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     load(save(dbdl.BetaProcessDictionary(n_sweeps=5), f"{folder}/model.skops"))
    BetaProcessDictionary(n_sweeps=5)
    """
    from skops import io as skops_io

    name = os.fspath(path)
    content, about = _read(path)
    theirs, ours = about["versions"]["dbdl"], _own_version()
    if _major(theirs) > _major(ours):
        raise ModelFileError(
            f"{name} was written by dbdl {theirs}, this is dbdl {ours}. A newer major version may "
            f"store models differently: install dbdl {_major(theirs)} or newer to read it."
        )
    try:
        found = skops_io.get_untrusted_types(data=content)
        unknown = untrusted_types(found)
        model = None if unknown else skops_io.loads(content, trusted=found)
    except RecordError as error:
        raise ModelFileError(
            f"{name} was not loaded: {error}. It is damaged, or was not written by "
            "dbdl.persistence.save. Save the model again."
        ) from error
    except Exception as error:  # a damaged description can fail in any way inside skops
        raise ModelFileError(
            f"{name} is damaged or not a model file ({type(error).__name__}: {error}). "
            "Save the model again."
        ) from error
    if unknown:
        raise ModelFileError(
            f"{name} was not loaded: it holds types that are not trusted: {', '.join(unknown)}. "
            "Expected estimators of dbdl and scikit-learn only. If you know where the file comes "
            "from, load it with skops.io.load and name these types."
        )
    if not isinstance(model, BaseEstimator):
        raise ModelFileError(f"{name} holds a {type(model).__name__}, expected an estimator.")
    return model


def read_columns(path: str | os.PathLike[str]) -> Columns:
    """Return the columns that the model in a file was fitted on; none where it names none.

    Examples
    --------
    >>> import tempfile
    >>> import dbdl
    >>> from dbdl.persistence import Columns, read_columns, save
    >>> columns = Columns(("length", "width"), "species")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     read_columns(save(dbdl.DBDLClassifier(), f"{folder}/model.skops", columns)).features
    ('length', 'width')
    """
    try:
        return _columns(_read(path)[1]["columns"])
    except (KeyError, TypeError, AttributeError):
        return Columns()


def _columns(found: dict[str, Any]) -> Columns:
    """Return the columns that a file describes; what is not a description raises TypeError."""
    features, shape = found["features"], found.get("image_shape")
    label, roles, kinds, ids = map(found.get, ("label", "roles", "kinds", "ids"))
    texts = (label, roles, kinds, ids, *(features or ()))
    if not all(text is None or isinstance(text, str) for text in texts):
        raise TypeError("a name is not a text")
    if not set(kinds or "") <= set("nc"):
        raise TypeError("a kind is not known")
    if shape is not None and not (len(shape) == 2 and all(type(n) is int and n > 0 for n in shape)):
        raise TypeError("images have no height and width")
    names = None if features is None else tuple(features)
    image_shape = None if shape is None else tuple(shape)
    return Columns(names, label, roles, kinds, ids, image_shape, _sizes(found.get("sizes"), kinds))


def _sizes(found: Any, kinds: str | None) -> tuple[float | None, ...] | None:
    """Return the sizes of columns that a file describes; what are none raises TypeError."""
    if found is None:  # as in files written before sizes were recorded
        return None
    are_known = all(size is None or (type(size) is float and 0 < size < inf) for size in found)
    if kinds is None or len(found) != len(kinds) or not are_known:
        raise TypeError("columns have no sizes")
    return tuple(found)


def read_versions(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the versions of dbdl, Python and other packages that a model file was written with.

    Examples
    --------
    >>> import tempfile
    >>> import dbdl
    >>> from dbdl.persistence import read_versions, save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     versions = read_versions(save(dbdl.DBDLClassifier(), f"{folder}/model.skops"))
    >>> versions["dbdl"] == dbdl.__version__
    True
    """
    return dict(_read(path)[1]["versions"])


def untrusted_types(names: Iterable[str]) -> list[str]:
    """Return those names of types that are not ours, in order.

    Examples
    --------
    >>> from dbdl.persistence import untrusted_types
    >>> untrusted_types(["dbdl.estimators.classifier.DBDLClassifier", "os.system"])
    ['os.system']
    """
    return [name for name in names if not _is_ours(name)]


def _is_ours(name: str) -> bool:
    """Whether a dotted name is harmless, or an estimator or plain record of a trusted room.

    The name alone would not do: modules of dbdl also import functions and classes of others.
    """
    if name in HARMLESS:
        return True
    module_name, _, class_name = name.rpartition(".")
    found = None
    if f"{module_name}.".startswith(TRUSTED_ROOMS):
        with suppress(ImportError):
            found = getattr(importlib.import_module(module_name), class_name, None)
    if not isinstance(found, type) or found.__module__ != module_name:
        return False
    is_named_tuple = issubclass(found, tuple) and hasattr(found, "_fields")
    return issubclass(found, BaseEstimator) or dataclasses.is_dataclass(found) or is_named_tuple


def _without_callbacks(model: BaseEstimator) -> BaseEstimator:
    if isinstance(model, Pipeline):
        steps = [(name, _without_callbacks(step)) for name, step in model.steps]
        if all(new is old for (_, new), (_, old) in zip(steps, model.steps, strict=True)):
            return model
        model = copy.copy(model)
        model.steps = steps
    if not hasattr(model, "_skl_callbacks"):
        return model
    model = copy.copy(model)
    del model._skl_callbacks
    return model


def _own_version() -> str:
    import dbdl

    return dbdl.__version__


def _major(release: str) -> int:
    return int(release.split(".")[0])


def _read(path: str | os.PathLike[str]) -> tuple[bytes, dict[str, Any]]:
    """Return the bytes of a model file and its description, which names a version of dbdl."""
    name = os.fspath(path)
    expected = "Expected a file that dbdl.persistence.save wrote"
    try:
        content = Path(path).read_bytes()
        with open_archive(io.BytesIO(content), KIND) as (about, _):
            _major(about["versions"]["dbdl"])
    except OSError as error:
        raise ModelFileError(
            f"cannot read a model from {name}: {reason(error)}. {expected}."
        ) from error
    except ArchiveError as error:
        raise ModelFileError(
            f"{name} {error}. {expected}; copy it again or save the model again."
        ) from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ModelFileError(f"{name} is damaged: it does not name its versions") from error
    return content, about
