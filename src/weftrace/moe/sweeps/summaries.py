"""A profile in a few numbers, as sweeps have many of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from weftrace.files.columns import Shown
from weftrace.files.schemas import Amount, Positive
from weftrace.moe.derived.layer_account import layer_account
from weftrace.moe.derived.limits import Limit, bottleneck
from weftrace.moe.derived.phase_times import last_rank
from weftrace.moe.derived.tokens_per_second import throughput
from weftrace.moe.pieces import assumptions
from weftrace.moe.profiles import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One profile in numbers; times are of one layer and in nanoseconds."""

    overlap: Annotated[str, Meta(description="The operation list.")]
    gpu_tokens: Annotated[Positive, Meta(description="Tokens of all micro-batches on one GPU.")]
    layer_ns: Annotated[Amount, Meta(description="Time that a layer adds."), Shown("a layer", term="layer")]
    tokens_per_gpu: Annotated[
        Amount, Meta(description="Tokens per second of one GPU."), Shown("tokens/s", term="tokens")
    ]
    tokens_per_node: Annotated[
        Amount, Meta(description="Tokens a second of the GPUs that NVLink joins."), Shown("a node")
    ]
    communication_ns: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(
            description="|communication| on the rank that ends last, the mean of its inner layers; null where a fused "
            "kernel holds it."
        ),
    ]
    exposed_ns: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="Of it, what no computation hides; null as there."),
        Shown("exposed", term="exposed"),
    ]
    limit: Annotated[
        Limit,
        Meta(description="Without which of these a layer would be shortest."),
        Shown("held up by", term="limit"),
    ]
    without_limit_ns: Annotated[Amount, Meta(description="What a layer would take without it."), Shown("without it")]
    costs: Annotated[str, Meta(description="How durations were found.")]
    assumed: Annotated[tuple[str, ...], Meta(description="What the prices assume.")] = ()


def summary_of(profile: Profile) -> Summary:
    """The numbers of one profile."""
    found = throughput(profile)
    holds_up = bottleneck(profile)
    account = layer_account(profile, last_rank(profile))
    is_fused = profile.overlap.is_fused
    return Summary(
        overlap=profile.overlap.name,
        gpu_tokens=profile.setting.tokens
        * (1 if profile.setting.kind == "train" else profile.overlap.num_micro_batches),
        layer_ns=profile.layer_ns,
        tokens_per_gpu=found.tokens_per_gpu,
        tokens_per_node=found.tokens_per_node,
        communication_ns=None if is_fused else round(account["communication_ns"]),
        exposed_ns=None if is_fused else round(account["exposed_ns"]),
        limit=holds_up.limit,
        without_limit_ns=holds_up.without_ns[holds_up.limit],
        costs=profile.costs,
        assumed=assumptions(profile.prices),
    )
