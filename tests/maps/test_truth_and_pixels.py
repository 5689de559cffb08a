"""Labels of pixels from rasters and points, and the rows that are learned from."""

import numpy as np
import pytest
import scipy.io
from envi_files import some_values, write_cube

from dbdl.datasets import load
from dbdl.experiments.protocol import Protocol
from dbdl.maps import labelled_pixels, make_scene, read_cube, read_truth
from dbdl.maps.cube import DataError
from dbdl.maps.pixels import block_of_pixel

LABELS = np.array([[0, 1, 1, 3], [0, 0, 3, 3], [1, 1, 0, 3], [0, 0, 0, 0], [3, 3, 3, 1]])
MAP_INFO = "{UTM, 1, 1, 500000, 5200000, 10, 20, 34, North, WGS-84, units=Meters}"


@pytest.fixture
def cube(tmp_path):
    return read_cube(write_cube(tmp_path, some_values(), map_info=MAP_INFO))


def same(truth, labels=LABELS):
    found = np.where(truth.numbers > 0, truth.classes[truth.numbers - 1], 0)
    return np.array_equal(found, labels)


def test_every_kind_of_raster_gives_the_same_labels(tmp_path, cube):
    np.save(tmp_path / "truth.npy", LABELS)
    scipy.io.savemat(tmp_path / "truth.mat", {"gt": LABELS, "other": np.zeros(3)})
    raster = LABELS.astype(np.uint8)[..., np.newaxis]
    header = write_cube(tmp_path, raster, name="truth")
    for source in (tmp_path / "truth.npy", tmp_path / "truth.mat", header, LABELS):
        assert same(read_truth(source, cube)), source


def test_class_names_of_an_envi_raster_become_the_labels(tmp_path, cube):
    raster = LABELS.astype(np.uint8)[..., np.newaxis]
    names = {"class_names": "{Unclassified, wheat, maize, pasture}"}
    truth = read_truth(write_cube(tmp_path, raster, name="truth", **names), cube)
    assert truth.classes.tolist() == ["pasture", "wheat"]
    assert truth.labels(*truth.places)[:3].tolist() == ["wheat", "wheat", "pasture"]
    names = {"class_names": "{Unclassified, wheat}"}
    with pytest.raises(DataError, match="has class 3, but names of 2"):
        read_truth(write_cube(tmp_path, raster, name="truth", **names), cube)


def test_points_by_row_and_column_count_from_one(tmp_path, cube):
    rows, columns = np.nonzero(LABELS)
    lines = [f"{r + 1},{c + 1},{LABELS[r, c]}" for r, c in zip(rows, columns, strict=True)]
    (tmp_path / "points.csv").write_text("\n".join(["row,column,label", *lines]))
    assert same(read_truth(tmp_path / "points.csv", cube))


@pytest.mark.parametrize("labels", [["01", "1"], ["2", "9" * 20], ["1", "\N{SUPERSCRIPT TWO}"]])
def test_labels_of_points_that_are_no_numbers_of_64_bits_are_names(tmp_path, cube, labels):
    text = "row,column,label\n1,1,{}\n1,2,{}\n".format(*labels)
    (tmp_path / "points.csv").write_text(text, encoding="utf-8")
    assert read_truth(tmp_path / "points.csv", cube).classes.tolist() == labels


@pytest.mark.parametrize(
    "labels", [["-1", "2"], ["3.0", "1"], ["9" * 18, "1"], [f"{2**63 - 1}", "1"],
               [f"{2**63}", "1"], ["007", "7"], ["7", "dog"]], ids=" and ".join,
)  # fmt: skip
def test_labels_of_points_are_those_of_tables(tmp_path, cube, labels):
    text = "\n".join(f"{1 + i};{1 + i % 3};{label}" for i, label in enumerate(labels * 2))
    (tmp_path / "points.csv").write_text("row;column;label\n" + text)
    expected = load(tmp_path / "points.csv").classes.tolist()
    assert read_truth(tmp_path / "points.csv", cube).classes.tolist() == expected


def test_points_in_map_coordinates_fall_into_their_pixels(tmp_path, cube):
    rows, columns = np.nonzero(LABELS)
    x, y = cube.georeference.centres(rows, columns)
    lines = [
        f"{a + 4},{b - 9},{LABELS[r, c]}" for a, b, r, c in zip(x, y, rows, columns, strict=True)
    ]
    (tmp_path / "points.csv").write_text("\n".join(["Easting,Northing,Class", *lines]))
    assert same(read_truth(tmp_path / "points.csv", cube))


def test_points_are_read_as_other_tables_are(tmp_path, cube):
    rows, columns = np.nonzero(LABELS)
    x, y = cube.georeference.centres(rows, columns)
    named = [("Köln", "Äcker", "Wald")[label % 3] for label in LABELS[rows, columns]]
    lines = [f"{a},5;{b},25;{name}" for a, b, name in zip(x.astype(int), y.astype(int), named,
                                                         strict=True)]  # fmt: skip
    text = "\n".join(["x;y;class", *lines, f"{x[0]};{y[0]};"])  # the last has no label
    (tmp_path / "points.csv").write_bytes(text.encode("latin-1"))
    with pytest.warns(UserWarning) as warned:
        found = read_truth(tmp_path / "points.csv", cube)
    said = " ".join(str(warning.message) for warning in warned)
    assert f"no label for 1 of {len(lines) + 1} points" in said and "Latin-1" in said
    assert set(found.classes) == set(named) and found.n_labelled == len(lines)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2", "expected row, column and label"),
        ("row,column,label\n0,1,a", "rows 1 to 5"),
        ("row,column,label\n1,9,a", "1 of 1 points are outside"),
        ("row,column,label\n1,x,a", "line 2: column is 'x'"),
        ("row,column,label\n1,1.5,a", "whole numbers"),
        ("row,column,label\n1,1,1.5", "labels are whole numbers or names, but one is 1.5"),
        ("row,column,label\n1,nan,a", "not finite"),
        ("row,column,label\n1,1,a\n1,1,b", "two labels"),
        ("row,column,label\n", "but no rows"),
        ("row,column,label\n1,1,\n2,1,NA", "no point has a label"),
        ("row,column,label\n1,1", "line 2: 2 cells"),
    ],
)
def test_wrong_points_are_refused_in_words(tmp_path, cube, text, message):
    (tmp_path / "points.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        read_truth(tmp_path / "points.csv", cube)


def test_wrong_rasters_are_refused_in_words(tmp_path, cube):
    for raster, message in (
        (LABELS[:4], "5 lines of 4 samples"),
        (np.zeros((5, 4)), "labels no pixel"),
        (LABELS - 1, "whole numbers from 0 on"),
        (LABELS + 0.5, "whole numbers from 0 on"),
    ):
        with pytest.raises(DataError, match=message):
            read_truth(raster, cube)
    with pytest.raises(DataError, match="3 bands"):
        read_truth(cube.files[0], cube)
    with pytest.raises(DataError, match="there is no file"):
        read_truth(tmp_path / "absent.npy", cube)
    with pytest.raises(DataError, match=r"cannot read \.txt as labels"):
        read_truth(tmp_path / "truth.txt", cube)
    scipy.io.savemat(tmp_path / "truth.mat", {"other": np.zeros((3, 3))})
    with pytest.raises(DataError, match="has 0 arrays of the scene's shape"):
        read_truth(tmp_path / "truth.mat", cube)


def test_rows_are_the_spectra_of_labelled_pixels(cube):
    rows = labelled_pixels(cube, LABELS)
    places = np.nonzero(LABELS)
    np.testing.assert_array_equal(rows.X, cube.lines(0, 5)[places])
    np.testing.assert_array_equal(rows.y, LABELS[places])


def test_a_draw_has_so_many_pixels_per_class_and_follows_the_seed(cube):
    scene = make_scene((30, 30), n_bands=8, n_classes=3)
    draws = [
        labelled_pixels(scene.cube, scene.truth, per_class=20, random_state=s) for s in (0, 0, 1)
    ]
    assert np.unique(draws[0].y, return_counts=True)[1].tolist() == [20, 20, 20]
    np.testing.assert_array_equal(draws[0].X, draws[1].X)
    assert not np.array_equal(draws[0].X, draws[2].X)


def test_labelled_pixels_without_data_are_left_out_with_a_warning(tmp_path):
    values = some_values(np.float32)
    values[0, 1] = np.nan
    cube = read_cube(write_cube(tmp_path, values))
    said = "1 of 12 labelled pixels left out, since there is no data"
    with pytest.warns(UserWarning, match=said):
        rows = labelled_pixels(cube, LABELS)
    assert rows.n_samples == 11


def test_no_block_is_on_both_sides_of_a_fold():
    scene = make_scene((40, 40), n_bands=8, n_classes=3)
    rows = labelled_pixels(scene.cube, scene.truth, n_blocks=6)
    assert len(np.unique(rows.groups)) == 36
    folds = list(Protocol(folds=4, whole_groups=True).splits(rows.y, 0, groups=rows.groups))
    assert sum(len(fold.test) for fold in folds) == rows.n_samples
    for train, test in folds:
        assert not set(rows.groups[train]) & set(rows.groups[test])
        assert len(np.unique(rows.y[train])) == 3


def test_blocks_are_rectangles_of_nearly_equal_size():
    rows, columns = np.indices((10, 7)).reshape(2, -1)
    blocks = block_of_pixel(rows, columns, (10, 7), 3).reshape(10, 7)
    assert len(np.unique(blocks)) == 9
    for number in range(9):
        inside = blocks == number
        lines, samples = inside.any(axis=1).sum(), inside.any(axis=0).sum()
        assert inside.sum() == lines * samples and lines in (3, 4) and samples in (2, 3)
    with pytest.raises(DataError, match="expected 2 to 7"):
        block_of_pixel(rows, columns, (10, 7), 8)
