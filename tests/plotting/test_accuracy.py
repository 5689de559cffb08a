"""Pictures of accuracies show every line of a table."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure

from dbdl.experiments.sizes import SizeCurve
from dbdl.plotting.accuracy import plot_accuracies, plot_sizes


@pytest.fixture
def drawn(monkeypatch):
    """Figures that were written, to look into."""
    figures = []
    save = Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda self, *a, **k: (figures.append(self), save(self, *a, **k))[1]
    )
    return figures


def line(method, column, accuracy, paper=np.nan):
    return SimpleNamespace(method=method, column=column, accuracy=accuracy, spread=0.5, paper=paper)


def test_the_best_is_on_top_and_what_failed_is_left_out(drawn, tmp_path):
    lines = [line("SRC", "half", 90.0), line("DBDL", "half", 98.0), line("CRC", "half", np.nan)]
    plot_accuracies(lines, tmp_path / "a.png", title="A table")
    [axes] = drawn[0].axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["SRC", "DBDL"]
    assert not drawn[0].legends


def test_each_column_has_a_panel_and_the_paper_a_legend(drawn, tmp_path):
    lines = [line("DBDL", f"{n} of each class", 60.0 + n, 61.0) for n in (5, 10, 15)]
    plot_accuracies(lines, tmp_path / "a.png")
    assert [axes.get_title() for axes in drawn[0].axes] == [x.column for x in lines]
    texts = {text.get_text() for text in drawn[0].legends[0].get_texts()}
    assert texts == {"measured", "paper"}


def test_nothing_finished_is_an_empty_picture(tmp_path):
    plot_accuracies([line("CRC", "half", np.nan)], tmp_path / "a.png")
    assert (tmp_path / "a.png").exists()


def test_lines_of_sizes_are_means_over_splits(drawn, tmp_path):
    curves = [SizeCurve("K-SVD", [10, 20], [[80.0, 90.0], [91.0, 93.0]])]
    plot_sizes(curves, tmp_path / "s.png")
    [drawn_line] = drawn[0].axes[0].lines
    np.testing.assert_array_equal(drawn_line.get_ydata(), [85.0, 92.0])


@pytest.mark.parametrize(
    ("ending", "start"),
    [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF"), ("PNG", b"\x89")],
)
def test_a_picture_is_written_whole_in_the_format_of_its_ending(tmp_path, ending, start):
    path = tmp_path / f"a.{ending}"
    plot_accuracies([line("DBDL", "half", 98.0)], path)
    assert path.read_bytes().startswith(start) and list(tmp_path.iterdir()) == [path]


def test_a_picture_that_fails_half_way_leaves_the_one_before(tmp_path, monkeypatch):
    def fail(self, file, **options):
        write = file.write_bytes if isinstance(file, Path) else file.write
        write(b"half")
        raise OSError(28, "No space left on device")

    path = tmp_path / "a.png"
    path.write_bytes(b"before")
    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(OSError, match="No space left"):
        plot_accuracies([line("DBDL", "half", 98.0)], path)
    assert path.read_bytes() == b"before" and list(tmp_path.iterdir()) == [path]
