"""The cache has one file per input, and a kill leaves no partial file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dbdl.datasets.cache import cache_folder, cached, content_key

RECIPE = {"extractor": "test", "version": 1, "settings": {"width": 3}}


@pytest.fixture
def files(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"content of {name}")
    return [(name, tmp_path / name) for name in ("a", "b")]


class Counter:
    """Computes, and counts how often."""

    def __init__(self, value=1.0):
        self.value = value
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return np.full((3, 2), self.value)


def test_the_second_time_nothing_is_computed(files, tmp_path):
    compute = Counter()
    first = cached(RECIPE, files, compute, tmp_path / "cache")
    second = cached(RECIPE, files, compute, tmp_path / "cache")
    np.testing.assert_array_equal(first, second)
    assert compute.calls == 1 and len(list((tmp_path / "cache").iterdir())) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda recipe, files: ({**recipe, "version": 2}, files),
        lambda recipe, files: ({**recipe, "settings": {"width": 4}}, files),
        lambda recipe, files: (recipe, files[::-1]),
        lambda recipe, files: (recipe, files[:1]),
        lambda recipe, files: (recipe, [("c", files[0][1]), files[1]]),
    ],
    ids=["version", "settings", "order", "fewer files", "name"],
)
def test_any_change_has_another_key(files, change):
    assert content_key(*change(RECIPE, files)) != content_key(RECIPE, files)


def test_content_counts_and_time_and_place_do_not(files, tmp_path):
    key = content_key(RECIPE, files)
    os.utime(files[0][1], (0, 0))
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    (moved / "a").write_bytes(files[0][1].read_bytes())
    assert content_key(RECIPE, [("a", moved / "a"), files[1]]) == key
    files[0][1].write_text("content of A")
    assert content_key(RECIPE, files) != key


def test_a_failure_is_passed_on_and_not_kept(files, tmp_path):
    def fail():
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        cached(RECIPE, files, fail, tmp_path / "cache")
    assert cached(RECIPE, files, Counter(5.0), tmp_path / "cache")[0, 0] == 5


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b"x" * 99])
def test_a_damaged_file_is_made_again(files, tmp_path, damage, caplog):
    cached(RECIPE, files, Counter(), tmp_path / "cache")
    [path] = (tmp_path / "cache").iterdir()
    path.write_bytes(damage(path.read_bytes()))
    compute = Counter(2.0)
    assert cached(RECIPE, files, compute, tmp_path / "cache")[0, 0] == 2
    assert compute.calls == 1 and "damaged" in caplog.text
    assert cached(RECIPE, files, Counter(3.0), tmp_path / "cache")[0, 0] == 2


WRITER = """
import io, sys, time
import numpy as np
import dbdl.datasets.cache as cache

def stop_half_way(file, array):
    file.write(b"half of it"); file.flush()
    print("writing", flush=True)
    time.sleep(60)

np.savez = stop_half_way
cache.cached({recipe!r}, [], lambda: np.ones(3), {folder!r})
"""


def test_a_kill_while_writing_leaves_no_file_under_a_valid_name(tmp_path):
    folder = tmp_path / "cache"
    code = WRITER.format(recipe=RECIPE, folder=str(folder))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout.readline() == "writing\n"
        run.send_signal(signal.SIGKILL)
    [left] = folder.iterdir()
    assert left.name.startswith(".unfinished-")
    assert cached(RECIPE, [], Counter(4.0), folder)[0, 0] == 4
    # what was left is swept out once it is certain that nobody writes it any more
    os.utime(left, (time.time() - 2 * 86400,) * 2)
    cached({**RECIPE, "version": 2}, [], Counter(), folder)
    assert not left.exists()


def test_many_writers_of_one_key_agree(files, tmp_path):
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda _: cached(RECIPE, files, Counter(), tmp_path / "cache"), range(8))
        assert all((array == 1).all() for array in found)
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".npz"]


def test_a_folder_that_cannot_be_written_costs_a_warning_only(files, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.warns(UserWarning, match="DBDL_CACHE"):
        assert cached(RECIPE, files, Counter(), blocked / "cache")[0, 0] == 1


def test_the_argument_wins_over_the_variable_and_that_over_the_system(monkeypatch, tmp_path):
    monkeypatch.delenv("DBDL_CACHE", raising=False)
    assert cache_folder().name == "dbdl"
    monkeypatch.setenv("DBDL_CACHE", str(tmp_path / "variable"))
    assert cache_folder() == tmp_path / "variable"
    assert cache_folder(tmp_path / "argument") == tmp_path / "argument"
