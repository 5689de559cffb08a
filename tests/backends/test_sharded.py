"""Rows in parts give the same bits as rows in one place."""

from itertools import pairwise

import numpy as np
import pytest
from chain_problem import BLOCK_ROWS, KEY, SETTINGS, assert_same_bits, everything, rows_and_classes

from dbdl.backends import NumbaBackend
from dbdl.backends.sharded import InTurn, Node, ShardedBackend, cut, cut_while
from dbdl.learn.chain import learn_chain
from dbdl.learn.labels import gibbs_label_atoms
from dbdl.model.statistics import tree_sum

pytestmark = pytest.mark.bits


class Cut(InTurn):
    """Parts of given nodes."""

    def __init__(self, nodes):
        super().__init__()
        object.__setattr__(self, "given", nodes)

    def nodes(self, source, block_rows):
        return self.given


def sharded(n_threads=1, **engine):
    inner = NumbaBackend(n_threads, BLOCK_ROWS)
    return ShardedBackend(block_rows=BLOCK_ROWS, inner=inner, **engine)


@pytest.mark.parametrize("n_parts", [1, 2, 3, 7])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_number_of_parts_gives_the_same_bits(n_parts, dtype):
    X, class_of_row = rows_and_classes(dtype=dtype)
    nodes = cut(16, n_parts)
    assert len(nodes) == n_parts
    found = everything(sharded(2, engine=Cut(nodes)), X, class_of_row)
    assert_same_bits(found, everything(NumbaBackend(block_rows=BLOCK_ROWS), X, class_of_row))


def test_another_size_of_blocks_rounds_differently_so_that_the_parts_above_mean_something():
    X, class_of_row = rows_and_classes(dtype=np.float64)
    small = everything(NumbaBackend(block_rows=BLOCK_ROWS), X, class_of_row)
    large = everything(NumbaBackend(), X, class_of_row)
    assert (small["atoms"] != large["atoms"]).any()


def test_label_atoms_by_gibbs_have_the_same_bits():
    X, class_of_row = rows_and_classes()
    found = []
    for backend in (NumbaBackend(block_rows=BLOCK_ROWS), sharded(engine=Cut(cut(16, 3)))):
        learned = learn_chain(KEY, X, class_of_row, SETTINGS, backend)
        found.append(gibbs_label_atoms(KEY, learned, SETTINGS, 0.1, backend))
    np.testing.assert_array_equal(*found)


def test_codes_of_the_host_go_to_their_parts_and_come_back():
    X, class_of_row = rows_and_classes()
    backend = sharded(engine=Cut(cut(16, 5)))
    data = backend.place(X, class_of_row)
    codes = backend.codes_to_host(backend.start(data, X[:60], 3))
    back = backend.codes_to_host(backend.codes_from_host(data, codes, 60))
    for name, array in vars(codes).items():
        np.testing.assert_array_equal(getattr(back, name), array, err_msg=name)


def test_parts_are_read_again_for_every_use_and_never_all_at_once():
    X, class_of_row = rows_and_classes()
    reads = []

    class Watched:
        shape, dtype = X.shape, X.dtype

        def __getitem__(self, rows):
            reads.append(rows)
            return X[rows]

    engine = InTurn(part_bytes=2 * BLOCK_ROWS * X.shape[1] * X.itemsize)
    found = everything(sharded(engine=engine), Watched(), class_of_row)
    assert_same_bits(found, everything(NumbaBackend(block_rows=BLOCK_ROWS), X, class_of_row))
    assert max(rows.stop - rows.start for rows in reads) == 2 * BLOCK_ROWS
    assert len(reads) > 8 * SETTINGS.n_sweeps


def test_rows_that_are_all_zero_are_refused():
    with pytest.raises(ValueError, match="every row of X is zero"):
        sharded().place(np.zeros((100, 3)), np.arange(100) % 2)


@pytest.mark.parametrize("n_blocks", [1, 2, 3, 5, 16, 61])
@pytest.mark.parametrize("wanted", [1, 2, 3, 7, 100])
def test_the_tree_is_cut_into_nodes_that_cover_it(n_blocks, wanted):
    nodes = cut(n_blocks, wanted)
    assert len(nodes) == min(wanted, n_blocks)
    assert nodes[0].first == 0
    assert nodes[-1].last == n_blocks
    assert all(a.last == b.first for a, b in pairwise(nodes))
    values = np.random.default_rng(0).standard_normal(n_blocks)
    sums = [
        tree_sum(lambda i, node=node: float(values[node.first + i]), node.last - node.first)
        for node in nodes
    ]
    whole = tree_sum(lambda i: float(values[i]), n_blocks)
    assert ShardedBackend()._total(nodes, sums.__getitem__) == whole


def test_the_tree_is_cut_while_nodes_are_too_large():
    def crosses(bound):
        return lambda node: node.first < bound < node.last

    assert cut_while(8, crosses(4)) == [Node(0, 4), Node(4, 8)]
    assert cut_while(8, crosses(3)) == [Node(0, 2), Node(2, 3), Node(3, 4), Node(4, 8)]
    assert cut_while(8, lambda node: False) == [Node(0, 8)]
