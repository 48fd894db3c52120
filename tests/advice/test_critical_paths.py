"""Critical paths that a pencil can check, and what they say."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from tests.advice.made import (
    COMPUTE,
    SIDE,
    call,
    inferred_of,
    kernel,
    launched_by,
    plan_of,
    send,
)
from weftrace.advice.changes import Scale
from weftrace.advice.critical_paths import CAUSES, critical_path_of
from weftrace.advice.sensitivities import curve, sensitivity
from weftrace.advice.waterfalls import waterfall
from weftrace.advice.whatifs import what_if
from weftrace.errors import AdviceError
from weftrace.plan import Inferred, Resource, Wait
from weftrace.plan.inference.values import SOURCES

GOLDEN = Path(__file__).parent / "golden" / "sentences.txt"


def rows(frame: object) -> dict[str, int]:
    """name: µs"""
    return {name: time_ns / 1_000 for name, time_ns, _ in frame.iter_rows()}  # type: ignore[attr-defined]


def layer() -> Inferred:
    """A layer that waits for its dispatch.

    thread    [work 10][launch 4]                              launch latency 6, gap 2 (on the thread as well)
    7                      .     [attn 20]         [mlp 30]    attn starts at 10+2+4+6 = 22
    27                                  3[send 40]3            latency of a wait: 3
    """
    return inferred_of(
        plan_of(
            call("work", 10),
            call("launch attn", 4),
            kernel("attn", 20, COMPUTE, launched_by("launch attn", 6), phase="attn(F)"),
            send("send", 40, Wait(on="attn", lag_ns=3_000, why="vote"), phase="dispatch(F)"),
            kernel("mlp", 30, COMPUTE, Wait(on="send", lag_ns=3_000), phase="mlp(F)"),
            kernel("norm", 5, COMPUTE, phase="mlp(F)"),
            kernel("wgrad", 8, SIDE, Wait(on="attn"), phase="mlp(W)"),
            gap_us=2,
        ),
        families={"attn": "attention", "mlp": "gemm", "send": "deepep", "norm": "norm"},
        votes={"send": (3, 1)},
    )


def test_the_path_is_split_by_class_phase_family_and_cause_from_the_first_start_on_the_device() -> None:
    path = critical_path_of(layer())
    assert path.span_ns == (20 + 3 + 40 + 3 + 30 + 2 + 5) * 1_000
    assert path.before_ns == 22_000, "what the host did before the first kernel is left out"
    assert rows(path.by_class) == {"compute": 55, "communication": 40, "dependency": 6, "idle": 2}
    assert rows(path.by_phase) == {"dispatch(F)": 43, "mlp(F)": 40, "attn(F)": 20}
    assert rows(path.by_family) == {"deepep": 40, "gemm": 30, "attention": 20, "dependency": 6, "norm": 5, "idle": 2}
    assert rows(path.by_cause) == {"voted wait": 43, "recorded wait": 33, "launch": 20, "stream order": 7}
    assert path.path.get_column("name").to_list() == ["work", "launch attn", "attn", "send", "mlp", "norm"]


def test_the_least_sure_wait_is_named_with_its_votes() -> None:
    weakest = critical_path_of(layer()).weakest
    assert weakest is not None
    assert (weakest.name, weakest.on_name, weakest.source) == ("send", "attn", "voted")
    assert (weakest.votes_for, weakest.votes_against, weakest.confidence) == (3, 1, 0.6)
    certain = inferred_of(plan_of(kernel("a", 1), kernel("b", 1)))
    assert critical_path_of(certain).weakest is None


def test_slack_is_how_much_later_an_op_may_start() -> None:
    inferred = layer()
    slack = dict(zip(inferred.plan.ops.get_column("id"), critical_path_of(inferred).slack_ns.tolist(), strict=True))
    assert slack["wgrad"] == (3 + 40 + 3 + 30 + 2 + 5 - 8) * 1_000
    assert slack["attn"] == slack["send"] == slack["mlp"] == slack["norm"] == 0


def test_a_host_that_ends_after_the_device_decides_nothing() -> None:
    # thread  [launch 4][       work 50      ]
    # 7                 [a 10]
    plan = plan_of(call("launch a", 4), call("work", 50), kernel("a", 10, COMPUTE, launched_by("launch a")))
    path = critical_path_of(inferred_of(plan))
    assert rows(path.by_class) == {"compute": 10}
    assert path.slack_ns.tolist() == [0, 0, 0]
    shorter = plan_of(call("launch a", 4), call("work", 3), kernel("a", 10, COMPUTE, launched_by("launch a")))
    assert critical_path_of(inferred_of(shorter)).slack_ns.tolist() == [0, 7_000, 0]


def test_time_that_the_device_waits_for_its_host_is_the_hosts() -> None:
    # thread  [launch a 4]1[   work 20   ]1[launch b 4]       gap 1, latency 2
    # 7                  2[a 10]                      2[b 10]
    plan = plan_of(
        call("launch a", 4), call("work", 20), call("launch b", 4),
        kernel("a", 10, COMPUTE, launched_by("launch a", 2)), kernel("b", 10, COMPUTE, launched_by("launch b", 2)),
        gap_us=1,
    )  # fmt: skip
    path = critical_path_of(inferred_of(plan))
    # from a's start at 6: of work 19 (5 to 25), gaps 1, launch b 4, latency 2, b 10
    assert rows(path.by_class) == {"host": 20, "compute": 10, "launch": 6}
    assert rows(path.by_phase) == {"host threads": 24, "outside phases": 12}
    assert rows(path.by_cause) == {"thread order": 24, "launch": 12}


def held() -> Inferred:
    """A kernel that waits for SMs.

    7    [a 10][  big 40    ]           big holds the SMs that wide, ready at 10, lacks until 4 before big's end
    23   [c 20]           [wide 15]     wide's stream is free at 20
    """
    ops = kernel("a", 10), kernel("big", 40), kernel("c", 20, SIDE)
    return inferred_of(plan_of(*ops, kernel("wide", 15, SIDE, Wait(on="a"), Wait(on="big", lag_ns=-4_000, why="sm"))))


def test_of_the_gap_before_a_call_what_the_call_took_is_its_own() -> None:
    # thread  [launch 0 5][launch 1 5]1[launch 2 5]      measured; the plan keeps a gap of 2, and calls of 3, 3 and 4
    ops = [call("launch 0", 5), call("launch 1", 3), call("launch 2", 4)]
    ops += [kernel(f"k{i}", 1, COMPUTE, launched_by(f"launch {i}")) for i in range(3)]
    inferred = inferred_of(plan_of(*ops, gap_us=2))
    starts = {"launch 1": 5_000, "launch 2": 11_000}
    began = inferred.plan.ops.get_column("name").cast(pl.String).replace_strict(starts, default=None)
    measured = inferred.measured.with_columns(start_ns=pl.coalesce(began, "start_ns"))
    path = critical_path_of(replace(inferred, measured=measured))
    assert rows(path.by_class) == {"launch": 10, "host": 1, "compute": 1}
    assert rows(path.by_cause) == {"thread order": 11, "launch": 1}


def test_of_an_op_that_held_the_sms_what_the_next_could_have_used_is_sm_wait() -> None:
    path = critical_path_of(held())
    assert path.span_ns == 61_000
    assert rows(path.by_class) == {"compute": 10 + 10 + 15, "SM wait": 26}  # big alone 10 to 20, then 20 to 46
    assert rows(path.by_kernel) == {"big": 36, "wide": 15, "a": 10}


def met() -> Inferred:
    """Two ranks meet.

    rank 0  [a 4]~~~~~~[x0 5][d 3]
    rank 1  [ c 10    ][x1 5]            x0 and x1 meet
    """
    there = Resource(rank=1, stream=7)
    return inferred_of(
        plan_of(
            kernel("a", 4),
            send("x0", 5, "a", meet=0),
            kernel("c", 10, there),
            kernel("x1", 5, there, kind="communication", meet=0),
            kernel("d", 3, COMPUTE, "x0"),
        )
    )


def test_who_comes_last_to_a_meet_is_on_the_path() -> None:
    path = critical_path_of(met())
    assert rows(path.by_class) == {"compute": 13, "communication": 5}
    assert rows(path.by_rank) == {"1": 10, "0": 8}
    assert rows(path.by_cause)["meet"] == 5


def test_without_work_on_a_device_there_is_nothing_to_explain() -> None:
    with pytest.raises(AdviceError, match="no work on a device"):
        critical_path_of(inferred_of(plan_of(call("launch a", 4))))


def overlapped() -> Inferred:
    """Communication decides, computation beside it has slack: sends behind one another, each of 30, kernels of 10."""
    ops = []
    for i in range(4):
        ops += [kernel(f"k{i}", 10, phase="mlp(F)"), send(f"s{i}", 30, f"k{i}", phase="dispatch(F)")]
    return inferred_of(plan_of(*ops))


def starved() -> Inferred:
    """A device that waits for each launch."""
    ops = [call("work", 1)]
    for i in range(3):
        ops += [call(f"launch {i}", 20), kernel(f"k{i}", 5, COMPUTE, launched_by(f"launch {i}", 2))]
    return inferred_of(plan_of(*ops))


SAID: dict[str, Callable[[], Inferred]] = {
    "a layer, one after the other": layer,
    "communication in a queue": overlapped,
    "a host that is slow": starved,
    "SMs held by another kernel": held,
    "a rank that comes last": met,
    "one kernel": lambda: inferred_of(plan_of(kernel("a", 10))),
    "a kernel without time": lambda: inferred_of(plan_of(kernel("a", 0))),
}


def test_sentences_name_the_largest_part_what_it_is_made_of_and_why_it_ran() -> None:
    """WEFTRACE_UPDATE_GOLDENS=1 writes them anew: then read the difference."""
    summary = []
    for name, made in SAID.items():
        inferred = made()
        answer = what_if(inferred, [Scale(selector="compute", factor=0.5)])
        lines = [
            critical_path_of(inferred).sentence, answer.sentence, *answer.limits, sensitivity(inferred).sentence,
            curve(inferred, "compute").sentence, waterfall(inferred).sentence,
        ]  # fmt: skip
        summary.append("\n    ".join([name, *lines]) + "\n")
    if os.environ.get("WEFTRACE_UPDATE_GOLDENS"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text("".join(summary), encoding="utf-8")
    assert "".join(summary) == GOLDEN.read_text(encoding="utf-8")


def test_every_source_of_a_wait_has_words() -> None:
    assert set(CAUSES) == set(SOURCES)


def test_values_show_their_first_fact_and_no_screens_of_numbers() -> None:
    inferred = layer()
    path, answer = critical_path_of(inferred), what_if(inferred, [Scale(selector="compute", factor=0.5)])
    assert repr(inferred).startswith("<Inferred: ops: ")
    assert repr(path) == f"<CriticalPath: path: {path.sentence}>"
    for value in (inferred, path, answer, waterfall(inferred), sensitivity(inferred), curve(inferred, "compute")):
        assert len(repr(value)) < 300 and "\n" not in repr(value)
