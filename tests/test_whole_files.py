"""Files are written whole or not at all, and invalid paths are refused."""

import os
from pathlib import Path

import pytest

from dbdl._files import DataError, checked_path, reading, write_atomically


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path):
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"before")
    link.symlink_to(file)
    write_atomically(link, b"after")
    assert link.is_symlink() and file.read_bytes() == b"after"


def test_a_link_to_a_file_that_is_not_there_yet_makes_it(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder" / "file")
    write_atomically(tmp_path / "link", b"new")
    assert (tmp_path / "folder" / "file").read_bytes() == b"new"


@pytest.mark.skipif(os.name != "posix", reason="Windows has other permissions")
def test_a_private_file_stays_private(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"before")
    file.chmod(0o600)
    write_atomically(file, b"after")
    assert file.read_bytes() == b"after" and file.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the administrator may write")
def test_a_file_that_may_not_be_written_to_is_not_replaced(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"before")
    file.chmod(0o400)
    with pytest.raises(PermissionError):
        write_atomically(file, b"after")
    assert file.read_bytes() == b"before"


@pytest.mark.skipif(os.name != "posix", reason="there are no named pipes")
def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_atomically(pipe, lambda file: file.write(b"through"))
        assert os.read(reader, 100) == b"through" and pipe.is_fifo()
    finally:
        os.close(reader)


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="there are no names of open files")
def test_a_pipe_without_a_name_of_its_own_is_written_to():
    reader, writer = os.pipe()
    write_atomically(f"/dev/fd/{writer}", b"through")
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        assert pipe.read() == b"through"


def test_a_write_that_fails_half_way_leaves_what_was_there(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"before")

    def fail(new):
        new.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(file, fail)
    assert file.read_bytes() == b"before" and list(tmp_path.iterdir()) == [file]


def test_the_longest_name_that_a_folder_takes_can_be_written(tmp_path):
    file = tmp_path / ("n" * 255)
    assert write_atomically(file, b"x").read_bytes() == b"x"


@pytest.mark.parametrize("path", [3, None, b"bytes", ["list"], 1.5, Path])
def test_a_path_of_another_kind_is_named(path):
    with pytest.raises(TypeError, match="expected a path as text, got"):
        checked_path(path)


def test_a_path_that_no_file_can_have_is_named():
    with pytest.raises(ValueError, match=r"'a\\x00b' holds a null byte"):
        checked_path("a\0b")
    with pytest.raises(ValueError, match="the path is empty; give the name of a file or folder"):
        checked_path("")


def test_what_a_library_says_of_a_file_becomes_one_short_line():
    said = pytest.raises(DataError, match="x is damaged or not a parquet file")
    with said as caught, reading("x", "parquet file"):
        raise RuntimeError("line\n" * 1000)
    assert len(str(caught.value)) < 400 and "\n" not in str(caught.value)
    with pytest.raises(DataError, match="x is damaged or not an image"), reading("x", "image"):
        raise RuntimeError
    for kind in (FileNotFoundError, PermissionError):
        with pytest.raises(kind), reading("x", "parquet file"):
            raise kind("x")
    with pytest.raises(DataError, match="more memory than"), reading("x", "parquet file"):
        raise MemoryError
