"""What is shown of a simulated profile, computed once: its lanes, its phases, its ranks, and how it was made."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from weftrace.moe.derived.late_ranks import idle_wait_share, stragglers
from weftrace.moe.derived.layer_account import layer_account
from weftrace.moe.derived.limits import Bottleneck, bottleneck
from weftrace.moe.derived.phase_times import inner_layers, last_rank, phase_table
from weftrace.moe.derived.tokens_per_second import TokenRates, throughput
from weftrace.moe.profiles import Profile
from weftrace.moe.render.picture import profile_picture
from weftrace.render.lane_types import PlannedPicture


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProfileView:
    """A profile as it is shown. rank: the one whose lanes and phases these are; it ends last.

    layer_ns: what one more layer adds, as the profile has it. compute_ns, exposed_ns, idle_ns: of the rank, between the
    starts of the second and of the last layer (of fewer than three, of all); they add up to it. communication_ns: also.
    phases: `phase_table` of the inner layers. ranks: `stragglers`, who is waited for most first; waited:
    `idle_wait_share` of all of them.
    """

    profile: Profile
    rank: int
    picture: PlannedPicture
    phases: pl.DataFrame
    ranks: pl.DataFrame
    waited: float
    throughput: TokenRates
    bottleneck: Bottleneck
    configuration: dict[str, str]
    layer_ns: float
    compute_ns: float
    communication_ns: float
    exposed_ns: float

    @property
    def idle_ns(self) -> float:
        return self.layer_ns - self.compute_ns - self.exposed_ns

    def bases(self) -> list[tuple[str, list[str]]]:
        """What times rest on, and of which phases, each once."""
        found = self.phases.group_by("basis", maintain_order=True).agg(pl.col("phase").unique(maintain_order=True))
        return [(str(basis), list(phases)) for basis, phases in found.iter_rows()]

    @property
    def most_exposed(self) -> tuple[str, float] | None:
        """The phase that is exposed longest, all micro-batches together, and how long in a layer."""
        moved = self.phases.group_by("phase", maintain_order=True).agg(pl.col("exposed_ns").sum())
        if moved.is_empty():
            return None
        name, exposed_ns = moved.sort("exposed_ns", descending=True, maintain_order=True).row(0)
        return (name, exposed_ns) if exposed_ns else None


def profile_view(profile: Profile, rank: int | None = None) -> ProfileView:
    """What is shown of a profile. rank: whose lanes; those of the one that ends last where none is given."""
    rank = last_rank(profile) if rank is None else rank
    configuration = {f"profile.{name}": text for name, text in profile.summary().items()}
    return ProfileView(
        profile=profile,
        rank=rank,
        picture=profile_picture(profile, rank),
        phases=phase_table(profile, rank, layers=inner_layers(profile)),
        ranks=stragglers(profile),
        waited=idle_wait_share(profile),
        throughput=throughput(profile),
        bottleneck=bottleneck(profile),
        configuration=configuration,
        **layer_account(profile, rank),
    )
