"""HTML of a recommendation: the page of a comparison, with the choice as its headline and what would flip it below."""

from __future__ import annotations

from weftrace.errors import OutputError
from weftrace.files.values import filled
from weftrace.pipeline.choices.document import RecommendationReport
from weftrace.pipeline.comparing.comparison import Comparison
from weftrace.pipeline.render.comparison_page import ComparisonBlock, comparison_block, render_comparison


def render_recommendation_html(report: RecommendationReport) -> str:
    """One self-contained page of a recommendation, as text.

    Raises `OutputError` for one that was read from a file: it holds no schedules to draw.
    """
    return render_comparison(
        recommendation_block(report),
        title=f"Which schedule: {report.num_devices} devices, {report.num_micro_batches} micro-batches",
        headline=report.headline,
    )


def recommendation_block(report: RecommendationReport) -> ComparisonBlock:
    """The comparison of the same schedules, with the sentences of the recommendation; the choice is drawn at first."""
    found = report.found
    if found is None:
        raise OutputError(
            "a saved recommendation holds no schedules to draw: make the page with the command that makes the "
            "recommendation, `weftrace pipeline recommend ... -o choice.html`."
        )
    comparison = filled(Comparison, found, num_stages=None, candidates=(*found.ranked, *found.impossible))
    block = comparison_block(comparison)
    block["first"] = [at for at, each in enumerate(comparison.ranked) if each in (found.choice, found.baseline)]
    block["facts"] = [*report.sentences, *block["facts"]]
    return block
