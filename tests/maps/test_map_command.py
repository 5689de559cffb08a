"""The command line on cubes: from a scene and labels to a map, and mistakes in words."""

import json
import re

import numpy as np
import pytest
from command import inside
from envi_files import write_cube
from typer.testing import CliRunner

from dbdl.cli import app
from dbdl.maps import make_scene, read_cube
from dbdl.persistence import load

QUICK = ("--set", "n_chains=1", "--set", "n_sweeps=3")
SHAPE = (40, 40)


@pytest.fixture(scope="module")
def scene():
    return make_scene(SHAPE, n_bands=16, n_classes=3, region_size=4, contrast=0.1, noise=0.05)


@pytest.fixture(scope="module")
def fitted(scene, tmp_path_factory):
    """A folder with a scene, its labels, and a model that tested blocks left out."""
    folder = tmp_path_factory.mktemp("scene")
    scene.write(folder)
    arguments = ("--truth", folder / "truth.hdr", "-o", folder / "model.skops", "--blocks", 6)
    found = run("fit", folder / "scene.hdr", *arguments, *QUICK, "--per-class", 80, "--json")
    assert found.exit_code == 0, found.output
    return folder, json.loads(found.stdout)


@pytest.fixture
def folder(fitted, tmp_path):
    """A copy of that folder, to which a test may do what it likes."""
    for path in fitted[0].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def names(folder):
    return {path.name for path in folder.iterdir()}


def refused(folder, message, *arguments):
    """Run a command that must fail with a message and write nothing."""
    before = names(folder)
    found = run(*arguments)
    said = " ".join(found.output.split())
    assert found.exit_code == 2, said
    assert message in said
    assert names(folder) == before


def test_a_fit_learns_names_and_tests_on_blocks_set_aside(fitted, scene):
    folder, found = fitted
    assert found["rows"] + found["pixels_set_aside"] == 240
    assert 0.7 < found["accuracy_on_blocks_set_aside"] <= 1
    model = load(folder / "model.skops")
    assert model.classes_.tolist() == sorted(scene.names)
    assert len(model.refusals_.correct) == found["pixels_set_aside"]


def test_a_map_a_picture_and_their_summary_are_written(folder, scene):
    found = run(
        "map", folder / "model.skops", folder / "scene.hdr", "-o", folder / "map.hdr", "--picture",
        folder / "map.png", "--truth", folder / "truth.hdr", "--max-error", 0.2, "--json",
    )  # fmt: skip
    assert found.exit_code == 0, found.output
    summary = json.loads(found.stdout)
    parts = ("map", "map_confidence", "map_refused")
    expected = {f"{part}{ending}" for part in parts for ending in (".hdr", ".img")}
    assert expected | {"map.png"} <= names(folder)
    numbers = read_cube(folder / "map.hdr").lines(0, 40)[..., 0]
    marks = read_cube(folder / "map_refused.hdr").lines(0, 40)[..., 0]
    assert summary["refused"] == marks.sum() == (numbers == 4).sum()
    assert sum(summary["classes"].values()) + summary["refused"] == summary["pixels"] == 1600
    order = np.argsort(np.argsort(scene.names)) + 1  # the model's numbers of the scene's classes
    right = numbers == order[scene.truth - 1]
    assert summary["share_as_labelled"] == pytest.approx(right[marks == 0].mean())
    assert summary["share_as_labelled"] > 0.8


def test_shares_are_in_per_cent_for_a_person_at_a_terminal(folder):
    paths = (folder / "scene.hdr", "--truth", folder / "truth.hdr")
    fit = run("fit", *paths, "-o", folder / "again.skops", "--blocks", 6, *QUICK)
    assert re.search(r"accuracy on blocks set aside +│ \d+\.\d\d %", fit.stdout), fit.output
    options = ("-o", folder / "map.hdr", "--refuse-below", 0.7)
    found = run("map", folder / "model.skops", *paths, *options)
    parts = re.findall(r"│ [\d,]+ +│ +([\d.]+) % +│", found.stdout)
    assert len(parts) == 4 and sum(map(float, parts)) == pytest.approx(100, abs=0.2)  # (refused)
    for name in ("mean confidence", "share as labelled"):
        assert re.search(rf"{name} +│ \d+\.\d\d %", found.stdout), found.output


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--max-error", 0.001), "Every row is refused: at most 0.001 of the answers wrong cannot"),
        (("--refuse-below", 0.9999999999), "every pixel is refused: no class is as probable as"),
    ],
)
def test_a_map_that_refuses_every_pixel_says_why(folder, option, message):
    found = inside("map", "model.skops", "scene.hdr", "-o", "map.hdr", *option, cwd=folder)
    assert found.returncode == 0 and message in found.stderr


def test_a_geotiff_and_a_window_for_a_person_at_a_terminal(folder):
    pytest.importorskip("rasterio")
    options = ("--window", 3, "--together", "codes", "--refuse-below", 0.5)
    found = run(
        "map", folder / "model.skops", folder / "scene.img", "-o", folder / "map.tif", *options
    )
    assert found.exit_code == 0, found.output
    assert {"map.tif", "map_confidence.tif", "map_refused.tif"} <= names(folder)
    assert "water" in found.stdout and "share" in found.stdout


def test_points_serve_as_labels(folder):
    lines = [f"{r},{c},{'a' if c < 20 else 'b'}" for r in range(1, 41, 3) for c in range(1, 41, 5)]
    (folder / "points.csv").write_text("\n".join(["row,column,label", *lines]))
    options = ("--truth", folder / "points.csv", "-o", folder / "other.skops")
    found = run("fit", folder / "scene.hdr", *options, *QUICK)
    assert found.exit_code == 0, found.output
    assert load(folder / "other.skops").classes_.tolist() == ["a", "b"]


def test_methods_are_compared_on_whole_blocks(folder):
    options = ("--truth", folder / "truth.hdr", "--per-class", 60, "--folds", 3, "--quick")
    shown = {}
    for blocks in ((), ("--blocks", 1)):
        found = run("compare", folder / "scene.hdr", *options, "-m", "1-NN", "--json", *blocks)
        assert found.exit_code == 0, found.output
        lines = json.loads(found.stdout)["lines"]
        (line,) = (line for line in lines if line["method"] == "1-NN")
        shown[line["column"]] = line["accuracy"]
    assert set(shown) == {"3 folds of whole blocks", "3 folds of pixels"}
    assert shown["3 folds of whole blocks"] < shown["3 folds of pixels"]  # pixels side by side leak


# ------------------------------------------------------------------------------------ mistakes


def test_a_scene_that_cannot_be_read_is_refused(folder):
    output = ("-o", folder / "map.hdr")
    (folder / "scene.img").rename(folder / "elsewhere")
    refused(folder, "no file of numbers", "map", folder / "model.skops", folder / "scene.hdr",
            *output)  # fmt: skip
    (folder / "scene.img").write_bytes(b"short")
    refused(folder, "has 5 bytes", "map", folder / "model.skops", folder / "scene.hdr", *output)
    refused(folder, "there is no file", "map", folder / "model.skops", folder / "no.hdr", *output)
    refused(folder, "has 5 bytes", "fit", folder / "scene.hdr", "--truth", folder / "truth.hdr",
            "-o", folder / "new.skops")  # fmt: skip


def test_bands_that_are_not_the_models_are_refused(folder, scene):
    output = ("-o", folder / "map.hdr")
    wide = write_cube(folder, np.ones((4, 4, 17), np.float32), name="wide")
    refused(folder, "wide has 17 bands, but the model was fitted on 16", "map",
            folder / "model.skops", wide, *output)  # fmt: skip
    waves = "{" + ", ".join(str(300 + 10 * band) for band in range(16)) + "}"
    other = write_cube(folder, np.ones((4, 4, 16), np.float32), name="other", wavelength=waves,
                       wavelength_units="nm")  # fmt: skip
    refused(folder, "band 1 of other is at 300 nm, but the model learned from 400 nm", "map",
            folder / "model.skops", other, *output)  # fmt: skip


def test_labels_of_another_scene_are_refused(folder):
    np.save(folder / "small.npy", np.ones((4, 4), int))
    expected = "40 lines of 40 samples"
    for command in ("fit", "compare"):
        output = ("-o", folder / "out.skops") if command == "fit" else ()
        refused(folder, expected, command, folder / "scene.hdr", "--truth", folder / "small.npy",
                *output)  # fmt: skip
    refused(folder, expected, "map", folder / "model.skops", folder / "scene.hdr", "-o",
            folder / "map.hdr", "--truth", folder / "small.npy")  # fmt: skip


def test_outputs_that_would_harm_are_refused(folder):
    start = ("map", folder / "model.skops", folder / "scene.hdr", "-o")
    refused(folder, "would be lost", *start, folder / "scene.hdr")
    refused(folder, "maps end in .hdr", *start, folder / "map.png")
    refused(folder, "there is no folder", *start, folder / "absent" / "map.hdr")
    refused(folder, "pictures end in", *start, folder / "map.hdr", "--picture", folder / "p.hdr")
    (folder / "map_confidence.img").mkdir()
    refused(folder, "is a folder", *start, folder / "map.hdr")


def test_options_that_make_no_sense_are_refused(folder):
    start = ("map", folder / "model.skops", folder / "scene.hdr", "-o", folder / "map.hdr")
    for window in (4, 999):
        expected = f"window={window}; expected an odd number of pixels from 1 to 99"
        refused(folder, expected, *start, "--window", window)
    refused(folder, "'scores' or 'codes'", *start, "--window", 3, "--together", "pixels")
    refused(folder, "either", *start, "--refuse-below", 0.5, "--max-error", 0.1)
    refused(folder, "--truth", "fit", folder / "scene.hdr", "-o", folder / "new.skops")
    refused(folder, "dbdl map", "predict", folder / "model.skops", folder / "scene.hdr")
    for command, output in (("fit", ("-o", folder / "new.skops")), ("compare", ())):
        cube = (folder / "scene.hdr", "--truth", folder / "truth.hdr", *output)
        refused(folder, "--label has no use for the pixels", command, *cube, "--label", "a")
    refused(folder, "Invalid value for '--max-error'", *start, "--max-error", 1.5)
    refused(folder, "is for cubes", "fit", "iris", "--blocks", 4, "-o", folder / "new.skops")
    start = ("compare", folder / "scene.hdr", "--truth", folder / "truth.hdr", "--blocks")
    refused(folder, "too few for 5 folds", *start, 2)
    fit = ("fit", *start[1:], 2, "-o", folder / "new.skops")
    refused(folder, "--blocks 2 cuts the scene into 4 blocks with labels, too few to set one in 5 "
            "aside to test on. Expected at least 5. Give a larger number; without --blocks, none",
            *fit)  # fmt: skip
    refused(folder, "expected 2 to 40", *start, 50)


def test_a_method_without_probabilities_is_named_as_the_user_knows_it(folder):
    fit = ("fit", folder / "scene.hdr", "--truth", folder / "truth.hdr", "--method", "RBF SVM")
    assert run(*fit, "-o", folder / "svm.skops").exit_code == 0
    start = ("map", folder / "svm.skops", folder / "scene.hdr", "-o", folder / "map.hdr")
    for option, value in (("--window", 3), ("--refuse-below", 0.5), ("--max-error", 0.1)):
        expected = f"RBF SVM gives no probabilities; leave {option} out"
        refused(folder, expected, *start, option, value)


def test_a_class_inside_of_one_block_is_named(folder):
    labels = np.ones(SHAPE, int)
    labels[:, 20:] = 2
    labels[:4, :4] = 3
    np.save(folder / "labels.npy", labels)
    refused(folder, "all rows of class '3' are in the groups of one fold", "compare",
            folder / "scene.hdr", "--truth", folder / "labels.npy", "--blocks", 4, "-m", "1-NN",
            )  # fmt: skip
    refused(folder, "all labelled pixels of class '3' may be set aside to test on, since they are "
            "in one fifth of the blocks. Give --blocks a larger number; without --blocks, none is",
            "fit", folder / "scene.hdr", "--truth", folder / "labels.npy", "--blocks", 4,
            "-o", folder / "new.skops")  # fmt: skip


def test_a_model_that_measured_no_refusals_says_so(folder):
    options = ("--truth", folder / "truth.hdr", "-o", folder / "plain.skops", *QUICK)
    assert run("fit", folder / "scene.hdr", *options).exit_code == 0
    refused(folder, "has not measured when to refuse", "map", folder / "plain.skops",
            folder / "scene.hdr", "-o", folder / "map.hdr", "--max-error", 0.1)  # fmt: skip


def test_the_help_names_the_command():
    assert "map" in run("--help").output
