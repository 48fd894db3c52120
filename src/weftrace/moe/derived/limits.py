"""What holds a layer up: computation, communication, a kernel that does both, or ranks that wait for each other?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import polars as pl
from msgspec import Meta

from weftrace.files.schemas import Amount
from weftrace.files.values import UNSAVED, Named
from weftrace.moe.profiles import Profile, layer_window
from weftrace.notebook import InNotebook
from weftrace.plan import Plan, timetable
from weftrace.units import duration

Limit = Literal["compute", "communication", "fused", "ranks"]
_LABELS: dict[Limit, str] = {
    "compute": "computation", "communication": "communication", "fused": "the fused kernel",
    "ranks": "ranks that wait for the slowest",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Bottleneck(InNotebook):
    """What a layer would take without one of these, each simulated once more with the others as they are.

    layer_ns: as it is. Without a kind of kernels, all of them take no time.
    """

    layer_ns: Annotated[float, UNSAVED]
    without_compute_ns: Amount
    without_communication_ns: Amount
    without_fused_ns: Annotated[Amount, Meta(description="Without kernels that move tokens and multiply.")]
    balanced_ns: Annotated[Amount, Meta(description="Where every rank took what the mean rank takes.")]

    @property
    def without_ns(self) -> dict[Limit, float]:
        return {
            "compute": self.without_compute_ns, "communication": self.without_communication_ns,
            "fused": self.without_fused_ns, "ranks": self.balanced_ns,
        }  # fmt: skip

    @property
    def limit(self) -> Annotated[Limit, Meta(description="Without which of these a layer would be shortest.")]:
        without = self.without_ns
        return min(without, key=lambda name: without[name])

    @property
    def summary(self) -> Annotated[str, Named("told"), Meta(description="The limit in words.")]:
        return self.in_words()

    def in_words(self) -> str:
        """The limit, and what a layer would take without it."""
        return (
            f"{_LABELS[self.limit]}: without it a layer would take {duration(self.without_ns[self.limit], 4)}, "
            f"not {duration(self.layer_ns, 4)}"
        )

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "bottleneck", self.in_words()
        shown = (name for name in self.without_ns if self.without_ns[name] < self.layer_ns)
        yield from ((f"without {_LABELS[name]}", duration(self.without_ns[name], 4)) for name in shown)


def bottleneck(profile: Profile) -> Bottleneck:
    """Who holds a profile up: as many more simulations, without contention in them."""
    plan = profile.plan
    kinds = set(plan.ops.get_column("kind").unique())
    found = {
        name: _layer_ns(profile, _without(plan, pl.col("kind") == name)) if name in kinds else profile.layer_ns
        for name in ("compute", "communication", "fused")
    }
    balanced = _layer_ns(profile, _balanced(plan)) if profile.num_ranks > 1 else profile.layer_ns
    return Bottleneck(
        layer_ns=profile.layer_ns, without_compute_ns=found["compute"],
        without_communication_ns=found["communication"], without_fused_ns=found["fused"],
        balanced_ns=min(balanced, profile.layer_ns),
    )  # fmt: skip


def _without(plan: Plan, gone: pl.Expr) -> Plan:
    """Where these ops take no time, and have no gaps between their kernels."""
    return plan.with_ops(
        duration_ns=pl.when(gone).then(0).otherwise("duration_ns"),
        num_kernels=pl.when(gone).then(1).otherwise("num_kernels"),
    )


def _balanced(plan: Plan) -> Plan:
    """Ranks have equally many rows, in one order."""
    by_rank = plan.ops.get_column("duration_ns").to_numpy().reshape(len(plan.ranks), -1)
    mean = np.rint(by_rank.mean(axis=0)).astype(np.int64)
    return plan.with_ops(duration_ns=pl.Series(np.tile(mean, len(plan.ranks))))


def _layer_ns(profile: Profile, plan: Plan) -> float:
    return layer_window(timetable(plan), profile.overlap, profile.setting.num_layers).layer_ns
