"""HTML of a simulated profile: its lanes as DeepSeek's published figures have them, its phases, its ranks."""

from __future__ import annotations

from typing import TypedDict

from weftrace.moe.profiles import Profile
from weftrace.moe.render.picture import profile_picture
from weftrace.moe.render.shown import Shown, shown
from weftrace.moe.render.words import PROFILE_TERMS, first_view, headline, rank_words, shape
from weftrace.render.configuration import configured_terms
from weftrace.render.lane_types import PlannedPicture
from weftrace.render.lanes_svg import lanes_svg
from weftrace.render.page import render_page
from weftrace.version import __version__

#: The package that holds the pages' templates and static files.
HOME = "weftrace.moe.render"
STYLES = ("render/page.css", "render/charts.css", "moe.css")
#: Layers that a page draws at most, from the first: all of a long model would be megabytes of the same.
MAX_LAYERS = 12
MAX_RANKS = 512


class PhaseRow(TypedDict):
    """A row of `phase_table`."""

    phase: str
    micro_batch: int
    kind: str
    num_layers: int
    busy_ns: float
    hidden_ns: float | None
    exposed_ns: float | None
    basis: str


class RankRow(TypedDict):
    """Sums of a rank, as `Shown.ranks` has them."""

    rank: int
    compute_ns: int
    communication_ns: int
    wait_ns: int
    end_ns: int


class ProfileBlock(TypedDict):
    """What the page of a profile holds. first_view_ns: what of the picture is seen at first: an inner layer or two.

    rows: of each rate, its name, its value and what it is worked out from.
    """

    shape: str
    configuration: dict[str, str]
    layer_ns: float
    compute_ns: float
    exposed_ns: float
    idle_ns: float
    hidden_fraction: float | None
    picture: PlannedPicture
    by_micro_batch: PlannedPicture | None
    first_view_ns: list[int]
    phases: list[PhaseRow]
    ranks: list[RankRow]
    rank_words: str


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
        terms={**PROFILE_TERMS, **configured_terms(told.configuration)},
        title=profile.plan.name,
        headline=headline(told),
        version=__version__,
    )


def profile_svg(profile: Profile) -> str:
    """The first lanes that the page shows, for documents, as the text of an SVG file."""
    told = shown(profile)
    start_ns, end_ns = first_view(told)
    return lanes_svg(told.picture, title=f"{profile.plan.name}: simulated", start_ns=start_ns, end_ns=end_ns)


def profile_block(told: Shown) -> ProfileBlock:
    """The block of the page, which pages of several profiles may hold too."""
    profile = told.profile
    several = profile.overlap.num_micro_batches > 1
    moved = told.phases.sum()
    communication = float(moved.get_column("hidden_ns")[0] + moved.get_column("exposed_ns")[0])
    return {
        "shape": shape(told),
        "configuration": told.configuration,
        "layer_ns": told.layer_ns,
        "compute_ns": told.compute_ns,
        "exposed_ns": told.exposed_ns,
        "idle_ns": told.idle_ns,
        "hidden_fraction": 1 - told.exposed_ns / communication if communication else None,
        "picture": told.picture,
        "by_micro_batch": profile_picture(profile, told.rank, by_micro_batch=True) if several else None,
        "first_view_ns": list(first_view(told)),
        "phases": told.phases.to_dicts(),  # type: ignore[typeddict-item]
        "ranks": told.ranks.head(MAX_RANKS).to_dicts() if len(told.ranks) > 1 else [],  # type: ignore[typeddict-item]
        "rank_words": rank_words(told),
    }
