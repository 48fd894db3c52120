"""HTML of a simulated profile: its lanes as DeepSeek's published figures have them, its phases, its ranks."""

from __future__ import annotations

from typing import TypedDict

from weftrace.moe.derived.late_ranks import RankRow
from weftrace.moe.derived.phase_times import PhaseRow
from weftrace.moe.profiles import Profile
from weftrace.moe.render.picture import profile_picture
from weftrace.moe.render.view import ProfileView, profile_view
from weftrace.moe.render.words import PROFILE_TERMS, first_view, headline, rank_words, shape
from weftrace.render.configuration import configured_terms
from weftrace.render.lane_types import PlannedPicture
from weftrace.render.lanes_scene import lanes_svg
from weftrace.render.page import render_page
from weftrace.version import __version__

#: The package that holds the pages' templates and static files.
HOME = "weftrace.moe.render"
STYLES = ("render/page.css", "render/charts.css", "moe.css")
#: Ranks that a page lists at most, who is waited for most first.
MAX_RANKS = 512


class Basis(TypedDict):
    """What the times of some phases rest on."""

    phases: list[str]
    basis: str


class ProfileBlock(TypedDict):
    """What the page of a profile holds. first_view_ns: what of the picture is seen at first: an inner layer or two.
    assumed: what tokens a second rest on."""

    shape: str
    configuration: dict[str, str]
    layer_ns: float
    compute_ns: float
    exposed_ns: float
    idle_ns: float
    hidden_fraction: float | None
    fused: bool
    picture: PlannedPicture
    by_micro_batch: PlannedPicture | None
    first_view_ns: list[int]
    phases: list[PhaseRow]
    bases: list[Basis]
    ranks: list[RankRow]
    rank_words: str
    tokens_per_gpu: float
    tokens_per_node: float
    gpus_per_node: int
    assumed: list[str]
    held_up: str


def render_profile_html(profile: Profile) -> str:
    """One self-contained page of a simulated profile, as text."""
    summary = profile_view(profile)
    block = profile_block(summary)
    return render_page(
        "profile.html",
        home=HOME,
        entry="profile",
        styles=STYLES,
        blocks=[("weftrace-profile", block)],
        tables={"phases": PhaseRow, "ranks": RankRow},
        terms={**PROFILE_TERMS, **configured_terms(summary.configuration)},
        title=profile.plan.name,
        headline=headline(summary),
        version=__version__,
    )


def profile_svg(profile: Profile) -> str:
    """The lanes of an inner layer or two, as the text of an SVG file."""
    summary = profile_view(profile)
    start, end = first_view(summary)
    return lanes_svg(summary.picture, title=profile.plan.name, start_ns=start, end_ns=end)


def profile_block(summary: ProfileView) -> ProfileBlock:
    """The block of the page, which pages of several profiles may hold too."""
    profile = summary.profile
    several = profile.overlap.num_micro_batches > 1
    return {
        "shape": shape(summary),
        "configuration": summary.configuration,
        "layer_ns": summary.layer_ns,
        "compute_ns": summary.compute_ns,
        "exposed_ns": summary.exposed_ns,
        "idle_ns": summary.idle_ns,
        "hidden_fraction": 1 - summary.exposed_ns / summary.communication_ns if summary.communication_ns else None,
        "fused": profile.overlap.is_fused,
        "picture": summary.picture,
        "by_micro_batch": profile_picture(profile, summary.rank, by_micro_batch=True) if several else None,
        "first_view_ns": list(first_view(summary)),
        "phases": summary.phases.to_dicts(),  # type: ignore[typeddict-item]
        "bases": [{"phases": phases, "basis": basis} for basis, phases in summary.bases()],
        "ranks": summary.ranks.head(MAX_RANKS).to_dicts() if len(summary.ranks) > 1 else [],  # type: ignore[typeddict-item]
        "rank_words": rank_words(summary),
        "tokens_per_gpu": summary.throughput.tokens_per_gpu,
        "tokens_per_node": summary.throughput.tokens_per_node,
        "gpus_per_node": summary.throughput.gpus_per_node,
        "assumed": list(summary.throughput.assumed),
        "held_up": summary.bottleneck.in_words(),
    }
