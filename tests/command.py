"""The command line as tests run it: in a separate process, or inside this one."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import warnings

from dbdl.cli import main

QUICK = ("--set", "n_chains=1", "--set", "n_sweeps=3")


def dbdl(*arguments, cwd, **environment):
    """Run the command; its exit code, standard output and standard error."""
    return subprocess.run(
        [sys.executable, "-m", "dbdl", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "200", **environment},
        capture_output=True,
        text=True,
        timeout=600,
    )


def inside(*arguments, cwd, stdin=b""):
    """Run the command in this process, which is quicker; as `dbdl`."""
    output, errors = io.StringIO(), io.StringIO()
    before, hook, sys.argv = sys.argv, sys.unraisablehook, ["dbdl", *map(str, arguments)]
    entry, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(stdin))
    try:
        with (
            contextlib.chdir(cwd),
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(errors),
            warnings.catch_warnings(),
        ):
            main()
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.argv, sys.unraisablehook, sys.stdin = before, hook, entry
    return subprocess.CompletedProcess(arguments, code, output.getvalue(), errors.getvalue())


def succeed(*arguments, cwd):
    """Run the command, which has to end well; what it printed for programs, and what it said."""
    result = inside(*arguments, "--json", cwd=cwd)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout), result.stderr


def assert_refused(result, *words):
    """One line that says what was wrong, exit code 2, no stack trace."""
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr
