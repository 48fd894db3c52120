"""Lists executed on 1, 2 and 4 processes: what comes out is what comes out of one operation after another."""

from __future__ import annotations

import pytest

from tests.fuzz import few
from tests.living import Ranks
from weftrace.moe import known_overlaps, load_overlap
from weftrace.moe.requests import PHASES, ModelPhase

CASES = "tests.moe.runtime.cases:"
PLANS = [("training", "train"), ("two-micro-batches", "prefill"), ("five-stages", "decode")]


@pytest.mark.parametrize("size", few([1, 2, 4], 2))
@pytest.mark.parametrize(("overlap", "kind"), PLANS, ids=[kind for _, kind in PLANS])
def test_overlapped_is_bit_for_bit_one_after_another_and_experts_apart_as_in_one_process(
    ranks: Ranks, overlap: str, kind: ModelPhase, size: int
) -> None:
    """Outputs, gradients of inputs and of every weight, in float64; learned routing, so ranks send unequal rows."""
    for summary in ranks.run(CASES + "compared", size, overlap=overlap, kind=kind, models=["mla", "gqa"]):
        for of_model in summary:
            assert of_model["outputs"], of_model
            assert all(of_model["gradients"].values()), of_model
            assert bool(of_model["gradients"]) == (kind == "train")
            assert of_model["outputs by one process"] < 1e-12, of_model
            assert of_model["gradients by one process"] < 1e-12, of_model


@pytest.mark.parametrize("published", few([True, False], 1))
@pytest.mark.parametrize(("overlap", "kind"), PLANS, ids=[kind for _, kind in PLANS])
def test_a_rank_whose_experts_nobody_chooses_gets_no_rows_and_all_is_as_before(
    ranks: Ranks, overlap: str, kind: str, published: bool
) -> None:
    """All tokens go to experts 0 and 1, which rank 0 has; rank 1's gradients are zeros."""
    case = {"overlap": overlap, "kind": kind, "models": ["mla"], "only": 2, "published": published}
    for (summary,) in ranks.run(CASES + "compared", 2, **case):
        assert summary["outputs"] and all(summary["gradients"].values()), summary
        if not published:
            assert summary["outputs by one process"] < 1e-12 and summary["gradients by one process"] < 1e-12, summary


def other_lists() -> list[tuple[str, ModelPhase]]:
    """What else comes with weftrace and can be executed, for each kind that it is for."""
    found = [(name, kind) for kind in PHASES for name in known_overlaps(kind) if (name, kind) not in PLANS]
    return [(name, kind) for name, kind in found if not load_overlap(name, kind).is_fused]


@pytest.mark.parametrize(("overlap", "kind"), few(other_lists(), 5))
def test_every_other_list_gives_what_one_process_gives(ranks: Ranks, overlap: str, kind: ModelPhase) -> None:
    """Bit for bit, but where tokens go in chunks: then products have other shapes."""
    for (summary,) in ranks.run(CASES + "compared", 2, overlap=overlap, kind=kind, models=["mla"]):
        assert summary["outputs by one process"] < 1e-12, summary
        assert summary["gradients by one process"] < 1e-12, summary
        assert (summary["outputs"] and all(summary["gradients"].values())) or load_overlap(overlap, kind).num_chunks > 1


@pytest.mark.parametrize(("overlap", "kind"), PLANS, ids=[kind for _, kind in PLANS])
def test_rows_in_fp8_and_bf16_are_the_same_bits_too(ranks: Ranks, overlap: str, kind: str) -> None:
    for (summary,) in ranks.run(CASES + "compared", 2, overlap=overlap, kind=kind, models=["mla"], published=True):
        assert summary["outputs"] and all(summary["gradients"].values()), summary
