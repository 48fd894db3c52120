"""A layer as data: phases, what they consist of, and what they wait for; and layers of it as a `Plan`.

A recipe is a TOML file (see `deepseek_training.toml`), so that another model or another way to overlap is another
file. Phases are listed in the order in which the host issues them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from weftrace.errors import PlanError
from weftrace.plan.model import Plan
from weftrace.plan.ops import Kind, Op, Resource
from weftrace.units import US


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One op of a phase. It waits for the part before it on its stream, and for the parts named in `after`."""

    name: str
    op: str
    kind: Kind
    stream: int
    duration_ns: int
    num_kernels: int
    num_sms: int | None
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One phase of a layer. busy_ns: the union of its parts' times, as measured.

    after: phases of the same layer whose last parts end before its first parts start; after_previous: the same, of
    the layer before.
    """

    name: str
    busy_ns: int
    parts: tuple[Part, ...]
    after: tuple[str, ...]
    after_previous: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRecipe:
    """One layer (or a pair of layers, one forward and one backward), and the facts of the run it was measured on."""

    name: str
    source: str
    notes: tuple[str, ...]
    device_name: str
    num_sms: int
    world_size: int
    gap_ns: int
    measured_span_ns: int
    measured_layers: int
    phases: tuple[Phase, ...]


def load_recipe(name: str) -> LayerRecipe:
    """One of the recipes that come with weftrace, by file name without `.toml`."""
    return _recipe(tomllib.loads((files("weftrace.plan") / f"{name}.toml").read_text("utf-8")))


def repeat(recipe: LayerRecipe, num_layers: int, costs: Mapping[str, int] | None = None) -> Plan:
    """A plan of `num_layers` layers on rank 0.

    costs: phase name -> busy time in ns, in place of the recipe's; the phase's parts are scaled alike. Raises
    `PlanError` for fewer than one layer, an unknown phase, or a cost that is not an int of 0 or more.
    """
    if num_layers < 1:
        raise PlanError(f"{recipe.name}: num_layers is {num_layers}; a plan has at least one layer.")
    costs = dict(costs or {})
    known = [phase.name for phase in recipe.phases]
    for name, cost in costs.items():
        if name not in known:
            raise PlanError(f"{recipe.name}: no phase {name!r} to give a cost to. Its phases: {', '.join(known)}.")
        if type(cost) is not int or cost < 0:
            raise PlanError(f"{recipe.name}: the cost of {name!r} is {cost!r}; give an int of 0 or more nanoseconds.")
    phases = {phase.name: _scaled(phase, costs.get(phase.name)) for phase in recipe.phases}
    return Plan.of(
        (op for layer in range(num_layers) for phase in phases.values() for op in _ops(phase, layer, phases)),
        name=f"{recipe.name}, {num_layers} layer{'s' if num_layers > 1 else ''}",
        gap_ns=recipe.gap_ns,
        num_sms=recipe.num_sms,
        device_name=recipe.device_name,
        world_size=recipe.world_size,
        source=recipe.source,
        notes=(*recipe.notes, *(f"{name} set to {cost:,} ns" for name, cost in costs.items())),
    )


def _ops(phase: Phase, layer: int, phases: Mapping[str, Phase]) -> list[Op]:
    """The phase's ops. Those that wait for nothing inside the phase wait for what the phase waits for."""
    outside = [_id(phases[p], part, layer) for p in phase.after for part in _last_parts(phases[p])]
    if layer > 0:
        outside += [_id(phases[p], part, layer - 1) for p in phase.after_previous for part in _last_parts(phases[p])]
    inside = _inside(phase)
    return [
        Op(
            id=_id(phase, part, layer),
            name=part.op,
            duration_ns=part.duration_ns,
            resource=Resource(rank=0, stream=part.stream),
            kind=part.kind,
            after=tuple(_id(phase, p, layer) for p in inside[part.name]) or tuple(outside),
            num_sms=part.num_sms,
            num_kernels=part.num_kernels,
            phase=phase.name,
            layer=layer,
        )
        for part in phase.parts
    ]


def _inside(phase: Phase) -> dict[str, list[Part]]:
    """For each part, the parts of the phase that it waits for."""
    waits: dict[str, list[Part]] = {}
    last_of_stream: dict[int, Part] = {}
    by_name = {part.name: part for part in phase.parts}
    for part in phase.parts:
        before = [last_of_stream[part.stream]] if part.stream in last_of_stream else []
        waits[part.name] = before + [by_name[name] for name in part.after]
        last_of_stream[part.stream] = part
    return waits


def _last_parts(phase: Phase) -> list[Part]:
    """The parts that no other part of the phase waits for."""
    waited_for = {part.name for waits in _inside(phase).values() for part in waits}
    return [part for part in phase.parts if part.name not in waited_for]


def _id(phase: Phase, part: Part, layer: int) -> str:
    return f"{phase.name}/{layer}" + (f"/{part.name}" if len(phase.parts) > 1 else "")


def _scaled(phase: Phase, busy_ns: int | None) -> Phase:
    if busy_ns is None:
        return phase
    return replace(
        phase,
        busy_ns=busy_ns,
        parts=tuple(replace(p, duration_ns=round(p.duration_ns * busy_ns / phase.busy_ns)) for p in phase.parts),
    )


def _recipe(raw: Mapping[str, Any]) -> LayerRecipe:
    return LayerRecipe(
        name=raw["name"],
        source=raw["source"],
        notes=tuple(raw["notes"]),
        device_name=raw["device"]["name"],
        num_sms=raw["device"]["num_sms"],
        world_size=raw["world_size"]["value"],
        gap_ns=_ns(raw["gap"]["us"]),
        measured_span_ns=_ns(raw["measured"]["span_us"]),
        measured_layers=raw["measured"]["num_layers"],
        phases=tuple(
            Phase(
                name=phase["name"],
                busy_ns=_ns(phase["busy_us"]),
                after=tuple(phase.get("after", ())),
                after_previous=tuple(phase.get("after_previous", ())),
                parts=tuple(_part(raw["lane"], part) for part in phase["parts"]),
            )
            for phase in raw["phase"]
        ),
    )


def _part(lanes: Mapping[str, Any], raw: Mapping[str, Any]) -> Part:
    lane = lanes[raw["lane"]]
    kind = raw.get("kind", lane["kind"])
    return Part(
        name=raw.get("name", raw["op"]),
        op=raw["op"],
        kind=kind,
        stream=lane["stream"],
        duration_ns=_ns(raw["us"]),
        num_kernels=raw["num_kernels"],
        num_sms=lane["num_sms"] if kind == lane["kind"] else None,
        after=tuple(raw.get("after", ())),
    )


def _ns(time_us: float) -> int:
    return round(time_us * US)
