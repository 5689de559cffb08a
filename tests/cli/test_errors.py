"""What commands say when they are stopped, or cannot write."""

import subprocess
import sys
from pathlib import Path

import pytest

from dbdl.cli.errors import kept_in


def test_finished_work_is_said_to_be_kept_only_where_there_is_some(tmp_path, capsys):
    path = tmp_path / "cells.jsonl"
    for content, said in ((None, ""), ("{}", f"finished work is kept in {path}")):
        if content is not None:
            path.write_text(content)
        with pytest.raises(KeyboardInterrupt), kept_in(path):
            raise KeyboardInterrupt
        assert said in (found := capsys.readouterr().err) and bool(found) == bool(said)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_behind_the_output_is_one_message():
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "dbdl", "methods"]
        found = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert found.returncode == 2 and found.stderr == "dbdl: the output: No space left on device\n"
