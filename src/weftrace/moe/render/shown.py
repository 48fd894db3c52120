"""What is shown of a simulated profile, computed once: its lanes, its phases, its ranks, and how it was made."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from weftrace.analysis.intervals import covered, of_events
from weftrace.moe.phase_table import inner_layers, kernels_of, last_rank, phase_table
from weftrace.moe.profiles import Profile
from weftrace.moe.render.picture import profile_picture
from weftrace.plan.graph import hold_ns
from weftrace.render.lane_types import PlannedPicture


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shown:
    """A profile as it is shown. rank: the one whose lanes and phases these are; it ends last.

    layer_ns: what one more layer adds, and of that compute_ns, exposed_ns, idle_ns: they add up to it. Measured between
    the starts of the second and of the last layer, whose neighbours are as in a long model; of fewer than three, all.
    phases: `phase_table` of the inner layers. ranks: a row a rank: rank, compute_ns (sum of its kernels that compute),
    communication_ns (of those that communicate, without waiting), wait_ns (in meetings, for the last to come), end_ns.
    """

    profile: Profile
    rank: int
    picture: PlannedPicture
    phases: pl.DataFrame
    ranks: pl.DataFrame
    configuration: dict[str, str]
    layer_ns: float
    compute_ns: float
    exposed_ns: float

    @property
    def idle_ns(self) -> float:
        return self.layer_ns - self.compute_ns - self.exposed_ns

    @property
    def most_exposed(self) -> tuple[str, float] | None:
        """The phase that is exposed longest, all micro-batches together, and how long in a layer."""
        moved = self.phases.group_by("phase", maintain_order=True).agg(pl.col("exposed_ns").sum())
        name, exposed_ns = moved.sort("exposed_ns", descending=True, maintain_order=True).row(0)
        return (name, exposed_ns) if exposed_ns else None


def shown(profile: Profile, rank: int | None = None) -> Shown:
    """What is shown of a profile. rank: whose lanes; those of the one that ends last where none is given."""
    rank = last_rank(profile) if rank is None else rank
    configuration = {
        **{f"profile.{name}": text for name, text in profile.setting.told().items()},
        "profile.layers": str(profile.setting.num_layers),
        "profile.overlap": profile.overlap.title,
        "profile.costs": profile.level,
    }
    return Shown(
        profile=profile,
        rank=rank,
        picture=profile_picture(profile, rank),
        phases=phase_table(profile, rank, layers=inner_layers(profile)),
        ranks=_ranks(profile),
        configuration=configuration,
        **_layer_account(profile, rank),
    )


def _layer_account(profile: Profile, rank: int) -> dict[str, float]:
    """layer_ns, compute_ns, exposed_ns: of the time from the second layer's start to the last one's, a layer."""
    kernels = kernels_of(profile, rank)
    compute, communication = (of_events(kernels.filter(kind=kind)) for kind in ("compute", "communication"))
    first = kernels.filter(operation=0).group_by("layer").agg(pl.col("start_ns").min()).sort("layer")
    starts = first.get_column("start_ns").to_list()
    window = (starts[1], starts[-1]) if len(starts) > 2 else (0, int(kernels.select(pl.col("end_ns").max()).item()))
    num = max(1, len(starts) - 2 if len(starts) > 2 else len(starts))
    within = ([window[0]], [window[1]])
    parts = {"compute_ns": compute, "exposed_ns": communication - compute}
    return {
        "layer_ns": (window[1] - window[0]) / num,
        **{name: float(covered(part, *within)[0]) / num for name, part in parts.items()},
    }


def _ranks(profile: Profile) -> pl.DataFrame:
    ops = profile.times.ops
    held = np.asarray(hold_ns(profile.plan.ops, profile.plan.gap_ns))
    wait = pl.Series(ops.get_column("end_ns").to_numpy() - ops.get_column("start_ns").to_numpy() - held)
    duration, moves = pl.col("duration_ns"), pl.col("kind") == "communication"
    return (
        ops.with_columns(wait_ns=wait)
        .group_by("rank")
        .agg(
            compute_ns=duration.filter(~moves).sum(),
            communication_ns=duration.filter(moves).sum(),
            wait_ns=pl.col("wait_ns").sum(),
            end_ns=pl.col("end_ns").max(),
        )
        .sort("rank")
    )
