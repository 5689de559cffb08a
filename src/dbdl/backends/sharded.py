"""Rows in parts: the verbs of a backend for rows that are read in turn or stay on a cluster.

Rows enter a step only through sums, and all backends add these up along one tree over blocks of
rows. A part has the rows below one node of that tree, so the total has the same bits for any number
of parts.

The work on a part is a pure function of the part, its codes and the parameters. An engine decides
where it runs: here, one part at a time, or as tasks on a cluster (`dbdl.backends.dask_cluster`).
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
    label_rows,
    number_rows,
    parameters_from_host,
    sum_of_squares,
)
from dbdl.backends.host import HostBackend
from dbdl.backends.numba_cpu import NumbaBackend
from dbdl.draws import Key
from dbdl.model.codes import Scan
from dbdl.model.state import Classes, Codes, Doubles, Floats, Parameters
from dbdl.model.statistics import AtomSums, UsageSums, Weights, left_half, some_weights

#: Most bytes of rows in a part when parts are read in turn; a part has at least one block.
PART_BYTES = 1 << 26


class Rows(Protocol):
    """Rows (n_samples, n_features) in float32 or float64, read by a slice or by indices."""

    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    def __getitem__(self, rows: Any) -> Floats: ...


class Node(NamedTuple):
    """A node of the tree over blocks, with the blocks first..last (excluded) below it."""

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
    """Cut the tree into ``wanted`` nodes (fewer if there are fewer blocks), largest first."""
    nodes = [Node(0, n_blocks)]
    while len(nodes) < min(wanted, n_blocks):
        largest = max(range(len(nodes)), key=lambda i: nodes[i].last - nodes[i].first)
        nodes[largest : largest + 1] = nodes[largest].halves()
    return nodes


def cut_while(n_blocks: int, too_large: Callable[[Node], bool]) -> list[Node]:
    """Cut the tree into the fewest nodes that are not too large."""

    def below(node: Node) -> list[Node]:
        if not too_large(node):
            return [node]
        return [part for half in node.halves() for part in below(half)]

    return below(Node(0, n_blocks))


@dataclass(frozen=True)
class Part:
    """Rows below a node of the tree, not read yet."""

    source: Rows
    rows: slice  # of the source
    class_of_row: Classes  # of these rows
    n_classes: int
    sample_weight: Weights = None  # of these rows

    def open(self, backend: Backend) -> Data:
        """Read the rows and move them to where a backend needs them."""
        return backend.hold(self.filled(self.source[self.rows]))

    def filled(self, X: Floats) -> Data:
        """Return data with these rows; only the head knows the counts over all rows."""
        X = _writable(np.ascontiguousarray(X))
        unknown = np.zeros(self.n_classes, dtype=np.int64)
        class_of_row, weight = _writable(self.class_of_row), self.sample_weight
        return Data(X, class_of_row, unknown, unknown, np.nan, self.rows.start, weight)


@dataclass(frozen=True)
class PartOfLabels(Part):
    """Labels in place of rows; the empty source only gives their dtype."""

    def open(self, backend: Backend) -> Data:
        """Make the labels and move them to where a backend needs them."""
        return backend.hold(label_rows(self.filled(self.source[:])))


@dataclass(frozen=True)
class SweptCodes(Codes):
    """Codes with their sums, as one value, so that the codes stay where they were drawn."""

    sums: UsageSums


class Engine(Protocol):
    """Runs functions on parts. A handle stands for a value that may be elsewhere."""

    @property
    def is_here(self) -> bool:
        """Whether the work is done in this process."""

    def n_lanes(self, inner: Backend) -> int:
        """Number of chains that are learned at the same time."""

    def arrange(self, rows: Any) -> Any:
        """Return rows divided as they will be read."""

    def nodes(self, source: Rows, block_rows: int) -> list[Node]:
        """Return the nodes by which rows are cut into parts."""

    def hold(self, inner: Backend, part: Part) -> Any:
        """Return a handle of a part, whose rows may be read where they will stay."""

    def share(self, value: Any) -> Any:
        """Return a handle of a value that all parts need."""

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return a handle of a function's value; arguments may be handles."""

    def fetch(self, handle: Any) -> Any:
        """Return the value of a handle."""


@dataclass(frozen=True)
class InTurn:
    """One part at a time, with its rows read every time: memory does not grow with the rows.

    The codes stay in memory, and their non-zeros do grow with the rows.
    """

    is_here = True

    part_bytes: int = PART_BYTES

    def n_lanes(self, inner: Backend) -> int:
        return inner.n_lanes

    def arrange(self, rows: Any) -> Any:
        return rows  # these rows can be cut anywhere

    def nodes(self, source: Rows, block_rows: int) -> list[Node]:
        """Cut into parts of at most ``part_bytes``, but at least one block."""
        n_rows, n_features = source.shape
        most = max(self.part_bytes // (n_features * source.dtype.itemsize * block_rows), 1)
        n_blocks = len(block_slices(n_rows, block_rows))
        return cut_while(n_blocks, lambda node: node.last - node.first > most)

    def hold(self, inner: Backend, part: Part) -> Part:
        return part

    def share(self, value: Any) -> Any:
        return value

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    def fetch(self, handle: Any) -> Any:
        return handle


@dataclass(frozen=True)
class ShardedData(Data):
    """Handles of the parts of the rows, in order; ``X`` is their source."""

    nodes: tuple[Node, ...] = ()
    parts: tuple[Any, ...] = ()
    slices: tuple[slice, ...] = ()


@dataclass(frozen=True)
class ShardedBackend(HostBackend):
    """A backend for rows in parts; the verbs over atoms run here, at the head.

    ``inner`` sweeps and sums the rows of a part, wherever ``engine`` runs it.
    """

    inner: Backend = field(default_factory=NumbaBackend)
    engine: Engine = field(default_factory=InTurn)

    @property
    def n_lanes(self) -> int:
        return self.engine.n_lanes(self.inner)

    def lane(self, alone: bool = False) -> AbstractContextManager[Any]:
        return self.inner.lane(alone) if self.engine.is_here else nullcontext()

    def place(self, X: Rows, class_of_row: Classes, sample_weight: Weights = None) -> ShardedData:
        X = self.engine.arrange(X)
        data = number_rows(X, class_of_row, sample_weight)
        nodes = self.engine.nodes(X, self.block_rows)
        slices = [node.rows(self.block_rows, X.shape[0]) for node in nodes]
        unread = (Part(X, rows, *_labels_of(data, rows)) for rows in slices)
        parts = tuple(self.engine.hold(self.inner, part) for part in unread)
        squares = [self._run(_square, part, self.block_rows) for part in parts]
        square = self._total(nodes, squares.__getitem__)
        if square == 0:
            raise ValueError(ALL_ZERO)
        known = vars(data) | {"square": square}
        return ShardedData(**known, nodes=tuple(nodes), parts=parts, slices=tuple(slices))

    def rows(self, data: Any, indices: NDArray[np.int64]) -> Floats:
        chosen = []
        for rows, part in zip(data.slices, data.parts, strict=True):
            own = indices[(indices >= rows.start) & (indices < rows.stop)]
            if len(own):
                chosen.append(self._run(_rows, part, own - rows.start))
        return np.concatenate([self.engine.fetch(rows) for rows in chosen])

    def labels(self, data: Any) -> ShardedData:
        dtype = data.X.dtype
        shape: Any = np.broadcast_to(dtype.type(0), (data.n_samples, data.n_classes))
        empty = np.empty((0, 0), dtype)
        parts = (PartOfLabels(empty, rows, *_labels_of(data, rows)) for rows in data.slices)
        handles = tuple(map(self.engine.share, parts))
        return replace(data, X=shape, parts=handles, square=float(data.n_samples))

    def start(self, data: Any, atoms: Floats, n_nonzero: int) -> tuple[Any, ...]:
        shared = self.engine.share(atoms)
        return tuple(self._run(_start, part, shared, n_nonzero) for part in data.parts)

    def sweep(
        self, key: Key, number: int, data: Any, codes: Any, parameters: Parameters, scan: Scan
    ) -> tuple[tuple[Any, ...], UsageSums]:
        shared = self.engine.share(parameters)
        swept = tuple(
            self._run(_sweep, part, own, shared, (key, number), scan)
            for part, own in zip(data.parts, codes, strict=True)
        )
        sums = operator.attrgetter("sums")
        return swept, self._total(data.nodes, lambda i: self.engine.run(sums, swept[i]))

    def usage(self, data: Any, codes: Any, parameters: Parameters) -> UsageSums:
        shared = self.engine.share(parameters)
        return self._total(data.nodes, lambda i: self._run(_usage, data.parts[i], codes[i], shared))

    def gather(self, data: Any, codes: Any, n_atoms: int, precision_of_class: Doubles) -> AtomSums:
        def sums(i: int) -> Any:
            return self._run(_gather, data.parts[i], codes[i], n_atoms, precision_of_class)

        return self._total(data.nodes, sums)

    def keep(self, codes: Any, kept: NDArray[np.intp], n_atoms: int) -> tuple[Any, ...]:
        return tuple(self.engine.run(Codes.keep, part, kept, n_atoms) for part in codes)

    def codes_to_host(self, codes: Any) -> Codes:
        return Codes.stacked([self.engine.fetch(part) for part in codes])

    def codes_from_host(self, data: Any, codes: Codes, n_atoms: int) -> tuple[Any, ...]:
        return tuple(self.engine.share(codes.of_rows(rows)) for rows in data.slices)

    def _run(self, function: Callable[..., Any], part: Any, *arguments: Any) -> Any:
        return self.engine.run(function, self.inner, part, *arguments)

    def _total(self, nodes: Sequence[Node], sums: Callable[[int], Any]) -> Any:
        """Add the sums of the parts along the tree; they are computed in order."""
        index = {node: i for i, node in enumerate(nodes)}

        def below(node: Node) -> Any:
            if node in index:
                return sums(index[node])
            left, right = node.halves()
            left_sum = below(left)
            return self.engine.run(operator.add, left_sum, below(right))

        return self.engine.fetch(below(Node(nodes[0].first, nodes[-1].last)))


def _labels_of(data: Data, rows: slice) -> tuple[Classes, int, Weights]:
    """Class indices of some rows, the number of classes, and the rows' weights."""
    return data.class_of_row[rows], data.n_classes, some_weights(data.sample_weight, rows)


# ----------------------------------------------------------------- work done where the rows are


def _square(inner: Backend, part: Part | Data, block_rows: int) -> float:
    return sum_of_squares(inner.to_host(part.open(inner).X), block_rows)


def _rows(inner: Backend, part: Part | Data, indices: NDArray[np.int64]) -> Floats:
    return inner.to_host(inner.rows(part.open(inner), indices))


def _start(inner: Backend, part: Part | Data, atoms: Floats, n_nonzero: int) -> Codes:
    there = inner.put(_writable(atoms))
    return inner.codes_to_host(inner.start(part.open(inner), there, n_nonzero))


def _sweep(
    inner: Backend,
    part: Part | Data,
    codes: Codes,
    parameters: Parameters,
    address: tuple[Key, int],
    scan: Scan,
) -> SweptCodes:
    data, own, now = _there(inner, part, codes, parameters)
    swept, sums = inner.sweep(*address, data, own, now, scan)
    return SweptCodes(**vars(inner.codes_to_host(swept)), sums=_plain(sums))


def _usage(inner: Backend, part: Part | Data, codes: Codes, parameters: Parameters) -> UsageSums:
    return _plain(inner.usage(*_there(inner, part, codes, parameters)))


def _gather(
    inner: Backend, part: Part | Data, codes: Codes, n_atoms: int, precision_of_class: Doubles
) -> AtomSums:
    data = part.open(inner)
    own = inner.codes_from_host(data, _all_writable(codes), n_atoms)
    sums = inner.gather(data, own, n_atoms, _writable(precision_of_class))
    return AtomSums(inner.to_host(sums.gram), inner.to_host(sums.cross))


def _there(
    inner: Backend, part: Part | Data, codes: Codes, parameters: Parameters
) -> tuple[Data, Any, Parameters]:
    """Move everything to where the part's backend needs it."""
    data, now = part.open(inner), parameters_from_host(_all_writable(parameters), inner)
    return data, inner.codes_from_host(data, _all_writable(codes), now.n_atoms), now


def _writable(array: NDArray[Any]) -> NDArray[Any]:
    """Return an aligned, writable array, a copy if necessary.

    Arrays that were sent between processes may be neither. Kernels would be compiled again for them
    and might round differently.
    """
    return np.require(array, requirements=["A", "W"])


def _all_writable(record: Any) -> Any:
    """Return a record (`Codes`, `Parameters`) with writable arrays."""
    arrays = {name: array for name, array in vars(record).items() if isinstance(array, np.ndarray)}
    return replace(record, **{name: _writable(array) for name, array in arrays.items()})


def _plain(sums: UsageSums) -> UsageSums:
    """Return the sums without the arrays that stay on a device."""
    return UsageSums(sums.count, sums.energy, sums.strength_square, sums.residual_square)
