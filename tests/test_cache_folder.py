"""Compiled kernels are kept for the next process, even if the package's folder is read-only."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import dbdl

CODE = """
import json
import numpy as np
from numba.core import event
import dbdl
from dbdl._products import row_products

with event.install_listener("numba:compile", event.RecordingListener()) as compilations:
    row_products(np.ones((3, 5)), np.ones((4, 5)))
print(json.dumps([dbdl.__file__, len(compilations.buffer)]))
"""


def copy_that_cannot_be_written_to(folder):
    """A copy of the package where no cache can be made beside the source.

    A plain file stands where each ``__pycache__`` would be: root may write to any folder.
    """
    package = folder / "dbdl"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(dbdl.__file__).parent, package, ignore=ignore)
    for subfolder in [package, *(path for path in package.rglob("*") if path.is_dir())]:
        (subfolder / "__pycache__").touch()
    return package


def compilations_of_a_fresh_process(package, home):
    """How many compilations begin or end in a process of the user whose home folder is given."""
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment |= {
        "PYTHONPATH": str(package.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
        "LOCALAPPDATA": str(home / "cache"),
    }
    command = [sys.executable, "-c", CODE]
    done = subprocess.run(
        command, env=environment, cwd=home, capture_output=True, text=True, check=True
    )
    source, n_events = json.loads(done.stdout)
    assert Path(source).parent == package
    return n_events


def test_a_read_only_package_has_its_cache_in_the_folder_of_the_user(tmp_path):
    package, home = copy_that_cannot_be_written_to(tmp_path / "site-packages"), tmp_path / "home"
    home.mkdir()
    assert compilations_of_a_fresh_process(package, home) > 0
    assert list(home.rglob("*.nbi"))
    assert not list(package.rglob("*.nbi"))
    assert compilations_of_a_fresh_process(package, home) == 0
