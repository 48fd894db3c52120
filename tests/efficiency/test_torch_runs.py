"""Runs of torch, recorded with shapes: what a checkpoint runs again, and attention that torch takes apart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from weftrace.analysis.efficiency import Efficiency, efficiency_of
from weftrace.costs.cost import Status
from weftrace.trace import read_chrome

torch = pytest.importorskip("torch")


def recorded(run: Callable[[], object], folder: Path) -> Efficiency:
    with torch.profiler.profile(record_shapes=True) as profiler:
        run()
    profiler.export_chrome_trace(str(folder / "run.json"))
    return efficiency_of(read_chrome(folder / "run.json"))


@pytest.mark.parametrize("reentrant", [False, True])
def test_what_a_checkpoint_runs_again_is_executed_and_not_needed(reentrant: bool, tmp_path: Path) -> None:
    from torch.utils.checkpoint import checkpoint

    inner, head = torch.nn.Linear(64, 64), torch.nn.Linear(64, 8)
    x = torch.randn(32, 64, requires_grad=True)
    found = recorded(lambda: head(checkpoint(inner, x, use_reentrant=reentrant)).sum().backward(), tmp_path)
    one, last = 2 * 32 * 64 * 64, 2 * 32 * 64 * 8
    assert found.recomputed_flops == one
    assert (found.flops, found.executed_flops) == (3 * one + 3 * last, 4 * one + 3 * last)


def test_products_of_masked_attention_are_at_most(tmp_path: Path) -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention as attention

    q = torch.randn(1, 2, 16, 8)
    mask = torch.ones(16, 16, dtype=torch.bool).tril()

    def run() -> None:
        with sdpa_kernel(SDPBackend.MATH):
            attention(q, q, q)
            attention(q, q, q, attn_mask=mask)
            attention(q, q, q, is_causal=True)

    products = (
        recorded(run, tmp_path).shapes.filter(pl.col("flops") > 0).group_by("status").agg(pl.col("num_calls").sum())
    )
    assert dict(products.iter_rows()) == {Status.EXACT: 2, Status.UPPER_BOUND: 4}
