"""The SVG of a schedule is a claim: each cell lies where its action ran, and nothing lies where its rank was idle."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

from tests.pipeline.render import readme_picture, simulations
from weftrace.errors import OutputError
from weftrace.pipeline.render import scene
from weftrace.pipeline.render.scene import svg_of
from weftrace.pipeline.simulation import Simulation, simulate

SVG = "{http://www.w3.org/2000/svg}"
CASES = {"1F1B": simulations.f1b, "DualPipe": simulations.dual, "DualPipeV": simulations.vee}
PIXEL = 0.011  # coordinates are written to the hundredth of one
BAR = 21  # pixels, the height of a cell


def pictures(text: str) -> list[list[list[dict[str, Any]]]]:
    """Of each picture, of each row, its cells: kind and shade, x, y, width, height, and its tooltip."""
    found = []
    for picture in ElementTree.fromstring(text).iter(f"{SVG}g"):
        if picture.get("class") == "picture":
            rows = [group for group in picture.iter(f"{SVG}g") if group.get("class") == "row"]
            found.append([[cell(r) for r in row.iter(f"{SVG}rect") if "c " in r.get("class", "")] for row in rows])
    return found


def cell(rect: ElementTree.Element) -> dict[str, Any]:
    numbers = {name: float(rect.get(name, 0)) for name in ("x", "y", "width", "height")}
    return {"label": rect.get("class", "").removeprefix("c "), "title": rect.findtext(f"{SVG}title"), **numbers}


def expected(simulation: Simulation, rank: int) -> list[tuple[str, int, int]]:
    """Kind, start and end of each cell of a row; an F&B has two."""
    of = simulation.actions.filter(rank=rank).select("kind", "start_ns", "end_ns").rows()
    return [(part, start, end) for kind, start, end in of for part in kind.split("&")]


@pytest.mark.parametrize("name", CASES)
def test_cells_lie_where_their_actions_ran_and_nothing_lies_elsewhere(name: str) -> None:
    simulation = CASES[name]()
    (rows,) = pictures(svg_of([simulation]))
    assert len(rows) == simulation.schedule.num_ranks
    until = max(one["x"] + one["width"] for row in rows for one in row)
    scale = until / simulation.makespan_ns
    for rank, row in enumerate(rows):
        wanted = expected(simulation, rank)
        assert [one["label"][0] for one in row] == [kind for kind, _, _ in wanted]
        for one, (_, start, end) in zip(row, wanted, strict=True):
            assert one["x"] == pytest.approx(start * scale, abs=2 * PIXEL)
            assert one["width"] == pytest.approx((end - start) * scale, abs=2 * PIXEL)
        area = sum(one["width"] * one["height"] for one in row)
        busy = simulation.ranks["busy_ns"][rank] / simulation.makespan_ns
        assert area / (until * BAR) == pytest.approx(busy, abs=0.002)


def test_a_pair_is_two_halves_forward_above_in_one_frame() -> None:
    simulation = simulations.dual()
    text = svg_of([simulation])
    (rows,) = pictures(text)
    num_pairs = simulation.actions.filter(kind="F&B").height
    halves = [one for row in rows for one in row if one["height"] < BAR]
    assert len(halves) == 2 * num_pairs
    for forward, backward in zip(halves[::2], halves[1::2], strict=True):
        assert (forward["label"][0], backward["label"][0]) == ("F", "B")
        assert (forward["x"], forward["width"]) == (backward["x"], backward["width"])
        assert forward["y"] + forward["height"] == backward["y"]
        assert forward["title"] == backward["title"] and "overlapped with backward" in forward["title"]
    assert text.count('<rect class="frame"') == num_pairs + 1  # the legend's


def test_shades_tell_directions_and_chunks_apart() -> None:
    """Of DualPipe the replica, of a V the rank's first or second stage; 1F1B has one shade."""
    (rows,) = pictures(svg_of([simulations.dual(8, 20)]))
    assert [one["label"] for one in rows[0]][:8] == ["F0"] * 7 + ["F1"]
    assert [one["label"] for one in rows[7]][:8] == ["F1"] * 7 + ["F0"]
    simulation = simulations.vee()
    (rows,) = pictures(svg_of([simulation]))
    for rank, row in enumerate(rows):
        stages = simulation.actions.filter(rank=rank)["stage"].to_list()[:3]
        assert [one["label"][1] for one in row][:3] == [str(int(stage > 3)) for stage in stages]
    (rows,) = pictures(svg_of([simulations.f1b()]))
    assert {one["label"] for row in rows for one in row} == {"F0", "B0"}


def test_numbers_are_those_of_the_micro_batches() -> None:
    """In 1F1B of 4 x 8 all numbers fit: each row has all of them, of the forwards and of the backwards."""
    root = ElementTree.fromstring(svg_of([simulations.f1b()]))
    for row in (group for group in root.iter(f"{SVG}g") if group.get("class") == "row"):
        shown = [int(text.text or "") for text in row.iter(f"{SVG}text") if (text.get("class") or "").startswith("i")]
        assert sorted(shown) == sorted([*range(8), *range(8)])


def test_tooltips_say_what_when_and_what_was_waited_for() -> None:
    """Rank 0 of 1F1B on 4 stages waits from 4 to 10 for the first backward of stage 1."""
    (rows,) = pictures(svg_of([simulations.f1b()]))
    assert [one["title"] for one in rows[0]][3:5] == [
        "forward of micro-batch 3, stage 0: 3 to 4",
        "backward of micro-batch 0, stage 0: 10 to 12, waited for backward of micro-batch 0, stage 1, on rank 1",
    ]
    (rows,) = pictures(svg_of([simulations.f1b()], tooltips=False))
    assert rows[0][0]["title"] is None


def test_pictures_below_each_other_have_one_scale_of_time() -> None:
    both = [simulations.dual(), simulations.f1b(8, 20)]
    found = pictures(svg_of(both))
    ends = [max(one["x"] + one["width"] for row in rows for one in row) for rows in found]
    assert ends[0] / ends[1] == pytest.approx(both[0].makespan_ns / both[1].makespan_ns, rel=1e-4)


@pytest.mark.parametrize("name", ["DualPipe", "DualPipeV"])
def test_the_memory_curve_is_that_of_the_rank_that_holds_most(name: str) -> None:
    simulation = CASES[name]()
    root = ElementTree.fromstring(svg_of([simulation]))
    path = next(path for path in root.iter(f"{SVG}path") if path.get("class") == "held").get("d", "")
    first, *steps = path.split("H")
    floor, heights = float(first.split(" ")[1]), [float(step.split("V")[1]) for step in steps[:-1]]
    rank = simulation.ranks["peak_bytes"].arg_max() or 0
    curve = simulation.memory(rank)["bytes"].to_list()
    drawn = [(floor - y) / (floor - min(heights)) * max(curve) for y in heights]
    assert drawn == pytest.approx(curve, abs=2e-3 * max(curve))


def test_a_name_is_text_and_no_markup() -> None:
    schedule = simulations.f1b(2, 2).schedule
    named = schedule.with_actions(schedule.actions, name='</text><script>alert("1")</script>')
    text = svg_of([simulate(named, simulations.UNITS)])
    assert "<script" not in text
    assert "script" in "".join(ElementTree.fromstring(text).itertext())


def test_too_many_actions_are_refused_with_what_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scene, "MAX_CELLS", 63)
    with pytest.raises(OutputError, match="64 actions are more than an SVG can hold as cells"):
        svg_of([simulations.f1b()])


def test_readme_s_picture_is_what_is_drawn_today_and_light() -> None:
    assert readme_picture.FILE.read_text(encoding="utf-8") == readme_picture.text()
    assert len(readme_picture.text()) < 100_000
