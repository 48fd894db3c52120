"""How many parameters has the model, how many are trained, and how many does one token use?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from weftrace.files.schemas import Count
from weftrace.flops.values import FlopsReport
from weftrace.notebook import InNotebook


@dataclass(frozen=True, slots=True, kw_only=True)
class Params(InNotebook):
    """Parameters of a model, or of a module with all below it. Shared ones count once, at their first place.

    total: elements on this rank (of its shard where sharded). trainable: those of them that take gradients.
    active: those that one token uses: of routed experts top-k / experts. bytes: of total.
    global_total: elements before sharding.
    """

    total: Annotated[Count, Meta(description="Elements on this rank.")] = 0
    trainable: Count = 0
    active: Annotated[Count, Meta(description="Those that one token uses.")] = 0
    bytes: Count = 0
    global_total: Annotated[Count, Meta(description="Elements before sharding.")] = 0

    @property
    def trainable_share(self) -> float | None:
        """trainable / total; None where there are none."""
        return self.trainable / self.total if self.total else None

    @property
    def active_share(self) -> float | None:
        """active / total; None where there are none."""
        return self.active / self.total if self.total else None


def params(report: FlopsReport) -> Params:
    """The model's."""
    modules = report.modules
    return Params(
        total=sum(module.own_params for module in modules),
        trainable=sum(module.own_trainable_params for module in modules),
        active=sum(module.own_active_params for module in modules),
        bytes=sum(module.own_param_bytes for module in modules),
        global_total=sum(module.own_global_params for module in modules),
    )


def module_params(report: FlopsReport) -> list[Params]:
    """Of each module with all below it, in the order of `FlopsReport.modules`; the root's are the model's."""
    sums = [
        [m.own_params, m.own_trainable_params, m.own_active_params, m.own_param_bytes, m.own_global_params]
        for m in report.modules
    ]
    for index in range(len(sums) - 1, -1, -1):  # children come after their parents
        parent = report.modules[index].parent
        if parent is not None:
            sums[parent] = [a + b for a, b in zip(sums[parent], sums[index], strict=True)]
    return [Params(total=a, trainable=b, active=c, bytes=d, global_total=e) for a, b, c, d, e in sums]
