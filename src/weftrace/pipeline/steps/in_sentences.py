"""A whole step in sentences: how long it takes, what does not fit together."""

from __future__ import annotations

from weftrace.pipeline.measured.sourced_costs import SourcedCosts
from weftrace.pipeline.steps.published import PublishedStep
from weftrace.pipeline.steps.whole_step import WholeStep
from weftrace.units import counted, duration, percent, si, signed


def headline(step: WholeStep, published: PublishedStep | None) -> str:
    """How long the step takes, its largest part that is no F&B, and how far off the published one is."""
    shape = f"{step.schedule} on {counted(step.num_ranks, 'rank')}"
    bubble = step.part("bubble").time_ns
    first = (
        f"A step of {shape} takes {duration(step.step_ns)}: ranks idle for {duration(bubble)} of it on average "
        f"({percent(bubble / step.step_ns if step.step_ns else 0)}), with a barrier at its end: "
        f"{si(step.tokens_per_s, 'tokens/s')}."
    )
    if published is None:
        return first
    past_ns, without = published.step_ns, ""
    if "optimizer" in published.parts_ns and not step.part("optimizer").time_ns:
        past_ns, without = past_ns - published.parts_ns["optimizer"], " without its optimizer"
    off = step.step_ns / past_ns - 1
    pair, past = step.part("1F1B").time_ns, published.parts_ns["1F1B"]
    return (
        f"{first} {published.name} was published with {duration(past_ns)}{without} ({signed(off)}); its F&B "
        f"with {duration(past)}, here {duration(pair)} ({signed(pair / past - 1)})."
    )


def flags_of(step: WholeStep, costs: SourcedCosts, num_layers: int | None) -> list[str]:
    """Costs that cannot be those of the model and its hardware."""
    flags = []
    if (mfu := step.mfu("causal")) is not None and mfu > 1:
        flags.append(
            f"MFU is {percent(mfu)}, above the peak: the chunk's times are not those of this model, its tokens and "
            "hardware."
        )
    if num_layers is not None and costs.num_layers is not None:
        held = costs.num_layers * step.num_stages
        if not 0.8 <= held / num_layers <= 1.25:
            flags.append(
                f"The chunk holds {counted(costs.num_layers, 'layer')}, {held} in "
                f"{counted(step.num_stages, 'stage')}; the model has {num_layers}: FLOP/s and MFU are of "
                "another model than the times."
            )
    return flags
