"""Calls of one operator on the same shapes that cost differently are told apart within one program."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import nn

from weftrace.flops import FlopsReport, count


def costs(report: FlopsReport) -> Counter[tuple[object, ...]]:
    """How often each (operator, phase, cost) was counted."""
    found: Counter[tuple[object, ...]] = Counter()
    for row in report.ops:
        found[row.op, row.phase, row.cost] += row.calls
    return found


def norm(*, trained: bool) -> nn.Module:
    return nn.LayerNorm(8).requires_grad_(trained)


def batch_norm(*, trained: bool) -> nn.Module:
    return nn.BatchNorm1d(8).train(trained)


@pytest.mark.parametrize("make", [norm, batch_norm])
def test_what_is_trained_and_what_is_not(make: type) -> None:
    x = torch.randn(4, 8, requires_grad=True)
    apart = costs(count(make(trained=True), x, backward=True)) + costs(count(make(trained=False), x, backward=True))
    names = {name for name, _, _ in apart if "norm" in str(name)}

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other = make(trained=True), make(trained=False)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.one(x), self.other(x)

    together = costs(count(Both(), x, backward=True))
    assert names
    assert {k: v for k, v in together.items() if k[0] in names} == {k: v for k, v in apart.items() if k[0] in names}
    assert any(len([key for key in apart if key[0] == name]) > 1 for name in names)  # they do cost differently
