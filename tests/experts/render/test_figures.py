"""The plotly figures about experts: their numbers, their colours, and labels that may not reach a page as HTML."""

from __future__ import annotations

import builtins
import json
from typing import Any

import numpy as np
import pytest

from tests.experts.render import documents
from weftrace.errors import WeftraceError
from weftrace.experts.render import figures as figures
from weftrace.experts.render.words import gpu_ratios
from weftrace.render import palette

pytest.importorskip("plotly")

OF_PLACEMENT = (figures.figure_gpu_load, figures.figure_balancedness, figures.figure_moves)


def traces(figure: Any) -> dict[str, Any]:
    return {trace.name: trace for trace in figure.data}


def test_load_is_a_multiple_of_the_mean_on_one_scale() -> None:
    """By the pencil of experts_documents.py: the mean is 8 in both layers."""
    figure = figures.figure_gpu_load(documents.read(documents.placement()))
    maps = traces(figure)
    assert [list(row) for row in maps["before"].z] == [[1.5, 0.5], [13 / 8, 3 / 8]]
    assert [list(row) for row in maps["after"].z] == [[1.0, 1.0], [6.5 / 8, 9.5 / 8]]
    assert {trace.coloraxis for trace in figure.data} == {"coloraxis"}
    scale = figure.layout.coloraxis
    assert (scale.cmin, scale.cmax) == (0, 2)
    assert scale.colorscale[1] == (0.5, palette.LEVEL)  # 1.0, the mean, is neutral
    assert len(figure.layout.shapes) == 2  # one border between two nodes, in two pictures


def test_load_without_a_placement_before() -> None:
    assert list(traces(figures.figure_gpu_load(documents.read(documents.bare_placement())))) == ["after"]


def test_speeds_and_lost_gpus_count_in_the_mean() -> None:
    document = documents.placement()
    document["cluster"] |= {"speed_of_gpu": [1.0, 0.5]}
    # 16 tokens over a speed of 1.5; GPU 1 needs 8 / 0.5.
    ratio_LG = gpu_ratios(documents.read(document), np.array([[8.0, 8.0]] * 2))
    assert ratio_LG[0] == pytest.approx([8 / (16 / 1.5), 16 / (16 / 1.5)])
    document["cluster"] |= {"dead": [1]}
    assert gpu_ratios(documents.read(document), np.array([[16.0, 0.0]] * 2))[0].tolist() == [1.0, 0.0]


def test_a_layer_of_zeros_is_balanced() -> None:
    document = documents.placement(loads=[[0.0] * 4, [12.0, 1.0, 0.0, 3.0]])
    ratio_LG = gpu_ratios(documents.read(document), np.array([[0.0, 0.0], [8.0, 8.0]]))
    assert ratio_LG.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_balancedness_and_its_bound() -> None:
    parts = traces(figures.figure_balancedness(documents.read(documents.placement())))
    assert list(parts["before"].y) == [8 / 12, 8 / 13]
    assert list(parts["after"].y) == [1.0, 8 / 9.5]
    assert list(parts["bound"].y) == [1.0, 8 / 8.5]
    assert parts["after"].marker.color == palette.AFTER
    assert list(traces(figures.figure_balancedness(documents.read(documents.bare_placement())))) == ["after"]


def test_moves_are_counted_by_gpu() -> None:
    """Two from GPU 0 to GPU 1, and one from storage to GPU 0, which nobody sends."""
    parts = traces(figures.figure_moves(documents.read(documents.placement())))
    assert list(parts["receives"].y) == [1, 2]
    assert list(parts["sends"].y) == [-2, 0]


def test_no_moves_to_draw() -> None:
    with pytest.raises(WeftraceError, match="no moves"):
        figures.figure_moves(documents.read(documents.bare_placement()))


def test_replay_draws_the_rows_that_play_a_part() -> None:
    document = documents.replay()
    lines = figures.figure_replay(documents.read(document)).data
    assert [line.name.split(":")[0] for line in lines] == ["recommended", "cheaper", "baseline"]
    assert list(lines[0].y) == [None, 0.95, 0.96, 0.97, 0.95, 0.97]
    assert [line.name for line in figures.figure_replay(documents.read(document), rows=[3, 4]).data] == [
        "planned once, on the first window",
        "an oracle that knows each window",
    ]
    with pytest.raises(WeftraceError, match="no row 9; it has rows 0 to 4"):
        figures.figure_replay(documents.read(document), rows=[9])


def test_a_recommended_baseline_is_drawn_once() -> None:
    document = documents.replay()
    document["recommendation"] |= {"baseline_row": 0, "cheaper_row": None}
    assert [line.name.split(":")[0] for line in figures.figure_replay(documents.read(document)).data] == ["recommended"]


def test_text_of_documents_is_escaped() -> None:
    document = documents.replay()
    document["rows"][0]["solver"] = "<b>bold</b>"
    written = json.dumps(figures.figure_replay(documents.read(document)).to_dict())
    placement = documents.placement()
    placement["gpu_load"]["before"]["label"] = "<b>bold</b>"
    for draw in OF_PLACEMENT:
        written += json.dumps(draw(documents.read(placement)).to_dict(), default=list)
    assert "&lt;b&gt;" in written
    assert "<b>" not in written


def test_without_plotly_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_plotly(name: str, *rest: Any, **named: Any) -> Any:
        if name.startswith("plotly"):
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without_plotly)
    with pytest.raises(WeftraceError, match=r"pip install .*(plotly|notebook)"):
        figures.figure_gpu_load(documents.read(documents.placement()))
