"""From which batch on a list pays is what simulating every batch by itself says."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import pytest
from rich.console import Console

from weftrace.errors import ProfileError
from weftrace.files.values import from_document, to_document
from weftrace.moe import Operation, Piece, Setting
from weftrace.moe.costs import levels
from weftrace.moe.derived.tokens_per_second import throughput
from weftrace.moe.outputs import PAYS
from weftrace.moe.requested import profile_of
from weftrace.moe.requests import Request
from weftrace.moe.sweeps.break_even import Pays, pays, pays_table

US = 1_000


@pytest.fixture
def costs(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[str, float], float]], None]:
    """Prices by a pencil: microseconds of a work for so many tokens, instead of the published ones."""

    def use(cost_us: Callable[[str, float], float]) -> None:
        def pieces(operation: Operation, setting: Setting, load: object, level: object) -> tuple[Piece, ...]:
            us = cost_us(operation.work, setting.tokens / operation.num_chunks)
            kind = "communication" if operation.moves_tokens else "compute"
            return (Piece(name=operation.name, kind=kind, duration_ns=us * US, basis="a test"),)  # type: ignore[arg-type]

        monkeypatch.setattr(levels, "_pieces", pieces)

    return use


def test_two_micro_batches_pay_where_what_they_hide_outweighs_what_they_compute_twice(
    costs: Callable[[Callable[[str, float], float]], None],
) -> None:
    """Of T tokens: mlp 100 + T us, dispatch and combine T / 2 each, attn T, shared 0; two tokens a request.

    No overlap of a batch B (T = 2 B): 100 + 6 B, and one gap of 2 us, after attn. Two of T = B each, all hidden:
    2 (100 + B + B), and a gap after each of six kernels: 212 + 4 B < 102 + 6 B from B = 56 on, 55 being equal.
    """
    costs(
        lambda work, tokens: {
            "attn": tokens, "shared": 0.0, "mlp": 100 + tokens, "dispatch": tokens / 2, "combine": tokens / 2,
        }[work]
    )  # fmt: skip
    found = pays(Request(kind="decode"), range(8, 129), overlaps=["dual-batch"])
    (curve,) = found.curves[1:]
    assert curve.pays_from == 56
    batches = np.array(found.batches)
    wins = [rate is not None for rate in curve.tokens_per_gpu]
    assert batches[wins].tolist() == list(range(8, 129, 2)), "an odd batch cannot be cut in two"
    assert curve.pays_between == [(56, 128)]
    assert found.headline.startswith("overlapping pays, in requests a GPU: dual-batch from 56 on (+")


def test_a_list_that_only_wins_in_between_is_told_so(
    costs: Callable[[Callable[[str, float], float]], None],
) -> None:
    costs(
        lambda work, tokens: {
            "attn": tokens, "shared": 0.0, "mlp": 50 + tokens * (1 if tokens < 64 else 3),
            "dispatch": tokens / 2, "combine": min(tokens, 40) / 2,
        }[work]
    )  # fmt: skip
    found = pays(Request(kind="decode"), range(8, 513, 8), overlaps=["dual-batch"])
    curve = found.curves[1]
    rates = np.array([pair.tokens_per_gpu for pair in found.curves], dtype=float)
    wins = rates[1] > rates[0]
    assert [(a, b) for a, b in curve.pays_between] == _stretches(found.batches, wins.tolist())


def _stretches(batches: tuple[int, ...], wins: list[bool]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for at, won in enumerate(wins):
        if won and at and wins[at - 1]:
            found[-1] = (found[-1][0], batches[at])
        elif won:
            found.append((batches[at], batches[at]))
    return found


@pytest.mark.parametrize("name", ["none", "two-batch", "dual-batch", "chunked:2", "waves"])
def test_batches_that_are_ranks_of_one_plan_take_what_each_takes_alone(name: str) -> None:
    batches = [16, 64, 200]
    found = pays(Request(kind="decode"), batches, overlaps=[name])
    curve = next(each for each in found.curves if each.overlap == name)
    for batch, rate in zip(batches, curve.tokens_per_gpu, strict=True):
        alone = throughput(profile_of(Request(kind="decode", overlap=name, gpu_tokens=2 * batch)))
        assert rate == pytest.approx(alone.tokens_per_gpu, rel=1e-12)


def test_with_published_rates_overlapping_decode_does_not_pay_at_small_batches_and_does_at_large_ones() -> None:
    found = pays(Request(kind="decode"), [8, 16, 128], overlaps=["two-batch", "dual-batch"])
    for curve in found.curves[1:]:
        assert curve.pays_between == [(128, 128)]


def test_batches_that_were_skipped_are_told_in_the_answer() -> None:
    """Odd batches alone, none of which can be cut in two, say nothing of even ones."""
    odd = pays(Request(kind="decode"), range(1, 17, 2), overlaps=["dual-batch"])
    assert odd.headline.startswith(
        "overlapping pays nowhere up to 15 requests a GPU (batches from 1 to 15, in steps of 2): "
    )
    assert "(batches from 8 to 128, 3 of them)" in pays(Request(kind="decode"), [8, 16, 128]).headline
    assert "(" not in pays(Request(kind="decode"), range(1, 9), overlaps=["dual-batch"]).headline


def test_a_list_that_cannot_run_says_why_and_the_others_go_on() -> None:
    found = pays(Request(kind="decode", comm="deepep-v2"), [64, 128], overlaps=["two-batch", "dual-batch"])
    assert "DeepEP V2 has none" in found.curves[1].reason
    assert found.curves[2].pays_from is not None


def test_it_comes_back_from_its_document_and_prints_in_eighty_columns() -> None:
    found = pays(Request(kind="decode"), range(8, 65, 8))
    again = from_document(Pays, to_document(found), what="pays")
    assert (again.request, again.batches, again.curves) == (found.request, found.batches, found.curves)
    assert pays_table(found).columns == ["batch", "none", "two-batch", "dual-batch", "chunked", "waves"]
    console = Console(width=80, file=io.StringIO(), color_system=None)
    assert PAYS.show is not None
    PAYS.show(found, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, text.splitlines())) <= 80
    assert " ".join(text.split()).find(" ".join(found.headline.split())) > 0


@pytest.mark.parametrize(
    ("given", "batches", "message"),
    [
        ({}, [], "0 batches; give 1 to 2,048"),
        ({}, range(1, 5001), "5,000 batches; give 1 to 2,048, each of 1 or more; FROM..TO/3 takes some of them"),
        ({"ranks": 2}, [8], "one rank with balanced routing"),
        ({"layers": 2}, [8], "2 layers: 3 or more are needed to find the time that a layer adds"),
        ({"ep": 48}, [8], "no overlap, which the others are compared with, cannot run: 48 GPUs"),
    ],
)
def test_what_cannot_be_compared_is_refused(given: dict[str, int], batches: list[int], message: str) -> None:
    with pytest.raises(ProfileError) as refused:
        pays(Request(kind="decode", **given), batches)  # type: ignore[arg-type]
    assert message in str(refused.value)
