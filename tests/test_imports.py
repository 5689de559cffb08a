"""Imports point one way, and importing dbdl stays light."""

import ast
import subprocess
import sys
from importlib.util import find_spec, resolve_name
from pathlib import Path

import pytest

PACKAGE = Path(find_spec("dbdl").origin).parent

# What each room may import besides itself. A room that is not listed may import all of them.
MAY_IMPORT = {
    "_archives": {"_files"},
    "_loaded": {"model"},
    "_arrays": set(),
    "_threads": set(),
    "_warnings": set(),
    "_extras": set(),
    "_processor": {"_threads"},
    "_compile": set(),
    "_products": {"_threads", "_compile"},
    "_parameters": {"model"},
    "draws": {"_compile"},
    "model": set(),
    "coding": {"_warnings", "model", "draws", "_arrays", "_products", "_threads", "_compile"},
    "rows": {"_arrays", "_extras", "model", "_threads", "_files", "_columns", "_arrow"},
    "views": {"_arrays", "_products", "_threads", "model", "rows"},
    "missing": {"_arrays", "_products", "_threads", "model", "views", "backends", "draws"},
    "backends": {
        "_arrays", "model", "coding", "rows", "views", "draws", "_products", "_threads", "_compile",
        "_extras", "_processor", "_warnings",
    },
    "sampler": {"model", "backends", "missing", "draws", "_threads", "_files", "_archives"},
    "estimators": {
        "learn", "missing", "views", "sampler", "model", "backends", "coding", "rows", "draws",
        "_threads", "_arrays", "_extras", "_loaded", "_warnings", "_parameters",
    },
    "learn": {
        "missing", "views", "sampler", "model", "backends", "coding", "rows", "draws", "_arrays",
        "_threads", "_compile", "_files", "_products", "_warnings", "dbdl",  # for its version
    },
    "rivals": {
        "estimators", "learn", "model", "backends", "coding", "rows", "draws", "_products",
        "_threads", "_compile", "_warnings", "_parameters",
    },
    "registry": {"estimators", "rivals", "coding"},
    "own_methods": {"registry"},
    "experiments": {
        "registry", "own_methods", "datasets", "estimators", "learn", "backends", "coding",
        "_arrays", "dbdl",  # for its version
    },
    "plotting": {"coding", "sampler", "estimators", "experiments", "_files", "_arrays"},
    "features": {
        "_arrays", "_parameters", "model", "coding", "_threads", "_compile", "_loaded",
    },
    "datasets": {"_extras", "_warnings", "features", "_files", "_columns", "_arrow"},
    "maps": {
        "plotting", "datasets", "estimators", "coding", "learn", "_extras", "_files", "_threads",
        "_warnings",
    },
    "report": {
        "plotting", "experiments", "estimators", "learn", "coding", "model", "_files", "_arrays",
        "registry", "dbdl",
    },
    "_files": set(),
    "_columns": {"_warnings", "_files"},
    "_arrow": {"_files", "_columns"},
    "persistence": {"model", "_files", "_columns", "_archives", "dbdl"},  # dbdl: for its version
}  # fmt: skip

HEAVY = {"torch", "dask", "distributed", "matplotlib.pyplot"}


def room_of(path):
    """`gibbs` for gibbs.py directly in the package, `sampler` for anything in sampler/."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_modules(source, package):
    """Absolute names of all that a module imports, also inside functions and for type checkers."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            # `from dbdl import coding` names the room only in its second half
            yield from (f"{base}.{alias.name}" for alias in node.names)


def imported_rooms(source, package):
    """Rooms of dbdl that a module imports; a public name taken from dbdl itself counts as one."""
    names = (name.split(".") for name in imported_modules(source, package))
    return {(*name, "dbdl")[1] for name in names if name[0] == "dbdl"}


def package_of(path):
    return ".".join(("dbdl", *path.relative_to(PACKAGE).parts[:-1]))


MODULES = sorted(path for path in PACKAGE.rglob("*.py") if room_of(path) in MAY_IMPORT)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_imports_only_the_rooms_below_it(path):
    room = room_of(path)
    rooms = imported_rooms(path.read_text(encoding="utf-8"), package_of(path))
    assert rooms <= MAY_IMPORT[room] | {room}


@pytest.mark.parametrize(
    "line",
    [
        "import dbdl.sampler",
        "import dbdl.sampler.run as run",
        "from dbdl import sampler",
        "from dbdl.sampler import run",
        "from dbdl.sampler.run import sample",
        "from .. import sampler",
        "from ..sampler import run",
        "from ..sampler.run import sample",
        "def f():\n    from dbdl.sampler import run",
    ],
)
def test_every_way_to_import_a_room_is_seen(line):
    assert imported_rooms(line, package="dbdl.model") == {"sampler"}


def test_imports_within_a_room_and_from_outside_are_told_apart():
    lines = "import numpy as np\nfrom scipy import sparse\nfrom . import state"
    assert imported_rooms(lines, package="dbdl.model") == {"model"}


def test_public_names_taken_from_the_package_count_as_imports():
    assert imported_rooms("import dbdl", package="dbdl.model") == {"dbdl"}
    assert imported_rooms("from dbdl import DBDLClassifier", package="dbdl.model") == {
        "DBDLClassifier"
    }


def test_importing_dbdl_leaves_heavy_libraries_alone():
    code = "import sys, dbdl; print(*sys.modules, sep='\\n')"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    assert not HEAVY & set(result.stdout.split())
