"""Two users' transcripts: a messy table to a report that can be mailed, and a folder of images."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import warnings

import numpy as np
import pytest
from command import QUICK, assert_refused, inside, succeed
from layouts import write_classes

from dbdl.experiments.protocol import Split
from dbdl.experiments.rows import labelled_rows, parts
from dbdl.persistence import load, read_columns, save
from dbdl.registry import methods

NAMES = ["name", "patient_id", "age", "dose", "height", "colour", "smoker", "visit", "outcome"]
COLOURS = {"mild": ("red", "blue"), "severe": ("green", "green"), "none": ("blue", "grey")}
DOSES = {"mild": 5, "severe": 9, "none": 2}


def patients(n, seed, comma=False):
    """Rows as a clinic has them: texts, dates, gaps, ids, and classes of different sizes."""
    rng = np.random.default_rng(seed)

    def spelled(value):
        return f"{value:.2f}".replace(".", "," if comma else ".")

    for i in range(n):
        outcome = ("mild", "mild", "none", "mild", "severe")[i % 5]
        dose = "" if i % 9 == 4 else spelled(DOSES[outcome] + rng.normal())
        height = "?" if i % 11 == 5 else spelled(160 + 9 * rng.normal())
        colour = "NA" if i % 13 == 3 else COLOURS[outcome][rng.integers(2)]
        identity = [f"P{seed}{i:03}", str(1000 + 7 * i * i % 9973), str(rng.integers(20, 80))]
        smoker, visit = ("True", "False")[rng.integers(2)], f"2024-03-{i % 28 + 1:02}"
        yield [*identity, dose, height, colour, smoker, visit, outcome]


def write(path, rows, names=NAMES, separator=",", encoding="utf-8"):
    lines = [separator.join(cells) for cells in (names, *rows)]
    path.write_bytes(("\n".join(lines) + "\n").encode(encoding))


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    """A folder with tables of patients, and a model of them."""
    path = tmp_path_factory.mktemp("clinic")
    write(path / "train.csv", patients(60, 1))
    write(path / "test.csv", patients(25, 2))
    write(path / "german.csv", patients(25, 2, comma=True), separator=";", encoding="cp1252")
    fit = ("fit", "train.csv", "--drop", "visit", "--id", "name", "-o", "model.skops", *QUICK)
    result = inside(*fit, cwd=path)
    assert result.returncode == 0, result.stderr
    (path / "said.txt").write_text(result.stdout + result.stderr)
    return path


def table_of(text):
    return list(csv.DictReader(io.StringIO(text)))


# -------------------------------------------------------------- the table, in three commands


def test_the_first_try_says_all_that_is_wrong_and_what_to_do(clinic):
    result = inside("fit", "train.csv", "-o", "first.skops", cwd=clinic)
    assert_refused(result, "visit: dates", "line 2: '2024-03-01'", "--drop visit")
    assert "label" not in result.stderr and not (clinic / "first.skops").exists()


def test_fit_says_what_the_columns_are(clinic):
    said = (clinic / "said.txt").read_text()
    assert "4 numbers (age, dose, height, smoker), 1 category (colour), 2 dropped: " in said
    assert (
        "patient_id (a different whole number in every row" in said and "visit (as asked)" in said
    )
    assert "missing cells; labels: outcome; ids: name" in said
    assert "held out accuracy" in said and " % " in said.partition("held out accuracy")[2]


def test_predict_writes_answers_that_can_be_joined(clinic):
    result = inside("predict", "model.skops", "test.csv", "-p", "-o", "answers.csv", cwd=clinic)
    assert result.returncode == 0, result.stderr
    assert "% right of 25 rows; balanced accuracy" in result.stderr and result.stdout == ""
    rows = table_of((clinic / "answers.csv").read_text())
    assert list(rows[0]) == ["name", "truth", "predicted", "p_mild", "p_none", "p_severe"]
    own = table_of((clinic / "test.csv").read_text())
    assert [r["name"] for r in rows] == [r["name"] for r in own]
    assert [r["truth"] for r in rows] == [r["outcome"] for r in own]
    assert np.mean([r["truth"] == r["predicted"] for r in rows]) > 0.7
    sums = [sum(float(r[p]) for p in ("p_mild", "p_none", "p_severe")) for r in rows]
    np.testing.assert_allclose(sums, 1, atol=1e-4)


def test_report_writes_a_page_that_names_the_columns(clinic):
    result = inside("report", "model.skops", "--data", "test.csv", "-o", "page.html", cwd=clinic)
    assert result.returncode == 0, result.stderr
    page = (clinic / "page.html").read_text()
    assert "height" in page and "age" in page and "<title>model.skops on test</title>" in page
    assert re.search(r"Row with name P2\d\d\d: predicted", page)


def test_another_spelling_has_the_same_answers(clinic):
    expected, _ = succeed("predict", "model.skops", "test.csv", cwd=clinic)
    found, said = succeed("predict", "model.skops", "german.csv", cwd=clinic)
    assert found == expected and "4 numbers" in said


def test_python_sees_the_same_pipeline(clinic):
    pd = pytest.importorskip("pandas")
    model = load(clinic / "model.skops")
    assert list(model.feature_names_in_) == ["age", "dose", "height", "colour", "smoker"]
    frame = pd.read_csv(clinic / "test.csv", na_values=["?"])
    expected, _ = succeed("predict", "model.skops", "test.csv", "-p", cwd=clinic)
    turned = frame[frame.columns[::-1]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # such as those of names that a step does not know
        assert model.predict(turned).tolist() == expected["predicted"]
    np.testing.assert_array_equal(model.predict_proba(turned), expected["probabilities"])
    again = load(save(model, clinic / "again.skops"))
    np.testing.assert_array_equal(again.predict_proba(frame), expected["probabilities"])


def test_compare_writes_the_pages_for_methods_with_and_without_gaps(clinic):
    result = inside(
        "compare", "train.csv", "--drop", "visit,name", "-m", "DBDL,ridge",
        "--folds", 2, "--quick", "-o", "out", "--json", cwd=clinic,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    lines = json.loads(result.stdout)["lines"]
    assert {"DBDL", "ridge"} <= {line["method"] for line in lines}
    assert all(line["n_splits"] == 2 for line in lines)
    assert "ridge" in (clinic / "out" / "report.html").read_text()
    assert "height" in (clinic / "out" / "model.html").read_text()


# ------------------------------------------------------------------------ what answers look like


def test_rows_without_ids_go_by_number_and_line(clinic, tmp_path):
    write(tmp_path / "new.csv", [row[2:7] for row in patients(3, 3)], names=NAMES[2:7])
    lines = (tmp_path / "new.csv").read_text().splitlines()
    (tmp_path / "new.csv").write_text("\n".join([lines[0], "", *lines[1:]]))
    result = inside("predict", clinic / "model.skops", "new.csv", cwd=tmp_path)
    rows = table_of(result.stdout)
    assert list(rows[0]) == ["row", "line", "predicted"]
    assert [(r["row"], r["line"]) for r in rows] == [("1", "3"), ("2", "4"), ("3", "5")]
    assert "3 rows classified" in result.stderr


def test_labels_that_the_model_does_not_know_are_noted(clinic, tmp_path):
    rows = [row[2:7] + row[8:] for row in patients(3, 3)]
    rows[1][-1] = "unheard of"
    write(tmp_path / "new.csv", rows, NAMES[2:7] + NAMES[8:])
    result = inside("predict", clinic / "model.skops", "new.csv", cwd=tmp_path)
    said = " ".join(result.stderr.split())
    assert "1 row has a label that the model did not learn ('unheard of')" in said


def test_rows_without_values_are_noted(clinic, tmp_path):
    rows = [row[2:7] for row in patients(3, 3)]
    write(tmp_path / "new.csv", [*rows, ["NA"] * 5], NAMES[2:7])
    result = inside("predict", clinic / "model.skops", "new.csv", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    said = " ".join(result.stderr.split())
    assert "1 row has no values at all (line 5)" in said and "probabilities mean nothing" in said
    assert (
        "no values" not in inside("predict", clinic / "model.skops", "test.csv", cwd=clinic).stderr
    )


def test_figures_of_few_rows_are_noted(tmp_path):
    write(tmp_path / "few.csv", ([f"{i % 2 + i / 90}", "ab"[i % 2]] for i in range(40)), ["x", "k"])
    fit = ("fit", "few.csv", "-o", "few.skops", "--set", "n_sweeps=2")
    _, said = succeed(*fit, "--set", "n_chains=1", cwd=tmp_path)
    assert "the held out figures are of 4 rows only" in said
    assert "figures" not in succeed(*fit, "--set", "n_chains=10", cwd=tmp_path)[1]


def test_answers_in_every_format_are_the_same(clinic):
    parquet = pytest.importorskip("pyarrow.parquet")
    for ending in ("csv", "json", "parquet"):
        result = inside("predict", "model.skops", "test.csv", "-p", "-o", f"a.{ending}", cwd=clinic)
        assert result.returncode == 0, result.stderr
    found = json.loads((clinic / "a.json").read_text())
    assert parquet.read_table(clinic / "a.parquet").to_pylist() == found
    rows = table_of((clinic / "a.csv").read_text())
    assert [r["predicted"] for r in rows] == [r["predicted"] for r in found]
    assert float(rows[0]["p_mild"]) == pytest.approx(found[0]["p_mild"], abs=1e-5)


def test_rows_come_from_standard_input(clinic):
    text = (clinic / "test.csv").read_bytes()
    expected = inside("predict", "model.skops", "test.csv", cwd=clinic)
    found = inside("predict", "model.skops", "-", cwd=clinic, stdin=text)
    assert found.returncode == 0 and found.stdout == expected.stdout
    assert_refused(inside("predict", "model.skops", "-", cwd=clinic), "standard input is empty")


def test_categories_that_are_new_count_as_none_with_a_note(clinic, tmp_path):
    text = (clinic / "test.csv").read_text().replace("green", "mauve").replace("grey", "teal")
    (tmp_path / "new.csv").write_text(text)
    result = inside("predict", clinic / "model.skops", "new.csv", cwd=tmp_path)
    assert result.returncode == 0 and "column colour: 'mauve', 'teal' were not in" in result.stderr


def test_labels_that_are_partly_known_are_counted_where_they_are(clinic, tmp_path):
    rows = [[*row[:-1], row[-1] if i < 10 else ""] for i, row in enumerate(patients(25, 2))]
    write(tmp_path / "part.csv", rows)
    result = inside("predict", clinic / "model.skops", "part.csv", cwd=tmp_path)
    assert result.returncode == 0 and "right of 10 rows that have a label" in result.stderr
    assert [r["truth"] for r in table_of(result.stdout)][9:12] == [rows[9][-1], "", ""]


def test_rows_are_refused_by_probability_or_by_a_promise(clinic):
    pytest.importorskip("pandas")
    found, _ = succeed(
        "predict", "model.skops", "test.csv", "-p", "--refuse-below", 0.7, cwd=clinic
    )
    refused = np.max(found["probabilities"], axis=1) < 0.7
    assert found["refused_rows"] == refused.tolist() and 0 < found["refused"] == refused.sum() < 25
    result = inside("predict", "model.skops", "test.csv", "--refuse-below", 0.7, cwd=clinic)
    assert [r["refused"] for r in table_of(result.stdout)] == [str(x) for x in refused]
    assert f"{refused.sum()} of 25 rows refused; " in result.stderr
    assert_refused(
        inside("predict", "model.skops", "test.csv", "--refuse", 0.1, cwd=clinic),
        "--refusals", "--refuse-below",
    )  # fmt: skip


def test_rows_kept_back_at_the_fit_measure_refusals(clinic, tmp_path):
    fit = ("fit", "wine", "--method", "CRC", "--refusals", 0.5, "-o", "wine.skops")
    found, _ = succeed(*fit, cwd=tmp_path)
    assert (found["rows"], found["rows_kept_back"]) == (89, 89)
    found, _ = succeed("predict", "wine.skops", "wine", "--refuse", 0.1, cwd=tmp_path)
    assert 0 < found["refused"] < 178
    found, _ = succeed(
        *fit[:1], clinic / "train.csv", "--drop", "visit,name", *fit[2:], cwd=tmp_path
    )
    assert found["rows_kept_back"] == 30 and found["columns"] == 5 and found["features"] > 7


def test_a_category_that_nobody_learned_from_is_noted_where_it_is_explained(clinic):
    rows = list(patients(3, 5))
    rows[1][5] = "purple"
    write(clinic / "odd.csv", rows)
    question = ("explain", "model.skops", "odd.csv", "--row")
    assert "'purple' was not in the rows" in inside(*question, "2", cwd=clinic).stderr
    assert "purple" not in inside(*question, "1", cwd=clinic).stderr


def test_labels_that_are_hardly_ever_the_same_are_noted(clinic):
    fit = ("fit", "train.csv", "--drop", "visit", "--label", "name", "--method", "ridge")
    said = inside(*fit, "-o", "names.skops", cwd=clinic).stderr
    assert "the column, name, has 60 different values in 60 rows" in said


def test_a_wrong_method_is_refused_before_data_are_read(clinic):
    result = inside("fit", "absent.csv", "--method", "nope", "-o", "a.skops", cwd=clinic)
    assert_refused(result, "unknown method 'nope'")


def test_the_version_is_printed(tmp_path):
    result = inside("--version", cwd=tmp_path)
    assert result.returncode == 0 and result.stdout.startswith("dbdl ")


# ------------------------------------------------------------------ names of columns with commas


@pytest.fixture(scope="module")
def scales(tmp_path_factory):
    """A table with a name that has a comma, a date, and the two parts of a name by themselves."""
    path = tmp_path_factory.mktemp("scales")
    rng = np.random.default_rng(0)
    rows = (
        [f"{60 + 9 * (i % 2) + rng.normal():.1f}", f"{rng.normal():.2f}", "2024-01-02",
         f"{rng.normal():.2f}", f"{rng.normal():.2f}", "ab"[i % 2]]
        for i in range(30)
    )  # fmt: skip
    write(
        path / "scales.csv", rows, ['"weight, kg"', "height", '"visit, first"', "a", '"a,b"', "y"]
    )
    return path


@pytest.mark.parametrize(
    ("options", "features"),
    [
        (("--columns", "weight, kg"), ["weight, kg"]),
        (("--columns", "weight, kg,height"), ["weight, kg", "height"]),
        (("--columns", 'height,"weight, kg"'), ["height", "weight, kg"]),
        (("--columns", "height", "--columns", "weight, kg"), ["height", "weight, kg"]),
        (("--drop", "visit, first,weight, kg"), ["height", "a", "a,b"]),
        (("--drop", "visit, first", "--drop", "a,b"), ["weight, kg", "height", "a"]),
        (("--drop", "a,visit, first"), ["weight, kg", "height", "a,b"]),
    ],
)
def test_names_of_columns_may_have_commas(scales, options, features):
    succeed("fit", "scales.csv", *options, "-o", "m.skops", "--method", "ridge", cwd=scales)
    assert list(read_columns(scales / "m.skops").features) == features


def test_the_advice_to_drop_a_column_can_be_pasted(scales):
    result = inside("fit", "scales.csv", "-o", "m.skops", cwd=scales)
    advice = re.search(r"leave it out: (.*) \(in Python", result.stderr)[1]
    fit = ("fit", "scales.csv", *shlex.split(advice), "-o", "m.skops", "--method", "ridge")
    _, said = succeed(*fit, cwd=scales)
    assert (
        "4 numbers ('weight, kg', height, a, 'a,b'), 1 dropped: 'visit, first' (as asked)" in said
    )


def test_names_that_are_not_there_are_told_apart(scales):
    result = inside("fit", "scales.csv", "--drop", "weight, lb", "-o", "m.skops", cwd=scales)
    assert_refused(result, "has no columns 'weight', 'lb'", "its columns are 'weight, kg', height")


# -------------------------------------------------------------- nothing is learned from test rows


@pytest.mark.parametrize("method", ["DBDL", "CRC"])
def test_folds_learn_categories_and_means_from_the_rows_to_learn_from(clinic, method):
    from dbdl.datasets import load as load_data

    data = labelled_rows(load_data(clinic / "train.csv", drop=["visit"], ids="name"), unit=False)
    split = Split(np.arange(40), np.arange(40, 60))
    train, test = parts(data, split, methods()[method]())
    changed = data.X.copy()
    changed[40:, 1], changed[40:, 3] = 1e6, "a new colour"
    train_again, _ = parts(
        type(data)(changed, data.y, kinds=data.kinds, names=data.names), split, methods()[method]()
    )
    np.testing.assert_array_equal(train.X, train_again.X)
    assert train.names == train_again.names and train.X.shape[1] == test.X.shape[1]
    assert np.isnan(train.X).any() == (method == "DBDL")


def test_a_table_of_numbers_gives_the_same_bits_as_its_array(clinic, tmp_path):
    from dbdl.datasets import load as load_data

    names = ["age", "dose", "height", "outcome"]
    keep = [NAMES.index(name) for name in names]
    write(tmp_path / "n.csv", [[row[j] for j in keep] for row in patients(60, 1)], names)
    succeed("fit", "n.csv", "-o", "n.skops", *QUICK, cwd=tmp_path)
    model, data = load(tmp_path / "n.skops"), load_data(tmp_path / "n.csv")
    assert type(model).__name__ == "DBDLClassifier"
    assert list(model.feature_names_in_) == names[:-1]
    again = methods()["DBDL"](n_chains=1, n_sweeps=3, random_state=0, n_jobs=-1)
    again.fit(data.X, data.y)
    np.testing.assert_array_equal(model.predict_proba(data.frame()), again.predict_proba(data.X))


# ----------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.replace("dose", "dosis", 1), ["no column 'dose'"]),
        (
            lambda t: t.replace("dose", "dosis", 1).replace("colour", "color", 1),
            ["no columns 'dose', 'colour'"],
        ),
        (
            lambda t: t.replace("True", "perhaps").replace("?", "tall"),
            ["2 columns cannot be used", "height: line", "'tall'", "smoker: line", "'perhaps'"],
        ),
        (lambda t: t.replace("age", "dose", 1), ["2 columns have the name 'dose'"]),
        (lambda t: t.split("\n", 1)[0], ["no rows"]),
    ],
)
def test_tables_that_do_not_fit_the_model_are_refused_and_nothing_is_written(
    clinic, tmp_path, change, words
):
    (tmp_path / "bad.csv").write_text(change((clinic / "test.csv").read_text()))
    result = inside("predict", clinic / "model.skops", "bad.csv", "-o", "a.csv", cwd=tmp_path)
    assert_refused(result, *words)
    assert not (tmp_path / "a.csv").exists()
    page = ("report", clinic / "model.skops", "--data", "bad.csv", "-o", "a.html")
    assert_refused(inside(*page, cwd=tmp_path), *words)
    assert not (tmp_path / "a.html").exists()


def test_a_model_of_an_array_refuses_other_columns_and_says_why(tmp_path):
    X = np.random.default_rng(0).standard_normal((20, 2))
    model = methods()["ridge"]().fit(X, np.arange(20) % 2)
    save(model, tmp_path / "array.skops")
    (tmp_path / "new.csv").write_text("a,day\n0.5,2026-05-17\n0.1,2026-05-18\n")
    result = inside("predict", "array.skops", "new.csv", cwd=tmp_path)
    assert_refused(result, "day: line 2: '2026-05-17'", "does not know the names of its features")
    assert "was fitted on numbers" not in result.stderr


def test_a_model_saved_in_python_with_its_columns_finds_them_in_other_tables(clinic, tmp_path):
    from dbdl.datasets import load as load_data

    own = {"label": "outcome", "drop": ["visit", "colour"], "ids": "name"}
    data, new = load_data(clinic / "train.csv", **own), load_data(clinic / "test.csv", **own)
    model = methods()["DBDL"](n_chains=1, n_sweeps=3, random_state=0).fit(data.X, data.y)
    save(model, tmp_path / "python.skops", data.columns)
    found, _ = succeed("predict", tmp_path / "python.skops", "test.csv", cwd=clinic)
    assert found["predicted"] == model.predict(new.X).tolist()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("fit", "train.csv", "--drop", "vist", "-o", "m.skops"), ["no column 'vist'"]),
        (("fit", "train.csv", "--columns", "age,weight", "-o", "m.skops"), ["no column 'weight'"]),
        (("fit", "train.csv", "--id", "nr", "-o", "m.skops"), ["no column 'nr'"]),
        (("fit", "train.csv", "--drop", "visit", "--min-rows", 99, "-o", "m.skops"), ["--min"]),
        (("fit", "iris", "--refusals", 5, "-o", "m.skops"), ["--refusals"]),
        (("fit", "iris", "--method", "ridge", "--refusals", 0.2, "-o", "m.skops"), ["refuse"]),
        (("predict", "model.skops", "test.csv", "--id", "nr", "-o", "m.csv"), ["no column 'nr'"]),
        (
            ("predict", "model.skops", "test.csv", "--refuse", 0.1, "--refuse-below", 0.5),
            ["leave one out"],
        ),
        (("compare", "train.csv", "--drop", "nope", "-m", "ridge"), ["no column 'nope'"]),
        (
            ("compare", "train.csv", "--drop", "visit", "-m", "ridge", "--folds", 20),
            ["--folds 12", "--min-rows 20"],
        ),
    ],
)  # fmt: skip
def test_wishes_that_cannot_be_met_are_refused_and_nothing_is_written(clinic, arguments, words):
    before = sorted(path.name for path in clinic.iterdir())
    assert_refused(inside(*arguments, cwd=clinic), *words)
    assert sorted(path.name for path in clinic.iterdir()) == before


def test_small_classes_are_left_out_if_asked_and_mentioned_if_not(clinic, tmp_path):
    rows = [row[2:7] + row[8:] for row in patients(40, 1)]
    rows[7][-1] = "odd"
    write(tmp_path / "odd.csv", rows, NAMES[2:7] + NAMES[8:])
    fit = ("fit", "odd.csv", "--method", "ridge", "-o", "odd.skops")
    _, said = succeed(*fit, cwd=tmp_path)
    assert "1 class has fewer than 5 rows (odd)" in said and "--min-rows 5" in said
    found, said = succeed(*fit, "--min-rows", 3, cwd=tmp_path)
    assert "left out 1 class with fewer than 3 rows (1 rows): odd" in said
    assert (found["rows"], found["classes"]) == (39, 3)


def test_gaps_that_a_method_cannot_fill_are_named(clinic, tmp_path):
    names = ["age", "dose", "outcome"]
    keep = [NAMES.index(name) for name in names]
    rows = [[row[j] for j in keep] for row in patients(40, 1)]
    write(tmp_path / "whole.csv", [row for row in rows if row[1]], names)
    write(tmp_path / "gaps.csv", rows, names)
    succeed("fit", "whole.csv", "--method", "CRC", "-o", "crc.skops", cwd=tmp_path)
    result = inside("predict", "crc.skops", "gaps.csv", cwd=tmp_path)
    assert_refused(result, "missing values", "line 6, column dose", "DBDL")
    succeed("fit", "gaps.csv", "--method", "CRC", "-o", "crc.skops", cwd=tmp_path)
    assert inside("predict", "crc.skops", "gaps.csv", cwd=tmp_path).returncode == 0


def test_gaps_of_rows_that_are_kept_back_are_filled(tmp_path):
    rows = [[f"{i % 7}.5", f"{i % 2 + i / 100}", "ab"[i % 2]] for i in range(60)]
    rows[0][0] = ""
    write(tmp_path / "gap.csv", rows, ["x", "y", "kind"])
    for seed in range(3):  # the row with the gap is kept back in one of them
        fit = ("fit", "gap.csv", "--method", "CRC", "--refusals", 0.5, "--seed", seed)
        succeed(*fit, "-o", "crc.skops", cwd=tmp_path)


def test_a_description_of_columns_that_is_none_is_not_believed(clinic, tmp_path):
    from dbdl.persistence import Columns

    model = load(clinic / "model.skops")
    sizes = [(0.0,), (-1.0,), ("a",), (1.0, 2.0), (float("nan"),), (float("inf"),), 3]
    for wrong in (
        {"kinds": "xyz"}, {"ids": 3}, {"image_shape": ("a", 2)}, {"features": (1, 2)},
        *({"kinds": "n", "sizes": size} for size in sizes), {"sizes": (1.0,)},
    ):  # fmt: skip
        columns = Columns(**{"features": ("a",), **wrong})
        assert read_columns(save(model, tmp_path / "m.skops", columns)) == Columns()
    for sizes in (None, (2.5,), (None,)):
        columns = Columns(("a",), kinds="n", sizes=sizes)
        assert read_columns(save(model, tmp_path / "m.skops", columns)) == columns


# --------------------------------------------------------------------------- a folder of images


@pytest.fixture(scope="module")
def pets(tmp_path_factory):
    """A folder of images by class, one of loose images of another size, and a model."""
    path = tmp_path_factory.mktemp("pets")
    write_classes(path / "pets", ["cat", "dog"], n_images=6)
    write_classes(path / "new", ["loose"], n_images=3)
    result = inside("fit", "pets", "-o", "pets.skops", *QUICK, cwd=path)
    assert result.returncode == 0, result.stderr
    return path


def test_images_get_answers_by_file_name(pets):
    result = inside("predict", "pets.skops", "new/loose", "-p", cwd=pets)
    assert result.returncode == 0, result.stderr
    rows = table_of(result.stdout)
    assert list(rows[0]) == ["file", "predicted", "p_cat", "p_dog"]
    assert [row["file"] for row in rows] == [f"image_{i:04}.jpg" for i in (1, 2, 3)]
    assert "3 rows classified" in result.stderr


def test_images_of_known_classes_get_their_truth_and_others_none(pets):
    rows = table_of(inside("predict", "pets.skops", "pets", cwd=pets).stdout)
    assert rows[0]["file"] == "cat/image_0001.jpg" and rows[0]["truth"] == "cat"
    result = inside("predict", "pets.skops", "new", cwd=pets)
    assert "the images have no labels" in result.stderr
    assert table_of(result.stdout)[0] == {"file": "loose/image_0001.jpg", "predicted": "cat"}


def test_one_image_of_any_size_gets_an_answer(pets):
    from PIL import Image

    Image.open(pets / "new" / "loose" / "image_0001.jpg").resize((20, 20)).save(pets / "one.png")
    rows = table_of(inside("predict", "pets.skops", "one.png", cwd=pets).stdout)
    assert [row["file"] for row in rows] == ["one.png"]


@pytest.mark.parametrize("ending", ["png", "jpg", "bmp", "gif", "tif", "pgm"])
def test_one_image_may_come_from_standard_input(pets, ending):
    from PIL import Image

    image = Image.open(pets / "new" / "loose" / "image_0001.jpg").convert("L")
    image.save(pets / f"piped.{ending}")
    content = (pets / f"piped.{ending}").read_bytes()
    expected = json.loads(inside("predict", "pets.skops", f"piped.{ending}", "-p", "--json",
                                 cwd=pets).stdout)  # fmt: skip
    found = json.loads(inside("predict", "pets.skops", "-", "-p", "--json", cwd=pets,
                              stdin=content).stdout)  # fmt: skip
    assert found["probabilities"] == expected["probabilities"] and found["names"] == {"row": [1]}
    why = inside("explain", "pets.skops", "-", cwd=pets, stdin=content)
    assert why.returncode == 0 and why.stdout.startswith("Predicted ")


def test_images_from_standard_input_that_cannot_be_used_are_refused(pets, clinic):
    content = (pets / "new" / "loose" / "image_0001.jpg").read_bytes()
    fit = inside("fit", "-", "-o", "a.skops", cwd=pets, stdin=content)
    assert_refused(fit, "standard input is one image; to learn, put the images of each class")
    half = inside("predict", "pets.skops", "-", cwd=pets, stdin=content[:400])
    assert_refused(half, "standard input is damaged")
    table = inside("predict", "model.skops", "-", cwd=clinic, stdin=content)
    assert_refused(table, "standard input has 1024 features, but the model was fitted on 5")


def test_images_that_cannot_be_used_are_refused_and_nothing_is_written(pets):
    (pets / "none.png").write_bytes(b"no image")
    (pets / "empty").mkdir(exist_ok=True)
    for data, word in (
        ("none.png", "dbdl: none.png is not an image"),
        ("empty", "no images"),
        ("away.png", "away.png"),
    ):
        result = inside("predict", "pets.skops", data, "-o", "a.csv", cwd=pets)
        assert_refused(result, word)
    assert_refused(inside("fit", "one.png", "-o", "a.skops", cwd=pets))
    assert_refused(inside("fit", ".", "-o", "a.skops", cwd=pets / "empty"), "holds no images")
    several = inside("explain", "pets.skops", "pets", cwd=pets)
    assert_refused(several, "12 images; choose one with --row, from 1 to 12, or name the file")
    assert_refused(inside("fit", "new/loose", "-o", "a.skops", cwd=pets), "named after the class")
    one_class = inside("fit", "new", "-o", "a.skops", cwd=pets)
    assert_refused(one_class, "all images are in the folder 'loose'", "a folder of images for each")
    assert not list(pets.glob("a.*"))
