"""Every table of the paper from the databases' own folders to a printed page, on tiny copies."""

from __future__ import annotations

import json

import numpy as np
import pytest
from layouts import write_ar, write_banked, write_classes, write_yaleb
from typer.testing import CliRunner

from dbdl.cli import app
from dbdl.datasets import load
from dbdl.experiments.rows import labelled_rows
from dbdl.experiments.run import read_records, run_table
from dbdl.experiments.spec import load_table
from dbdl.experiments.summary import MAJORITY, summarise


@pytest.fixture(scope="module")
def databases(tmp_path_factory):
    """A folder with a tiny copy of each database; features made of them are kept beside it."""
    folder = tmp_path_factory.mktemp("databases")
    write_yaleb(folder, n_people=3, n_images=8, shape=(30, 24))
    write_ar(folder, n_people=2, n_images=8, shape=(33, 24))
    # large and many enough for a codebook of 1024 words
    names = ["accordion", "airplanes", "anchor"]
    write_classes(folder / "101_ObjectCategories", names, n_images=7, shape=(60, 66))
    write_classes(folder / "scene_categories", ["coast", "forest"], n_images=8, shape=(66, 72))
    write_banked(folder / "ucf_sports_actionbank", ["dive", "golf", "kick"], n_videos=6)
    return folder


@pytest.fixture
def reproduce(databases, tmp_path, monkeypatch):
    """Run ``dbdl reproduce``; its lines, and the records that it kept."""
    monkeypatch.setenv("DBDL_DATA", str(databases))
    monkeypatch.setenv("DBDL_CACHE", str(databases / "cache"))
    monkeypatch.chdir(tmp_path)

    def run(table, *only, splits=1):
        chosen = [part for name in only for part in ("--only", name)]
        result = CliRunner().invoke(
            app,
            ["reproduce", table, "--quick", "--splits", str(splits), *chosen, "--json"],
            catch_exceptions=False,
        )
        assert result.exit_code == 0, result.output
        records = list(read_records(tmp_path / "results" / f"{table}-quick.jsonl"))
        assert not any("failure" in record for record in records), records
        lines = json.loads(result.stdout)["lines"]
        return [line for line in lines if line["method"] != MAJORITY], records

    return run


FAST = ("CRC", "LC-KSVD2", "ridge")


@pytest.mark.parametrize(("table", "least"), [("yaleb", 0.6), ("ar", 0.6), ("scene15", 0)])
def test_tables_of_faces_and_scenes_run_from_images(reproduce, table, least):
    lines, records = reproduce(table, *FAST)
    assert {line["method"] for line in lines} == set(FAST) and len(records) == 3
    # the table of scenes leaves one image of each class to test on: too few to ask for more
    assert all(line["accuracy"] >= least for line in lines)
    [ours] = [line for line in lines if line["method"] == "LC-KSVD2"]
    assert ours["paper"] > 0.9


def test_caltech_runs_from_images_in_all_its_columns(reproduce):
    lines, records = reproduce("caltech101", "K-SVD", "LC-KSVD2")
    columns = list(load_table("caltech101").columns)
    assert [line["column"] for line in lines] == [c for c in columns for _ in range(2)]
    papers = [line["paper"] for line in lines if line["method"] == "LC-KSVD2"]
    assert papers == sorted(papers) and len(papers) == 6 and len(records) == 12


def test_the_times_of_caltech_stand_beside_the_paper_s(reproduce):
    lines, _ = reproduce("caltech101_times", "LC-KSVD1", "D-KSVD")
    assert {line["paper_fit_seconds"] for line in lines} == {3196, 5434}
    assert all(line["fit_seconds"] > 0 and line["query_milliseconds"] > 0 for line in lines)


def test_ucf_sports_runs_in_five_folds_and_one_left_out(reproduce):
    lines, records = reproduce("ucf_sports", "CRC", "SRC", splits=5)
    assert {line["n_splits"] for line in lines} == {5} and len(records) == 10
    lines, records = reproduce("ucf_sports_leave_one_out", "DBDL (paper)", splits=2)
    assert lines[0]["n_splits"] == 2 and lines[0]["paper"] == 0.957


# ----------------------------------------------------------------------------------- real images


def run_real(name, data, only):
    table = load_table(name)
    rows = labelled_rows(data, table.unit_rows)
    records = run_table(table, rows, None, only=only, n_splits=2, quick=True)
    lines = summarise(table, records)
    return {line.method: line.accuracy for line in lines if line.method != MAJORITY}


def test_the_table_of_faces_from_real_crops(data_dir, tmp_path):
    if not (data_dir / "CroppedYale").is_dir():
        pytest.skip("needs real images: no CroppedYale in the folder that DBDL_DATA names")
    faces = load("yaleb", folder=data_dir / "CroppedYale", cache=tmp_path)
    found = run_real("yaleb", faces, ["CRC", "DBDL 1 chain"])
    assert len(found) == 2 and min(found.values()) > 50  # chance is 17 %


def test_the_table_of_scenes_from_real_images(data_dir, tmp_path):
    if not (data_dir / "scene15_images").is_dir():
        pytest.skip("needs real images: no scene15_images in the folder that DBDL_DATA names")
    settings = {"n_words": 128, "n_sampled": 10_000, "n_components": 30}
    scenes = load(
        "scene15", folder=data_dir / "scene15_images", settings=settings, cache=tmp_path, n_jobs=2
    )
    assert np.isfinite(scenes.X).all()
    # the table learns from 100 of each class; of ten it leaves one to test on
    found = run_real("scene15", scenes, ["CRC", "ridge"])
    assert len(found) == 2 and max(found.values()) > 30  # chance is 7 %
