"""``dbdl explain``: a sentence, a table, and pictures; mistakes get a message and exit code 2."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from PIL import Image
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_digits, load_wine
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from typer.testing import CliRunner

from dbdl import DBDLClassifier
from dbdl.cli import app
from dbdl.cli.explain import columns_of_features
from dbdl.coding import Forward
from dbdl.estimators.explanation import Cell
from dbdl.persistence import load, save
from dbdl.rivals.crc import CRCClassifier

QUICK = {"n_sweeps": 3, "n_chains": 2, "coder": Forward(4), "random_state": 0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model of wine, its training rows, labelled test rows, and one row without a label."""
    pandas = pytest.importorskip("pandas")
    place = tmp_path_factory.mktemp("wine")
    X, y = load_wine(return_X_y=True, as_frame=True)
    kind = np.array(["barolo", "grignolino", "barbera"])[y]
    table = pandas.DataFrame(X).assign(kind=kind)
    table[::2].to_csv(place / "train.csv", index=False)
    table[1::2].to_csv(place / "test.csv", index=False)
    X[1:2].to_csv(place / "row.csv", index=False)
    settings = [part for text in ("n_sweeps=3", "n_chains=2", "n_nonzero=4", "coder=forward")
                for part in ("--set", text)]  # fmt: skip
    paths = [str(place / "train.csv"), "--label", "kind", "-o", str(place / "model.skops")]
    assert CliRunner().invoke(app, ["fit", *paths, *settings]).exit_code == 0
    return place


def explain(folder, *arguments):
    command = ["explain", *(str(folder / a) if "." in str(a) else str(a) for a in arguments)]
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, command)


def test_a_row_is_explained_in_words_and_by_its_largest_shares(folder):
    found = explain(folder, "model.skops", "row.csv")
    assert found.exit_code == 0, found.output
    assert found.stdout.startswith("Predicted barolo with a probability of")
    assert "proline" in found.stdout and "the average row" in found.stdout
    assert "difference of the scores" in found.stdout


def test_zeros_that_a_row_is_compared_with_are_not_called_averages(folder, tmp_path):
    plain = ["--set", "views=plain", "--set", "n_chains=1", "--set", "n_sweeps=1"]
    paths = [str(folder / "train.csv"), "--label", "kind", "-o", str(tmp_path / "model.skops")]
    assert CliRunner().invoke(app, ["fit", *paths, *plain]).exit_code == 0
    command = ["explain", str(tmp_path / "model.skops"), str(folder / "row.csv")]
    said = CliRunner().invoke(app, [*command, "-o", str(tmp_path / "why.csv")]).stdout
    assert "a row of zeros" in said and "average" not in said
    features = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)["features"]
    assert not any("average" in part for part in features)
    rows = list(csv.DictReader((tmp_path / "why.csv").read_text().splitlines()))
    assert {row["average"] for row in rows} == {""}


def test_programs_get_shares_that_add_up(folder):
    found = json.loads(explain(folder, "model.skops", "test.csv", "--row", 3, "--json").stdout)
    assert found["row"] == 3 and found["truth"] == "barolo"
    total = found["constant"] + sum(part["share"] for part in found["features"])
    assert total == pytest.approx(found["difference"], abs=1e-8)


def test_training_rows_are_numbered_from_one(folder):
    arguments = ("model.skops", "test.csv", "--row", 5, "--train", "train.csv")
    found = json.loads(explain(folder, *arguments, "--json").stdout)
    tables = [np.genfromtxt(folder / f"{name}.csv", delimiter=",", dtype=str, skip_header=1)
              for name in ("test", "train")]  # fmt: skip
    (X, _), (X_train, y_train) = ((t[:, :-1].astype(float), t[:, -1]) for t in tables)
    model = load(folder / "model.skops")
    why = model.explain(X[4], X_train=X_train, y_train=y_train)
    expected = [(row.row + 1, row.label) for row in why.training_rows]
    assert [(row["row"], row["label"]) for row in found["training_rows"]] == expected
    first = f"training rows {expected[0][0]} ({expected[0][1]})"
    assert first in explain(folder, *arguments).stdout


def test_a_mistake_is_compared_with_the_true_class(folder):
    lines = (folder / "row.csv").read_text().splitlines()
    (folder / "wrong.csv").write_text(f"{lines[0]},kind\n{lines[1]},barbera\n")
    found = explain(folder, "model.skops", "wrong.csv")
    assert found.stdout.startswith("Row 1 (line 2) is labelled barbera, so this is wrong.")
    assert "Predicted barolo" in found.stdout and "before barbera" in found.stdout


def test_training_rows_without_a_label_are_left_out_and_the_others_keep_their_numbers(folder):
    lines = (folder / "train.csv").read_text().splitlines()
    names, *rows = lines
    empty = [row.rpartition(",")[0] + "," for row in rows[:2]]  # two rows without a label, first
    (folder / "gaps.csv").write_text("\n".join([names, *empty, *rows]) + "\n")
    question = ("model.skops", "row.csv", "--json", "--train")
    whole = json.loads(explain(folder, *question, "train.csv").stdout)["training_rows"]
    found = explain(folder, *question, "gaps.csv")
    assert found.exit_code == 0, found.output
    assert "no label in 2 of 91 rows, which are left out" in " ".join(found.stderr.split())
    expected = [{**row, "row": row["row"] + 2} for row in whole]
    assert json.loads(found.stdout)["training_rows"] == expected


def test_training_rows_need_no_labels(folder):
    lines = (folder / "train.csv").read_text().splitlines()
    bare = "\n".join(line.rpartition(",")[0] for line in lines)
    (folder / "bare.csv").write_text(bare + "\n")
    found = explain(folder, "model.skops", "row.csv", "--train", "bare.csv", "--json")
    assert {row["label"] for row in json.loads(found.stdout)["training_rows"]} == {None}


def test_the_row_goes_by_its_id(folder):
    lines = (folder / "test.csv").read_text().splitlines()
    named = ["bottle," + lines[0], *(f"B{i},{line}" for i, line in enumerate(lines[1:]))]
    named[2] = named[2].rpartition(",")[0] + ","  # one has no label
    (folder / "named.csv").write_text("\n".join(named) + "\n")
    fit = ["fit", str(folder / "named.csv"), "--id", "bottle", "-o", str(folder / "named.skops")]
    settings = ["--set", "n_sweeps=3", "--set", "n_chains=1"]
    assert CliRunner().invoke(app, [*fit, *settings]).exit_code == 0
    question = ("named.skops", "named.csv", "--row", 3)
    found = explain(folder, *question, "-o", "bottle.html")
    assert found.stdout.startswith("Row 3 (bottle B2) is labelled barolo, so this is right.")
    assert "Row 3 (bottle B2) of named" in (folder / "bottle.html").read_text()
    unlabelled = explain(folder, "named.skops", "named.csv", "--row", 2).stdout
    assert unlabelled.startswith("Row 2 (bottle B1) has no label.")
    known = json.loads(explain(folder, *question, "--train", "named.csv", "--json").stdout)
    assert (known["row"], known["id"]) == (3, "B2")
    assert all(row["id"] == f"B{row['row'] - 1}" for row in known["training_rows"])


def test_an_image_goes_by_its_file(tmp_path):
    digits = load_digits(n_class=2)
    for i, (image, y) in enumerate(zip(digits.images[:40], digits.target[:40], strict=True)):
        place = tmp_path / "photos" / ("zero", "one")[y]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray((image * 15).astype(np.uint8)).save(place / f"{i:02}.png")
    fit = ["fit", str(tmp_path / "photos"), "-o", str(tmp_path / "model.skops")]
    settings = ["--set", "n_sweeps=3", "--set", "n_chains=1"]
    assert CliRunner().invoke(app, [*fit, *settings]).exit_code == 0
    photos = str(tmp_path / "photos")
    command = ["explain", str(tmp_path / "model.skops"), photos, "--row", "1"]
    found = CliRunner().invoke(app, [*command, "-o", str(tmp_path / "why.svg")])
    assert found.stdout.startswith("Image one/01.png is labelled one, so this is right.")
    one = explain(tmp_path, "model.skops", "photos/zero/00.png", "--json")
    assert json.loads(one.stdout)["id"] == "00.png"


def test_a_class_can_be_named(folder):
    found = explain(folder, "model.skops", "row.csv", "--against", "barbera", "--json")
    assert json.loads(found.stdout)["against"] == "barbera"


@pytest.mark.parametrize("name", ["why.png", "why.svg", "why.html", "why.csv"])
def test_explanations_are_written_as_pictures_pages_and_tables(folder, name):
    found = explain(folder, "model.skops", "test.csv", "--row", 1, "--train", "train.csv",
                    "-o", name)  # fmt: skip
    assert found.exit_code == 0, found.output
    content = (folder / name).read_bytes()
    start = {"png": b"\x89PNG", "svg": b"<?xml", "html": b"<!DOCTYPE html>", "csv": b"feature,"}
    assert content.startswith(start[name.split(".")[1]])
    if name == "why.html":
        page = content.decode()
        assert "Why barolo, and not" in page and "Training rows" in page and "proline" in page
        assert 'src="http' not in page
    if name == "why.csv":
        rows = list(csv.DictReader(content.decode().splitlines()))
        assert len(rows) == 14 and rows[-1]["feature"] == "(the average row)"
        found = json.loads(explain(folder, "model.skops", "test.csv", "--row", 1, "--train",
                                   "train.csv", "--json").stdout)  # fmt: skip
        assert sum(float(row["share"]) for row in rows) == pytest.approx(found["difference"])


def test_pixels_of_images_have_places(tmp_path):
    X, y = load_digits(return_X_y=True)
    save(DBDLClassifier(**QUICK).fit(X[:200], y[:200]), tmp_path / "model.skops")
    found = explain(tmp_path, "model.skops", "digits", "--row", 301, "-o", "heat.png")
    assert found.exit_code == 0, found.output
    assert "pixel " in found.stdout and (tmp_path / "heat.png").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("model.skops", "test.csv"), "has 89 rows; choose one with --row, from 1 to 89"),
        (("model.skops", "test.csv", "--row", 90), "there is no row 90"),
        (("model.skops", "row.csv", "--against", "chianti"), "there is no class 'chianti'"),
        (("model.skops", "row.csv", "--against", "barolo"), "is predicted as barolo"),
        (("model.skops", "row.csv", "-o", "why.txt"), "explanations end in .png"),
        (("model.skops", "row.csv", "-o", "row.csv"), "is read by this command"),
        (("nothing.skops", "row.csv"), "nothing.skops"),
        (("model.skops", "nothing.csv"), "nothing.csv"),
        (("model.skops", "row.csv", "--train", "nothing.csv"), "nothing.csv"),
    ],
)
def test_mistakes_get_a_message_and_nothing_is_written(folder, arguments, message):
    before = {path.name for path in folder.iterdir()}
    found = explain(folder, *arguments)
    assert found.exit_code == 2 and message in " ".join(found.output.split())
    assert {path.name for path in folder.iterdir()} == before


def test_other_methods_say_that_they_cannot_explain(folder):
    X, y = load_wine(return_X_y=True)
    save(CRCClassifier().fit(X, y), folder / "other.skops")
    found = explain(folder, "other.skops", "row.csv")
    assert found.exit_code == 2 and "CRC cannot explain its answers" in found.output


# ------------------------------------------------------------------------- tables of columns


def make_pipeline():
    """A table with a category of three values between two numbers, and a model of it."""
    rng = np.random.default_rng(0)
    y = np.arange(90) % 2
    colour = np.array(["blue", "green", "red"])[rng.integers(0, 3, 90)]
    colour[y == 1] = "red"
    X = np.array([*zip(rng.normal(5, 1, 90), colour, rng.normal(3, 1, 90), strict=True)], object)
    columns = ColumnTransformer(
        [("numbers", "passthrough", [0, 2]), ("categories", OneHotEncoder(), [1])],
        sparse_threshold=0,
    )
    views = "standardised + constant"
    steps = [("columns", columns), ("model", DBDLClassifier(**QUICK, views=views))]
    columns.fit(X)
    prepared = np.asarray(columns.transform(X), dtype=float)
    steps[1][1].fit(prepared, y)
    return Pipeline(steps), X, prepared, y


def test_features_are_traced_to_the_columns_that_they_came_from():
    whole, _, _, _ = make_pipeline()
    assert columns_of_features(whole) == [0, 2, 1, 1, 1]
    assert columns_of_features(whole[-1]) is None
    scaled = ColumnTransformer([("all", StandardScaler(), [1, 0])], remainder="passthrough")
    scaled.fit(np.arange(12.0).reshape(4, 3))
    assert columns_of_features(Pipeline([("a", scaled), ("b", whole[-1])])) == [1, 0, 2]


def test_a_category_has_the_shares_of_its_zeros_and_ones_together():
    whole, X, prepared, y = make_pipeline()
    i = int(np.flatnonzero((X[:, 1] == "red") & (y == 1))[0])
    by_feature = whole[-1].explain(prepared[i])
    names = ["height", "colour", "width"]
    cells = [Cell(name, value, False) for name, value in zip(names, X[i], strict=True)]
    why = by_feature.in_columns(columns_of_features(whole), cells)
    assert why.feature_names == ("height", "colour", "width")
    assert why.shares[1] == pytest.approx(by_feature.shares[2:].sum())
    assert why.constant + why.shares.sum() == pytest.approx(why.difference, abs=1e-8)
    (colour,) = (part for part in why.features if part.name == "colour")
    assert str(colour) == "colour = red"
