"""Formulas for operators that weftrace does not know: registered, by torch or by the user, or stated on the spot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import register_flop_formula

from tests.test_house import python
from weftrace.costs.registry import Call
from weftrace.errors import WeftraceError
from weftrace.flops import Cost, Kind, Status, add_cost, count, coverage, profile, register_formula
from weftrace.flops.runtime.formulas.operators import _BY_NAME, RULES


@pytest.fixture(autouse=True)
def _rules_stay() -> Iterator[None]:
    before, names = dict(RULES), dict(_BY_NAME)
    yield
    RULES.clear()
    RULES.update(before)
    _BY_NAME.clear()
    _BY_NAME.update(names)


@torch.library.custom_op("wefttest::thing", mutates_args=())
def thing(x: torch.Tensor, times: int) -> torch.Tensor:
    return x * times


@thing.register_fake
def _(x: torch.Tensor, times: int) -> torch.Tensor:
    return torch.empty_like(x)


class Thing(nn.Module):
    def forward(self, x: torch.Tensor, times: int = 3) -> torch.Tensor:
        return torch.ops.wefttest.thing(x, times)


def test_an_operator_without_a_formula_is_unknown_by_name_and_its_bytes_are_there() -> None:
    report = count(Thing(), torch.randn(4, 8))
    (row,) = report.ops
    assert row.cost.status is Status.UNKNOWN
    assert row.cost.moved_bytes == 2 * 4 * 8 * 4
    assert [op.op for op in coverage(report).unknown] == ["wefttest.thing.default"]


@pytest.mark.parametrize("target", ["wefttest::thing", "wefttest::thing.default", "packet", "overload"])
def test_registered_formula(target: str) -> None:
    found: dict[str, Any] = {"packet": torch.ops.wefttest.thing, "overload": torch.ops.wefttest.thing.default}
    op = found.get(target, target)

    @register_formula(op)  # type: ignore[untyped-decorator]
    def _(call: Call) -> int:
        return int(call.arg("x").numel() * call.arg("times"))

    with profile(Thing(), time=False) as run:
        run.model(torch.randn(4, 8))
        run.model(torch.randn(4, 8), 5)
    rows = [row for row in run.report().ops if row.op == "wefttest.thing.default"]
    assert [row.cost.flops for row in rows] == [96, 160]  # another argument is another signature


def test_formula_may_return_a_cost_and_may_look_at_values() -> None:
    @register_formula("wefttest::thing", by_value=True)  # type: ignore[untyped-decorator]
    def _(call: Call) -> Cost:
        return Cost(vector_flops=int((call.args[0] != 0).sum()), kind=Kind.VECTOR)

    with profile(Thing(), time=False) as run:
        run.model(torch.zeros(4, 8))
        run.model(torch.ones(4, 8))
    rows = [row for row in run.report().ops if row.op == "wefttest.thing.default"]
    assert sorted(row.cost.vector_flops for row in rows) == [0, 32]


def test_a_name_may_be_registered_before_its_operator_exists() -> None:
    register_formula("wefttest::later", lambda call: 7)

    @torch.library.custom_op("wefttest::later", mutates_args=())
    def later(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    class Later(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return later(x)

    assert next(row.cost.flops for row in count(Later(), torch.randn(3)).ops if "later" in row.op) == 7


def test_formulas_registered_with_torch_are_used() -> None:
    from torch.utils import flop_counter

    register_flop_formula(torch.ops.wefttest.thing)(lambda x, times, *, out_shape=None, **_: 11)
    try:
        (row,) = count(Thing(), torch.randn(4, 8)).ops
    finally:
        del flop_counter.flop_registry[torch.ops.wefttest.thing]
    assert (row.cost.flops, row.cost.note) == (11, "formula registered with torch")


def test_a_failing_formula_does_not_stop_the_program() -> None:
    register_formula("wefttest::thing", lambda call: 1 // 0)
    report = count(Thing(), torch.randn(4, 8))
    assert report.ops[0].cost.status is Status.UNKNOWN
    assert any(
        "the formula of wefttest.thing.default failed" in note and "ZeroDivision" in note for note in report.notes
    )


def test_cost_stated_on_the_spot() -> None:
    class Launches(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            add_cost("my_kernel", 2 * x.numel())
            return x + 1

    report = count(nn.Sequential(Launches()), torch.randn(4, 8))
    row = next(row for row in report.ops if row.op == "my_kernel")
    assert (report.modules[row.module].path, row.cost.flops, row.cost.status) == ("0", 64, Status.ESTIMATE)
    add_cost("nobody listens", 1)


def test_what_is_no_operator_is_refused() -> None:
    with pytest.raises(WeftraceError, match="not an operator's name"):
        register_formula("thing", lambda call: 1)
    with pytest.raises(WeftraceError, match="not a torch operator"):
        register_formula(torch.relu, lambda call: 1)  # type: ignore[arg-type]


def test_formulas_stand_whenever_they_or_their_operators_are_registered() -> None:
    """A user's, before weftrace's own are loaded; and weftrace's, where torch defines the operator later:
    `torch.distributed` defines some when DTensor is imported."""
    python("""
from weftrace.flops import register_formula
register_formula("aten::mm", lambda call: 7)  # before anything has run, and so before weftrace's own are loaded
from weftrace.flops.runtime.formulas.operators import operator, rule_of
name = "_c10d_functional::_wrap_tensor_autograd"
assert operator(name) is None, "torch has it without DTensor: take another operator for this test"
import torch.distributed.tensor
assert rule_of(operator(name)) is not None
from weftrace.flops import count
class Product(torch.nn.Module):
    def forward(self, x):
        return x @ x
assert [row.cost.flops for row in count(Product(), torch.ones(3, 3)).ops] == [7]
""")
