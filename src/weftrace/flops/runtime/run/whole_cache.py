"""A decode step in which a linear layer runs over all cached positions, not over the new ones.

Latent attention as transformers runs it keeps latents and projects all of them to keys and values at each step. An
engine with absorbed weights moves that product to the side of the query, where it is of the new tokens alone. So what
ran is at most what decode needs: the layer's FLOPs are an upper bound, and a note says how many they are.
"""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from weftrace.flops.cost import WHOLE_CACHE, Kind, Status
from weftrace.flops.values import FlopsReport, OpCount

_NOTE = (
    "transformers' implementation runs {names} over all {context:,} positions at each step, {flops:,} of {total:,} "
    "FLOPs; an engine with absorbed weights does not (the built-in deepseek-v3 counts a step of one): at most so many "
    "are needed"
)


def mark_whole_cache(report: FlopsReport, model: nn.Module, context: int) -> FlopsReport:
    """The report of a decode step with the linear layers that ran over all `context` positions as an upper bound."""
    samples, tokens = report.samples or 1, report.tokens or 1
    rows = samples * context
    if rows <= tokens:
        return report
    weights = {path: part.weight.numel() for path, part in model.named_modules() if isinstance(part, nn.Linear)}

    def over_all(op: OpCount) -> bool:
        weight = weights.get(report.modules[op.module].path.partition("#")[0], 0)
        return weight > 0 and op.cost.kind is Kind.MATMUL and op.cost.flops >= 2 * rows * weight

    found = [op for op in report.ops if over_all(op)]
    if not found:
        return report
    ops = tuple(
        replace(op, cost=replace(op.cost, status=Status.UPPER_BOUND, note=WHOLE_CACHE)) if op in found else op
        for op in report.ops
    )
    note = _NOTE.format(
        names=", ".join(dict.fromkeys(report.modules[op.module].name.partition("#")[0] for op in found)),
        context=context,
        flops=sum(op.calls * op.cost.flops for op in found),
        total=sum(op.calls * op.cost.flops for op in report.ops),
    )
    return replace(report, ops=ops, notes=(note, *report.notes))
