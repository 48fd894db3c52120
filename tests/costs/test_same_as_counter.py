"""A program costs the same, operator by operator, counted as it runs and read from its trace."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.costs.recorded_program import live_tallies, traced_costs, traced_tallies
from tests.costs.small_models import CASES
from weftrace.costs.cost import COUNTED, Status


@pytest.mark.parametrize("name", CASES)
def test_same_integers(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    case = CASES[name]()
    live, traced = live_tallies(case.model, case.step), traced_tallies(case.step, tmp_path)
    assert {op: tally for op, tally in traced.items() if op not in case.values} == {
        op: tally for op, tally in live.items() if op not in case.values
    }


@pytest.mark.parametrize(("name", "status"), [("bert with padding", Status.UPPER_BOUND), ("lstm", Status.ESTIMATE)])
def test_what_values_decide_says_so(name: str, status: Status, tmp_path: Path) -> None:
    """Under a mask a trace knows pairs at most; a workspace of which no size is recorded makes bytes at least."""
    torch.manual_seed(0)
    case = CASES[name]()
    live, traced = live_tallies(case.model, case.step), traced_tallies(case.step, tmp_path)
    at_most = status is Status.UPPER_BOUND
    for op in case.values:
        parts = [(getattr(traced[op], field), getattr(live[op], field)) for field in COUNTED]
        assert all(known >= true for known, true in parts) if at_most else all(known <= true for known, true in parts)
        assert traced[op] != live[op]
        assert (traced[op].executed_flops, traced[op].calls) == (live[op].executed_flops, live[op].calls)
    statuses = {cost.status for call, cost, _ in traced_costs(case.step, tmp_path) if call.name[6:] in case.values}
    assert statuses == {status}
