"""Traces made to deceive: what is rated has to be true, and what cannot be known has to be left out or marked."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from tests.efficiency.deceptions import BF16, DECEPTIONS, H100, Truth, as_args, mm, on, op
from tests.tracefile import GEMM, TraceFile
from weftrace.analysis.efficiency import Efficiency, efficiency_of
from weftrace.analysis.efficiency.counted_calls import in_masked_attention
from weftrace.analysis.efficiency.values import PARTS
from weftrace.costs.cost import Status
from weftrace.trace import events_frame, work_of


@pytest.mark.parametrize("name", DECEPTIONS)
def test_is_not_deceived(name: str, tmp_path: Path) -> None:
    truth = DECEPTIONS[name]()
    assert not list(mistakes(truth, rated(truth, tmp_path))), truth.says


def test_arguments_that_are_no_lists_are_taken_for_a_mask_that_is_not_known() -> None:
    """The second entry's arguments are texts that no JSON is, as files may have them; a product lies in each."""
    types, values = '["float","float","float","","double","Scalar"]', '["","","","","0.","False"]'
    events = events_frame(
        {
            "cat": ["cpu_op"] * 4, "name": ["aten::_scaled_dot_product_attention_math", "aten::bmm"] * 2,
            "pid": ["1"] * 4, "tid": ["1"] * 4, "ts_ns": [0, 1, 10, 11], "dur_ns": [5, 2, 5, 2],
            "input_types": [types, None, "[float, Scalar]", None], "input_values": [values, None, "None", None],
        },
        4,
    )  # fmt: skip
    assert in_masked_attention(events, pl.Series([1, 3, None], dtype=pl.Int64)).to_list() == [False, True, False]


def test_totals_above_the_peak_never_stand_without_their_sentence(tmp_path: Path) -> None:
    for name in ("above_every_peak", "fp32_that_is_fp32"):
        found = rated(DECEPTIONS[name](), tmp_path)
        assert found.mfu is not None
        assert ("No device computes faster than its peak" in found.headline) == (found.mfu > 1)


def test_rates_of_what_is_at_most_say_so_above_the_peak(tmp_path: Path) -> None:
    """Eight sequences of lengths that are not recorded: 2.2 TFLOP at most in 2 ms, 111 % of the peak."""
    file = on(H100)
    dims = [[32768, 32, 128], [32768, 8, 128], [32768, 8, 128], [9], [9], *[[]] * 8]
    types = [BF16] * 3 + ["int"] * 2 + ["Scalar"] * 8
    values = [""] * 5 + ["4096", "4096", "0.", "0.088", "True", "-1", "-1", "0."]
    op(file, "flash_attn::_flash_attn_varlen_forward", 0, dims, types, values=values)
    file.kernel("void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128,128,128>>", 20, 2_000, launch=5)
    row = efficiency_of(file.trace(tmp_path)).shapes.row(0, named=True)
    assert row["status"] == Status.UPPER_BOUND and row["peak_share"] > 1
    assert row["why"].endswith("fewer were computed. Its FLOPs are counted at most, so the last is likeliest.")


def test_products_of_masked_attention_are_at_most_in_the_backward_too(tmp_path: Path) -> None:
    """torch takes attention under a mask apart into bmm; the backward of each computes over all pairs as well."""
    file = TraceFile()
    types = ["float", "float", "float", "float", "Scalar", "Scalar"]
    op(file, "aten::_scaled_dot_product_attention_math", 0, [[2, 8, 16]] * 3 + [[8, 8], [], []], types, dur=100)
    forward, node = {"Sequence number": 7, "Fwd thread id": 0}, {"Sequence number": 7, "Fwd thread id": 1}
    for at, args in ((10, forward), (210, {})):
        op(file, "aten::bmm", at, [[2, 8, 16], [2, 16, 8]], values=["", ""], dur=30, **as_args(args))
        file.kernel(GEMM, at + 20, 10, launch=at + 5)
    op(file, "BmmBackward0", 200, [[2, 8, 8]], dur=60, **as_args(node))
    mm(file, 300, 16, 16, 16, dur=10)
    found = efficiency_of(file.trace(tmp_path))
    assert (found.flops, found.at_most_flops) == (2 * 2 * 2 * 8 * 8 * 16 + 2 * 16**3, 2 * 2 * 2 * 8 * 8 * 16)
    assert "50.0 % of these FLOPs are at most" in found.headline


def test_product_of_a_sharded_tensor_in_a_checkpoint_is_not_needed_again(tmp_path: Path) -> None:
    """The DTensor's operator has the sequence number of a forward, the one inside, which computes, has none."""
    file = TraceFile()
    node, again = {"Sequence number": 5, "Fwd thread id": 1}, {"Sequence number": 9, "Fwd thread id": 0}
    file.host("autograd::engine::evaluate_function: MmBackward0", 0, 100, cat="cpu_op", **as_args(node))
    op(file, "aten::mm", 5, [[64, 128], [128, 256]], dur=50, **as_args(again))
    mm(file, 10, 64, 128, 32, dur=10)
    found = efficiency_of(file.trace(tmp_path))
    assert (found.flops, found.executed_flops, found.recomputed_flops) == (0, 2 * 64 * 128 * 32, 2 * 64 * 128 * 32)


def rated(truth: Truth, folder: Path) -> Efficiency:
    return efficiency_of(work_of(truth.file.trace(folder), device=truth.device, step=truth.step))


def mistakes(truth: Truth, found: Efficiency) -> Iterator[str]:
    """What is wrong with an answer, a sentence each."""
    shapes, parts = found.shapes, found.parts
    time: dict[str, int] = {part: int(parts.filter(part=part)["total_ns"].sum()) for part in PARTS}
    if sum(time.values()) != found.total_ns or (found.total_ns and not math.isclose(parts["share"].sum(), 1)):
        yield f"parts add up to {sum(time.values())} of {found.total_ns}"
    for name, column in shapes.to_dict(as_series=True).items():
        if column.dtype.is_float() and (column.is_nan().any() or column.is_infinite().any()):
            yield f"{name} is no number"
        if column.dtype.is_numeric() and (column < 0).any():
            yield f"{name} is negative"
    matrix = shapes.filter(pl.col("flops") > 0)
    flops, exact = sum(matrix["flops"].to_list()), matrix.filter(status=Status.EXACT)
    if truth.flops is None:
        if exact.height:
            yield f"claims {exact['flops'].to_list()} FLOPs as exact"
        if truth.most_flops is not None and not 0 < flops <= truth.most_flops:
            yield f"{flops} FLOPs, at most {truth.most_flops}"
    elif flops != truth.flops:
        yield f"{flops} FLOPs, not {truth.flops}"
    elif sum(matrix["busy_ns"].to_list()) != truth.flops_ns:
        yield f"rated {matrix['busy_ns'].to_list()} ns, not {truth.flops_ns}"
    if truth.calls is not None and matrix["num_calls"].sum() != truth.calls:
        yield f"{matrix['num_calls'].sum()} calls, not {truth.calls}"
    for part, ns in (("no shapes", truth.no_shapes_ns), ("no operator", truth.no_operator_ns)):
        if ns is not None and time[part] != ns:
            yield f"{part}: {time[part]} ns, not {ns}"
    for operator, moved in (truth.bytes_of or {}).items():
        rows = shapes.filter(operator=operator)
        if (got := sum(rows["read_bytes"].to_list()) + sum(rows["written_bytes"].to_list())) != moved:
            yield f"{operator} moves {got} bytes, not {moved}"
    held = shapes.filter(pl.col("operator").is_in(truth.no_peak) & (pl.col("bound") == "memory"))
    if held.height:
        yield f"held against the memory's peak: {held.select('operator', 'bytes_per_s', 'roofline_share').rows()}"
    if not truth.whole_chip and not matrix["peak_share"].is_null().all():
        yield f"held against a whole chip: {matrix['peak_share'].to_list()}"
    if shapes.height < truth.rows:
        yield f"{shapes.height} rows, not {truth.rows}"
    if truth.dtype and matrix["peak"].to_list() != [truth.dtype]:
        yield f"held against the peak of {matrix['peak'].to_list()}, not {truth.dtype}"
    above = shapes.filter((pl.col("peak_share").fill_null(0) > 1) | (pl.col("roofline_share").fill_null(0) > 1))
    if above.filter(pl.col("why") == "").height:
        yield "a rate above the peak stands without its sentence"
    if truth.warns != bool(above.height):
        yield "nothing is above a peak" if truth.warns else f"above a peak: {above.to_dicts()}"
