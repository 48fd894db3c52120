"""docs/rules.md has the rules as rules.toml has them; `python -m tests.findings.rules_page` writes it."""

from __future__ import annotations

from tests.findings.rules_page import FAMILIES, FILE, NO_EXAMPLE, example_of, examples_in, filled
from weftrace.advice.findings.registry import RULES
from weftrace.advice.findings.rule_texts import all_rules

PAGE = FILE.read_text()


def test_the_page_has_each_rule_as_it_is() -> None:
    assert filled(PAGE) == PAGE, "run python -m tests.findings.rules_page --texts"
    assert {text.family for text in all_rules()} <= FAMILIES.keys()


def test_an_example_is_what_advise_says() -> None:
    assert examples_in(PAGE)["sync-every-step"] == example_of("sync-every-step")


def test_most_rules_that_look_have_an_example() -> None:
    found = examples_in(PAGE)
    without = [rule.id for rule in RULES if found[rule.id] == NO_EXAMPLE]
    assert len(without) <= len(RULES) / 2, without
