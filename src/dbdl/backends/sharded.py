"""Rows in parts: the verbs of a backend for rows that are read in turn or live on a cluster.

Everything a step needs of the rows is a sum, and the sums of all backends add up along one tree
over blocks of rows. A part holds the rows below one node of that tree, so its own backend adds
them up as if they were all, and the total has the same bits for any number of parts.

What a part does is a pure function of the part, its codes and the parameters. Where it runs is
the engine's business: one part after another here, or tasks on a cluster
(`dbdl.backends.dask_cluster`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dbdl._threads import block_slices
from dbdl.backends.base import (
    ALL_ZERO,
    Backend,
    Data,
    HostBackend,
    label_rows,
    parameters_from_host,
    sum_of_squares,
)
from dbdl.backends.numba_cpu import NumbaBackend
from dbdl.draws import Key
from dbdl.model.codes import Scan
from dbdl.model.conditionals import AtomPosterior
from dbdl.model.state import Codes, Floats, Parameters
from dbdl.model.statistics import AtomSums, UsageSums, left_half

#: Bytes of rows that a part holds at most when parts are read in turn (no fewer than a block).
PART_BYTES = 1 << 26


class Rows(Protocol):
    """Rows (n_samples, n_features), read where they are asked for."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of features."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Float32 or float64."""

    def __getitem__(self, rows: Any) -> Floats:
        """Rows by a slice or by their numbers."""


class Node(NamedTuple):
    """A node of the tree over blocks: the blocks below it, first to last (excluded)."""

    first: int
    last: int

    def halves(self) -> tuple[Node, Node]:
        """Return the two nodes below."""
        middle = self.first + left_half(self.last - self.first)
        return Node(self.first, middle), Node(middle, self.last)

    def rows(self, block_rows: int, n_rows: int) -> slice:
        """Return the rows below the node."""
        return slice(self.first * block_rows, min(self.last * block_rows, n_rows))


def cut(n_blocks: int, wanted: int) -> list[Node]:
    """Cut the tree into ``wanted`` nodes (fewer where there are fewer blocks), largest first."""
    nodes = [Node(0, n_blocks)]
    while len(nodes) < min(wanted, n_blocks):
        largest = max(range(len(nodes)), key=lambda i: nodes[i].last - nodes[i].first)
        nodes[largest : largest + 1] = nodes[largest].halves()
    return nodes


def cut_while(n_blocks: int, too_large: Callable[[Node], bool]) -> list[Node]:
    """Cut the tree into the fewest nodes of which none is too large."""

    def below(node: Node) -> list[Node]:
        if not too_large(node):
            return [node]
        return [part for half in node.halves() for part in below(half)]

    return below(Node(0, n_blocks))


@dataclass(frozen=True)
class Part:
    """Rows below a node of the tree, not read yet.

    Attributes
    ----------
    source : Rows
    rows : slice
        Of the source.
    class_of_row : ndarray of shape (n_rows,)
        Of these rows.
    n_classes : int
    """

    source: Rows
    rows: slice
    class_of_row: NDArray[np.int64]
    n_classes: int

    def open(self) -> Data:
        """Read the rows."""
        return self.filled(self.source[self.rows])

    def filled(self, X: Floats) -> Data:
        """Return the part with its rows; what is known of all rows alone stays with the head."""
        X = _writable(np.ascontiguousarray(X))
        unknown = np.zeros(self.n_classes, dtype=np.int64)
        class_of_row = _writable(self.class_of_row)
        return Data(X, class_of_row, unknown, unknown, np.nan, self.rows.start)


@dataclass(frozen=True)
class PartOfLabels(Part):
    """Labels in place of rows."""

    def open(self) -> Data:
        """Make the labels."""
        return label_rows(self.filled(np.empty((0, 0), dtype=self.source.dtype)))


@dataclass(frozen=True)
class SweptCodes(Codes):
    """Codes with their sums: one value, so that the codes stay where they were drawn."""

    sums: UsageSums


class Engine(Protocol):
    """Where the functions of the parts run. A handle stands for a value that may be elsewhere."""

    def n_lanes(self, inner: Backend) -> int:
        """Number of chains that are learned at the same time."""

    def arrange(self, rows: Any) -> Any:
        """Return rows in the parts in which they will be read."""

    def nodes(self, source: Rows, block_rows: int) -> list[Node]:
        """Say how rows are cut."""

    def hold(self, inner: Backend, part: Part) -> Any:
        """Return a handle of a part: as it is, or with its rows read where it will stay."""

    def share(self, value: Any) -> Any:
        """Return a handle of a value that all parts need."""

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return a handle of a function's value; arguments may be handles."""

    def fetch(self, handle: Any) -> Any:
        """Return the value of a handle."""


@dataclass(frozen=True)
class InTurn:
    """One part after another, its rows read each time: memory does not grow with the rows.

    The codes' non-zeros do; they are kept in memory.
    """

    part_bytes: int = PART_BYTES

    def n_lanes(self, inner: Backend) -> int:
        """Number of chains that the backend here learns at the same time."""
        return inner.n_lanes

    def arrange(self, rows: Any) -> Any:
        """Return the rows as they are: they can be cut anywhere."""
        return rows

    def nodes(self, source: Rows, block_rows: int) -> list[Node]:
        """Cut into parts of ``part_bytes`` at most, but of one block at least."""
        n_rows, n_features = source.shape
        most = max(self.part_bytes // (n_features * source.dtype.itemsize * block_rows), 1)
        n_blocks = len(block_slices(n_rows, block_rows))
        return cut_while(n_blocks, lambda node: node.last - node.first > most)

    def hold(self, inner: Backend, part: Part) -> Part:
        """Leave the part unread."""
        return part

    def share(self, value: Any) -> Any:
        """Return the value."""
        return value

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call the function."""
        return function(*arguments)

    def fetch(self, handle: Any) -> Any:
        """Return the value."""
        return handle


@dataclass(frozen=True)
class ShardedData(Data):
    """Handles of the parts of the rows; ``X`` is their source."""

    nodes: tuple[Node, ...] = ()
    parts: tuple[Any, ...] = ()


@dataclass(frozen=True)
class ShardedBackend(HostBackend):
    """Parts of rows behind one backend; what is not over rows is done here, at the head.

    Attributes
    ----------
    inner : Backend
        What sweeps and sums the rows of a part.
    engine : Engine
        Where that happens.
    """

    inner: Backend = field(default_factory=NumbaBackend)
    engine: Engine = field(default_factory=InTurn)

    @property
    def n_lanes(self) -> int:
        """Number of chains that are learned at the same time."""
        return self.engine.n_lanes(self.inner)

    def place(self, X: Rows, class_of_row: NDArray[np.int64]) -> ShardedData:
        """Cut the rows into parts and put these in place."""
        class_of_row = np.ascontiguousarray(class_of_row, dtype=np.int64)
        _, first_row, n_rows = np.unique(class_of_row, return_index=True, return_counts=True)
        nodes = tuple(self.engine.nodes(X, self.block_rows))
        parts = tuple(
            self.engine.hold(self.inner, Part(X, rows, class_of_row[rows], len(n_rows)))
            for rows in (node.rows(self.block_rows, X.shape[0]) for node in nodes)
        )
        squares = [self._run(_square, part, self.block_rows) for part in parts]
        square = self.engine.fetch(self._tree(nodes, squares.__getitem__))
        if square == 0:
            raise ValueError(ALL_ZERO)
        source: Any = X
        return ShardedData(source, class_of_row, n_rows, first_row, square, 0, nodes, parts)

    def rows(self, data: Any, numbers: NDArray[np.int64]) -> Floats:
        """Return some of the rows by number (ascending)."""
        chosen = []
        for node, part in zip(data.nodes, data.parts, strict=True):
            rows = node.rows(self.block_rows, data.n_samples)
            own = numbers[(numbers >= rows.start) & (numbers < rows.stop)]
            if len(own):
                chosen.append(self._run(_rows, part, own - rows.start))
        return np.concatenate([self.engine.fetch(rows) for rows in chosen])

    def labels(self, data: Any) -> ShardedData:
        """Return the labels of the rows in place of the rows."""
        parts = tuple(self._run(_labels, part) for part in data.parts)
        shape: Any = np.broadcast_to(data.X.dtype.type(0), (data.n_samples, data.n_classes))
        return replace(data, X=shape, parts=parts, square=float(data.n_samples))

    def start(self, data: Any, atoms: Floats, n_nonzero: int) -> tuple[Any, ...]:
        """Codes of the rows by matching pursuit."""
        shared = self.engine.share(atoms)
        return tuple(self._run(_start, part, shared, n_nonzero) for part in data.parts)

    def sweep(
        self, key: Key, number: int, data: Any, codes: Any, parameters: Parameters, scan: Scan
    ) -> tuple[tuple[Any, ...], UsageSums]:
        """Draw every row's usage and strengths (eqs. 9 and 10)."""
        shared = self.engine.share(parameters)
        swept = tuple(
            self._run(_sweep, part, own, shared, key, number, scan)
            for part, own in zip(data.parts, codes, strict=True)
        )
        return swept, self._total(data, lambda i: self.engine.run(_sums, swept[i]))

    def usage(self, data: Any, codes: Any, parameters: Parameters) -> UsageSums:
        """Sums of given codes."""
        shared = self.engine.share(parameters)
        return self._total(data, lambda i: self._run(_usage, data.parts[i], codes[i], shared))

    def gather(
        self, data: Any, codes: Any, n_atoms: int, class_weight: NDArray[np.float64]
    ) -> AtomSums:
        """Sums for the draw of the atoms."""
        return self._total(
            data, lambda i: self._run(_gather, data.parts[i], codes[i], n_atoms, class_weight)
        )

    def keep(self, codes: Any, kept: NDArray[np.intp], n_atoms: int) -> tuple[Any, ...]:
        """Codes over the atoms in ``kept`` alone."""
        return tuple(self.engine.run(Codes.keep, part, kept, n_atoms) for part in codes)

    def draw_atoms(
        self,
        key: Key,
        number: int,
        posterior: AtomPosterior,
        atoms: Floats,
        births: NDArray[np.int64],
    ) -> Floats:
        """Draw the atoms, here."""
        return NumbaBackend(self.n_threads).draw_atoms(key, number, posterior, atoms, births)

    def codes_to_host(self, codes: Any) -> Codes:
        """Bring the codes of all rows here."""
        parts: list[Codes] = [self.engine.fetch(part) for part in codes]
        counts = np.concatenate([np.diff(part.row_start) for part in parts])
        return Codes(
            np.concatenate([[0], np.cumsum(counts)]),
            np.concatenate([part.atom for part in parts]),
            np.concatenate([part.strength for part in parts]),
        )

    def codes_from_host(self, data: Any, codes: Codes, n_atoms: int) -> tuple[Any, ...]:
        """Give each part its codes."""
        handles = []
        for node in data.nodes:
            rows = node.rows(self.block_rows, data.n_samples)
            start = codes.row_start[rows.start : rows.stop + 1]
            entries = slice(start[0], start[-1])
            part = Codes(start - start[0], codes.atom[entries], codes.strength[entries])
            handles.append(self.engine.share(part))
        return tuple(handles)

    def lane(self, alone: bool = False) -> AbstractContextManager[Any]:
        """Give the calls inside a lane where the parts are, if that is here."""
        return self.inner.lane(alone) if isinstance(self.engine, InTurn) else nullcontext()

    def _run(self, function: Callable[..., Any], part: Any, *arguments: Any) -> Any:
        return self.engine.run(function, self.inner, part, *arguments)

    def _total(self, data: Any, sums: Callable[[int], Any]) -> Any:
        return self.engine.fetch(self._tree(data.nodes, sums))

    def _tree(self, nodes: Sequence[Node], sums: Callable[[int], Any]) -> Any:
        """Add the sums of the parts, made in their order, along the tree."""
        number = {node: i for i, node in enumerate(nodes)}

        def below(node: Node) -> Any:
            if node in number:
                return sums(number[node])
            left, right = node.halves()
            left_sum = below(left)
            return self.engine.run(operator.add, left_sum, below(right))

        return below(Node(nodes[0].first, nodes[-1].last))


# ------------------------------------------------------------- what is done where the rows are


def open_part(inner: Backend, part: Part | Data) -> Data:
    """Read the rows of a part and put them where its backend wants them."""
    return inner.hold(part.open()) if isinstance(part, Part) else part


def _square(inner: Backend, part: Part | Data, block_rows: int) -> float:
    X = part.open().X if isinstance(part, Part) else inner.to_host(part.X)
    return sum_of_squares(X, block_rows)


def _rows(inner: Backend, part: Part | Data, numbers: NDArray[np.int64]) -> Floats:
    return inner.to_host(inner.rows(open_part(inner, part), numbers))


def _labels(inner: Backend, part: Part | Data) -> Part | Data:
    if isinstance(part, Part):
        return PartOfLabels(**vars(part))
    return inner.labels(part)


def _start(inner: Backend, part: Part | Data, atoms: Floats, n_nonzero: int) -> Codes:
    there = inner.put(_writable(atoms))
    return inner.codes_to_host(inner.start(open_part(inner, part), there, n_nonzero))


def _sweep(
    inner: Backend,
    part: Part | Data,
    codes: Codes,
    parameters: Parameters,
    key: Key,
    number: int,
    scan: Scan,
) -> SweptCodes:
    data, own, now = _there(inner, part, codes, parameters)
    swept, sums = inner.sweep(key, number, data, own, now, scan)
    return SweptCodes(**vars(inner.codes_to_host(swept)), sums=_plain(sums))


def _sums(codes: SweptCodes) -> UsageSums:
    return codes.sums


def _usage(inner: Backend, part: Part | Data, codes: Codes, parameters: Parameters) -> UsageSums:
    return _plain(inner.usage(*_there(inner, part, codes, parameters)))


def _gather(
    inner: Backend,
    part: Part | Data,
    codes: Codes,
    n_atoms: int,
    class_weight: NDArray[np.float64],
) -> AtomSums:
    data = open_part(inner, part)
    own = inner.codes_from_host(data, _all_writable(codes), n_atoms)
    sums = inner.gather(data, own, n_atoms, _writable(class_weight))
    return AtomSums(inner.to_host(sums.gram), inner.to_host(sums.cross))


def _there(
    inner: Backend, part: Part | Data, codes: Codes, parameters: Parameters
) -> tuple[Data, Any, Parameters]:
    """Put everything where the part's backend wants it."""
    data = open_part(inner, part)
    now = parameters_from_host(_all_writable(parameters), inner)
    return data, inner.codes_from_host(data, _all_writable(codes), now.n_atoms), now


def _writable(array: NDArray[Any]) -> NDArray[Any]:
    """Return an aligned array that may be written to, a copy if need be.

    Arrays that have travelled need not be; compiled code would be compiled anew for them, and need
    not round in the same way.
    """
    return np.require(array, requirements=["A", "W"])


def _all_writable(record: Any) -> Any:
    """Return a record (`Codes`, `Parameters`) of arrays that may be written to."""
    arrays = {name: array for name, array in vars(record).items() if isinstance(array, np.ndarray)}
    return replace(record, **{name: _writable(array) for name, array in arrays.items()})


def _plain(sums: UsageSums) -> UsageSums:
    """Leave out what a device keeps for itself."""
    return UsageSums(sums.count, sums.energy, sums.strength_square, sums.residual_square)
