"""Every combination is a row: fast or slow, or a reason why it cannot be."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

import weftrace as wt
from weftrace.errors import ProfileError
from weftrace.files.values import from_document, to_document
from weftrace.moe.derived.tokens_per_second import throughput
from weftrace.moe.outputs import SWEEP
from weftrace.moe.render.view import profile_view
from weftrace.moe.requested import profile_of
from weftrace.moe.requests import Request
from weftrace.moe.sweeps.many_settings import Sweep, Value, parse_axes, sweep, sweep_table

AXES = {"ep": (8, 32, 48), "overlap": ("none", "two-micro-batches")}


@pytest.fixture(scope="module")
def prefill() -> Sweep:
    return sweep(Request(kind="prefill"), AXES)


def test_every_combination_stands_once_in_the_order_of_the_axes(prefill: Sweep) -> None:
    assert [tuple(row.values.values()) for row in prefill.rows] == [
        (8, "none"), (8, "two-micro-batches"), (32, "none"), (32, "two-micro-batches"), (48, "none"),
        (48, "two-micro-batches"),
    ]  # fmt: skip


def test_what_is_impossible_is_a_row_that_says_why_and_not_a_stop(prefill: Sweep) -> None:
    assert [row.values["ep"] for row in prefill.impossible] == [48, 48]
    assert all("256 / 48 is no whole number" in row.reason for row in prefill.impossible)


def test_a_row_exposes_what_the_page_of_its_profile_does(prefill: Sweep) -> None:
    """Of an inner layer: the ends of a run of four layers, where nothing hides a transfer, are in neither."""
    row = next(row for row in prefill.rows if row.values == {"ep": 32, "overlap": "two-micro-batches"})
    page = profile_view(profile_of(Request(kind="prefill", ep=32)))
    assert row.summary is not None and row.summary.exposed_ns is not None
    assert row.summary.exposed_ns == round(page.exposed_ns) < 0.01 * row.summary.layer_ns
    assert row.summary.communication_ns == round(page.communication_ns)


def test_a_row_says_what_the_profile_by_itself_says(prefill: Sweep) -> None:
    profile = profile_of(Request(kind="prefill", ep=32, overlap="none"))
    row = prefill.rows[2].summary
    assert row is not None
    assert (row.layer_ns, row.tokens_per_gpu) == (profile.layer_ns, throughput(profile).tokens_per_gpu)
    assert row.gpu_tokens == 16_384


def test_the_first_sentence_names_the_fastest_and_what_holds_it_up(prefill: Sweep) -> None:
    assert prefill.headline.startswith("ep=32, overlap=two-micro-batches is fastest: ")
    assert prefill.headline.endswith("as many as ep=32, overlap=none; computation holds it up")


def test_a_sweep_comes_back_from_its_document_and_its_table_has_a_line_a_row(prefill: Sweep, tmp_path: Path) -> None:
    again = from_document(Sweep, to_document(prefill), what="sweep")
    assert (again.base, again.axes, again.rows) == (prefill.base, prefill.axes, prefill.rows)
    wt.save(prefill, tmp_path / "sweep.json")
    assert wt.load(tmp_path / "sweep.json").rows == prefill.rows
    assert sweep_table(prefill).height == 6


def test_the_terminal_has_eighty_columns_and_each_reason_once(prefill: Sweep) -> None:
    console = Console(width=80, file=io.StringIO(), color_system=None)
    assert SWEEP.show is not None
    SWEEP.show(prefill, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("256 / 48") == 1
    assert "ep=48, overlap=none" in " ".join(text.split())


def test_where_nothing_is_possible_the_first_sentence_says_so() -> None:
    none = sweep(Request(kind="prefill"), {"ep": (48,)})
    assert none.headline.startswith("none of 1 combination is possible: 48 GPUs cannot")


def test_combinations_that_are_alike_are_told_so() -> None:
    found = sweep(Request(kind="train", layers=3), {"seed": (1, 2)})
    assert "seed=1 is fastest: 2,225 tokens/s a GPU, as many as seed=2; computation" in found.headline


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["ep"], "write it like ep=8,16,32; what can be swept is model, hardware, ep"),
        (["gpus=8"], "what can be swept is model"),
        (["ep=8,x"], "'x' is no whole number"),
        (["ep=8", "ep=16"], "ep is swept twice"),
        (["comm=mpi"], "comm = 'mpi'; it is one of deepep-v1"),
    ],
)
def test_axes_that_cannot_be_read_are_refused(texts: list[str], message: str) -> None:
    with pytest.raises(ProfileError) as refused:
        parse_axes(texts)
    assert message in str(refused.value)


def test_values_of_an_axis_count_once_and_too_many_rows_are_refused() -> None:
    assert parse_axes(["ep=8,16,8", "--overlap=none"]) == {"ep": (8, 16), "overlap": ("none",)}
    with pytest.raises(ProfileError, match="a sweep of 2,500 combinations; it has 1 to 2,000"):
        sweep(Request(kind="prefill"), {"seed": tuple(range(50)), "layers": tuple(range(1, 51))})


def test_no_number_is_cut_where_names_are_long() -> None:
    axes: dict[str, tuple[Value, ...]] = {
        "bandwidth-reached": (0.55, 1.0),
        "overlap": ("none", "two-micro-batches"),
        "routing": ("balanced",),
    }
    console = Console(width=80, file=io.StringIO(), color_system=None)
    found = sweep(Request(kind="prefill", layers=3), axes)
    assert SWEEP.show is not None
    SWEEP.show(found, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    for row in found.ranked:
        assert row.summary is not None
        assert f"{row.summary.tokens_per_gpu:,.0f}" in text
        assert f"{row.summary.layer_ns / 1e6:.2f}" in text
