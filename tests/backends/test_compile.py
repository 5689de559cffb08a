"""Compiled code rounds in one way, whatever numba had in its cache."""

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
sys.stdout.buffer.write(omp(X, X[:40], 8, selection="forward").data.tobytes())
"""


@pytest.mark.slow
def test_the_first_codes_on_a_machine_are_those_of_all_others(tmp_path):
    def code():
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
        command = [sys.executable, "-c", CODE]
        run = subprocess.run(command, env=environment, cwd=HERE, capture_output=True, check=True)
        return hashlib.sha256(run.stdout).hexdigest()

    assert code() == code()
