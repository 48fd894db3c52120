"""Which action of a pipeline is a range, as each framework names it? `annotations.toml`, a source beside each name.

A name may lack numbers: Megatron-LM's `forward_step` tells neither stage nor micro-batch, torch's `Forward 3` no stage.
The order of a rank's ranges tells them then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

from weftrace.errors import TraceError
from weftrace.facts.tables import read_tables
from weftrace.pipeline.range_names import REDUCE, REPLICAS, STEP, WAIT, action_in
from weftrace.pipeline.schedule import ACTION_SCHEMA

BUILT_IN: Final = Path(__file__).with_suffix(".toml")
_NUMBERS: Final = ("stage", "micro_batch", "back_stage", "back_micro_batch")

#: What a range is: an action, or what surrounds actions.
RangeKind = Literal["F", "B", "I", "W", "F&B", "wait", "send", "step"]
ACTIONS: Final[frozenset[str]] = frozenset({"F", "B", "I", "W", "F&B"})


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRange:
    """What a name says. Numbers that it does not tell are None. waits_inside: whether the range also waits for its
    message."""

    kind: RangeKind
    framework: str
    stage: int | None = None
    micro_batch: int | None = None
    back_stage: int | None = None
    back_micro_batch: int | None = None
    offload: bool = False
    waits_inside: bool = False

    @property
    def is_action(self) -> bool:
        return self.kind in ACTIONS

    @property
    def tells_all(self) -> bool:
        """Whether stage and micro-batch are in the name."""
        return self.stage is not None and self.micro_batch is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationRule:
    """A name of `annotations.toml`. kind: None where a group of the pattern tells it."""

    framework: str
    pattern: re.Pattern[str]
    kind: RangeKind | None
    is_frame: bool
    waits_inside: bool
    source: str


@cache
def annotation_rules() -> tuple[AnnotationRule, ...]:
    """All names that weftrace knows, in the file's order."""
    return tuple(
        AnnotationRule(
            framework=entry["framework"],
            pattern=re.compile(entry["match"]),
            kind=entry.get("kind"),
            is_frame=entry.get("where", "range") == "frame",
            waits_inside=entry.get("waits", False),
            source=entry["source"],
        )
        for entry in read_tables(BUILT_IN, "rule", what="names of ranges", error=TraceError)
    )


def named_ranges(names: Iterable[str], *, frames: bool = False) -> dict[str, NamedRange]:
    """Of these names those that are known, as ranges or as Python frames."""
    found = {name: of_frame(name) if frames else of_range(name) for name in names}
    return {name: range_ for name, range_ in found.items() if range_ is not None}


def of_range(name: str) -> NamedRange | None:
    """What an annotation's name says; None where it is not known. weftrace's own names come first."""
    own: dict[str, RangeKind] = {STEP: "step", WAIT: "wait"}
    if name in own:
        return NamedRange(kind=own[name], framework="weftrace")
    if name in (REDUCE, REPLICAS):
        return None
    action = action_in(name, 0)
    if action is not None:
        values = {column: getattr(action, column) for column in ACTION_SCHEMA if column != "rank"}
        return NamedRange(framework="weftrace", **values)
    return _by_rules(name, frames=False)


def of_frame(name: str) -> NamedRange | None:
    """What the name of a Python frame says, `megatron/core/pipeline_parallel/schedules.py(173): forward_step`."""
    return _by_rules(name, frames=True)


def _by_rules(name: str, *, frames: bool) -> NamedRange | None:
    for rule in annotation_rules():
        if rule.is_frame == frames and (match := rule.pattern.fullmatch(name)):
            groups = match.groupdict()
            numbers = {column: int(groups[column]) for column in _NUMBERS if column in groups}
            kind = rule.kind or groups["kind"]
            return NamedRange(kind=kind, framework=rule.framework, waits_inside=rule.waits_inside, **numbers)  # type: ignore[arg-type]
    return None
