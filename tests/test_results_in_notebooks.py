"""Every result of the ground and of a trace's report shows itself in a notebook in a few lines."""

from __future__ import annotations

import inspect
import re
from functools import cache
from types import ModuleType
from typing import Any

import pytest

import weftrace.advice
import weftrace.analysis
import weftrace.plan
import weftrace.report
import weftrace.trace
from weftrace.cli.outputs import stdout
from weftrace.notebook import InNotebook
from weftrace.plan import deepseek_training_layers, longest_chain, simulate, timetable

PACKAGES = (weftrace.analysis, weftrace.plan, weftrace.trace, weftrace.report, weftrace.advice)
MOST_CHARACTERS = 5_000
NO_RESULTS = {"Intervals", "ReportOptions"}  # two arrays, which show themselves; what is asked for


def results(package: ModuleType) -> list[type]:
    """The classes that a package gives away."""
    values = [getattr(package, name) for name in package.__all__ if name not in NO_RESULTS]
    return [value for value in values if inspect.isclass(value)]


@pytest.mark.parametrize("result", [each for package in PACKAGES for each in results(package)])
def test_a_result_shows_itself(result: type) -> None:
    assert issubclass(result, InNotebook)


@cache
def values() -> list[Any]:
    """Values of a long simulated run: 100 layers, about 50,000 events."""
    plan = deepseek_training_layers(100)
    trace = simulate(plan)
    work = weftrace.trace.work_of(trace)
    rank = weftrace.analysis.analyze_rank(work)
    report = weftrace.report.analyze(trace, timelines=False)
    rules = weftrace.trace.load_rules()
    parts = [getattr(rank, name) for name in ("breakdown", "overlap", "kernels", "operators", "idle", "queueing")]
    return [
        plan, plan.op(0), plan.op(0).resource, timetable(plan), longest_chain(plan),
        trace, trace.devices[0], trace.quality, work, rules, rules.rules[0],
        rank, *parts, rank.overlap.matrix, rank.headroom, rank.quality, rank.steps[0], *rank.lanes,
        weftrace.analysis.account_of(work), report, report.analysis,
    ]  # fmt: skip


def test_it_is_short_however_much_there_is() -> None:
    for value in values():
        text = re.sub("<img.*?>", "", value._repr_html_())
        assert len(text) < MOST_CHARACTERS, (type(value), len(text))
        assert "shape:" not in text and "DataFrame(" not in text, type(value)


def test_what_is_shown_fits_the_cell_of_a_narrow_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.delenv("JUPYTER_COLUMNS", raising=False)
    assert stdout().width == 88
    monkeypatch.setenv("JUPYTER_COLUMNS", "120")
    assert stdout().width == 120


def test_it_tells_what_counts() -> None:
    plan, trace, report = values()[0], values()[5], values()[-2]
    assert "of communication; the largest loss is" in report._repr_html_()
    assert "0 of 64" in trace._repr_html_() and "simulated" in trace._repr_html_()
    assert "1,800 on 3 streams of 1 ranks" in plan._repr_html_()
