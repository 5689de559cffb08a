"""Tables as people have them: typed by what they hold, in any spelling, or refused all at once."""

from __future__ import annotations

import gzip
import io
import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeClassifier

from dbdl.datasets import DataError, load, pipeline_for
from dbdl.datasets.cells import Kind, number, read_column
from dbdl.registry import methods

N = 30
#: Two classes and measurements that cannot be taken for anything else.
CLASSES = [("ant", "bee")[i % 2] for i in range(N)]
LENGTHS = [f"{i % 7 + i / 64:.3f}" for i in range(N)]


def write(path, columns, separator=",", encoding="utf-8"):
    """Write columns by name as text; a cell that holds the separator is quoted."""
    lines = [list(columns), *map(list, zip(*columns.values(), strict=True))]
    quoted = [[f'"{cell}"' if separator in cell else cell for cell in line] for line in lines]
    text = "\n".join(separator.join(cells) for cells in quoted) + "\n"
    path.write_bytes(text.encode(encoding))
    return path


def with_column(tmp_path, name, cells, **options):
    columns = {"length": LENGTHS, name: list(cells), "kind": CLASSES}
    return write(tmp_path / "my.csv", columns, **options)


# ------------------------------------------------------------------------------- kinds of columns


@pytest.mark.parametrize(
    ("cells", "kind", "values"),
    [
        (["1", " 2.5 ", "-3e2"], Kind.NUMBERS, [1, 2.5, -300]),
        (["1,5", "2,25", "7"], Kind.NUMBERS, [1.5, 2.25, 7]),
        (["1.234,5", "7,25"], Kind.NUMBERS, [1234.5, 7.25]),
        (["1,234.5", "7.25"], Kind.NUMBERS, [1234.5, 7.25]),
        (["1 234,5", "12 345,25"], Kind.NUMBERS, [1234.5, 12345.25]),
        (["1'234.5", "7"], Kind.NUMBERS, [1234.5, 7]),
        (["0,125", "0,250"], Kind.NUMBERS, [0.125, 0.25]),
        (["", "NA", "n/a", "nan", "?", "None", "-", "#N/A", "4"], Kind.NUMBERS, [np.nan] * 8 + [4]),
        (["TRUE", "false", ""], Kind.NUMBERS, [1, 0, np.nan]),
        (["red", "blue", "NA", "red"], Kind.CATEGORIES, ["red", "blue", np.nan, "red"]),
        (["A1", "2", "B3"], Kind.CATEGORIES, ["A1", "2", "B3"]),
        (["2024-01-31", "2024-02-01", ""], Kind.DATES, None),
        (["31.01.2024", "1.2.24"], Kind.DATES, None),
        (["01/31/2024 12:30", "02/01/2024 08:00"], Kind.DATES, None),
        (["5 Jan 2024", "Feb 3, 2024"], Kind.DATES, None),
        (["12:30", "08:15:10"], Kind.DATES, None),
        (["1", "2", "oops"], Kind.MIXED, None),
        (["1.5", "2,5"], Kind.SIGNS, None),
        ([f"{i}%" for i in range(9)], Kind.UNITS, None),
        ([f"{i} mm" for i in range(9)], Kind.UNITS, None),
        ([f"word {i % 300}" for i in range(900)], Kind.TOO_MANY, None),
    ],
)
def test_a_column_is_typed_by_what_it_holds(cells, kind, values):
    found = read_column(cells)
    assert found.kind is kind
    if values is not None:
        assert repr(found.values.tolist()) == repr(
            [float(v) if kind is Kind.NUMBERS else v for v in values]
        )


@pytest.mark.parametrize("name", ["1_000", "acid", "Na+", "1,2,3", "1.2.3", "12,34.5", ",", "e"])
def test_what_only_looks_like_a_number_is_none(name):
    for decimal in ".,":
        with pytest.raises(ValueError):
            number(name, decimal)


def test_categories_and_gaps_are_kept_as_they_are(tmp_path):
    colours = [("red", "blue", "", "green")[i % 4] for i in range(N)]
    weights = ["?" if i % 5 == 0 else f"{i / 8}" for i in range(N)]
    columns = {"length": LENGTHS, "colour": colours, "weight": weights, "kind": CLASSES}
    found = load(write(tmp_path / "my.csv", columns))
    assert found.column_kinds == "ncn" and found.feature_names == ("length", "colour", "weight")
    assert found.X.dtype == object and found.X[3, 1] == "green"
    assert np.isnan(found.X[2, 1]) and np.isnan(found.X[5, 2]) and found.X[6, 2] == 0.75
    frame = found.frame()
    assert frame["weight"].dtype == float and frame["colour"].isna().sum() == colours.count("")


def test_a_table_of_numbers_stays_an_array_of_numbers(tmp_path):
    found = load(with_column(tmp_path, "weight", ["NA", *LENGTHS[1:]]))
    assert found.X.dtype == np.float64 and found.column_kinds == "nn"
    assert np.isnan(found.X[0, 1]) and np.isnan(found.X).sum() == 1


@pytest.mark.parametrize(
    ("name", "cells", "why"),
    [
        ("note", [f"text {i}" for i in range(N)], "a different text in every row"),
        ("note", [f"text {i % 20}" for i in range(N)], "hardly any text comes twice"),
        ("patient_id", [str(7 * i % 101) for i in range(N)], "the name of an id"),
        ("caseId", [str(7 * i % 101) for i in range(N)], "the name of an id"),
        ("site", ["Bern"] * N, "the same text in every row"),
        ("empty", ["", "NA", "?"] * (N // 3), "no values"),
    ],
)
def test_columns_without_use_are_left_out_and_said(tmp_path, name, cells, why):
    with pytest.warns(UserWarning, match=f"left out column '{name}': .*{why}"):
        found = load(with_column(tmp_path, name, cells))
    assert found.feature_names == ("length",) and why in found.left_out[name]


@pytest.mark.parametrize("name", ["acid", "humid", "grid", "heat_index"])
def test_a_measurement_whose_name_ends_like_an_id_is_none(tmp_path, name):
    with pytest.warns(UserWarning, match=f"used column '{name}'"):
        found = load(with_column(tmp_path, name, [str(7 * i % 101) for i in range(N)]))
    assert found.feature_names == ("length", name)


def test_a_hundred_categories_are_categories(tmp_path):
    columns = {"where": [f"place {i % 100}" for i in range(400)], "kind": ["a", "b"] * 200}
    assert load(write(tmp_path / "my.csv", columns)).column_kinds == "c"


def test_all_columns_with_problems_are_in_one_message(tmp_path):
    columns = {
        "length": LENGTHS,
        "visit": [f"2024-01-{i + 1:02}" for i in range(N)],
        "size": ["about 5" if i in (3, 8) else str(i % 4) for i in range(N)],
        "rate": [f"{3 * i % 89} %" for i in range(N)],
        "kind": CLASSES,
    }
    path = write(tmp_path / "my.csv", columns)
    with pytest.raises(DataError) as refusal:
        load(path)
    said = str(refusal.value)
    assert "3 columns cannot be used" in said and "label=" not in said
    assert "visit: dates" in said and "line 2: '2024-01-01'" in said
    assert "size: line 5: 'about 5' is not a number and 1 more" in said
    assert "rate: numbers with a unit" in said and "--drop visit,size,rate" in said
    assert load(path, drop=["visit", "size", "rate"]).feature_names == ("length",)


def test_dropped_and_named_columns_and_ids(tmp_path):
    columns = {"name": [f"n{i}" for i in range(N)], "a": LENGTHS, "b": LENGTHS, "kind": CLASSES}
    path = write(tmp_path / "my.csv", columns)
    found = load(path, drop=["b"], ids="name")
    assert found.feature_names == ("a",) and found.left_out == {"b": "as asked"}
    assert found.ids[:2].tolist() == ["n0", "n1"] and found.id_name == "name"
    with pytest.warns(UserWarning, match="name"):
        assert load(path, drop=["kind"], labelled=False).feature_names == ("a", "b")
    with pytest.raises(DataError, match="no columns 'c', 'd': its columns are name, a, b, kind"):
        load(path, drop=["c", "d"])
    with pytest.raises(DataError, match="no column 'e'"):
        load(path, ids="e")
    with pytest.raises(DataError, match="not a table"):
        load("iris", drop=["a"])
    for wrong in ({"drop": "a"}, {"drop": [1]}, {"drop": 3}, {"ids": 3}):
        with pytest.raises(TypeError, match=f"{next(iter(wrong))}="):
            load(path, **wrong)


# -------------------------------------------------------------------------- labels, rows and lines


def test_rows_without_a_label_are_left_out_or_kept_where_none_is_needed(tmp_path):
    labels = ["" if i == 3 else "NA" if i == 7 else CLASSES[i] for i in range(N)]
    path = write(tmp_path / "my.csv", {"length": LENGTHS, "kind": labels})
    with pytest.warns(UserWarning, match=r"no label in 2 of 30 rows, .*\(line 5, line 9\)"):
        found = load(path)
    assert found.n_samples == N - 2 and list(found.classes) == ["ant", "bee"]
    assert found.y.dtype.kind == "U" and found.lines[3] == 6
    kept = load(path, labelled=False, label="kind")
    assert kept.n_samples == N and kept.y[3] is None and list(kept.classes) == ["ant", "bee"]
    assert kept.is_labelled.sum() == N - 2


@pytest.mark.parametrize("word", ["none", "-", "None"])
def test_a_class_may_have_the_name_of_a_gap(tmp_path, word):
    labels = [word if i % 2 else "some" for i in range(N)]
    found = load(write(tmp_path / "my.csv", {"length": LENGTHS, "kind": labels}))
    assert set(found.classes) == {word, "some"} and found.n_samples == N


def test_labels_are_numbers_truths_or_words(tmp_path):
    for cells, classes in (("0", "1"), [0, 1]), (("1.0", "2.0"), [1, 2]), (("True", "False"),) * 2:
        labels = [cells[i % 2] for i in range(N)]
        found = load(write(tmp_path / "my.csv", {"length": LENGTHS, "kind": labels}))
        assert found.classes.tolist() == sorted(classes)


@pytest.mark.parametrize(
    "codes",
    [("01", "1"), ("007", "008"), ("00", "0"), ("9" * 20, "8" * 20), (f"{2**63}", "1")],
)
def test_labels_that_are_codes_stay_as_they_are_written(tmp_path, codes):
    labels = [codes[i % 2] for i in range(N)]
    found = load(write(tmp_path / "my.csv", {"length": LENGTHS, "kind": labels}))
    assert found.y.tolist() == labels


@pytest.mark.parametrize("labels", [("1e30", "2e30"), (f"{2**53 + 1}.0", f"{2**53 + 2}.0")])
def test_labels_that_a_float_would_round_are_refused(tmp_path, labels):
    labels = [labels[i % 2] for i in range(N)]
    with pytest.raises(DataError, match=r"whole numbers or names, but one is .*write names"):
        load(write(tmp_path / "my.csv", {"length": LENGTHS, "kind": labels}))


def test_rows_know_their_lines(tmp_path):
    (tmp_path / "my.csv").write_text('a,b,kind\n1,"x\ny",u\n\n2,z,v\n,,\n3,z,u\n')
    assert load(tmp_path / "my.csv").lines.tolist() == [2, 5, 7]


# ------------------------------------------------------------------ separators, encodings, formats


def german(tmp_path, **options):
    columns = {
        "Länge": [text.replace(".", ",") for text in LENGTHS],
        "Preis": [f"{i % 9 + 1}.{100 + i}" for i in range(N)],
        "Farbe": [("rot", "grün")[i % 3 > 0] for i in range(N)],
        "Art": CLASSES,
    }
    return write(tmp_path / "mein.csv", columns, separator=";", **options)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
@pytest.mark.filterwarnings("ignore")
def test_a_table_from_excel_in_german(tmp_path, encoding):
    found = load(german(tmp_path, encoding=encoding))
    assert found.feature_names == ("Länge", "Preis", "Farbe") and found.column_kinds == "nnc"
    assert found.X[5].tolist() == [float(LENGTHS[5]), 6105.0, "grün"]


def test_numbers_that_may_be_read_in_two_ways_are_shown(tmp_path):
    prices = [f"{i % 9 + 1},{100 + i}" for i in range(N)]
    with pytest.warns(UserWarning, match="in column price, '1,100' was read as 1100"):
        found = load(with_column(tmp_path, "price", prices))
    assert found.X[0, 1] == 1100
    columns = {"length": LENGTHS, "price": prices, "kind": CLASSES}
    with pytest.warns(UserWarning, match="'1,100' was read as 1100"):
        assert load(write(tmp_path / "my.csv", columns, separator=";")).X[0, 1] == 1100
    del columns["length"]  # whose points told
    with pytest.warns(UserWarning, match="'1,100' was read as 1.1"):
        assert load(write(tmp_path / "my.csv", columns, separator=";")).X[0, 0] == 1.1


def test_three_decimals_in_every_cell_are_decimals(tmp_path, recwarn):
    cells = [f"{i % 9 + 1}.{100 + 7 * i}" for i in range(N)]
    assert load(with_column(tmp_path, "x", cells)).X[1, 1] == 2.107
    assert not recwarn


def fitted(tmp_path, cells, **options):
    """The columns of a model that learned from the cells as doses, beside lengths."""
    columns = {"dose": cells, "length": LENGTHS, "kind": CLASSES}
    return load(write(tmp_path / "fit.csv", columns, **options)).columns


def doses_of(tmp_path, cells, columns, separator=",", **others):
    """Doses in a table of new rows, read as a model does whose columns are given."""
    rows = {"dose": cells, "length": LENGTHS[: len(cells)], **others}
    found = load(
        write(tmp_path / "new.csv", rows, separator=separator), columns=columns, labelled=False
    )
    return found.X[:, 0].tolist()


#: Doses from 0.1 to 7, as decimals with a comma that cannot be taken for thousands.
DOSES = [f"{i % 7},{i * 17 % 90 + 10}5" for i in range(N)]


def test_a_model_reads_numbers_as_those_that_it_learned_from(tmp_path):
    columns = fitted(tmp_path, DOSES)
    assert 1 < columns.sizes[0] < 5
    with pytest.warns(UserWarning, match="'5,126' was read as 5.126, the size of the numbers that"):
        assert doses_of(tmp_path, ["5,126", "6,250"], columns) == [5.126, 6.25]
    with pytest.warns(UserWarning) as said:  # as before, of models that do not know the size
        assert doses_of(tmp_path, ["5,126"], replace(columns, sizes=None)) == [5126]
    assert str(said[0].message).endswith("in column dose, '5,126' was read as 5126")
    large = fitted(tmp_path, [f"{i % 7 + 1}{cell[1:]}.5" for i, cell in enumerate(DOSES)])
    assert 1000 < large.sizes[0] < 9000
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the file says the same, as its lengths have points
        assert doses_of(tmp_path, ["5,126", "6,250"], large) == [5126, 6250]


def test_numbers_of_another_size_than_those_learned_are_said(tmp_path):
    columns = fitted(tmp_path, [f"{cell[0]}.{i % 9}" for i, cell in enumerate(DOSES)])
    columns = replace(columns, sizes=(80.0, columns.sizes[1]))
    told = "'5,126' was read as 5126, but the model learned from numbers of about 80 there"
    with pytest.warns(UserWarning, match=told):
        assert doses_of(tmp_path, ["5,126"], columns) == [5126]


def test_points_that_can_only_be_decimals_in_their_file_stay_decimals(tmp_path):
    columns = fitted(tmp_path, [f"{5000 + i % 7}" for i in range(N)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert doses_of(tmp_path, ["5.126"], columns) == [5.126]


def test_columns_that_a_model_does_not_use_do_not_show_the_decimal_sign(tmp_path):
    whole = [f"{i % 7}" for i in range(N)]
    rows = {"dose": [f"{i % 7 + 1}.{i * 17 % 90 + 10}5" for i in range(N)], "width": whole}
    fit = write(tmp_path / "fit.csv", {**rows, "kind": CLASSES}, separator=";")
    columns = load(fit).columns
    assert load(fit).X[0, 0] == 1.105
    note = [f"{i},5" for i in range(N)]
    for known in (columns, replace(columns, sizes=None)):
        new = write(tmp_path / "new.csv", {**rows, "note": note}, separator=";")
        assert load(new, columns=known, labelled=False).X[0, 0] == 1.105


def test_a_single_row_is_read_as_at_the_fit_whatever_its_separator(tmp_path):
    german = [f"{i % 7 + 1}.{i * 17 % 90 + 10}5,5" for i in range(N)]  # 1.105,5
    columns = fitted(tmp_path, german, separator=";")
    assert columns.sizes[0] > 1000
    rows = {"dose": ["5.126"], "length": ["3"]}
    new = write(tmp_path / "new.csv", rows, separator=";")
    with pytest.warns(UserWarning, match=r"'5\.126' was read as 5126, the size"):
        assert load(new, columns=columns, labelled=False).X[0, 0] == 5126


def test_columns_of_texts_in_parquet_are_read_as_at_the_fit(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    columns = fitted(tmp_path, DOSES)
    table = pyarrow.table({"dose": ["5,126", None], "length": [0.5, 1.5]})
    parquet.write_table(table, tmp_path / "new.parquet")
    with pytest.warns(UserWarning, match=r"'5,126' was read as 5\.126"):
        found = load(tmp_path / "new.parquet", columns=columns, labelled=False)
    assert found.X[0, 0] == 5.126


def test_columns_that_a_spreadsheet_left_behind_are_no_columns(tmp_path):
    lines = [f"{x};{y};;" for x, y in zip(LENGTHS, CLASSES, strict=True)]
    text = "\n".join(["sep=;", "length;kind;;", *lines, ";;;"])
    (tmp_path / "my.csv").write_text(text)
    found = load(tmp_path / "my.csv")
    assert found.feature_names == ("length",) and found.label_name == "kind"
    assert found.n_samples == N and found.lines[0] == 3


def test_compressed_tables_workbooks_and_standard_input_hold_the_same(tmp_path, monkeypatch):
    openpyxl = pytest.importorskip("openpyxl")
    path = with_column(tmp_path, "colour", [("red", "blue")[i % 3 > 0] for i in range(N)])
    expected = load(path)
    (tmp_path / "other.csv.gz").write_bytes(gzip.compress(path.read_bytes()))
    book = openpyxl.Workbook()
    for line in path.read_text().splitlines():
        book.active.append([float(x) if x[0].isdigit() else x for x in line.split(",")])
    book.save(tmp_path / "other.xlsx")
    for name in ("other.csv.gz", "other.xlsx", "-"):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
        found = load(tmp_path / name if name != "-" else "-")
        assert found.X.tolist() == expected.X.tolist() and found.y.tolist() == expected.y.tolist()
        assert found.lines.tolist() == expected.lines.tolist()
        assert found.name == ("standard input" if name == "-" else "other")


@pytest.mark.parametrize("suffix", [".csv.gz", ".xlsx", ".csv"])
@pytest.mark.filterwarnings("ignore")
def test_files_with_any_bytes_changed_are_read_or_refused_in_words(tmp_path, suffix):
    openpyxl = pytest.importorskip("openpyxl")
    path = tmp_path / f"my{suffix}"
    text = "a,b,kind\n" + "".join(f"{i / 7:.3f},x{i % 2},k{i % 2}\n" for i in range(12))
    if suffix == ".xlsx":
        book = openpyxl.Workbook()
        for line in text.splitlines():
            book.active.append(line.split(","))
        book.save(path)
    else:
        path.write_bytes(gzip.compress(text.encode()) if suffix == ".csv.gz" else text.encode())
    content, rng = path.read_bytes(), np.random.default_rng(0)
    for i in range(40):
        changed = bytearray(content)
        changed[rng.integers(len(changed))] = rng.integers(0, 256)
        path.write_bytes(changed if i % 2 else content[: rng.integers(len(content))])
        try:
            load(path)
        except DataError as error:
            assert str(path) in str(error) or "my" in str(error)


def test_a_workbook_of_the_old_kind_says_what_to_do(tmp_path):
    (tmp_path / "my.xls").write_text("x")
    with pytest.raises(DataError, match=r"cannot read \.xls; save it as \.xlsx or \.csv"):
        load(tmp_path / "my.xls")


@pytest.mark.parametrize(
    ("first", "names"),
    [
        ("Na,K,kind", ("Na", "K")),
        ("a,2020,kind", ("a", "2020")),
        ("1.5,2.5,ant", None),
        ("1.5,NA,ant", None),
    ],
)
def test_headers_are_told_from_rows(tmp_path, first, names):
    rows = [f"{x},{x[::-1]},{y}" for x, y in zip(LENGTHS, CLASSES, strict=True)]
    (tmp_path / "my.csv").write_text("\n".join([first, *rows]))
    found = load(tmp_path / "my.csv")
    assert found.feature_names == names and found.n_samples == N + (names is None)


def spectra(first, below=None, n_rows=20, last=None):
    """A table of spectra below a first line; the cells in ``last`` are the last column."""
    below = np.random.default_rng(0).random((n_rows, 8)) if below is None else below
    lines = [first, *(",".join(f"{x:.4f}" for x in row) for row in below)]
    return "\n".join(line + (last[i] if last else "") for i, line in enumerate(lines))


RISING, FALLING = (
    ",".join(f"{400.1 + 10.1 * i}" for i in order) for order in (range(8), range(7, -1, -1))
)


@pytest.mark.parametrize("first", [RISING, FALLING], ids=["rising", "falling"])
@pytest.mark.parametrize("n_rows", [1, 20])
def test_a_first_line_of_wavelengths_is_the_header_and_said(tmp_path, first, n_rows):
    (tmp_path / "my.csv").write_text(spectra(first, n_rows=n_rows))
    with pytest.warns(UserWarning, match=r"my.csv: line 1 \(4.*, ...\) was taken for the header"):
        found = load(tmp_path / "my.csv", labelled=False)
    assert found.feature_names == tuple(first.split(",")) and found.n_samples == n_rows
    (tmp_path / "my.csv").write_text(spectra(first, last=[",0", *[",1", ",2"] * 10]))
    with pytest.warns(UserWarning, match="was taken for the header"):
        found = load(tmp_path / "my.csv")
    assert found.classes.tolist() == [1, 2] and found.n_features == 8


def test_falling_wavelengths_above_labels_that_come_again_are_the_header(tmp_path, recwarn):
    (tmp_path / "my.csv").write_text(spectra(FALLING, last=[",kind", *[",ant", ",bee"] * 10]))
    found = load(tmp_path / "my.csv")
    assert found.classes.tolist() == ["ant", "bee"] and found.label_name == "kind"
    assert not recwarn


def test_a_first_line_in_order_within_the_range_of_the_others_is_a_row_and_said(tmp_path):
    below = 1000 * np.random.default_rng(0).random((20, 8))
    (tmp_path / "my.csv").write_text(spectra(RISING, below))
    with pytest.warns(UserWarning, match=r"no header was found, so line 1 \(400.1, .*\) was read"):
        assert load(tmp_path / "my.csv", labelled=False).n_samples == 21


@pytest.mark.parametrize(
    ("first", "below"),
    [
        (RISING, np.arange(1.0, 161).reshape(20, 8) ** 1.5 / 30),  # growth: all lines rise
        ("400,410,420,430,440", np.random.default_rng(0).random((20, 5))),  # may be chance
        ("400,410,420,430,440,450,430,460", None),  # in no order
    ],
    ids=["all rise", "few", "no order"],
)
def test_first_lines_of_tables_without_a_header_are_rows(tmp_path, recwarn, first, below):
    (tmp_path / "my.csv").write_text(spectra(first, below))
    found = load(tmp_path / "my.csv", labelled=False)
    assert found.feature_names is None and found.n_samples == 21
    assert not [one for one in recwarn if "header" in str(one.message)]


def test_tables_of_any_numbers_without_a_header_lose_no_row(tmp_path):
    rng = np.random.default_rng(1)
    for kind in (rng.normal, rng.lognormal, rng.uniform):
        for n_rows in (2, 30):
            rows = kind(size=(n_rows, 6)) * 10.0 ** np.arange(6)  # larger from column to column
            (tmp_path / "my.csv").write_text(
                "\n".join(",".join(map(repr, row)) for row in rows.tolist())
            )
            assert load(tmp_path / "my.csv", labelled=False).n_samples == n_rows


def test_columns_without_a_header_go_by_their_numbers(tmp_path):
    rows = [f"{y},{x},{x[::-1]}" for x, y in zip(LENGTHS, CLASSES, strict=True)]
    (tmp_path / "my.csv").write_text("\n".join(rows))
    found = load(tmp_path / "my.csv", label="1", drop=["3"])
    assert found.X.shape == (N, 1) and list(found.classes) == ["ant", "bee"]
    with pytest.raises(DataError, match="no header, and its columns go by their numbers, 1 to 3"):
        load(tmp_path / "my.csv", label="kind")


# ------------------------------------------------------------------------------------ preparation


def test_a_pipeline_makes_numbers_of_categories_and_fills_gaps_where_it_has_to(tmp_path):
    colours = [("red", "blue", "")[i % 3] for i in range(N)]
    found = load(with_column(tmp_path, "colour", colours))
    pipeline = pipeline_for(found, DecisionTreeClassifier(random_state=0)).fit(
        found.frame(), found.y
    )
    assert isinstance(pipeline, Pipeline) and list(pipeline.feature_names_in_) == [
        "length", "colour",
    ]  # fmt: skip
    names = pipeline[:-1].get_feature_names_out()
    assert list(names) == ["length", "colour_blue", "colour_red", "colour_nan"]
    turned = found.frame()[["colour", "length"]].assign(other=1)
    assert (pipeline.predict(turned) == found.y).all()
    new = found.frame().assign(colour="mauve")
    assert pipeline[:-1].transform(new)[:, 1:].sum() == 0


def test_numbers_need_no_pipeline_unless_gaps_have_to_be_filled(tmp_path):
    tree = DecisionTreeClassifier()
    assert pipeline_for(load("iris"), tree) is tree
    gaps = load(with_column(tmp_path, "weight", ["", *LENGTHS[1:]]))
    assert pipeline_for(gaps, tree) is tree  # scikit-learn's trees take them
    assert isinstance(pipeline_for(gaps, methods()["CRC"]()), Pipeline)
