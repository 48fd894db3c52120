"""Planted traces lose what they say they lose, and are what they say they are. Nothing of the advice is asked."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import weftrace as wt
from tests.findings.confusion import Told, judge
from tests.findings.planted import Case, cases
from tests.findings.planted.catalogue import CAUSES, HEALTHY, STRENGTHS, planted

QUICK = range(2, len(list(planted())), 24)


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
    assert first.write(tmp_path).read_bytes() == second.write(tmp_path / "again").read_bytes()


def test_every_cause_is_planted_in_three_strengths() -> None:
    assert all(len(cause.sizes) == len(STRENGTHS) for cause in CAUSES)
    assert len(HEALTHY) >= 30


def events_of(case: Case, folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    with gzip.open(case.write(folder)) as file:
        document = json.load(file)
    return document, document.pop("traceEvents")


def test_a_file_has_shapes_blocks_and_the_device(tmp_path: Path) -> None:
    document, events = events_of(next(iter(cases(every=1_000_000, offset=len(list(planted()))))), tmp_path)
    assert document["deviceProperties"][0]["numSms"] == 132
    categories = Counter(event.get("cat") for event in events)
    assert categories["kernel"] > 300
    linear = next(event for event in events if event["name"] == "aten::addmm")
    assert linear["args"]["Input Dims"] == [[6144], [8192, 2048], [2048, 6144]]
    assert next(event for event in events if event.get("cat") == "kernel")["args"]["block"] == [128, 1, 1]


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
