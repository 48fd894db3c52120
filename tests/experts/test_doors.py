"""A placement and a replay go through the few doors: shown, saved, loaded and drawn."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.console import Console

import weftrace as wt
from weftrace.errors import DocumentError, PlacementError
from weftrace.experts import PlacementReport, ReplayReport, placement_report, slot_table
from weftrace.files.values import to_document
from weftrace.outputs import writers
from weftrace.wings import outputs

HISTORY = wt.experts.generate_loads("real", 8, 3, 32, drift=0.8)
LOADS = HISTORY.total()


@pytest.fixture(scope="module")
def report() -> PlacementReport:
    old = wt.balance(HISTORY.total(last=2), 48, 8, 2, 4, time_budget_s=0)
    new = wt.replan(old, LOADS, max_moves=0.2, num_groups=4).placement
    return placement_report(new, LOADS, source="made", num_groups=4, before=old)


@pytest.fixture(scope="module")
def replayed() -> wt.experts.Replay:
    return wt.replay(HISTORY, num_slots=48, num_gpus=8, windows=(2,), intervals=(2,), solvers=("deepseek",))


def shown(value: object) -> str:
    console = Console(file=io.StringIO(), width=100, color_system=None)
    wt.show(value, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert isinstance(text, str)
    return text


def test_a_placement_with_its_loads_comes_back_from_its_document(report: PlacementReport, tmp_path: Path) -> None:
    for name in ("placement.json", "placement.json.zst"):
        wt.save(report, tmp_path / name)
        again = wt.load(tmp_path / name)
        assert isinstance(again, PlacementReport)
        assert to_document(again) == to_document(report)
        assert (again.placement.phy2log == report.placement.phy2log).all()
        assert shown(again) == shown(report)
        assert slot_table(again).equals(slot_table(report))
    assert "Moves" in shown(report)


def test_a_replay_comes_back_from_its_document(replayed: wt.experts.Replay, tmp_path: Path) -> None:
    wt.save(replayed, tmp_path / "replay.json.gz", tmp_path / "replay.csv", tmp_path / "replay.html")
    again = wt.load(tmp_path / "replay.json.gz")
    assert isinstance(again, ReplayReport)
    assert to_document(again.rows) == replayed.table.to_dicts()
    assert shown(again) == shown(replayed)
    assert "What each would have reached" in shown(again)
    assert len(pl.read_csv(tmp_path / "replay.csv")) == len(replayed.rows)
    assert "weftrace-replay" in (tmp_path / "replay.html").read_text()


def test_slots_as_a_table(report: PlacementReport, tmp_path: Path) -> None:
    table = slot_table(report)
    assert table.columns == ["layer", "slot", "gpu", "node", "expert", "share", "load"]
    assert len(table) == 3 * 48
    by_gpu = table.group_by("layer", "gpu").agg(pl.col("load").sum()).sort("layer", "gpu")["load"].to_list()
    assert by_gpu == pytest.approx(report.gpu_load.after.load_LG.ravel().tolist())
    wt.save(report, tmp_path / "slots.csv")
    assert (tmp_path / "slots.csv").read_text().startswith("layer,slot,gpu,node,expert,share,load\n0,0,0,0,")


def test_an_empty_slot_has_no_expert() -> None:
    placement = wt.experts.make_placement([[0, 1, -1, 1]], wt.experts.make_cluster(4, 2), 2)
    table = slot_table(placement_report(placement, [[6.0, 2.0]]))
    assert table.rows() == [
        (0, 0, 0, 0, 0, 1.0, 6.0),
        (0, 1, 0, 0, 1, 0.5, 1.0),
        (0, 2, 1, 0, None, 0.0, 0.0),
        (0, 3, 1, 0, 1, 0.5, 1.0),
    ]


def test_figures_by_name(report: PlacementReport, replayed: wt.experts.Replay) -> None:
    pytest.importorskip("plotly")
    assert wt.figure(report).layout == wt.figure(report, "gpu_load").layout
    for value, name in ((report, "balancedness"), (report, "moves"), (replayed, "replay")):
        assert wt.figure(value, name).data


def test_a_placement_alone_is_shown_and_says_what_saving_needs(report: PlacementReport, tmp_path: Path) -> None:
    alone = wt.balance(LOADS, 48, 8, time_budget_s=0)
    assert "48 a layer, 6 a GPU" in shown(alone)
    assert "placement_report(placement, loads)" in shown(alone)
    endings = [name for kind in outputs() if kind.value is PlacementReport for name in writers(kind)]
    assert {".html", ".csv", ".json", ".json.gz"} <= set(endings)
    for ending in endings:
        with pytest.raises(PlacementError, match=r"placement_report\(placement, loads\)"):
            wt.save(alone, tmp_path / f"placement{ending}")
    with pytest.raises(PlacementError, match="placement_report"):
        wt.figure(alone)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"moves": {}}, r"moves"),
        ({"loads": [["much"]]}, r"Expected `float`, got `str` - at `\$\.loads"),
        ({"expert_of_slot": [[0, 1]]}, "expert_of_slot or share_of_slot: a placement is"),
    ],
)
def test_broken_documents_are_refused_by_name(
    report: PlacementReport, change: dict[str, Any], text: str, tmp_path: Path
) -> None:
    path = tmp_path / "placement.json"
    path.write_text(json.dumps({"schema": "weftrace.placement/1", "weftrace": "", **to_document(report), **change}))
    with pytest.raises(DocumentError, match=rf"placement\.json: .*{text}"):
        wt.load(path)
    path.write_text('{"schema": "weftrace.replay/1", "rows": []}')
    with pytest.raises(DocumentError, match=r"placement\.json: a weftrace\.replay/1 document with a broken field"):
        wt.load(path)


RESULTS = (
    "BreakEven", "Certificate", "Choice", "Cluster", "CostModel", "LoadHistory", "Moves", "Placement",
    "PlacementReport", "PolicyCost", "RealisedShares", "Recommendation", "Replan", "Replay", "ReplayReport",
)  # fmt: skip


def test_every_result_shows_itself_in_a_notebook(report: PlacementReport, replayed: wt.experts.Replay) -> None:
    """All types that experts exports but the protocol of estimators; each in a few lines, none with its arrays."""
    exported = {name for name in dir(wt.experts) if isinstance(getattr(wt.experts, name), type)}
    assert exported == {*RESULTS, "Estimator"}
    placement = wt.balance(LOADS, 48, 8, 2, 4, time_budget_s=0)
    planned = wt.replan(placement, HISTORY.total(last=1))
    moves = wt.experts.moves_between(placement, planned.placement, expert_bytes=wt.experts.CostModel().expert_bytes)
    assert moves.time_s is not None
    token_s = wt.experts.CostModel().row_s
    paid = wt.experts.break_even(placement, planned.placement, LOADS, moving_s=moves.time_s, token_s=token_s)
    served = wt.experts.realised(placement, wt.experts.dispatch_table(placement))
    assert placement.certificate is not None and placement.choice is not None
    values = (
        placement, placement.certificate, placement.choice, placement.choice.costs[0], placement.cluster, planned,
        moves, paid, served, HISTORY, wt.experts.CostModel(), replayed, wt.experts.recommend(replayed), report,
        wt.experts.replay_report(replayed),
    )  # fmt: skip
    assert sorted(type(value).__name__ for value in values) == sorted(RESULTS)
    for value in values:
        html = value._repr_html_()
        assert html.startswith(f"<table><caption>{type(value).__name__}</caption><tr>")
        assert len(html) < 4000
        assert "array(" not in html and "object at" not in html
    assert "3 × 48 ndarray" in served._repr_html_()
    assert "8 in 2 nodes" in placement.cluster._repr_html_()
