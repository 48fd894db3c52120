"""HTML of a recommendation: the page of a comparison, with the choice as its headline and what would flip it below."""

from __future__ import annotations

from weftrace.errors import OutputError
from weftrace.pipeline.choices.document import RecommendationReport
from weftrace.pipeline.comparing.comparison import Comparison
from weftrace.pipeline.render.comparison_page import ComparisonBlock, comparison_block, render_comparison


def render_recommendation_html(report: RecommendationReport) -> str:
    """One self-contained page of a recommendation, as text.

    Raises `OutputError` for one that was read from a file: it holds no schedules to draw.
    """
    document = report.document
    return render_comparison(
        recommendation_block(report),
        title=f"Which schedule: {document['num_devices']} devices, {document['num_micro_batches']} micro-batches",
        headline=document["headline"],
    )


def recommendation_block(report: RecommendationReport) -> ComparisonBlock:
    """The comparison of the same schedules, with the sentences of the recommendation; the choice is drawn at first."""
    found = report.found
    if found is None:
        raise OutputError(
            "a saved recommendation holds no schedules to draw: make the page with the command that makes the "
            "recommendation, `weftrace pipeline recommend ... -o choice.html`."
        )
    block = comparison_block(
        Comparison(
            costs=found.costs,
            num_micro_batches=found.num_micro_batches,
            num_stages=None,
            num_devices=found.num_devices,
            boundary=found.boundary,
            memory_cap=found.memory_cap,
            candidates=(*found.ranked, *found.impossible),
        )
    )
    names = [row["name"] for row in block["rows"]]
    drawn = [each.family.name for each in (found.choice, found.baseline) if each is not None]
    block["first"] = sorted({names.index(name) for name in drawn})
    block["facts"] = [*report.document["sentences"], *block["facts"]]
    return block
