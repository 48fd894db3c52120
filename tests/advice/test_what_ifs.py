"""What a what-if answers, where it says that the answer is not valid; sensitivities, curves and bars by pencil."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from tests.advice.made import COMPUTE, SIDE, call, inferred_of, kernel, launched_by, plan_of, send
from tests.advice.test_critical_paths import held, layer, overlapped, starved
from weftrace.advice.changes import Change, NoHostGaps, PerfectOverlap, Scale
from weftrace.advice.critical_paths import critical_path_of
from weftrace.advice.sensitivities import curve, sensitivity
from weftrace.advice.waterfalls import waterfall
from weftrace.advice.whatifs import what_if
from weftrace.errors import AdviceError
from weftrace.plan import Inferred, Plan, Wait


def scaled(selector: str, factor: float) -> Scale:
    return Scale(selector=selector, factor=factor)


def limits(inferred: Inferred, *changes: Change) -> str:
    return "\n".join(what_if(inferred, changes).limits)


def test_an_answer_compares_two_replays_and_has_the_measured_span_beside_them() -> None:
    measured = inferred_of(layer().plan, span_error_ns=2_000)
    answer = what_if(measured, [scaled("communication", 0.5)])
    assert (answer.span_ns, answer.replayed_ns, answer.after_ns) == (105_000, 103_000, 83_000)
    assert (answer.saved_ns, answer.bottleneck) == (20_000, "compute")
    assert answer.change == pytest.approx(-20 / 103)
    assert answer.error == pytest.approx(-2 / 105)
    assert not answer.is_within_error
    assert answer.sentence == (
        "communication ×0.5: 83.00 µs instead of 103.0 µs, both replayed (−19.4 %); compute decides 66 % then. "
        "The replay is −1.9 % off the measured 105.0 µs."
    )


def test_a_change_that_is_smaller_than_the_replay_is_off_says_so() -> None:
    answer = what_if(inferred_of(layer().plan, span_error_ns=2_000), [scaled("kernel:^norm$", 0.8)])
    assert answer.is_within_error and answer.saved_ns == 1_000
    assert answer.sentence.endswith("off the measured 105.0 µs: the change is smaller than the replay is off.")


def test_a_replay_that_is_far_off_is_the_first_limit() -> None:
    answer = what_if(inferred_of(layer().plan, span_error_ns=10_000), [scaled("compute", 0.5)])
    assert answer.limits[0].startswith("the replay is not to be trusted: its span is")
    assert "not to be trusted" not in limits(layer(), scaled("compute", 0.5))


def test_other_durations_may_need_sms_at_other_times() -> None:
    assert "1 wait for free SMs stays with the same two kernels (1 on the new path)" in limits(
        held(), scaled("big", 0.9)
    )
    assert "free SMs" not in limits(layer(), scaled("compute", 0.9))
    assert "free SMs" not in limits(held(), scaled("big", 1)), "nothing changed"


def test_what_no_longer_runs_beside_each_other_no_longer_slows_each_other_down() -> None:
    # 7    [k0][k1][k2][k3]        beside s0, s1 and s2 for 3 of 10 instead of all; each was slowed by 1.17 for it:
    # 27       s0  s1  s2  s3      3 x (10 - 3) x (1 - 1 / 1.17) = 3.05
    summary = limits(overlapped(), scaled("communication", 0.1))
    assert "kernels compute beside communication for 22 % of their time then, 75 % before" in summary
    assert "kernels on the new path are about 3.05 µs too long for it" in summary
    assert "beside communication" not in limits(overlapped(), scaled("communication", 0.99))
    # 7  [k 100]    beside send for half of its time, then for all of it; but by then send alone is the path
    # 27 [send 50]
    apart = inferred_of(plan_of(kernel("k", 100), send("send", 50)))
    assert "beside communication" not in limits(apart, scaled("send", 4))


def test_what_kernels_cost_each_other_off_the_new_path_is_not_said() -> None:
    # k1, k2 and k3, which are beside communication, are 30 of 31 then and were 30 of 40, and never on the path
    assert "beside communication" not in limits(overlapped(), scaled("kernel:k0", 0.1))


def test_a_family_whose_name_others_begin_with_says_what_is_not_in_it() -> None:
    plan = plan_of(kernel("a", 10), kernel("b", 30), kernel("c", 20))
    inferred = inferred_of(plan, families={"a": "gemm", "b": "gemm_fp8", "c": "gemm_grouped"})
    said = "gemm is one kernel family, 10.0 µs in all; not in it: gemm_fp8 (30.0 µs), gemm_grouped (20.0 µs)."
    assert said in limits(inferred, scaled("gemm", 0.9))
    assert "kernel family" not in limits(inferred, scaled("gemm_fp8", 0.9)) + limits(inferred, scaled("compute", 0.9))


def test_a_host_that_falls_behind_is_said() -> None:
    # thread  [l 9][l 9][l 9]      launches every 9, kernels of 10: twice as fast, the device waits for the host
    ops = []
    for i in range(3):
        ops += [call(f"launch {i}", 9), kernel(f"k{i}", 10, COMPUTE, launched_by(f"launch {i}"))]
    inferred = inferred_of(plan_of(*ops))
    summary = limits(inferred, scaled("compute", 0.5))
    assert (
        "the host decides 78 % of the span then, 0 % before; on the path the device waits 1 time for a launch"
        in summary
    )
    assert "the host decides" not in limits(inferred, scaled("compute", 0.95))
    assert "the host decides" not in limits(starved(), scaled("launch", 0.9)), "it decided before"


def test_an_unsure_wait_on_the_new_path_is_named_with_its_votes() -> None:
    plan = layer().plan
    summary = limits(inferred_of(plan, votes={"send": (2, 3)}), scaled("compute", 0.9))
    assert (
        "1 wait on the new path is unsure, the least with a confidence of 0.33 (voted, 2 for and 3 against)" in summary
    )
    assert "unsure" not in limits(inferred_of(plan, votes={"send": (8, 1)}), scaled("compute", 0.9))


def test_a_host_that_recorded_nothing_may_have_waited() -> None:
    # thread  [launch a 10][ host work 80 ][launch b 10]      80 of the 105 after a's start are outside operators
    inferred = inferred_of(plan_of(
        call("launch a", 10), kernel("a", 20, COMPUTE, launched_by("launch a")), call("host work", 80),
        call("launch b", 10), kernel("b", 15, COMPUTE, launched_by("launch b")),
    ))  # fmt: skip
    summary = limits(inferred, scaled("compute", 0.5))
    assert (
        "80.0 of 97.5 µs are host time outside operators, in stretches of 50.0 µs and more: it counts as work"
        in summary
    )
    assert "most of it outside operators, at work or waiting" in critical_path_of(inferred).sentence
    assert "outside operators" not in limits(inferred, scaled("host", 0.05)) + limits(starved(), scaled("host", 0.9))


def test_waits_that_held_nothing_up_may_hold_after_a_change() -> None:
    guessed = inferred_of(layer().plan, votes={"send": (0, 0)})
    summary = limits(replace(guessed, num_open=3), scaled("compute", 0.9))
    assert (
        "of the waits between streams that held nothing up, 3 could not be placed and 1 is placed only by elimination"
        in summary
    )
    assert "held nothing up, 3 could not be placed: what" in limits(
        replace(layer(), num_open=3), scaled("compute", 0.9)
    )
    assert "held nothing up" not in limits(layer(), scaled("compute", 0.9))


def test_a_gap_that_was_never_seen_is_not_known() -> None:
    # thread  [l 9][l 9][l 9]      each kernel of 3 ends before the next is launched; without the host they would touch
    # 7            [3]  [3]  [3]
    ops = []
    for i in range(3):
        ops += [call(f"launch {i}", 9), kernel(f"k{i}", 3, COMPUTE, launched_by(f"launch {i}"))]
    summary = limits(inferred_of(plan_of(*ops)), NoHostGaps())
    assert "the gap between two is not known, and none is kept: on the new path 2 run right behind another" in summary
    assert "each µs between them would add 2.00 µs." in summary
    assert "not known" not in limits(inferred_of(plan_of(*ops)), scaled("launch", 0.9)), "none runs behind another"
    assert "not known" not in limits(inferred_of(plan_of(*ops, gap_us=1)), NoHostGaps())
    touching = [kernel("a", 3), kernel("b", 3)]
    assert "not known" not in limits(inferred_of(plan_of(*ops, *touching)), NoHostGaps()), "two touch, so 0 was seen"


def test_a_factor_beyond_what_equal_kernels_took_is_named() -> None:
    ops = [kernel("gemm", us) for us in (9, 10, 10, 12)] + [kernel("once", 5)]
    inferred = inferred_of(Plan.of([replace(op, id=None) for op in ops], name="repeated"))
    summary = limits(inferred, scaled("gemm", 0.5))
    assert "kernels of gemm with one name in one phase took between ×0.90 and ×1.20 of their median" in summary
    assert "with one name" not in limits(inferred, scaled("gemm", 1.1))
    assert "with one name" not in limits(inferred, scaled("once", 0.5)), "seen once: nothing is known"


def test_bounds_are_called_bounds() -> None:
    assert "perfect overlap is a bound: most of the waits that it drops are for data" in limits(
        layer(), PerfectOverlap()
    )
    assert "no host is that fast" in limits(layer(), NoHostGaps())


def test_sensitivity_is_what_a_percent_of_each_would_save() -> None:
    found = sensitivity(layer())
    rows = {row["selector"]: row for row in found.table.iter_rows(named=True)}
    assert [rows["compute"][name] for name in ("time_ns", "critical_ns", "saved_ns")] == [63_000, 55_000, 550]
    assert (
        rows["communication"]["saved_ns"] == rows["phase:dispatch(F)"]["saved_ns"] == rows["deepep"]["saved_ns"] == 400
    )
    assert rows["phase:mlp(W)"]["critical_ns"] == rows["phase:mlp(W)"]["saved_ns"] == 0
    assert rows["host"]["critical_ns"] == rows["launch"]["critical_ns"] == 0
    assert rows["compute"]["share"] == pytest.approx(550 / 103_000)
    assert "rank:0" not in rows, "one rank is all there is"
    assert found.table.get_column("kind").to_list() == sorted(
        found.table.get_column("kind").to_list(), key=["class", "family", "phase", "rank"].index
    )
    with pytest.raises(AdviceError, match="a fraction above 0 and up to 1"):
        sensitivity(layer(), by=0)


def test_sensitivity_leaves_out_a_phase_that_spans_everything_and_shortens_names() -> None:
    whole = "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)"
    ops = (kernel("a", 60, phase=whole), kernel("b", 40, phase=whole))
    found = sensitivity(inferred_of(plan_of(*ops)))
    assert "phase" not in found.table.get_column("kind")
    assert found.sentence.startswith("1 % faster, each alone, of 100.0 µs: compute saves 1.00 µs (1.00 %), ")
    found = sensitivity(inferred_of(plan_of(*ops, kernel("c", 50, phase="other"))))
    assert found.table.filter(pl.col("kind") == "phase").get_column("selector").to_list() == [
        f"phase:{whole}",
        "phase:other",
    ]
    assert "phase:execute_8192_context_9(sq8…qsq37sqsk34489) saves 1.00 µs" in found.sentence


def test_time_in_which_an_op_holds_sms_that_the_next_lacks_is_worth_as_much_as_the_rest_of_it() -> None:
    rows = {row["selector"]: row for row in sensitivity(held()).table.iter_rows(named=True)}
    assert (rows["big"]["critical_ns"], rows["big"]["saved_ns"]) == (36_000, 400), "until 4 before its end"


def test_of_many_families_those_that_take_longest_are_listed_and_the_rest_counted() -> None:
    found = sensitivity(inferred_of(plan_of(*(kernel(f"k{i}", 1 + i) for i in range(25)))))
    families = found.table.filter(pl.col("kind") == "family").get_column("selector").to_list()
    assert len(families) == 20 and "k24" in families and "k4" not in families
    assert found.num_left_out == 5


def test_a_curve_tells_where_it_is_flat_and_how_steep_it_is() -> None:
    # 7   [a 10][c 30]         the side stream's s takes 20, between a's end and d: slack of 10
    # 23        [s 20]  d
    plan = plan_of(kernel("a", 10), kernel("c", 30), kernel("s", 20, SIDE, "a"), kernel("d", 10, COMPUTE, Wait(on="s")))
    side = curve(inferred_of(plan), "s", [0.5, 1, 1.25, 1.5, 2, 3])
    assert side.points.get_column("span_ns").to_list() == [50_000, 50_000, 50_000, 50_000, 60_000, 80_000]
    assert side.flat_until == 1.5
    assert list(side.slopes_ns) == [0, 200]
    assert side.sentence == "s: flat up to ×1.5 at 50.00 µs, then up to 200 ns per percent; the replay is 0.0 % off."
    assert curve(inferred_of(plan), "a").sentence.startswith("a: 100 ns per percent from ×0.25 to ×2;")
    little = inferred_of(plan_of(kernel("a", 2), kernel("c", 998)))
    assert curve(little, "a").flat_until == 0.25  # 0.35 % in all, a small slope that nowhere bends
    assert curve(little, "a").sentence.startswith("a: 20 ns per percent from ×0.25 to ×2;")
    assert curve(inferred_of(plan), "s", [0.1, 1]).sentence.startswith("s: flat from ×0.1 to ×1;")
    with pytest.raises(AdviceError, match="numbers of 0 or more"):
        curve(inferred_of(plan), "a", [-1])


def test_bars_add_up_to_the_measured_span_and_tell_what_each_would_save_alone() -> None:
    found = waterfall(inferred_of(layer().plan, span_error_ns=2_000))
    rows = {name: (time_ns / 1_000, alone) for name, time_ns, _, alone, *_ in found.bars.iter_rows()}
    assert rows == {
        "compute": (55, 55_000), "communication": (40, 40_000), "dependency": (6, 6_000), "idle": (2, 2_000),
        "replay error": (2, None),
    }  # fmt: skip
    assert found.bars.get_column("share").sum() == pytest.approx(1)
    without_sms = {name: alone for name, _, _, alone, *_ in waterfall(held()).bars.iter_rows()}
    assert without_sms["SM wait"] == 61_000 - 50_000, "then wide ends at 35, and big at 50"
