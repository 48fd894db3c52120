"""Lookups read the rows that they pick, not the table."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tests.flops.formulas.single_op import count_op
from weftrace.costs.cost import Kind, Phase, Status


def test_embedding_reads_rows() -> None:
    """4 rows of 8 from a table of 1000: 128 bytes and the indices; back: a table of zeros, and 32 additions."""
    table = torch.randn(1000, 8, requires_grad=True)
    counted = count_op(lambda: F.embedding(torch.arange(4), table).sum().backward())
    cost = counted.op("embedding.default").cost
    assert (cost.read_bytes, cost.written_bytes, cost.vector_flops, cost.kind) == (4 * 8 + 128, 128, 0, Kind.MOVE)
    back = counted.op("embedding_dense_backward", Phase.BACKWARD).cost
    assert back.vector_flops == 32 and back.written_bytes == 1000 * 8 * 4


def test_indexing_and_gather_read_rows() -> None:
    table, rows = torch.randn(1000, 8), torch.tensor([5, 7])
    assert count_op(lambda: table[rows]).op("index").cost.read_bytes == 16 + 64
    assert count_op(lambda: table.index_select(0, rows)).op("index_select").cost.read_bytes == 16 + 64
    assert count_op(lambda: table.gather(0, rows.view(2, 1))).op("gather").cost.read_bytes == 16 + 8


def test_bags_add_their_rows() -> None:
    table = torch.randn(1000, 8, requires_grad=True)
    offsets = torch.tensor([0, 3])
    counted = count_op(lambda: F.embedding_bag(torch.arange(5), table, offsets, mode="sum").sum().backward())
    assert counted.op("_embedding_bag.default").cost.vector_flops == 5 * 8
    counted = count_op(lambda: F.embedding_bag(torch.arange(5), table.detach(), offsets, mode="mean"))
    assert counted.op("_embedding_bag").cost.vector_flops == 5 * 8 + 2 * 8


def test_writes_by_index() -> None:
    target, rows, source = torch.zeros(1000, 8), torch.tensor([5, 7]), torch.ones(2, 8)
    cost = count_op(lambda: target.index_add_(0, rows, source)).op("index_add_").cost
    assert (cost.vector_flops, cost.read_bytes, cost.written_bytes) == (16, 16 + 64 + 64, 64)
    cost = count_op(lambda: target.index_put_((rows,), source)).op("index_put_").cost
    assert (cost.vector_flops, cost.read_bytes, cost.written_bytes) == (0, 16 + 64, 64)
    cost = count_op(lambda: target.index_put_((rows,), source, accumulate=True)).op("index_put_").cost
    assert (cost.vector_flops, cost.read_bytes) == (16, 16 + 64 + 64)
    cost = count_op(lambda: target.index_copy(0, rows, source)).op("index_copy").cost
    assert cost.written_bytes == 1000 * 8 * 4  # not in place: the whole is copied
    columns = torch.zeros(2, 3, dtype=torch.int64)
    assert count_op(lambda: target.scatter_add_(1, columns, torch.ones(2, 3))).vector_flops() == 6
    assert count_op(lambda: target.scatter_(1, columns, 1.0)).vector_flops() == 0
    one = torch.ones(8)  # broadcast over two rows
    cost = count_op(lambda: target.index_put_((rows,), one, accumulate=True)).op("index_put_").cost
    assert (cost.vector_flops, cost.written_bytes) == (16, 64)
    cost = count_op(lambda: target.index_fill_(0, rows, 3.0)).op("index_fill_").cost
    assert (cost.read_bytes, cost.written_bytes) == (16, 64)
    mask = torch.zeros(1000, dtype=torch.bool)
    cost = count_op(lambda: torch.zeros(1000).index_put_((mask,), torch.tensor(1.0))).op("index_put_").cost
    assert (cost.written_bytes, cost.status) == (4000, Status.UPPER_BOUND) and cost.note
