"""The document of a profile, versioned (`weftrace.profile/1`): what it was made of, and what follows.

Read back, a profile is laid out once more from its setting, list and prices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

import polars as pl
from msgspec import Meta

from weftrace.errors import PlanError, ProfileError
from weftrace.files.documents import broken, need_lengths
from weftrace.files.schemas import Count, Positive
from weftrace.files.values import UNSAVED, As, from_document, to_document
from weftrace.moe.derived.late_ranks import RankRow, stragglers
from weftrace.moe.derived.limits import Bottleneck, bottleneck
from weftrace.moe.derived.phase_times import PhaseRow, last_rank, phase_table
from weftrace.moe.derived.tokens_per_second import TokenRates, throughput
from weftrace.moe.operations import Overlap
from weftrace.moe.pieces import Piece
from weftrace.moe.profiles import Profile, simulated
from weftrace.moe.setting import Setting
from weftrace.plan import timetable
from weftrace.version import __version__

SCHEMA: Final = "weftrace.profile/1"
MAX_RANKS: Final = 1_024
MAX_OPS: Final = 50_000_000  # of a profile that is read: above it a number is damaged, and memory would run out


@dataclass(frozen=True, slots=True)
class PricedOperation:
    operation: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SavedProfile:
    """One simulated profile."""

    setting: Setting
    overlap: Overlap
    level: Annotated[str, Meta(description="How prices were found.")]
    share_sms: Annotated[bool, Meta(description="Kernels that ask for more SMs than there are wait for each other.")]
    stretched_ns: Annotated[
        list[Count] | None,
        Meta(description="Of each op of the plan, with contention from concurrent ops; null without contention."),
    ]
    gap_ns: Count
    num_ranks: Positive
    routing: Annotated[str, Meta(description="Whom tokens go to, in words.")]
    prices: tuple[PricedOperation, ...]
    profile: Annotated[Profile | None, UNSAVED] = None

    def __post_init__(self) -> None:
        num_ops = self.num_ranks * self.setting.num_layers * sum(len(each.pieces) for each in self.prices)
        if num_ops > MAX_OPS:
            raise ValueError(f"{num_ops:,} operations of {self.num_ranks:,} ranks; a profile has {MAX_OPS:,} at most")

    @property
    def _known(self) -> Profile:
        assert self.profile is not None, "what follows is written, never read"
        return self.profile

    @property
    def span_ns(self) -> Annotated[int, Meta(ge=0)]:
        return self._known.span_ns

    @property
    def layer_ns(self) -> Annotated[float, Meta(ge=0)]:
        return self._known.layer_ns

    @property
    def throughput(self) -> Annotated[TokenRates, Meta(description="Tokens per second.")]:
        return throughput(self._known)

    @property
    def bottleneck(self) -> Annotated[Bottleneck, Meta(description="What holds a layer up.")]:
        return bottleneck(self._known)

    @property
    def phases(self) -> Annotated[pl.DataFrame, As(list[PhaseRow]), Meta(description="Means over layers.")]:
        return phase_table(self._known)

    @property
    def phases_rank(self) -> Annotated[int, Meta(ge=0, description="The rank that ends last.")]:
        return last_rank(self._known)

    @property
    def ranks(
        self,
    ) -> Annotated[pl.DataFrame, As(list[RankRow]), Meta(description="Who is waited for most first; at most 1,024.")]:
        return stragglers(self._known).head(MAX_RANKS)


def profile_document(profile: Profile) -> dict[str, Any]:
    """The profile as JSON-able values."""
    saved = SavedProfile(
        setting=profile.setting, overlap=profile.overlap, level=profile.level, share_sms=profile.share_sms,
        stretched_ns=profile.plan.ops.get_column("duration_ns").to_list() if profile.contention else None,
        gap_ns=profile.plan.gap_ns, num_ranks=profile.num_ranks, routing=profile.routing,
        prices=tuple(PricedOperation(name, pieces) for name, pieces in profile.prices.items()), profile=profile,
    )  # fmt: skip
    return {"schema": SCHEMA, "weftrace": __version__, **to_document(saved)}


def load_profile(document: Mapping[str, Any], /, *, what: str = "profile") -> Profile:
    """The profile of a document, laid out once more. Raises `DocumentError` where it is none, or holds what cannot be.

    what: names it in errors.
    """
    saved = from_document(SavedProfile, document, schema=SCHEMA, what=what)
    try:
        profile = simulated(
            saved.setting, saved.overlap, {each.operation: each.pieces for each in saved.prices}, level=saved.level,
            num_ranks=saved.num_ranks, share_sms=saved.share_sms, gap_ns=saved.gap_ns, routing=saved.routing,
        )  # fmt: skip
        if saved.stretched_ns is None:
            return profile
        need_lengths(what, SCHEMA, len(profile.plan), stretched_ns=saved.stretched_ns)
        plan = profile.plan.with_ops(duration_ns=pl.Series(saved.stretched_ns, dtype=pl.Int64))
        return replace(profile, times=timetable(plan), contention=True)
    except (ProfileError, PlanError, ValueError, OverflowError) as error:
        raise broken(what, SCHEMA, str(error), "$.prices, $.overlap, $.gap_ns or $.stretched_ns") from error
