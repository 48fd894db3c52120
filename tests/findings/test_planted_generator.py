"""Planted traces lose what they say they lose, and are what they say they are. Nothing of the advice is asked."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import weftrace as wt
from tests.findings.confusion import Told, judge
from tests.findings.planted import Case, cases
from tests.findings.planted.catalogue import HEALTHY, NEAR_MISSES, near_miss, planted, together, together_case
from tests.findings.planted.causes import CAUSES, STRENGTHS, Cause, changes_of
from tests.findings.planted.devices import MI300X
from tests.findings.planted.programs import parallel, transformer, words

QUICK = range(2, len(list(planted())), 54)


def case_number(number: int) -> Case:
    return next(iter(cases(every=1_000_000, offset=number)))


@pytest.mark.parametrize("number", QUICK)
def test_removing_the_cause_saves_what_is_said_and_the_file_reads(number: int, tmp_path: Path) -> None:
    case = case_number(number)
    assert all(0 < gain < 1 for gain in case.gain.values()), case.gain
    trace = wt.open(str(case.write(tmp_path)))
    assert trace is not None


def test_cases_are_the_same_each_time(tmp_path: Path) -> None:
    first, second = case_number(30), case_number(30)
    assert first.gain == second.gain
    (tmp_path / "again").mkdir()
    written = (first.write(tmp_path), second.write(tmp_path / "again"))
    assert len({gzip.decompress(path.read_bytes()) for path in written}) == 1  # the packed ones hold the time of day


def test_every_cause_is_planted_in_three_strengths() -> None:
    assert all(len(cause.sizes) == len(STRENGTHS) for cause in CAUSES)
    assert len(HEALTHY) >= 30


def events_of(case: Case, folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    with gzip.open(case.write(folder)) as file:
        document = json.load(file)
    return document, document.pop("traceEvents")


def test_a_file_has_shapes_blocks_and_the_device(tmp_path: Path) -> None:
    document, events = events_of(case_number(len([*planted(), *together()])), tmp_path)
    assert document["deviceProperties"][0]["numSms"] == 132
    categories = Counter(event.get("cat") for event in events)
    assert categories["kernel"] > 300
    linear = next(event for event in events if event["name"] == "aten::addmm")
    assert linear["args"]["Input Dims"] == [[6144], [8192, 2048], [2048, 6144]]
    assert next(event for event in events if event.get("cat") == "kernel")["args"]["block"] == [128, 1, 1]


#: What of kernels' time a mild cause must at least take: the rule's threshold, and what is measured against it.
SHARES: dict[str, tuple[float, str, str]] = {
    "fp32-gemm": (0.05, r"sgemm", r"gemm"),
    "old-gemm-kernels": (0.10, r"^ampere_|^volta_", r"gemm"),
    "unfused-attention": (0.05, r"softmax_warp", ""),
    "unfused-elementwise": (0.25, r"elementwise|MeanOps|norm_kernel|layer_norm", ""),
    "casts-and-copies": (0.08, r"copy_kernel|CatArray", ""),
    "layout-transforms": (0.03, r"nchwToNhwc|nhwcToNchw|batched_transpose", ""),
}


def first_of(rule: str) -> Case:
    """The rule's mild case in its first program."""
    number = 0
    for cause in CAUSES:
        if cause.rule == rule:
            return case_number(number)
        number += len(cause.programs) * len(cause.sizes)
    raise AssertionError(rule)


@pytest.mark.parametrize("rule", SHARES)
def test_a_mild_cause_takes_half_more_than_its_rule_asks_for(rule: str, tmp_path: Path) -> None:
    least, part, whole = SHARES[rule]
    _, events = events_of(first_of(rule), tmp_path)
    took = Counter[str]()
    for event in events:
        if event.get("cat") == "kernel":
            took[event["name"]] += event["dur"]
    share: float = sum(us for name, us in took.items() if re.search(part, name))
    share /= sum(us for name, us in took.items() if re.search(whole, name))
    assert 1.3 * least < share < 2.6 * least


#: Where the device waits: the share of the span that the rule asks for, and a mild cause costs at least.
COSTS = {
    "host-bound": 0.20, "sync-every-step": 0.01, "data-loading": 0.05, "decode-gap": 0.10, "sm-wait": 0.01,
    "allocator": 0.01, "pageable-copies": 0.01, "fsdp-rate-limiter": 0.01, "graph-breaks": 0.10, "graph-launch": 0.10,
    "recomputation": 0.10, "gc-pause": 0.05, "recompilation": 0.05,
}  # fmt: skip


@pytest.mark.parametrize("rule", COSTS)
def test_a_mild_cause_costs_more_than_its_rule_asks_for(rule: str) -> None:
    assert COSTS[rule] < first_of(rule).gain[rule] < 3.5 * COSTS[rule]


#: Where something of it remains once it is mended: the branch in TF32, one launch of a graph, compiled code, FSDP's
#: hooks, fewer parameters that are trained.
LEFT = {
    "optimizer-step",
    "fp32-gemm",
    "tiny-kernels",
    "unfused-elementwise",
    "fsdp-rate-limiter",
    "sm-wait",
    "decode-outside-graphs",
}


@pytest.mark.parametrize("cause", [cause for cause in CAUSES if cause.rule not in LEFT], ids=lambda cause: cause.rule)
def test_without_the_cause_a_program_is_as_it_was(cause: Cause) -> None:
    program = cause.programs[0].having(**changes_of(cause, cause.programs[0], 1))
    size = cause.sized(program, cause.sizes[1]) if cause.sized else cause.sizes[1]
    planted = program.having(plants={cause.rule: size})
    mended = planted.having(removed=frozenset({cause.rule}))
    assert mended.span_ns() == pytest.approx(program.span_ns(), rel=0.07 if cause.rule == "decode-gap" else 0.03)


def test_a_healthy_device_hardly_waits(tmp_path: Path) -> None:
    programs = [*HEALTHY, *(make() for _, make in NEAR_MISSES)]
    for program in programs[::4]:
        _, world = program.whole()
        assert world.idle_ns() < 0.10 * world.span_ns(), words(program)


def test_together_causes_save_less_than_the_sum_of_each_and_more_than_any() -> None:
    rules = ("data-loading", "fp32-gemm")
    case = together_case(rules, transformer(loss_read=True), 1, 4)
    assert case.causes == set(rules)
    assert max(case.gain.values()) < case.all_gain < sum(case.gain.values()) + 0.01


def test_what_is_justified_is_no_cause() -> None:
    name, make = NEAR_MISSES[0]
    case = near_miss(name, 0, make)
    assert not case.causes and not case.gain and case.all_gain == 0


def test_a_copy_on_amd_says_in_its_call_which_way_it_goes(tmp_path: Path) -> None:
    rule, program = "pageable-copies", transformer(MI300X, loss_read=True)
    _, events = events_of(together_case((rule,), program, 1, 4), tmp_path)
    blocking = [event for event in events if event["name"] == "hipMemcpyWithStream"]
    assert Counter(event["args"]["kind"] for event in blocking) == {"1": 4, "2": 4}
    assert max(event["dur"] for event in blocking) > 1_000
    assert not any(event["name"].startswith("cuda") for event in events)


def test_data_parallel_has_two_devices_in_a_process(tmp_path: Path) -> None:
    document, events = events_of(together_case(("ddp-overhead",), parallel(), 1, 4), tmp_path)
    assert [device["id"] for device in document["deviceProperties"]] == [0, 1]
    kernels = Counter(event["pid"] for event in events if event.get("cat") == "kernel")
    assert 0.8 < kernels[1] / kernels[0] < 1


def made_case(*causes: str, also_fine: tuple[str, ...] = (), **gain: float) -> Case:
    return Case(
        name="made",
        causes=frozenset(causes),
        also_fine=frozenset(also_fine),
        write=lambda folder: folder,
        gain={rule.replace("_", "-"): share for rule, share in gain.items()},
        all_gain=0.0,
    )


def test_a_remark_takes_no_place_and_a_fourth_finding_is_missed() -> None:
    case = made_case("data-loading", also_fine=("host-bound",), data_loading=0.20)
    told = [Told(rule="ranks-missing"), Told(rule="host-bound"), Told(rule="tiny-kernels")]
    found = judge(case, [*told, Told(rule="data-loading", low=0.10, high=0.18)])
    assert found.found == {"data-loading"} and found.right == {"data-loading"} and found.false == {"tiny-kernels"}
    late = judge(case, [*told, Told(rule="gc-pause"), Told(rule="data-loading", low=0.10, high=0.16)])
    assert late.missed == {"data-loading"} and late.wrong == {"data-loading"}
