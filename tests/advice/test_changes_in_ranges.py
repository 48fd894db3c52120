"""Changes of what lies in ranges of the host, on traces whose answer can be told by hand; times in µs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.advice.runs import trace_of
from tests.tracefile import ALL_REDUCE, GEMM, TraceFile
from weftrace.advice.changed_plans import changed, span_ns
from weftrace.advice.changes import Change, FreeStreams, NoBlocking, Remove, Scale
from weftrace.advice.jobs import infer_job
from weftrace.advice.op_times import op_times
from weftrace.advice.whatifs import what_if
from weftrace.errors import AdviceError
from weftrace.plan import by_phase
from weftrace.plan.inference.inferring import infer
from weftrace.plan.inference.values import Inferred

SPAN = 353.0


def write(folder: Path, *, rank: int = 0, world_size: int = 1, later: float = 0) -> Path:
    """Two rounds of 200; a launch takes 4, its latency 2. The host is late for every kernel.

    thread  mm [launch 4]  item [sync until 53]     to [38 .. launch 4, 18]     add [5, launch 4]
    7                    [gemm 40]                                  [copy 10]              [add 10]
            0   2       8        48  55           90    110       116   126    140 145   151   161
    """
    file = TraceFile(rank=rank, world_size=world_size)
    for at in (1_000 + later, 1_200 + later):
        file.host(f"step {at - later:.0f}", at - 5, 190)
        for name, start, lasts in (("aten::mm", 0, 10), ("aten::item", 20, 60), ("aten::to", 90, 40),
                                   ("aten::add", 140, 14)):  # fmt: skip
            file.host(name, at + start, lasts, cat="cpu_op")
        file.host("cudaStreamSynchronize", at + 22, 33, cat="cuda_runtime")
        for name, launch, lasts in ((GEMM, 2, 40), ("copy_kernel", 110, 10), ("add_kernel", 145, 10)):
            file.kernel(name, at + launch + 6, lasts, launch=at + launch)
            file.events[-2]["dur"] = 4
    return file.write(folder / f"rank{rank}.json")


def run(folder: Path) -> Inferred:
    return infer(trace_of(write(folder)))


def span(inferred: Inferred, *changes: Change) -> float:
    return span_ns(changed(inferred, changes)) / 1_000


@pytest.mark.parametrize(
    ("change", "saved"),
    [
        (NoBlocking(pattern="aten::item"), 2 * 26),  # from 46 to 20
        (NoBlocking(pattern="^step 1000"), 26),
        (NoBlocking(pattern="Synchronize"), 52),
        (Scale(selector="host:aten::to", factor=0), 2 * 40),  # its launch and what is around that, of two gaps a part
        (Scale(selector="host:aten::to", factor=0.5), 40),
        (Scale(selector="host:^step 1200", factor=0), 102),  # but the sync waits, and the copy for the add
        (Scale(selector="operator:aten::mm", factor=0.5), 2 * 20),
        (Scale(selector="annotation:step 1000", factor=0.5), 20),
        (Remove(selector="operator:aten::to"), 80),
        (Remove(selector="operator:aten::(to|mm)"), 144),  # on the host 2 × 40, 10 of mm, and what the sync waited
    ],
    ids=str,
)
def test_what_a_range_holds_is_changed_and_nothing_else(change: Change, saved: float, tmp_path: Path) -> None:
    inferred = run(tmp_path)
    assert span(inferred) == SPAN == inferred.replay.span_ns / 1_000
    assert SPAN - span(inferred, change) == saved


def test_events_take_other_times_and_those_that_take_none_are_not_launched(tmp_path: Path) -> None:
    inferred = run(tmp_path)
    (work,) = inferred.works
    gemm, copy, add = 0, 1, 2
    assert work.events.get_column("name").cast(str).to_list()[:3] == [GEMM, "copy_kernel", "add_kernel"]
    half = op_times("half", work, [gemm], 20_000)
    assert SPAN - span(inferred, half) == 20
    assert SPAN - span(inferred, half, op_times("copy", work, [copy], [0])) == 20, "the launch stays"
    free = op_times("free", work, [copy], 0, frees_launches=True)
    assert SPAN - span(inferred, half, free) == 20 + 40
    assert SPAN - span(inferred, half + free) == 60
    with pytest.raises(AdviceError, match="say once what to try"):
        changed(inferred, [half, op_times("half", work, [add], 0)])
    assert half == op_times("half", work, [add], 0) and hash(half) == hash(op_times("half", work, [add], 0))
    for rows, lasts, why in (([gemm, gemm], 1, "each once"), ([99], 1, "6 events"), ([gemm], -1, "0 or more")):
        with pytest.raises(AdviceError, match=why):
            op_times("wrong", work, rows, lasts)
    other = infer(trace_of(write(tmp_path, rank=1))).works[0]
    with pytest.raises(AdviceError, match="rank 1, device 0 is 0 devices of this plan"):
        changed(inferred, [op_times("other", other, [gemm], 1)])


def test_of_joined_ranks_each_is_changed_on_its_own_clock(tmp_path: Path) -> None:
    paths = [write(tmp_path, rank=0, world_size=2), write(tmp_path, rank=1, world_size=2, later=100)]
    inferred = infer_job([trace_of(path) for path in paths])
    assert span(inferred) == SPAN + 100
    assert SPAN + 100 - span(inferred, NoBlocking(pattern="aten::item")) == 52
    assert SPAN + 100 - span(inferred, Scale(selector="host:aten::to", factor=0)) == 80
    assert SPAN + 100 - span(inferred, Remove(selector="operator:aten::to")) == 80
    last = op_times("last", inferred.works[1], [5], 4_000)
    assert SPAN + 100 - span(inferred, last) == 6


def test_ranges_are_where_they_were_though_clocks_of_ranks_differ(tmp_path: Path) -> None:
    """Rank 1's stamps are a second and a half ahead; each of four rounds ends with an all-reduce of both."""
    paths = []
    for rank, ahead in ((0, 0), (1, 1_500_000)):
        file = TraceFile(rank=rank, world_size=2)
        for number in range(4):
            at = 1_000 + 500 * number + ahead
            file.host("load", at + 20, 100).kernel(GEMM, at + 210, 40, launch=at + 200)
            told: dict[str, Any] = {
                "Collective name": "allreduce", "In msg nelems": 1_000, "Out msg nelems": 1_000, "dtype": "Float",
                "Group size": 2, "Process Group Name": "0", "Process Group Ranks": "[0, 1]", "Seq": number,
            }  # fmt: skip
            file.kernel(ALL_REDUCE, at + 250, 30, launch=at + 202, **told)
        paths.append(file.write(tmp_path / f"rank{rank}.json"))
    inferred = infer_job([trace_of(path) for path in paths])
    assert inferred.plan.ops.get_column("meet").n_unique() == 5
    assert span(inferred) == 1_500 + 70
    assert span(inferred, Scale(selector="host:load", factor=0)) == 1_500 + 70 - 3 * 100
    assert span(inferred, Scale(selector="host:load", factor=0.5)) == 1_500 + 70 - 3 * 50


def test_a_plan_of_phases_is_changed_by_the_kernels_in_it(tmp_path: Path) -> None:
    inferred = by_phase(run(tmp_path))
    assert span(inferred) == SPAN
    (work,) = inferred.works
    assert SPAN - span(inferred, op_times("gone", work, [3, 4, 5], 0)) == 26 + 45  # no sync, and no stretch
    assert SPAN - span(inferred, Scale(selector="operator:aten::mm", factor=0.5)) == 2 * 20
    assert SPAN - span(inferred, NoBlocking(pattern="aten::item")) == 2 * 26


def test_a_call_that_had_nothing_left_to_wait_for_waits_in_place_of_the_one_before(tmp_path: Path) -> None:
    """thread  [launch 4]     item [sync until 53]   [sync 5]     [launch 4]
    7                      [gemm 40, until 46]                            [add 10]"""
    file = TraceFile()
    file.kernel(GEMM, 1_006, 40, launch=1_000).events[-2]["dur"] = 4
    file.host("aten::item", 1_020, 40, cat="cpu_op").host("cudaStreamSynchronize", 1_022, 31, cat="cuda_runtime")
    file.host("cudaDeviceSynchronize", 1_070, 5, cat="cuda_runtime")
    file.kernel("add_kernel", 1_096, 10, launch=1_090).events[-2]["dur"] = 4
    inferred = infer(file.trace(tmp_path))
    assert span(inferred) == 100
    one = span(inferred, NoBlocking(pattern="aten::item"))  # 22 + 7, work of 17: the other waits until 46, then 5
    assert one == 46 + 5 + 15 + 4 + 2 + 10 - 6
    assert span(inferred, NoBlocking(pattern="aten::item"), NoBlocking(pattern="Device")) == 100 - 24
    assert span(inferred, NoBlocking(pattern="aten::item|Device")) == 100 - 24


@pytest.mark.parametrize(("asked", "freed"), [(False, True), (True, False)])
def test_streams_are_free_where_no_call_asked_one_to_wait(asked: bool, freed: bool, tmp_path: Path) -> None:
    """7   [a 100]         four rounds; b is launched early, and starts as a ends all the same
    20         [b 50]"""
    file = TraceFile()
    for at in range(1_000, 2_000, 250):
        file.kernel("a", at + 10, 100, launch=at)
        if asked:
            file.host("cudaStreamWaitEvent", at + 2, 1, cat="cuda_runtime")
        file.kernel("b", at + 111, 50, launch=at + 5, stream=20)
    inferred = infer(file.trace(tmp_path))
    votes = inferred.edges.filter(source="voted")
    assert votes.height == 4
    if freed:
        assert span(inferred) - span(inferred, FreeStreams()) == 51
        (note,) = changed(inferred, [FreeStreams()]).notes
        assert note == "free streams drop 4 voted waits between streams of one device"
    else:
        with pytest.raises(AdviceError, match="of the launch order alone"):
            changed(inferred, [FreeStreams()])


def test_what_selects_nothing_says_what_there_is(tmp_path: Path) -> None:
    inferred = run(tmp_path)
    for change, why in (
        (NoBlocking(pattern="tolist"), "'tolist'; these block: cudaStreamSynchronize"),
        (NoBlocking(pattern="["), "no regular expression"),
        (Scale(selector="operator:nothing", factor=0), "'operator:nothing' selects nothing"),
        (Scale(selector="host:nothing", factor=0), "'host:nothing' selects nothing"),
        (Scale(selector="frame:main", factor=0), "has no Python frames: record with with_stack=True"),
        (Scale(selector="module:Linear", factor=0), "has no modules"),
        (Remove(selector="launch"), "names no work on a device"),
    ):
        with pytest.raises(AdviceError, match=why):
            changed(inferred, [change])


def test_an_answer_says_what_such_a_change_leaves_out(tmp_path: Path) -> None:
    answer = what_if(run(tmp_path), [NoBlocking(pattern="aten::item"), Remove(selector="operator:aten::to")])
    assert answer.after_ns / 1_000 == SPAN - 52 - 80
    assert any("uses no value before" in limit for limit in answer.limits)
    assert any("is taken to be needed by nothing" in limit for limit in answer.limits)
