"""Records of arrays."""

from __future__ import annotations


class ArrayRecord:
    """A record that knows how much memory its arrays take: a cluster moves what is light."""

    def __sizeof__(self) -> int:
        arrays = sum(int(getattr(value, "nbytes", 0)) for value in vars(self).values())
        return object.__sizeof__(self) + arrays
