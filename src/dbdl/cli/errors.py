"""Errors in words: one line on standard error and an exit code, never a stack trace.

Exit codes: 0 done, 1 nothing could be measured, 2 a mistake of the user, 130 interrupted.
"""

from __future__ import annotations

import _thread
import errno
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from dbdl.cli.terminal import complain, say
from dbdl.datasets import DataError, DataNotFoundError
from dbdl.experiments.spec import SpecError
from dbdl.persistence import ModelFileError

FAILED, USER_ERROR, INTERRUPTED = 1, 2, 130


class UserError(Exception):
    """A mistake that the user can put right; the message says how."""


class Commands(TyperGroup):
    """Commands whose errors become a message and an exit code, in this one place."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            message, code = "interrupted", INTERRUPTED
        except (UserError, DataError, DataNotFoundError, SpecError, ModelFileError) as error:
            message, code = str(error), USER_ERROR
        except OSError as error:
            if error.filename is None and error.errno != errno.ENOSPC:
                raise  # not about a file that the user named, or the output
            message, code = f"{error.filename or 'the output'}: {error.strerror}", USER_ERROR
        complain(message)
        raise typer.Exit(code)


@contextmanager
def user_mistakes() -> Iterator[None]:
    """Turn errors that estimators raise over their input into one line for the user."""
    try:
        yield
    except (ValueError, TypeError, AttributeError, MemoryError) as error:
        raise UserError(str(error)) from error


@contextmanager
def kept_in(path: Path | None) -> Iterator[None]:
    """Say, when work is interrupted, where its finished parts are kept, if there are any."""
    try:
        yield
    except KeyboardInterrupt:
        if path is not None and path.exists():
            say(f"finished work is kept in {path}; run the same command again to resume it")
        raise


def raise_swallowed_interrupts() -> None:
    """Raise Ctrl-C again if it arrives in a callback of the compiler, which cannot raise it."""
    before = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            threading.Timer(0.05, _thread.interrupt_main).start()
        else:
            before(unraisable)

    sys.unraisablehook = hook
