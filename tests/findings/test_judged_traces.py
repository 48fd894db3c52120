"""Advice on recorded traces says what a hand would say who looked at the raw JSON: judged.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.findings.raw_numbers import raw_numbers
from tests.fuzz import is_thorough
from weftrace.advice import advise
from weftrace.advice.findings.registry import RULES

JUDGED: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("judged.toml").read_text("utf-8"))
KINDS = ("must_fire", "must_not_fire", "either")
# These limit what can be said, or name what is not worth it: they stand where they belong, beside the first three.
BESIDE = {"unrecorded-work", "ranks-missing", "leave-it", "warm-up-in-sample"}
SMALL_BYTES = 80_000  # packed: their numbers are recomputed in each run
LARGE_BYTES = 2_000_000  # packed: only a thorough run advises on them


def trace_at(folder: Path, name: str) -> Path:
    path = folder / name if (folder / name).is_dir() else folder / f"{name}.json.gz"
    if not path.exists():
        pytest.skip(f"no {path.name} in {folder}")
    return path


def files_of(path: Path) -> list[Path]:
    return sorted(path.glob("*.json.gz")) if path.is_dir() else [path]


def test_every_trace_at_hand_is_judged(shared_data: Path) -> None:
    names = {
        path.parent.name if path.parent != shared_data else path.name.removesuffix(".json.gz")
        for path in shared_data.glob("**/*.json.gz")
    }
    assert names <= set(JUDGED)


@pytest.mark.parametrize("name", JUDGED)
def test_no_rule_is_judged_twice(name: str) -> None:
    rules = [rule for kind in KINDS for entry in JUDGED[name][kind] for rule in entry["rules"]]
    assert sorted(rules) == sorted(set(rules))


@pytest.mark.parametrize("name", JUDGED)
def test_numbers_are_those_of_the_raw_file(shared_data: Path, name: str) -> None:
    path = files_of(trace_at(shared_data, name))[0]
    if not is_thorough() and path.stat().st_size > SMALL_BYTES:
        pytest.skip("a large file: its numbers are recomputed by `make thorough`")
    numbers = raw_numbers(path)
    for kind in KINDS:
        for entry in JUDGED[name][kind]:
            assert {key: numbers[key] for key in entry["number"]} == entry["number"], entry["rules"]


def test_judged_rules_exist() -> None:
    judged = {rule for trace in JUDGED.values() for kind in KINDS for entry in trace[kind] for rule in entry["rules"]}
    assert judged <= {rule.id for rule in RULES}


@pytest.mark.parametrize("name", JUDGED)
def test_advice_is_as_judged(shared_data: Path, name: str) -> None:
    path = trace_at(shared_data, name)
    if not is_thorough() and path.is_file() and path.stat().st_size > LARGE_BYTES:
        pytest.skip("a large file: `make thorough` advises on it")
    judged = JUDGED[name]
    rules = [finding.rule for finding in advise(path).findings]
    missing = [entry["rules"] for entry in judged["must_fire"] if not set(entry["rules"]) & set(rules)]
    false = {rule for entry in judged["must_not_fire"] for rule in entry["rules"]} & set(rules)
    assert (missing, false) == ([], set()), f"found {rules}"
    first = [rule for rule in rules if rule not in BESIDE][:3]
    assert not judged["first"] or set(first) & set(judged["first"])
