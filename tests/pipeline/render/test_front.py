"""Time against memory in a terminal: each schedule at its place."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from weftrace.pipeline import Costs
from weftrace.pipeline.choices.document import RecommendationReport, recommendation_report
from weftrace.pipeline.choices.recommendation import recommend
from weftrace.pipeline.render.front_terminal import front_picture

UNITS = Costs.units(F=1, I=1, W=1, FB=2)


def report_of(**change: object) -> RecommendationReport:
    given = {"num_devices": 4, "num_micro_batches": 16, "num_layers": 8, "with_flips": False, **change}
    return recommendation_report(recommend(UNITS, **given))  # type: ignore[arg-type]


def drawn(**change: object) -> list[str]:
    picture = front_picture(report_of(**change), 80)
    console = Console(file=(out := StringIO()), width=80)
    if picture is not None:
        console.print(picture)
    return out.getvalue().splitlines()


def test_each_of_the_front_stands_at_its_time_and_memory() -> None:
    report = recommendation_report(
        recommend(UNITS, num_devices=4, num_micro_batches=16, num_layers=8, with_flips=False)
    )
    lines = [line for line in drawn() if "│" in line]
    front = [row for row in report.rows if row.on_front]
    places = {}
    for row in front:
        y = next(y for y, line in enumerate(lines) if row.name in line.split())
        before, _, after = lines[y].partition(row.name)
        places[row.name] = len(before) + len(row.name) + 1 if after[:2] in (" ●", " ◆") else len(before) - 2, y
        assert lines[y][places[row.name][0]] == ("◆" if row.name == report.choice else "●")
    assert [y for _, y in places.values()] == sorted((y for _, y in places.values()), reverse=True)
    left, right = front[-1], front[0]
    scale = (places[right.name][0] - places[left.name][0]) / (right.peak_chunks - left.peak_chunks)
    for row in front:
        assert abs(places[row.name][0] - places[left.name][0] - scale * (row.peak_chunks - left.peak_chunks)) <= 1
    assert all(len(line) <= 80 for line in drawn())


def test_the_cap_is_a_line_what_is_far_is_counted_and_one_schedule_is_no_front() -> None:
    capped = drawn(memory_cap=4)
    column = {line.index("┆") for line in capped if "┆" in line and "│" in line}
    assert len(column) == 1 and any("left out" in line for line in capped[:3])
    assert drawn(families=["1f1b"]) == []
