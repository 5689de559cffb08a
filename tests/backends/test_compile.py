"""Compiled code always rounds in the same way, whatever numba's cache contains."""

import hashlib
import importlib
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core.dispatcher import Dispatcher

import dbdl

HERE = Path(__file__).parent
OF_OTHERS = ("torch", "triton", "distributed")


def compiled_functions():
    found = {}
    for module in pkgutil.walk_packages(dbdl.__path__, "dbdl."):
        if module.name == "dbdl.__main__":
            continue
        try:
            names = vars(importlib.import_module(module.name))
        except ModuleNotFoundError as error:
            if error.name.split(".")[0] not in OF_OTHERS:
                raise
            continue
        found |= {id(value): value for value in names.values() if isinstance(value, Dispatcher)}
    return list(found.values())


def callees(function):
    names = function.py_func.__code__.co_names
    values = [function.py_func.__globals__.get(name) for name in names]
    return [value for value in values if isinstance(value, Dispatcher)]


def test_what_may_round_in_more_than_one_way_is_compiled_once():
    functions = compiled_functions()
    assert len(functions) > 40
    strays = {
        f"{callee.py_func.__qualname__} in {caller.py_func.__qualname__}"
        for caller in functions
        for callee in callees(caller)
        if callee.targetoptions.get("fastmath") and not is_part_of(caller, callee)
    }
    assert not strays, "inline them (dbdl._compile)"


def is_part_of(caller, callee):
    options = callee.targetoptions
    if options.get("inline") == "always":  # takes on the rounding of its caller
        return options["fastmath"] == caller.targetoptions["fastmath"]
    return options.get("forceinline", False)


CODE = """
import sys
from chain_problem import rows_and_classes
from dbdl.coding.omp import omp
X, _ = rows_and_classes(20_000, 8)
sys.stdout.buffer.write(omp(X, X[:40], 8, rule="forward").data.tobytes())
"""


def from_empty_cache(code, folder, *arguments):
    """What code prints in a process that finds ``folder`` in place of numba's cache."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder)}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(
        command, env=environment, cwd=HERE, stdout=subprocess.PIPE, check=True
    ).stdout


@pytest.mark.slow
def test_the_first_codes_on_a_machine_are_those_of_all_others(tmp_path):
    first, second = (hashlib.sha256(from_empty_cache(CODE, tmp_path)).hexdigest() for _ in range(2))
    assert first == second


FITS = """
import sys
import numpy as np
from chain_problem import rows_and_classes
from numba.core import event
from dbdl import BetaProcessDictionary, DBDLClassifier, ModelSettings
from dbdl.coding import FAMILIES, Forward, Orthogonal
from dbdl.learn.kernels import compile_kernels
from dbdl.views import VIEWS

PAPER = ModelSettings(scan="paper", strengths_counted="all", noise_per_class=True)
SETTINGS = [
    {},
    {"coder": Forward(3), "n_jobs": 2},
    {"model": PAPER, "classifier": "gibbs"},
    {"classifier": "recoded", "normalize": False},
    *({"views": name + " + constant", "coder": Forward(3)} for name in VIEWS),
    *({"coder": name} for name in FAMILIES),
    {"classifier": "joint", "coder": Orthogonal(4, path_average=True)},
]

class Listener(event.Listener):
    def on_start(self, event):
        print(event.data["dispatcher"].py_func.__qualname__, event.data["args"])

    def on_end(self, event):
        pass

X, class_of_row = rows_and_classes(90, 8, 3, dtype=sys.argv[1])
compile_kernels(X.dtype, [family(3) for family in FAMILIES.values()])
layouts = [X, np.asfortranarray(X), np.repeat(X[:30], 3, axis=0)]
X.flags.writeable = False
with event.install_listener("numba:compile", Listener()):
    for settings in SETTINGS:
        for rows in layouts:
            model = DBDLClassifier(n_chains=1, n_sweeps=2, random_state=0, **settings)
            model.fit(rows, class_of_row).predict_proba(rows[:1])
            model.predict(rows)
    model = DBDLClassifier(n_chains=1, n_sweeps=2, random_state=0)
    for part in (slice(0, 45), slice(45, 90)):
        model.partial_fit(X[part], class_of_row[part])
    BetaProcessDictionary(n_sweeps=2, random_state=0).fit(X).transform(X)
"""


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_after_the_kernels_are_compiled_no_fit_compiles_anything(tmp_path, dtype):
    assert from_empty_cache(FITS, tmp_path, dtype).decode() == ""
