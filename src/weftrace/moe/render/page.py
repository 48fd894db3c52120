"""HTML of a simulated profile: its lanes as DeepSeek's published figures have them, its phases, its ranks."""

from __future__ import annotations

from typing import TypedDict

from weftrace.moe.derived.late_ranks import RankRow
from weftrace.moe.derived.phase_times import PhaseRow
from weftrace.moe.profiles import Profile
from weftrace.moe.render.picture import profile_picture
from weftrace.moe.render.shown import Shown, shown
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
    told = shown(profile)
    block = profile_block(told)
    return render_page(
        "profile.html",
        home=HOME,
        entry="profile",
        styles=STYLES,
        blocks=[("weftrace-profile", block)],
        tables={"phases": PhaseRow, "ranks": RankRow},
        terms={**PROFILE_TERMS, **configured_terms(told.configuration)},
        title=profile.plan.name,
        headline=headline(told),
        version=__version__,
    )


def profile_svg(profile: Profile) -> str:
    """The lanes of an inner layer or two, as the text of an SVG file."""
    told = shown(profile)
    start, end = first_view(told)
    return lanes_svg(told.picture, title=profile.plan.name, start_ns=start, end_ns=end)


def profile_block(told: Shown) -> ProfileBlock:
    """The block of the page, which pages of several profiles may hold too."""
    profile = told.profile
    several = profile.overlap.num_micro_batches > 1
    return {
        "shape": shape(told),
        "configuration": told.configuration,
        "layer_ns": told.layer_ns,
        "compute_ns": told.compute_ns,
        "exposed_ns": told.exposed_ns,
        "idle_ns": told.idle_ns,
        "hidden_fraction": 1 - told.exposed_ns / told.communication_ns if told.communication_ns else None,
        "fused": profile.overlap.is_fused,
        "picture": told.picture,
        "by_micro_batch": profile_picture(profile, told.rank, by_micro_batch=True) if several else None,
        "first_view_ns": list(first_view(told)),
        "phases": told.phases.to_dicts(),  # type: ignore[typeddict-item]
        "bases": [{"phases": phases, "basis": basis} for basis, phases in told.bases()],
        "ranks": told.ranks.head(MAX_RANKS).to_dicts() if len(told.ranks) > 1 else [],  # type: ignore[typeddict-item]
        "rank_words": rank_words(told),
        "tokens_per_gpu": told.throughput.per_gpu,
        "tokens_per_node": told.throughput.per_node,
        "gpus_per_node": told.throughput.gpus_per_node,
        "assumed": list(told.throughput.assumed),
        "held_up": told.bottleneck.in_words(),
    }
