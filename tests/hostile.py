"""Files that somebody tampered with are refused by name, or do no harm.

    python tests/hostile.py NAME [--most N] [--seed S]

NAME is a method, or one of dictionary, stream, warm, smooth, views, own, refusals, draws, gaps and
checkpoint. One value at a time is changed in a saved model or checkpoint, whose checksum is made to
match. The file is read and used in a separate process, because a kernel that trusts such a value
can crash.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import itertools
import shutil
import sys
import tempfile
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

import dbdl
from dbdl.persistence import ModelFileError, load, save
from dbdl.sampler.checkpoint import read_archive, write_archive

QUICK = {"n_sweeps": 3, "n_chains": 2, "n_iterations": 2, "n_members": 2, "random_state": 0}


def rows():
    """Rows and labels to learn from, and new rows."""
    X, y = load_digits(n_class=3, return_X_y=True)
    return X[:60], y[:60], X[60:80]


def unseen_rows():
    """Rows for refusals, and their labels."""
    X, y = load_digits(n_class=3, return_X_y=True)
    return X[80:200], y[80:200]


def quick(method, **settings):
    known = method().get_params()
    wanted = {**QUICK, **settings}
    return method(**{name: value for name, value in wanted.items() if name in known})


# ------------------------------------------------------------------------------ changes of a value


def changed_arrays(array):
    """Arrays that differ from one: in shape, dtype, order or entries."""
    yield array[:-1]
    yield array[..., :-1]
    yield array[:0]
    yield array[np.newaxis]
    yield array.ravel()[::-1].reshape(array.shape)
    yield np.asfortranarray(array)
    yield np.concatenate([array, array])
    for dtype in ("f4", ">f8", "i4", "i8", "c16", "?", "U8", "O", "f2"):
        yield array.astype(dtype)
    for value in (np.nan, np.inf, -np.inf, 1e300):
        if array.dtype.kind == "f" and array.size:
            yield with_entry(array, value)
    for value in (-1, 10**6, 2**31 - 1):
        if array.dtype.kind in "iuf" and array.size:
            yield with_entry(array, value)
    yield np.ma.MaskedArray(array)
    yield None
    yield array.tolist()


def with_entry(array, value):
    array = array.copy()
    with np.errstate(over="ignore"):
        array.flat[array.size // 2] = value
    return array


def changed_plain(value):
    """Values other than a number, a word, a slice or nothing."""
    others = (None, -1, 0, 3, 10**9, 2**70, np.nan, np.inf, 0.5, "x", [], np.ones(3), slice(0, 999))
    yield from (other for other in others if other is not value)


def changes(value):
    return changed_arrays(value) if isinstance(value, np.ndarray) else changed_plain(value)


def leaves(value, path=()):
    """Paths to all values inside records, lists and tuples."""
    if dataclasses.is_dataclass(value):
        parts = [(field.name, vars(value)[field.name]) for field in dataclasses.fields(value)]
    elif isinstance(value, list | tuple):
        parts = enumerate(value)
    else:
        yield path
        return
    for key, part in parts:
        yield from leaves(part, (*path, key))


def replaced(value, path, new):
    """A copy of a value with another one at a path."""
    if not path:
        return new
    key, *rest = path
    if dataclasses.is_dataclass(value):
        value = copy.copy(value)
        vars(value)[key] = replaced(vars(value)[key], rest, new)
        return value
    parts = list(value)
    parts[key] = replaced(parts[key], rest, new)
    if hasattr(value, "_fields"):
        return type(value)(*parts)
    return type(value)(parts)


def at(value, path):
    for key in path:
        value = vars(value)[key] if dataclasses.is_dataclass(value) else value[key]
    return value


def sampled(cases, most, seed):
    """Some of the cases, at random."""
    cases = list(cases)
    chosen = np.random.default_rng(seed).permutation(len(cases))[:most]
    return [cases[number] for number in np.sort(chosen)]


# ------------------------------------------------------------------------------------ model files


def fitted_models(name):
    """A fitted model by name."""
    X, y, _ = rows()
    if name == "dictionary":
        return quick(dbdl.BetaProcessDictionary).partial_fit(X[:40]).partial_fit(X[40:])
    if name == "stream":
        model = quick(dbdl.DBDLClassifier, n_initial_atoms=20)
        return model.partial_fit(X[:40], y[:40]).partial_fit(X[40:], y[40:])
    if name == "views":  # one chain for each
        return quick(dbdl.DBDLClassifier, n_initial_atoms=20, n_chains=8).fit(X, y)
    if name == "draws":
        settings = dbdl.ModelSettings(keep_atom_draws=True)
        model = quick(dbdl.DBDLClassifier, n_initial_atoms=20, n_draws=2, model=settings)
        return model.set_params(n_sweeps=6).fit(X, y)
    if name == "own":
        model = quick(dbdl.DBDLClassifier, n_initial_atoms=20, views=["plain", PCA(20)])
        return model.partial_fit(X[:40], y[:40])
    if name == "refusals":
        return quick(dbdl.methods()["CRC"]).fit(X, y).fit_refusals(*unseen_rows())
    if name == "gaps":
        X[::3, ::5] = np.nan
        return quick(dbdl.DBDLClassifier, n_initial_atoms=20, n_chains=1).fit(X, y)
    if name == "smooth":
        model = dbdl.ModelSettings(atom_prior=dbdl.SmoothAtoms(2.0), usage_a=[2.0, 3.0, 4.0])
        atoms = {"initial_atoms": X[:20], "model": model}
        return quick(dbdl.DBDLClassifier, **atoms, warm_start=True).fit(X, y)
    if name == "warm":
        return quick(dbdl.DBDLClassifier, n_initial_atoms=20, warm_start=True).fit(X, y)
    return quick(dbdl.methods()[name]).fit(X, y)


def attributes(model):
    """Names of all that is fitted."""
    return [name for name in vars(model) if name.endswith("_") or name == "_memory"]


def use(model):
    """Whatever a model can do."""
    X, y, X_new = rows()
    for verb in ("predict", "decision_function", "predict_proba", "transform", "score_samples"):
        if hasattr(model, verb):
            getattr(model, verb)(X_new)
    if hasattr(model, "refusals_"):
        assert model.predict_set(X_new).shape == (len(X_new), len(model.classes_))
        assert model.refuse(X_new, max_error=0.1).shape == (len(X_new),)
    if hasattr(model, "chains_"):
        assert np.isfinite(model.atoms_).all()
        X_new[::2, ::7] = np.nan
        model.inverse_transform(model.transform(X_new))
    if getattr(model, "n_draws", 0):
        assert np.isfinite(model.selection_interval()).all()
        assert np.isfinite(model.posterior_proba(X_new)).all()
    if hasattr(model, "online_"):
        model.partial_fit(X[:30], *([y[:30]] if hasattr(model, "classes_") else []))
    if getattr(model, "warm_start", False):
        model.set_params(n_sweeps=model.n_sweeps + 1).fit(X, y)


def tamper_with_models(name, most, seed):
    model = fitted_models(name)
    cases = [
        ((attribute, *path), number)
        for attribute in attributes(model)
        for path in leaves(vars(model)[attribute])
        for number, _ in enumerate(changes(at(vars(model)[attribute], path)))
    ]
    for (attribute, *path), number in sampled(cases, most, seed):
        new = next(itertools.islice(changes(at(vars(model)[attribute], path)), number, None))
        bad = copy.copy(model)
        vars(bad)[attribute] = replaced(vars(model)[attribute], path, new)
        yield f"{attribute}.{'.'.join(map(str, path))} = {new!r:.60}", bad


def try_model(bad, folder):
    """Save, load and use a model; whether it was refused, and by what words."""
    path = folder / "model.skops"
    try:
        save(bad, path)
    except ModelFileError:
        return "not saved", ""
    try:
        model = load(path)
    except ModelFileError as error:
        assert str(path) in str(error), error
        return "refused", str(error)
    try:
        use(model)
    except ValueError as error:  # sizes or parameters do not fit the new rows: said in Python
        return "error", str(error)
    return "used", ""


# ------------------------------------------------------------------------------------ checkpoints


def kept_fit(folder, **settings):
    """Fit with checkpoints, or go on with more sweeps from those that are there."""
    X, y, _ = rows()
    model = quick(
        dbdl.DBDLClassifier, n_initial_atoms=20, checkpoint=folder, warm_start=True, n_draws=2,
        **settings,
    )  # fmt: skip
    return model.fit(X, y)


def tampered_archives(path, most, seed):
    """Functions that write a checkpoint with one value changed, and what they change."""
    about, arrays = read_archive(path)
    about = {key: value for key, value in about.items() if key not in ("marker", "format")}
    cases = [(key, n) for key in arrays for n, _ in enumerate(changes_in_file(arrays[key]))]
    cases += [(key, None) for key in (*arrays, *about, "more")]
    for key, number in sampled(cases, most, seed):
        new_arrays, new_about = dict(arrays), dict(about)
        if number is not None:
            new_arrays[key] = next(itertools.islice(changes_in_file(arrays[key]), number, None))
        elif key == "more":
            new_arrays["snapshot.more"] = np.ones(3)
        else:
            new_arrays.pop(key, None)
            new_about.pop(key, None)
        yield f"{key} ({number})", partial(write_archive, about=new_about, arrays=new_arrays)


def changes_in_file(array):
    """Changes that an archive, which holds no objects, can hold."""
    others = changed_arrays(array) if array.ndim else ()
    for new in itertools.chain(others, changed_plain(array)):
        changed = np.asarray(None if isinstance(new, slice) else new)
        if changed.dtype != object:
            yield changed


def try_checkpoint(folder):
    try:
        model = kept_fit(folder, n_sweeps=5)
    except dbdl.CheckpointError as error:
        assert str(folder) in str(error), error
        return "refused", str(error)
    assert np.isfinite(model.decision_function(rows()[2])).all()
    return "used", ""


def tamper_with_checkpoints(most, seed, folder):
    whole, bad = folder / "whole", folder / "bad"
    kept_fit(whole)
    for name in ("chain-000.npz", "fit.npz"):
        for what, write in tampered_archives(whole / name, most, seed):
            shutil.copytree(whole, bad)
            write(bad / name)
            yield f"{name} {what}", try_checkpoint(bad)
            shutil.rmtree(bad)


# --------------------------------------------------------------------------------------- by hand


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("--most", type=int, default=10**9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    count = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.name == "checkpoint":
            results = tamper_with_checkpoints(options.most, options.seed, folder)
        else:
            models = tamper_with_models(options.name, options.most, options.seed)
            results = ((what, try_model(bad, folder)) for what, bad in models)
        for what, (end, words) in results:
            count[end] = count.get(end, 0) + 1
            if options.verbose:
                print(f"{end:>9}  {what}  {words}", flush=True)
    print(options.name, *(f"{end}={n}" for end, n in sorted(count.items())))


if __name__ == "__main__":
    sys.exit(main())
