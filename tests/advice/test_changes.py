"""Changes: what each selects, what it does to a plan, and what it says where it cannot be tried."""

from __future__ import annotations

import pytest

from tests.advice.made import COMPUTE, SIDE, THREAD, call, inferred_of, kernel, launched_by, plan_of, send
from weftrace.advice.changed_plans import changed
from weftrace.advice.changes import (
    Change,
    NoBarrierWait,
    NoHostGaps,
    PerfectOverlap,
    Scale,
    SmSplit,
    parse_change,
    parse_sms,
)
from weftrace.advice.selecting import selectors
from weftrace.advice.whatifs import what_if
from weftrace.errors import AdviceError
from weftrace.plan import Inferred, Resource, Wait, timetable


def run() -> Inferred:
    """thread  [launch a 4]1[work 15]1[launch b 4]          gap 1, launch latency 2
    7                       2[a 10]    .         2[b 10]
    27                              [notify 5][send 20]      notify waits for a and is a barrier; b waits for nothing
    """
    return inferred_of(
        plan_of(
            call("launch a", 4),
            call("work", 15),
            call("launch b", 4),
            kernel("a", 10, COMPUTE, launched_by("launch a", 2), phase="attn(F)"),
            send("notify", 5, "a", phase="dispatch(F)"),
            send("send", 20, phase="dispatch(F)"),
            kernel("b", 10, COMPUTE, launched_by("launch b", 2), phase="mlp(F)"),
            gap_us=1,
        ),
        families={"a": "gemm", "b": "gemm", "notify": "deepep", "send": "deepep"},
        barriers=["notify"],
    )


def spans(inferred: Inferred, *changes: Change | str) -> dict[str, list[float]]:
    """Start and end of each op, µs."""
    plan = changed(inferred, [parse_change(each) if isinstance(each, str) else each for each in changes]).plan
    times = timetable(plan)
    names = plan.ops.get_column("name").cast(str).to_list()
    return {
        name: [start / 1_000, end / 1_000]
        for name, start, end in zip(names, times.start_ns.tolist(), times.end_ns.tolist(), strict=True)
    }


def durations(inferred: Inferred, *changes: Change | str) -> dict[str, float]:
    return {name: round(end - start, 6) for name, (start, end) in spans(inferred, *changes).items()}


AS_IT_IS = {"launch a": 4, "work": 15, "launch b": 4, "a": 10, "notify": 5, "send": 20, "b": 10}


@pytest.mark.parametrize(
    ("change", "scaled"),
    [
        ("compute=0.5", {"a": 5, "b": 5}),
        ("communication=2", {"notify": 10, "send": 40}),
        ("communication.data=0.5", {"send": 10}),
        ("communication.barrier=0", {"notify": 0}),
        (NoBarrierWait(), {"notify": 0}),
        ("gemm=0.1", {"a": 1, "b": 1}),
        ("phase:dispatch(F)=0.2", {"notify": 1, "send": 4}),
        ("rank:0=2", {"a": 20, "b": 20, "notify": 10, "send": 40}),
        ("kernel:^(a|send)$=2", {"a": 20, "send": 40}),
        ("kernel:a.b=c=2", None),
        ("host=0.2", {"work": 3}),
        ("launch=0.5", {"launch a": 2, "launch b": 2}),
    ],
)
def test_a_selector_scales_what_it_names_and_nothing_else(
    change: Change | str, scaled: dict[str, float] | None
) -> None:
    if scaled is None:  # the last = parts the factor: a pattern may hold one
        with pytest.raises(AdviceError, match=r"'kernel:a.b=c' selects nothing"):
            durations(run(), change)
        return
    assert durations(run(), change) == AS_IT_IS | scaled


def test_launch_latency_and_the_gaps_between_calls_are_scaled_with_what_they_belong_to() -> None:
    # thread  [launch a 4]1[work 15]1[launch b 4]      the gap before a call is scaled with the call
    assert spans(run())["a"] == [6, 16]
    half = spans(run(), "launch=0.5")
    assert half["a"] == [3, 13], "a launch of 2 and a latency of 1"
    assert half["launch b"] == [2 + 1 + 15 + 0.5, 2 + 1 + 15 + 0.5 + 2]
    assert spans(run(), "host=0")["launch b"] == [4 + 0 + 0 + 1, 4 + 1 + 4]
    assert spans(run(), "host=1", "launch=1") == spans(run())


def test_several_changes_are_made_one_after_the_other() -> None:
    assert durations(run(), "compute=0.5", "gemm=0.5", "kernel:^b$=3")["b"] == 7.5
    assert durations(run(), "compute=0.5", "gemm=0.5", "kernel:^b$=3")["a"] == 2.5
    assert spans(run(), NoHostGaps(), "compute=2") == spans(run(), "compute=2", NoHostGaps())


def test_without_host_gaps_the_device_is_never_late() -> None:
    found = spans(run(), NoHostGaps())
    assert [found["launch a"], found["work"], found["launch b"]] == [[0, 0]] * 3
    assert [found["a"], found["b"]] == [[0, 10], [11, 21]], "on the device the gap stays"


def test_calls_that_block_wait_even_without_host_gaps() -> None:
    # thread  [launch a 4][sync .......]          the call returns 3 after a
    # 7                   [a 10       ]           then b is launched
    plan = plan_of(
        call("launch a", 4),
        kernel("a", 10, COMPUTE, launched_by("launch a")),
        kernel("sync", 3, THREAD, Wait(on="a", why="host"), kind="host"),
        call("launch b", 4),
        kernel("b", 10, COMPUTE, launched_by("launch b")),
    )
    found = spans(inferred_of(plan), NoHostGaps())
    assert found["b"][0] == 10


def test_perfect_overlap_lets_each_side_run_by_itself() -> None:
    # 7    [a 10]         [c 10]        c waits for x; d is compute on the communication stream, behind x
    # 27        [x 20][d 4]             e on 23 waits for a: both compute, the wait stays
    plan = plan_of(
        kernel("a", 10), send("x", 20, "a"), kernel("d", 4, Resource(stream=27)), kernel("c", 10, COMPUTE, "x"),
        kernel("e", 5, SIDE, "a"),
    )  # fmt: skip
    found = spans(inferred_of(plan), PerfectOverlap())
    assert found == {"a": [0, 10], "x": [0, 20], "d": [0, 4], "c": [10, 20], "e": [10, 15]}
    (note,) = changed(inferred_of(plan), [PerfectOverlap()]).notes
    assert note.startswith("perfect overlap drops 2 waits") and note.endswith("the longest stream alone takes 20.0 µs")


def test_overlap_keeps_launches_and_what_the_host_waits_for() -> None:
    found = spans(run(), PerfectOverlap())
    assert [found["a"], found["b"], found["notify"]] == [[6, 16], [27, 37], [0, 5]]


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("communication", "write what and how much, as in communication=0.5"),
        ("=0.5", "write what and how much"),
        ("gemm=fast", "'fast' is no factor"),
        ("gemm=-1", "a number of 0 or more"),
        ("gemm=nan", "a number of 0 or more"),
        ("gemm=inf", "a number of 0 or more"),
    ],
)
def test_what_is_no_change_is_told_how_to_write_one(text: str, summary: str) -> None:
    with pytest.raises(AdviceError, match=summary):
        parse_change(text)


@pytest.mark.parametrize(
    ("selector", "near"),
    [
        ("comm", "Did you mean communication?"), ("gem", "Did you mean gemm?"),
        ("attn(F)", "Did you mean phase:attn(F)?"),
        ("phase:atn(F)", "Did you mean phase:attn(F)?"), ("Compute", "Did you mean compute?"),
        ("memory", "There are compute, communication,"), ("kernel:nothing", "There are compute"),
        ("rank:7", "Did you mean rank:0?"),
    ],
)  # fmt: skip
def test_a_selector_of_nothing_names_the_nearest(selector: str, near: str) -> None:
    with pytest.raises(AdviceError, match="selects nothing in this trace") as summary:
        changed(run(), [Scale(selector=selector, factor=1)])
    assert near in str(summary.value)


@pytest.mark.parametrize(
    ("selector", "summary"),
    [("rank:x", "'x' is no rank"), ("kernel:[", "'\\[' is no regular expression"), ("kernel:(?=a)", "no regular")],
)
def test_a_selector_that_cannot_be_read_says_why(selector: str, summary: str) -> None:
    with pytest.raises(AdviceError, match=summary):
        changed(run(), [Scale(selector=selector, factor=1)])


@pytest.mark.parametrize(
    "changes",
    [
        (Scale(selector="gemm", factor=0.5), Scale(selector="gemm", factor=0.6)),
        (NoHostGaps(), NoHostGaps()),
        (SmSplit(compute=1, communication=1), SmSplit(compute=2, communication=1)),
    ],
)
def test_what_is_asked_for_twice_is_refused(changes: tuple[Change, ...]) -> None:
    with pytest.raises(AdviceError, match="say once what to try"):
        changed(run(), changes)


def test_changes_need_what_they_change() -> None:
    device_only = inferred_of(plan_of(kernel("a", 1), kernel("b", 1)))
    for change, summary in (
        (NoHostGaps(), "no host thread"), (PerfectOverlap(), "needs communication and other work"),
        (NoBarrierWait(), "'communication.barrier' selects nothing"),
    ):  # fmt: skip
        with pytest.raises(AdviceError, match=summary):
            changed(device_only, [change])
    with pytest.raises(AdviceError, match="no change to try"):
        what_if(device_only, [])


def test_a_factor_below_zero_is_refused_wherever_it_comes_from() -> None:
    with pytest.raises(AdviceError, match="a number of 0 or more"):
        changed(run(), [Scale(selector="compute", factor=-0.5)])


def test_a_split_of_sms_is_two_numbers() -> None:
    assert parse_sms("124/8") == SmSplit(compute=124, communication=8)
    with pytest.raises(AdviceError, match="as in 124/8"):
        parse_sms("124")


def test_all_selectors_of_a_plan_select_something() -> None:
    assert list(selectors(run())) == [
        "compute", "communication", "communication.data", "communication.barrier", "launch", "host",
        "deepep", "gemm", "phase:dispatch(F)", "phase:attn(F)", "phase:mlp(F)", "rank:0",
    ]  # fmt: skip
    for selector in selectors(run()):
        changed(run(), [Scale(selector=selector, factor=0.5)])
