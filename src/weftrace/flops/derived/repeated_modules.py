"""Which modules cost the same, all the way down? 24 identical layers are one row of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weftrace.flops.cost import PHASES, Tally
from weftrace.flops.derived.tally import Key
from weftrace.flops.values import FlopsReport


def kinds_of(
    report: FlopsReport, children: Mapping[int | None, Sequence[int]], exclusive: Mapping[Key, Tally]
) -> list[int]:
    """A number for each module; two have the same when class, parameters, calls, every count and all below are alike.

    The names of children must be alike too; the module's own name may differ, and so may times.
    """
    known = dict[Any, int]()
    kinds = [0] * len(report.modules)
    for index in range(len(report.modules) - 1, -1, -1):  # children come after their parents
        module = report.modules[index]
        below = tuple((report.modules[child].name, kinds[child]) for child in children.get(index, ()))
        costs = tuple(exclusive.get((index, phase)) for phase in PHASES)
        key = (
            module.class_name,
            module.calls,
            module.own_params,
            module.own_trainable_params,
            module.own_active_params,
            costs,
            below,
        )
        kinds[index] = known.setdefault(key, len(known))
    return kinds
