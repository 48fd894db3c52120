"""What each rule says: its title, what it looks for, thresholds, and remedies per framework. The data is rules.toml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

import msgspec

from weftrace.errors import AdviceError
from weftrace.facts.tables import read_tables

RULES = Path(__file__).with_name("rules.toml")

#: The most specific first: of the remedies that fit a trace, the first of these is shown.
Framework = Literal[
    "vllm", "sglang", "torchtitan", "megatron-lm", "deepspeed", "lightning", "huggingface", "fsdp2", "fsdp", "ddp",
    "pytorch",
]  # fmt: skip
FRAMEWORKS: tuple[Framework, ...] = Framework.__args__  # type: ignore[attr-defined]

_Text = Annotated[str, msgspec.Meta(min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemedyText:
    """What to do in one framework: remedy, a sentence; switch, the code, flag, JSON or variable, empty where there is
    none; versions in which the switch was seen; source, where it is described.
    """

    framework: Framework
    remedy: _Text
    switch: str = ""
    versions: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceText:
    """A public thread or file about a rule, and what it says, in a few words."""

    ref: _Text
    says: _Text


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleText:
    """What a rule says, except its finding: see rules.toml for the meaning of each field."""

    id: _Text
    number: Annotated[int, msgspec.Meta(ge=1)]
    family: _Text
    title: _Text
    looks_for: _Text
    gain: _Text
    when_not: _Text
    thresholds: Mapping[str, float]
    remedies: Annotated[tuple[RemedyText, ...], msgspec.Meta(min_length=1)]
    sources: tuple[SourceText, ...] = ()

    def remedy_for(self, frameworks: Sequence[str]) -> RemedyText:
        """The remedy for the most specific of the frameworks that a trace shows; PyTorch's where none has its own."""
        own = {each.framework: each for each in self.remedies}
        return next((own[name] for name in FRAMEWORKS if name in frameworks and name in own), own["pytorch"])


def rule_text(rule: str) -> RuleText:
    """The text of the rule with this id. Raises AdviceError for an unknown one, with the nearest that exists."""
    texts = _texts()
    if rule in texts:
        return texts[rule]
    near = get_close_matches(rule.lower(), texts, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; the rules are {', '.join(texts)}"
    raise AdviceError(f"there is no rule {rule!r}{hint}")


def all_rules() -> tuple[RuleText, ...]:
    """The text of every rule, in the order of their numbers."""
    return tuple(_texts().values())


@cache
def _texts() -> Mapping[str, RuleText]:
    tables = read_tables(RULES, "rule", what="texts of rules", error=AdviceError)
    texts = msgspec.convert(tables, tuple[RuleText, ...])
    return MappingProxyType({text.id: text for text in sorted(texts, key=lambda text: text.number)})
