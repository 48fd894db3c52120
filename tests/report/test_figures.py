"""The plotly figures: their numbers, their colours, and names that may not reach a page as HTML."""

from __future__ import annotations

import builtins
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.report import documents, job_documents
from weftrace.errors import WeftraceError
from weftrace.render import palette
from weftrace.report.render import figures, figures_job

pytest.importorskip("plotly")

BAND = 64  # the height of a lane
OF_DOCUMENT = {"breakdown": figures.breakdown_figure, "ranks": figures.ranks_figure}
OF_JOB = (figures_job.job_figure, figures_job.lateness_figure, figures_job.steps_figure)
OF_RANK = {
    "lanes": figures.lanes_figure,
    "overlap": figures.overlap_figure,
    "kernels": figures.kernels_figure,
    "idle": figures.idle_figure,
}


def every_figure(document: Any) -> dict[str, Any]:
    made = {name: draw(document) for name, draw in OF_DOCUMENT.items()}
    for name, draw in OF_RANK.items():
        if name == "overlap" and not document["ranks"][0]["communication_ns"]:
            continue
        made[name] = draw(document["ranks"][0])
    return made


def traces(figure: Any) -> dict[str, Any]:
    return {trace.name: trace for trace in figure.data}


def rows_of(figure: Any) -> dict[float, str]:
    """Where a row is -> its label."""
    return dict(zip(figure.layout.yaxis.tickvals, figure.layout.yaxis.ticktext, strict=True))


def test_breakdown_is_in_per_cent_of_each_span() -> None:
    parts = traces(figures.breakdown_figure(documents.job(3)))
    assert list(parts) == ["compute", "exposed communication", "exposed memory", "idle"]
    # Rank 0: 18,200 of 20,500 µs. Every bar is 100 % in all.
    assert parts["compute"].x[0] == pytest.approx(100 * 18_200 / 20_500)
    for shares in zip(*(part.x for part in parts.values()), strict=True):
        assert sum(shares) == pytest.approx(100)
    assert parts["exposed communication"].marker.color == palette.EXPOSED


def test_a_box_of_an_amd_device_holds_compute_units() -> None:
    rank = documents.rank()
    for lane in rank["lanes"]:
        lane["sm_unit"] = "CUs"
    drawn = [trace for trace in figures.lanes_figure(rank).data if trace.name in ("forward", "backward")]
    assert drawn and all(" CUs" in hover for trace in drawn for hover in trace.customdata)


def test_lanes_have_a_box_a_phase_in_the_colour_of_its_direction() -> None:
    figure = figures.lanes_figure(documents.rank())
    boxes = [
        (rows_of(figure)[trace.y[n]], trace.base[n], trace.x[n], trace.marker.color)
        for trace in figure.data
        if trace.text is not None
        for n in range(len(trace.x))
    ]
    assert len(boxes) == 15
    assert ("compute<br>112 SMs", 2.0, 3.0, palette.BACKWARD) in boxes  # mlp(B) of layer 0, 2 to 5 ms
    assert ("communication<br>20 SMs", 6.5, 1.5, palette.FORWARD) in boxes  # combine(F) of layer 0
    exposed = next(trace for trace in figure.data if trace.name.startswith("exposed"))
    assert sorted(zip(exposed.base, exposed.x, strict=True)) == [(7.0, 1.0), (17.0, 1.0)]
    assert figure.layout.xaxis.title.text == "time (ms)" and list(figure.layout.xaxis.range) == [0, 20.5]


def test_each_direction_stands_once_in_the_legend() -> None:
    figure = figures.lanes_figure(documents.rank())
    named = [trace.name for trace in figure.data if trace.showlegend is not False]
    assert named == ["forward", "backward", "weight gradient", "compute", "exposed", "idle"]


def test_a_box_is_as_high_as_it_was_dense() -> None:
    """Length times height is busy time: a box of 522 ms in which 8 µs ran is no thicker than a hair."""
    rank = documents.rank()
    box = {**rank["lanes"][0]["boxes"][0], "end_ns": 10_000_000, "busy_ns": 2_500_000}
    rank["lanes"][0]["boxes"] = [box]
    figure = figures.lanes_figure(rank)
    drawn = [
        (x * width, summary)
        for trace in figure.data
        for y, x, width, summary in zip(trace.y, trace.x, trace.width, trace.customdata, strict=True)
        if rows_of(figure)[y].startswith("compute") and trace.name != "exposed"
    ]
    ((area, summary),) = drawn
    assert area == pytest.approx(BAND * 2.5) and "2.50 of 10.0 ms busy" in summary


def test_every_box_has_its_name() -> None:
    figure = figures.lanes_figure(documents.rank(documents.layers(4)))
    bars = [bar for bar in figure.data if bar.name not in ("exposed", "idle")]
    assert sum(len(bar.text) for bar in bars) == 4 * 7 + 1 and all(text for bar in bars for text in bar.text)
    assert {bar.textangle for bar in bars if len(bar.text) > 4} == {-90}  # upright, where a box is narrow


def test_no_communication_is_no_undefined_share() -> None:
    title = figures.lanes_figure(documents.no_communication()["ranks"][0]).layout.title.text
    assert title == "Lanes of rank 0: compute 18.2 of 20.5 ms busy"


def test_overlap_leaves_out_what_never_met() -> None:
    heat = figures.overlap_figure(documents.rank()).data[0]
    assert list(heat.x) == ["attn(F)", "mlp(B)", "mlp(F)", "exposed"]  # attn(W) and (no phase) hide nothing
    assert list(heat.y) == ["combine(B)", "dispatch(F)", "combine(F)"]
    assert [list(row) for row in heat.z] == [[2.6, 0, 0, 0], [0, 5.6, 0, 0], [0, 0, 1.0, 2.0]]


def test_overlap_of_nothing_says_so() -> None:
    with pytest.raises(WeftraceError, match="rank 0: no communication phase"):
        figures.overlap_figure(documents.no_communication()["ranks"][0])


def test_kernels_are_those_of_most_time() -> None:
    figure = figures.kernels_figure(documents.rank(), top=2)
    assert sum(len(trace.x) for trace in figure.data) == 2
    assert traces(figure)["compute"].x[0] == 18.0
    assert traces(figure)["communication"].marker.color == palette.COMMUNICATION


def test_kernels_that_shorten_to_one_label_keep_their_own_bars() -> None:
    rank = documents.rank()
    rank["kernels"] = [{**rank["kernels"][0], "name": f"void f<1>(int{n})"} for n in range(3)]
    figure = figures.kernels_figure(rank)
    assert list(figure.data[0].y) == [0, 1, 2]
    assert list(figure.layout.yaxis.ticktext) == ["f&lt;1&gt;"] * 3


def test_idle_shows_the_parts_that_add_up_and_the_causes() -> None:
    rank = documents.rank()
    parts = traces(figures.idle_figure(rank))
    assert list(parts) == ["host", "launch latency", "unrecorded", "by cause"]
    assert sum(parts[name].x[0] for name in list(parts)[:-1]) == pytest.approx(rank["idle_ns"] / 1e6)
    assert parts["unrecorded"].marker.pattern.shape == "/"
    assert list(parts["by cause"].y) == ["data loading", "launch latency", "unrecorded work"]
    assert "resize of data/pictures.py" in parts["by cause"].customdata[0]
    del rank["idle_account"]  # a report of an earlier version
    with pytest.raises(WeftraceError, match="no causes of idle time"):
        figures.idle_figure(rank)


def test_ranks_come_with_the_longest_span_first() -> None:
    parts = traces(figures.ranks_figure(documents.job(4)))
    assert list(parts["compute"].x) == ["3", "2", "1", "0"]
    assert parts["idle"].y[0] == pytest.approx(1.3)
    assert parts["hidden communication"].y[0] == pytest.approx(100 * 9_200 / 11_200)


def test_ranks_in_no_sum_stand_in_no_chart_of_sums() -> None:
    document = documents.job(4)
    document["ranks"][3]["apart"] = "world"
    figure = figures.ranks_figure(document)
    assert list(traces(figure)["compute"].x) == ["2", "1", "0"]
    assert figure.layout.title.text == "Ranks, the longest span first (ms); without 1 that do not count"
    assert list(traces(figures.breakdown_figure(document))["compute"].y) == ["rank 0", "rank 1", "rank 2"]


def test_lateness_by_the_pencil_of_the_job() -> None:
    """Rank 1 of 4 is 3 ms late in 2 of 3 steps: job_documents.py."""
    document = job_documents.late_job(4)
    heat = figures_job.lateness_figure(document)
    assert [list(row) for row in heat.data[0].z] == [[0, 6, 0, 0], [0, 0, 0, 0], [0, 6, 0, 0], [0, 6, 0, 0]]
    assert heat.layout.title.text == "Who waits for whom (ms): rank 1 caused 18.0 ms"
    steps = figures_job.steps_figure(document).data[0]
    assert list(steps.x) == ["0", "1", "2"] and list(steps.y)[1] == "rank 1"
    assert [list(row) for row in steps.z] == [[0, 0, 0], [0, 3, 3], [0, 0, 0], [0, 0, 0]]
    assert [row[0] for row in figures_job.steps_figure(document, "idle").data[0].z] == [3, 3, 3, 3]
    job = figures_job.job_figure(document)
    parts = traces(job)
    # Of rank 2: waits at 16 and 26 ms, on the job's clock, for 3 ms each.
    waits = [(start, length) for y, start, length in zip(
        parts["waiting for others"].y, parts["waiting for others"].base, parts["waiting for others"].x, strict=True
    ) if y == job.layout.yaxis.tickvals[2]]  # fmt: skip
    assert waits == [(16, 3), (26, 3)]
    assert parts["waiting for others"].marker.color == palette.WAITING
    assert len(figures_job.job_figure(job_documents.late_job(70, late=66)).layout.yaxis.tickvals) == 64


def test_names_of_late_ranks_are_escaped() -> None:
    document = job_documents.late_job(3)
    for rank in document["lateness"]["ranks"]:
        rank["name"] = documents.HOSTILE
    for draw in OF_JOB:
        text = draw(document).to_json()
        assert not [tag for tag in ("<img", "</script", "\\u003cimg", "\x1b", "\\u001b") if tag in text], draw


def test_a_job_that_tells_no_lateness_says_so() -> None:
    with pytest.raises(WeftraceError, match="it is not known which rank was late"):
        figures_job.lateness_figure(documents.job())
    assert [trace.name for trace in figures_job.job_figure(documents.job()).data] == [
        "computing", "communicating",
    ]  # fmt: skip


def test_devices_of_one_rank_are_told_apart() -> None:
    two = [documents.rank(), documents.rank()]
    two[1]["device"] = 1
    names = figures.breakdown_figure(documents.document(*two)).data[0].y
    assert list(names) == ["rank 0, device 0", "rank 0, device 1"]


@pytest.mark.parametrize(
    "make",
    [documents.document, documents.job, documents.cpu_only, documents.no_communication, documents.no_phases,
     documents.partial, documents.nothing],
)  # fmt: skip
def test_every_figure_can_be_made_of_every_document(make: Callable[[], dict[str, Any]]) -> None:
    for name, figure in every_figure(make()).items():
        assert figure.layout.title.text, name
        json.loads(figure.to_json())


def test_names_are_escaped() -> None:
    for name, figure in every_figure(documents.hostile()).items():
        text = figure.to_json()
        for tag in ("<img", "</script", "<\\/script", "\\u003cimg", "\\u003c/script", "\x1b", "\\u001b"):
            assert tag not in text, (name, tag)


def test_without_plotly_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_plotly(name: str, *rest: Any, **named: Any) -> Any:
        if name.partition(".")[0] == "plotly":
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without_plotly)
    with pytest.raises(WeftraceError, match=r"pip install .*(plotly|notebook)"):
        figures.breakdown_figure(documents.document())


@pytest.mark.parametrize("number", [1, 3, 8])
def test_the_lane_figure_has_a_line_for_each_lane_in_their_order(number: int) -> None:
    rank = documents.bands(number)["ranks"][0]
    figure = figures.lanes_figure(rank)
    expected = [f"rank {n}, stream 7<br>{100 + n} SMs" for n in range(number)]
    rows = rows_of(figure)
    assert list(rows.values()) == [expected[0], "communication is", *expected[1:]]
    assert {rows[y] for bar in figure.data for y in bar.y} == {*expected, "communication is"}
    plain = {bar.name: bar.marker.color for bar in figure.data if str(bar.name).startswith("rank ")}
    assert list(plain) == [f"rank {n}, stream 7" for n in range(0, number, 2)]
    assert len(set(plain.values())) == min(len(plain), 3)
    assert sum(len(bar.y) for bar in figure.data if bar.text) == sum(len(lane["boxes"]) for lane in rank["lanes"])


def test_lanes_of_one_name_are_drawn_apart() -> None:
    rank = documents.bands(3)["ranks"][0]
    for lane in rank["lanes"]:
        lane |= {"lane": "stream 7", "sms": None}
    lines = rows_of(figures.lanes_figure(rank))
    assert list(lines.values()) == ["stream 7", "communication is", "stream 7", "stream 7"]
