"""The document of a profile, versioned (`weftrace.profile/1`): what it was made of, and what follows.

Read back, a profile is laid out once more from its setting, list and prices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Final, TypedDict

import msgspec
import numpy as np
import polars as pl
from msgspec import Meta

from weftrace.errors import DocumentError, PlanError, ProfileError
from weftrace.files.documents import document_as
from weftrace.files.schemas import Amount, Count, DocumentSchema, Positive
from weftrace.moe.derived.late_ranks import stragglers
from weftrace.moe.derived.limits import Limit, bottleneck
from weftrace.moe.derived.phase_times import last_rank, phase_table
from weftrace.moe.derived.tokens_per_second import throughput
from weftrace.moe.operations import Overlap
from weftrace.moe.pieces import Floats, Piece, Prices
from weftrace.moe.profiles import Profile, simulated
from weftrace.moe.setting import Setting
from weftrace.plan import timetable
from weftrace.plan.ops import Kind
from weftrace.version import __version__

SCHEMA: Final = "weftrace.profile/1"
MAX_RANKS_TOLD = 1_024


class Numbers(TypedDict):
    """One number, or an array that broadcasts to [layers, ranks]."""

    shape: list[Positive]
    values: Annotated[list[float], Meta(description="Row by row.")]


class PieceTold(TypedDict):
    """Equal kernels back to back."""

    name: str
    kind: Kind
    duration_ns: Annotated[Numbers, Meta(description="Of all its kernels together.")]
    num_kernels: Positive
    num_sms: Annotated[int | None, Meta(description="That it holds; null for none.")]
    meets: Annotated[bool, Meta(description="Whether the ranks of a group of experts wait for each other in it.")]
    flops: Numbers
    moved_bytes: Numbers
    basis: Annotated[str, Meta(description="Where the duration comes from.")]


class PricedOperation(TypedDict):
    operation: str
    pieces: list[PieceTold]


class ThroughputTold(TypedDict):
    """Tokens that a GPU gets done / (layer_ns * num_layers)."""

    tokens: Amount
    num_layers: Positive
    tokens_per_gpu: Amount
    tokens_per_node: Amount
    gpus_per_node: Positive
    acceptance: Annotated[float | None, Meta(description="Of drafted tokens; null where none are drafted.")]
    assumed: Annotated[list[str], Meta(description="What the number does not have in it.")]


class PhaseRow(TypedDict):
    """A phase of one micro-batch on the rank that ends last: means over layers."""

    phase: str
    micro_batch: Count
    kind: str
    num_layers: Positive
    busy_ns: Amount
    hidden_ns: Annotated[float | None, Meta(description="Of communication: beside some computation; else null.")]
    exposed_ns: Annotated[float | None, Meta(description="The rest of it.")]
    basis: str


class RankRow(TypedDict):
    """One rank, over all layers."""

    rank: Count
    compute_ns: Count
    communication_ns: Annotated[Count, Meta(description="Without waits for other ranks.")]
    waiting_ns: Annotated[Count, Meta(description="Inside meets, for ranks that come later.")]
    last_in: Annotated[Count, Meta(description="Meets that it was the last to reach.")]
    meets: Count


class BottleneckTold(TypedDict):
    """What a layer would take without one of these."""

    limit: Limit
    without_compute_ns: Amount
    without_communication_ns: Amount
    without_fused_ns: Annotated[Amount, Meta(description="Without kernels that move tokens and multiply.")]
    balanced_ns: Annotated[Amount, Meta(description="Where every rank took what the mean rank takes.")]
    told: str


class ProfileDocument(TypedDict):
    """One simulated profile."""

    schema: str
    weftrace: Annotated[str, Meta(description="Version of weftrace that wrote it.")]
    setting: Setting
    overlap: Overlap
    level: Annotated[str, Meta(description="How prices were found.")]
    share_sms: Annotated[bool, Meta(description="Kernels that ask for more SMs than there are wait for each other.")]
    stretched_ns: Annotated[
        list[Count] | None,
        Meta(description="Of each op of the plan, where durations are stretched by what runs beside; else null."),
    ]
    gap_ns: Count
    num_ranks: Positive
    routing: Annotated[str, Meta(description="Whom tokens go to, in words.")]
    prices: list[PricedOperation]
    span_ns: Count
    layer_ns: Amount
    throughput: ThroughputTold
    bottleneck: BottleneckTold
    phases: list[PhaseRow]
    phases_rank: Annotated[Count, Meta(description="The rank that ends last.")]
    ranks: Annotated[list[RankRow], Meta(description="Who is waited for most first; at most 1,024.")]


PROFILE_SCHEMA = DocumentSchema(
    document=ProfileDocument,
    schema=SCHEMA,
    title="A simulated profile of mixture-of-experts layers",
)


def profile_document(profile: Profile) -> ProfileDocument:
    """The profile as JSON-able values."""
    tokens = throughput(profile)
    holds_up = bottleneck(profile)
    return ProfileDocument(
        schema=SCHEMA,
        weftrace=__version__,
        setting=msgspec.to_builtins(profile.setting, enc_hook=dict),  # facts hold read-only mappings
        overlap=msgspec.to_builtins(profile.overlap),
        level=profile.level,
        share_sms=profile.share_sms,
        stretched_ns=profile.plan.ops.get_column("duration_ns").to_list() if profile.contention else None,
        gap_ns=profile.plan.gap_ns,
        num_ranks=profile.num_ranks,
        routing=profile.routing,
        prices=[
            PricedOperation(operation=name, pieces=[_piece(each) for each in pieces])
            for name, pieces in profile.prices.items()
        ],
        span_ns=profile.span_ns,
        layer_ns=profile.layer_ns,
        throughput=ThroughputTold(
            tokens=tokens.tokens, num_layers=tokens.num_layers, tokens_per_gpu=tokens.per_gpu,
            tokens_per_node=tokens.per_node, gpus_per_node=tokens.gpus_per_node, acceptance=tokens.acceptance,
            assumed=list(tokens.assumed),
        ),
        bottleneck=BottleneckTold(
            limit=holds_up.limit, without_compute_ns=holds_up.without_compute_ns,
            without_communication_ns=holds_up.without_communication_ns,
            without_fused_ns=holds_up.without_fused_ns, balanced_ns=holds_up.balanced_ns,
            told=holds_up.in_words(),
        ),
        phases=[PhaseRow(**row) for row in phase_table(profile).to_dicts()],  # type: ignore[typeddict-item]
        phases_rank=last_rank(profile),
        ranks=[RankRow(**row) for row in stragglers(profile).head(MAX_RANKS_TOLD).to_dicts()],  # type: ignore[typeddict-item]
    )  # fmt: skip


def profile_from(document: Mapping[str, Any], *, what: str = "profile") -> Profile:
    """The profile of a document, laid out once more. what: names it in errors.

    Raises `DocumentError` where it is no such document, or holds what cannot be.
    """
    try:
        told = document_as(document, ProfileDocument, schema=SCHEMA, what=what)
        setting = msgspec.convert(told["setting"], Setting)
        overlap = msgspec.convert(told["overlap"], Overlap)
        profile = simulated(
            setting, overlap, _prices(told["prices"]), level=told["level"], num_ranks=told["num_ranks"],
            share_sms=told["share_sms"], gap_ns=told["gap_ns"], routing=told["routing"],
        )  # fmt: skip
        if told["stretched_ns"] is None:
            return profile
        plan = profile.plan.with_ops(duration_ns=pl.Series(told["stretched_ns"], dtype=pl.Int64))
        return replace(profile, times=timetable(plan), contention=True)
    except (ProfileError, PlanError, ValueError) as error:
        raise DocumentError(f"{what}: {error}") from error


def _piece(piece: Piece) -> PieceTold:
    return PieceTold(
        name=piece.name, kind=piece.kind, duration_ns=_numbers(piece.duration_ns), num_kernels=piece.num_kernels,
        num_sms=piece.num_sms, meets=piece.meets, flops=_numbers(piece.flops),
        moved_bytes=_numbers(piece.moved_bytes), basis=piece.basis,
    )  # fmt: skip


def _prices(told: list[PricedOperation]) -> Prices:
    return {
        each["operation"]: tuple(
            Piece(
                name=piece["name"], kind=piece["kind"], duration_ns=_array(piece["duration_ns"]),
                num_kernels=piece["num_kernels"], num_sms=piece["num_sms"], meets=piece["meets"],
                flops=_array(piece["flops"]), moved_bytes=_array(piece["moved_bytes"]), basis=piece["basis"],
            )
            for piece in each["pieces"]
        )
        for each in told
    }  # fmt: skip


def _numbers(given: float | Floats) -> Numbers:
    array = np.asarray(given, np.float64)
    return Numbers(shape=list(array.shape), values=array.ravel().tolist())


def _array(told: Numbers) -> float | Floats:
    array = np.array(told["values"], np.float64).reshape(told["shape"])
    return array if array.ndim else float(array)
