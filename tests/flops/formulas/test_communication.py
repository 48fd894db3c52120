"""Collectives, on one process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

from tests.flops.formulas.single_op import count_op
from weftrace.costs.cost import Cost, Kind


@pytest.fixture
def four_ranks() -> Iterator[None]:
    """A process group of four whose collectives do nothing."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    try:
        yield
    finally:
        dist.destroy_process_group()


def _cost(code: object) -> Cost:
    assert callable(code)
    found = [op.cost for op in count_op(code).ops if op.cost.kind is Kind.COMM]
    assert len(found) == 1
    return found[0]


@pytest.mark.usefixtures("four_ranks")
def test_bytes_of_collectives() -> None:
    x, all_of_it = torch.ones(6), torch.ones(24)
    cost = _cost(lambda: dist.all_reduce(x))
    assert (cost.read_bytes, cost.written_bytes, cost.vector_flops) == (24, 24, 0)
    cost = _cost(lambda: dist.all_gather_into_tensor(all_of_it, x))
    assert (cost.read_bytes, cost.written_bytes) == (24, 96)
    cost = _cost(lambda: dist.reduce_scatter_tensor(x, all_of_it))
    assert (cost.read_bytes, cost.written_bytes) == (96, 24)
    cost = _cost(lambda: dist.all_gather([torch.ones(6) for _ in range(4)], x))
    assert (cost.read_bytes, cost.written_bytes) == (24, 96)
    cost = _cost(lambda: dist.all_to_all_single(torch.ones(24), all_of_it))
    assert (cost.read_bytes, cost.written_bytes) == (96, 96)


@pytest.mark.usefixtures("four_ranks")
def test_functional_collectives_and_their_wait() -> None:
    from torch.distributed import _functional_collectives as functional

    x = torch.ones(6)
    counted = count_op(lambda: functional.all_gather_tensor(x, 0, list(range(4))) + 1)
    cost = counted.op("all_gather_into_tensor").cost
    assert (cost.read_bytes, cost.written_bytes, cost.kind) == (24, 96, Kind.COMM)
    assert counted.unknown() == [] and not any("wait_tensor" in op.name for op in counted.ops)
