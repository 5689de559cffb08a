"""Records of arrays."""

from __future__ import annotations

from dataclasses import fields
from typing import Any


class Record:
    """A dataclass that is pickled by its fields alone: caches are neither written nor read."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: vars(self)[name] for name in self._names() if name in vars(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        names = self._names()
        self.__dict__.update({name: value for name, value in state.items() if name in names})

    def _names(self) -> list[str]:
        return [field.name for field in fields(self)]  # type: ignore[arg-type]


class ArrayRecord(Record):
    """A record that reports the memory of its arrays, so that a cluster moves the small ones."""

    def __sizeof__(self) -> int:
        arrays = sum(int(getattr(value, "nbytes", 0)) for value in vars(self).values())
        return object.__sizeof__(self) + arrays
