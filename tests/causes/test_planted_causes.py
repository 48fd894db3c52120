"""Causes of idle time that a simulator planted are named. `python -m tests.causes.confusion` prints all."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import weftrace as wt
from tests.causes.confusion import judge
from tests.causes.planted import FAMILIES, Case, cases, make
from tests.causes.recorder import save
from tests.fuzz import is_thorough, thorough
from weftrace.analysis import breakdown

GOAL = 0.98
QUICK = ("loader", "pageable batch", "free and allocate", "first use", "sampled records", "silent backward", "no idle")


def quick_cases() -> list[Case]:
    """One case of some families, of another strength each."""
    found = []
    for number, family in enumerate(QUICK):
        of_it = [case for case in cases() if case.family == family]
        found.append(of_it[(7 * number) % min(12, len(of_it))])
    return found


@pytest.mark.parametrize("case", quick_cases(), ids=str)
def test_a_planted_cause_is_named_first(case: Case, tmp_path: Path) -> None:
    judged = judge(case, tmp_path)
    assert not judged.wrong, judged.headline


@thorough
def test_nearly_all_planted_causes_are_named_first(tmp_path: Path) -> None:
    assert is_thorough()
    judged = [judge(case, tmp_path) for case in cases()]
    wrong = [f"{one.case}: {'; '.join(one.wrong)}" for one in judged if one.wrong]
    assert len(wrong) <= (1 - GOAL) * len(judged), "\n".join(wrong)


def test_the_simulated_idle_time_is_that_of_the_file(tmp_path: Path) -> None:
    """Gaps, launches and lost records are counted by the simulator itself."""
    chosen = {case.family: case for case in cases() if case.strength < 0.3}
    for family in ("graph launch", "cut file"):
        made = make(chosen[family])
        path = tmp_path / "planted.json.gz"
        save(made.world, made.recording, path)
        trace = wt.open(str(path))
        assert isinstance(trace, wt.Trace)
        found = breakdown(trace)
        assert (found.idle_ns, found.span_ns) == (made.idle_ns, made.world.span_ns()), family
        assert sum(made.cut.values()) == made.idle_ns


@pytest.mark.parametrize("module", ["simulator", "recorder", "programs", "planted"])
def test_the_simulator_shares_no_code_with_weftrace(module: str) -> None:
    tree = ast.parse((Path(__file__).parent / f"{module}.py").read_text())
    imported = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported += [name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names]
    assert not [name for name in imported if name.startswith("weftrace")]


def test_every_cause_is_planted_in_strengths_that_differ() -> None:
    """So that no cause is right by chance: the share of idle time is what was asked for."""
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)
    of_it = [case for case in cases() if case.family == "Python" and case.setting.style == "graph"]
    for strength in (0.10, 0.50):
        case = next(case for case in of_it if case.strength == strength)
        made = make(case)
        share = (made.idle_ns - made.without_ns) / made.world.span_ns()
        assert share == pytest.approx(strength, abs=0.02)
        assert made.planted_ns > 0.6 * made.idle_ns
