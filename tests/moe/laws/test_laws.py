"""Laws of decoding and of waves: the published figures, by pencil, and against the engine of plans."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weftrace.moe import Setting, load_overlap, plan_of
from weftrace.moe.laws.decode_limit import decode_limit
from weftrace.moe.laws.five_stages import exposed, five_stage_layer
from weftrace.moe.laws.waves import largest_flops_per_byte, waves_speed_up, waves_time
from weftrace.moe.operations import Operation
from weftrace.moe.pieces import Piece
from weftrace.plan import Op, Plan, Resource, timetable


def test_the_law_of_decode_on_a_400_gbit_nic_is_exact() -> None:
    law = decode_limit()
    assert (law.transfer_ns, law.layer_ns, law.tpot_ns) == (120_960, 241_920, 14_757_120)
    assert int(law.tokens_per_s) == 67


def test_the_law_of_decode_on_nvlink_of_a_rack_is_exact() -> None:
    law = decode_limit(bytes_per_s=900e9)
    assert (law.transfer_ns, law.layer_ns, law.tpot_ns) == (6_720, 13_440, 819_840)
    assert round(law.tokens_per_s, -2) == 1_200


def test_the_paper_rounds_the_hidden_size() -> None:
    assert decode_limit(hidden=7_168).transfer_ns == pytest.approx(123_863.04)


def test_five_stages_by_pencil() -> None:
    # issue ->[ shared 2, attn-0 3 | dispatch 9 ]<- mlp 4 ->[ attn-1 6 | combine 5 ]<-   9 + 4 + 6 = 19, twice
    assert five_stage_layer(dispatch=9, combine=5, attn_0=3, attn_1=6, shared=2, mlp=4) == 38
    assert five_stage_layer(dispatch=9, combine=5, attn_0=3, attn_1=6, shared=2, mlp=4, issue=1, receive=1) == 46
    assert exposed(dispatch=9, combine=5, attn_0=3, attn_1=6, shared=2) == 8


TIMES = {"attn-0": 90, "attn-1": 210, "shared": 30, "mlp": 170}


@pytest.mark.parametrize(("dispatch", "combine"), list(product((60, 120, 190), (100, 210, 370))))
def test_five_stages_are_what_the_operation_list_takes(dispatch: int, combine: int) -> None:
    def price(each: Operation) -> tuple[Piece, ...]:
        short = {"issue": 5, "receive": 7}.get(each.part)
        took = short or {**TIMES, "dispatch": dispatch, "combine": combine}[each.work]
        return (Piece(name=each.work, duration_ns=1000 * took, basis="test"),)

    overlap = load_overlap("five-stages")

    def span(num_layers: int) -> int:
        prices = {each.name: price(each) for each in overlap.operations}
        return timetable(plan_of(overlap, prices, Setting.of("decode", num_layers=num_layers), gap_ns=0)).makespan_ns

    law = five_stage_layer(
        dispatch=dispatch, combine=combine, attn_0=90, attn_1=210, shared=30, mlp=170, issue=5, receive=7
    )
    assert (span(6) - span(4)) / 2 == 1000 * law


def test_two_waves_by_pencil() -> None:
    # link     D1 D2 .. C1 C1 C2 C2     D 2, G 6, C 4 in two waves of 1, 3, 2
    # compute     G1 G1 G1 G2 G2 G2     C1 from 4 to 6, G2 until 7, C2 from 7 to 9
    assert waves_time(2, 6, 4, 2) == 9 == 6 + (2 + 4) / 2
    assert waves_time(2, 6, 4, 1) == 12
    assert waves_speed_up(2, 6, 4, 2) == pytest.approx(12 / 9)


def test_all_is_hidden_up_to_6144_flops_a_byte() -> None:
    assert largest_flops_per_byte(3_072) == 6_144
    assert largest_flops_per_byte(2_048) == 4_096
    hidden, rows, link = 7_168, 1_000, 900e9
    flops, moved = 6 * rows * hidden * 3_072, 3 * rows * hidden
    at_the_limit = waves_speed_up(moved / 3 / link, flops / (6_144 * link), moved * 2 / 3 / link, 24)
    assert at_the_limit == pytest.approx(2 * 24 / 25) == pytest.approx(1.92)
    for off in (0.8, 1.25):
        assert waves_speed_up(moved / 3 / link, flops / (off * 6_144 * link), moved * 2 / 3 / link, 24) < at_the_limit


@given(*[st.integers(1, 40)] * 3, st.integers(1, 6))
def test_waves_are_what_a_plan_of_them_takes(dispatch: int, compute: int, combine: int, num_waves: int) -> None:
    link, sms = Resource(stream=28), Resource(stream=7)
    ops = []
    for wave in range(num_waves + 1):
        if wave < num_waves:
            ops.append(Op(id=f"D{wave}", name="D", duration_ns=dispatch, resource=link))
            ops.append(Op(id=f"G{wave}", name="G", duration_ns=compute, resource=sms, after=(f"D{wave}",)))
        if wave:
            ops.append(Op(id=f"C{wave - 1}", name="C", duration_ns=combine, resource=link, after=(f"G{wave - 1}",)))
    plan = Plan.of(ops, name="waves")
    law = waves_time(dispatch * num_waves, compute * num_waves, combine * num_waves, num_waves)
    assert law == pytest.approx(timetable(plan).makespan_ns)
    if compute >= dispatch + combine:
        assert law == pytest.approx(dispatch + num_waves * compute + combine)
