"""A journal that passes the record of every sweep to a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dbdl.sampler.run import ChainJournal, SweepRecord


class Telling(ChainJournal):
    """Tells a function of every sweep of a chain."""

    def __init__(self, tell: Callable[[SweepRecord], Any]) -> None:
        self._tell = tell

    def tell(self, record: SweepRecord, now: Any = None) -> bool:
        """Pass on the record of a sweep."""
        self._tell(record)
        return False
