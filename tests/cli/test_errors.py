"""What commands say when they are stopped."""

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
