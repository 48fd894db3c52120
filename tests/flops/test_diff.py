"""What changed between two reports, against a pencil."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.flops.small_reports import MODULES, OPS, TINY, UNTIMED, B, F, matmul, op
from weftrace.errors import FlopsError
from weftrace.flops.several.diff import Change, diff, parse_fraction
from weftrace.flops.values import Clock, FlopsReport, Module, Timing


def change(found: tuple[Change, ...], quantity: str, phase: object = None, path: str | None = None) -> Change:
    return next(x for x in found if (x.quantity, x.phase, x.path) == (quantity, phase, path))


def test_a_report_and_itself() -> None:
    same = diff(TINY, TINY)
    assert same.is_same
    assert not same.exceeds(0)
    assert not (same.notes or same.added or same.modules)
    assert all(x.before == x.after for x in same.model)


def test_more_flops_by_pencil() -> None:
    more = replace(TINY, ops=(*OPS, op(1, F, "extra", matmul(8, 0, 0))))
    found = diff(TINY, more)
    assert change(found.model, "flops").relative == pytest.approx(8 / 672)
    assert change(found.model, "flops", F).after == 296
    assert change(found.modules, "flops", F, "fc1").before == 192
    assert not any(x.path == "fc2" for x in found.modules)
    assert found.exceeds(0.01)
    assert found.exceeds(0.0277)  # the forward alone: 8 / 288
    assert not found.exceeds(0.028)
    assert not found.is_same
    flops = change(found.modules, "flops", F, "fc1")
    assert (flops.before, flops.after) == (192, 200)
    assert flops.relative == pytest.approx(8 / 192)
    sizes = [abs(x.relative) for x in found.ranked()]
    assert sizes == sorted(sizes, reverse=True) and len(sizes) == len(found.modules)


def test_fewer_flops_count_too() -> None:
    assert diff(replace(TINY, ops=(*OPS, op(1, F, "extra", matmul(80, 0, 0)))), TINY).exceeds(0.05)


def test_from_nothing_is_beyond_any_fraction() -> None:
    found = diff(replace(UNTIMED, ops=()), UNTIMED)
    assert change(found.model, "flops").relative == math.inf
    assert found.exceeds(10**9)


def test_added_and_removed_modules() -> None:
    new = Module(path="head", name="head", class_name="Linear", parent=0, depth=1, own_params=5)
    found = diff(TINY, replace(TINY, modules=(*MODULES, new)))
    assert (found.added, found.removed) == (("head",), ())
    assert change(found.model, "params_total").after == 53
    assert change(found.modules, "params_total", None, "").after == 53
    back = diff(replace(TINY, modules=(*MODULES, new)), TINY)
    assert (back.added, back.removed) == ((), ("head",))


def timed(step: tuple[int, ...]) -> FlopsReport:
    return replace(
        TINY,
        times=(Timing(module=1, phase=F, samples_ns=step),),
        clock=Clock(source="cpu clock", steps=len(step), step_ns=step),
    )


def test_a_time_within_the_spread_is_no_change() -> None:
    found = diff(timed((100, 110, 120)), timed((115, 118, 130)))
    assert change(found.model, "time_ns").is_within_spread
    assert found.is_same
    assert not found.exceeds(0)
    step = change(found.model, "time_ns")
    assert (step.before, step.after) == (110, 118)


def test_a_slower_step_is_a_change_and_a_faster_one_does_not_fail() -> None:
    slow, fast = timed((200, 210, 220)), timed((100, 110, 120))
    assert diff(fast, slow).exceeds(0.5)
    assert change(diff(fast, slow).modules, "time_ns", F, "fc1").after == 210
    assert not diff(slow, fast).exceeds(0)
    assert not diff(slow, fast).is_same


def test_one_sample_has_no_spread() -> None:
    found = diff(timed((100,)), timed((200,)))
    assert not found.exceeds(0)
    assert any("spread is unknown" in note for note in found.notes)


def test_notes_on_what_cannot_be_compared() -> None:
    notes = " ".join(diff(TINY, replace(UNTIMED, samples=4, modules=(*MODULES[:1], *MODULES[1:]))).notes)
    assert "samples differs: 3 and 4." in notes
    assert "One of the reports was not timed" in notes
    odd = replace(TINY, modules=(MODULES[0], replace(MODULES[1], class_name="LoRA"), *MODULES[2:]))
    assert "fc1 was a Linear and is a LoRA." in diff(TINY, odd).notes
    assert B not in {x.phase for x in diff(TINY, odd).modules}


@pytest.mark.parametrize(("text", "value"), [("1%", 0.01), (" 2.5 % ", 0.025), ("0.01", 0.01), (".5", 0.5), ("0", 0)])
def test_fractions(text: str, value: float) -> None:
    assert parse_fraction(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "one", "-1%", "1 percent", "nan"])
def test_what_is_no_fraction_is_refused(text: str) -> None:
    with pytest.raises(FlopsError, match=r"write it as 1% or as 0\.01"):
        parse_fraction(text)
