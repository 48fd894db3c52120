"""The lane pictures of docs/profiles.md: `python -m tests.moe.render.doc_pictures` draws them anew.

That of DeepSeek's published profile is drawn where the recorded traces are (WEFTRACE_DATA).
"""

from __future__ import annotations

import os
from pathlib import Path

from weftrace.moe import Setting
from weftrace.moe.profiles import make_profile
from weftrace.moe.render.view import profile_view
from weftrace.moe.render.words import KIND_WORDS, first_view
from weftrace.render.lanes_scene import lanes_svg
from weftrace.report import analyze

FOLDER = Path(__file__).parents[3] / "docs" / "images"
#: As long as the simulated stretch, from combine(B) on.
_MEASURED_NS = (30_100_000, 78_400_000)


def simulated(kind: str) -> str:
    """Somewhat more than a layer of a published profile, at published rates."""
    summary = profile_view(make_profile(Setting.of(kind)))  # type: ignore[arg-type]
    start, end = first_view(summary)
    return lanes_svg(
        summary.picture, title=f"{KIND_WORDS[kind]}, simulated at published rates", start_ns=start, end_ns=end
    )


def measured(data: Path) -> str:
    """The same stretch of DeepSeek's own training profile."""
    (rank,) = analyze(data / "deepseek-v3-train.json.gz", timelines=False).document["ranks"]
    start, end = _MEASURED_NS
    return lanes_svg(rank, title="Training, DeepSeek's published profile", start_ns=start, end_ns=end)


def main() -> None:
    """Write the files."""
    for kind in KIND_WORDS:
        (FOLDER / f"profile-{kind}.svg").write_text(simulated(kind), encoding="utf-8")
    if data := os.environ.get("WEFTRACE_DATA"):
        (FOLDER / "profile-train-published.svg").write_text(measured(Path(data)), encoding="utf-8")


if __name__ == "__main__":
    main()
