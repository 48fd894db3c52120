"""Bytes of what moves: views nothing, copies both ways, factories and random numbers one way."""

from __future__ import annotations

import torch

from tests.flops.formulas.single_op import count_op
from weftrace.costs.cost import Cost, Kind


def _only(code: object, name: str) -> Cost:
    assert callable(code)
    return count_op(code).op(name).cost


def test_copies_read_and_write() -> None:
    x = torch.ones(3, 5)
    cost = _only(lambda: x.clone(), "clone")
    assert (cost.read_bytes, cost.written_bytes, cost.vector_flops, cost.kind) == (60, 60, 0, Kind.MOVE)
    cost = _only(lambda: x.bfloat16(), "_to_copy")
    assert (cost.read_bytes, cost.written_bytes) == (60, 30)
    cost = _only(lambda: torch.cat([x, x]), "cat")
    assert (cost.read_bytes, cost.written_bytes) == (120, 120)
    cost = _only(lambda: torch.cat([x, x], out=torch.empty(6, 5)), "cat")
    assert (cost.read_bytes, cost.written_bytes) == (120, 120)  # the tensor it writes into is not read


def test_copy_into_does_not_read_what_stood_there() -> None:
    target, source = torch.ones(3, 5), torch.ones(5)
    cost = _only(lambda: target.copy_(source), "copy_")
    assert (cost.read_bytes, cost.written_bytes) == (20, 60)
    cost = _only(lambda: torch._foreach_copy_([target], [target.clone().half()]), "foreach_copy_")
    assert (cost.read_bytes, cost.written_bytes) == (30, 60)


def test_factories_only_write() -> None:
    x = torch.ones(3, 5)
    for code, name in (
        (lambda: torch.zeros(3, 5), "zeros"),
        (lambda: torch.zeros_like(x), "zeros_like"),
        (lambda: x.fill_(2.0), "fill_"),
        (lambda: torch.rand(3, 5), "rand"),
        (lambda: x.normal_(), "normal_"),
    ):
        cost = _only(code, name)
        assert (cost.read_bytes, cost.written_bytes, cost.kind) == (0, 60, Kind.MOVE), name


def test_memory_that_is_set_aside_is_free() -> None:
    x = torch.ones(3, 5)
    counted = count_op(lambda: (torch.empty(3, 5), torch.empty_like(x), x.new_empty(2), x[0], x.sum().item()))
    assert {op.name for op in counted.ops if op.cost.kind is not Kind.FREE} == {"aten.sum.default"}
