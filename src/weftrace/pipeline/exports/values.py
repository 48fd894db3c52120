"""`Export`: the settings by which a framework runs a schedule, and what they cannot say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal

from msgspec import Meta

from weftrace.errors import ScheduleError
from weftrace.notebook import InNotebook
from weftrace.units import counted

if TYPE_CHECKING:
    from weftrace.pipeline.schedule import Schedule

SCHEMA: Final = "weftrace.pipeline.export/1"
Framework = Literal["megatron", "torchtitan", "deepspeed"]
_RUN = re.compile(r"(\d{1,6}) of (\d{1,6})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting of a framework."""

    name: str
    value: Annotated[str, Meta(description="As it is written; empty for a switch that is on.")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Export(InNotebook):
    """A schedule in a framework's settings."""

    framework: Framework
    title: str
    version: Annotated[str, Meta(description="Of the framework that the settings were read from.")]
    schedule: Annotated[str, Meta(description="Its name.")]
    settings: list[Setting]
    text: Annotated[str, Meta(description="The same, as it is pasted: arguments of a command, or Python.")]
    csv: Annotated[str, Meta(description="The schedule as torch's CSV, where the settings name such a file.")] = ""
    notes: Annotated[list[str], Meta(description="What the settings ask for, and what they do not say.")]


def layers_of_stages(text: str, num_stages: int) -> tuple[int, ...]:
    """Layers of each stage from text: "64" in all, "2,2,1" by stage, or "13 of 2, 35 of 1", stages in a row.

    Raises `ScheduleError` for other text, another number of stages, and a total that cannot be dealt out evenly.
    """
    parts = [part.strip() for part in text.split(",")]
    runs = [_RUN.fullmatch(part) for part in parts]
    if all(runs):
        found = [int(run[2]) for run in runs if run for _ in range(min(int(run[1]), num_stages + 1))]
    elif all(re.fullmatch(r"\d{1,6}", part) for part in parts):
        found = [int(part) for part in parts]
        if len(found) == 1 and num_stages > 1:
            if found[0] % num_stages or not found[0]:
                raise ScheduleError(
                    f"{counted(found[0], 'layer')} cannot be dealt out evenly to {counted(num_stages, 'stage')}: give "
                    'those of each stage, such as "2,2,1" or "13 of 2, 35 of 1", as `weftrace pipeline recommend` '
                    "says it."
                )
            return (found[0] // num_stages,) * num_stages
    else:
        raise ScheduleError(
            f'layers are a number, 64, a list by stage, "2,2,1", or "13 of 2, 35 of 1"; not {text[:60]!r}.'
        )
    need_layers(found, num_stages)
    return tuple(found)


def need_layers(layers: Sequence[int], num_stages: int) -> None:
    """Raises `ScheduleError` where these are not the layers of so many stages, at least one each."""
    if len(layers) != num_stages:
        raise ScheduleError(f"layers of {len(layers)} stages are given; the schedule has {num_stages}.")
    if odd := [(stage, number) for stage, number in enumerate(layers) if type(number) is not int or number < 1]:
        raise ScheduleError(f"stage {odd[0][0]} has {odd[0][1]!r} layers; it must be a whole number above 0.")


def refusal(schedule: Schedule, title: str, reason: str) -> ScheduleError:
    """The error for a schedule that a framework cannot run."""
    return ScheduleError(f"schedule {schedule.name!r} cannot be said in settings of {title}: {reason}.")


def need_plain(schedule: Schedule, title: str) -> None:
    """Raises `ScheduleError` for what no framework's settings say: two replicas, slices, offloaded activations."""
    if schedule.num_replicas > 1:
        raise refusal(schedule, title, f"each stage is on {schedule.num_replicas} ranks, and there on one")
    if schedule.num_slices > 1:
        raise refusal(schedule, title, "its sequences are cut into slices")
    if schedule.actions.get_column("offload").any():
        raise refusal(schedule, title, "it offloads activations chunk by chunk")
