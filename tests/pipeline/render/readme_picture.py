"""README's picture of DualPipe beside 1F1B: `python -m tests.pipeline.render.readme_picture` draws it anew."""

from __future__ import annotations

from pathlib import Path

from weftrace.pipeline.costs import Costs
from weftrace.pipeline.generators.families import generate
from weftrace.pipeline.render.scene import svg_of
from weftrace.pipeline.simulation import simulate

FILE = Path(__file__).parents[3] / "docs" / "images" / "dualpipe.svg"


def text() -> str:
    """8 stages, 20 micro-batches, F = I = W = 1, F&B = 3, as in DeepSeek's figure."""
    both = [generate(name, num_stages=8, num_micro_batches=20) for name in ("dualpipe", "1f1b")]
    return svg_of([simulate(schedule, Costs.units(FB=3)) for schedule in both], tooltips=False)


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
