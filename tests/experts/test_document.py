"""Placements and replays as JSON: valid by their schemas, read back equal, refused with a reason when broken."""

from __future__ import annotations

import gzip
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from rich.console import Console

from weftrace import figure, load, save, show
from weftrace.errors import DocumentError
from weftrace.experts import (
    PlacementReport,
    as_history,
    balance,
    generate_loads,
    placement_of,
    placement_report,
    read_placement,
    rebalance_experts,
    replan,
    replay,
    slot_table,
)
from weftrace.experts.outputs import PLACEMENT, REPLAY
from weftrace.experts.recorded.generator import synthetic_loads
from weftrace.experts.replays.document import ReplayReport, replay_report
from weftrace.files.schemas import schema_for

LOADS = synthetic_loads("logn1", 3, 32)


def plain(report: PlacementReport | ReplayReport) -> dict[str, Any]:
    """The document as a reader gets it."""
    document = (PLACEMENT if isinstance(report, PlacementReport) else REPLAY).document
    assert document is not None
    text = json.dumps(document(report), allow_nan=False)
    decoded: dict[str, Any] = json.loads(text)
    return decoded


@pytest.mark.parametrize("split", ["even", "uneven"])
@pytest.mark.parametrize("options", [{}, {"dead": [3]}, {"speed_of_gpu": [1, 1, 1, 1, 1, 1, 1, 0.5]}], ids=str)
def test_a_placement_is_valid_and_read_back_equal(split: str, options: dict[str, Any], tmp_path: Path) -> None:
    placement = balance(LOADS, 48, 8, 2, 4, split=split, time_budget_s=0, **options)
    document = plain(placement_report(placement, LOADS, source="made", num_groups=4))
    jsonschema.Draft202012Validator(schema_for(PLACEMENT).json_schema()).validate(document)
    (tmp_path / "p.json.gz").write_bytes(gzip.compress(json.dumps(document).encode()))
    again = read_placement(tmp_path / "p.json.gz")
    np.testing.assert_array_equal(again.expert_of_slot_LP, placement.expert_of_slot_LP)
    np.testing.assert_array_equal(again.share_of_slot_LP, placement.share_of_slot_LP)
    np.testing.assert_array_equal(again.cluster.capacity_G, placement.cluster.capacity_G)
    np.testing.assert_array_equal(again.cluster.speed_G, placement.cluster.speed_G)
    assert (again.is_even, again.policy) == (placement.is_even, placement.policy)


def test_loads_before_and_after_are_those_of_the_placements() -> None:
    placement = balance(LOADS, 48, 8, time_budget_s=0)
    report = placement_report(placement, LOADS)
    np.testing.assert_allclose(report.gpu_load.after.load_LG, placement.gpu_load(LOADS))
    published = report.gpu_load.before
    assert published is not None
    before = published.load_LG
    phy2log, _, logcnt = rebalance_experts(LOADS, 48, 1, 1, 8, order="stable")
    each = np.take_along_axis(LOADS / logcnt, phy2log, axis=1)  # the load of every slot, six to a GPU
    np.testing.assert_allclose(before, each.reshape(3, 8, 6).sum(axis=2))
    np.testing.assert_allclose(published.balancedness_L, before.mean(1) / before.max(1))
    assert published.label == "the published EPLB"


def test_the_baseline_is_what_the_published_code_does_with_nodes_and_groups() -> None:
    by_node = placement_report(balance(LOADS, 48, 8, 2, 4, time_budget_s=0), LOADS, num_groups=4)
    published = by_node.gpu_load.before
    assert published is not None and published.label == "the published EPLB by node"
    phy2log, _, logcnt = rebalance_experts(LOADS, 48, 4, 2, 8, order="stable")
    each = np.take_along_axis(LOADS / logcnt, phy2log, axis=1)
    np.testing.assert_allclose(published.load_LG, each.reshape(3, 8, 6).sum(axis=2))


@pytest.mark.parametrize(
    "options",
    [{"dead": [3]}, {"speed_of_gpu": [1] * 7 + [0.5]}, {"slots_of_layer": [48, 40, 36]}],
    ids=["dead", "slow", "budget"],
)
def test_what_the_published_code_cannot_do_has_no_baseline(options: dict[str, Any]) -> None:
    placement = balance(LOADS, 48, 8, time_budget_s=0, **options)
    report = placement_report(placement, LOADS)
    jsonschema.Draft202012Validator(schema_for(PLACEMENT).json_schema()).validate(plain(report))
    assert report.gpu_load.before is None


def test_layers_keep_their_numbers_in_the_document_and_in_what_is_made_of_it(tmp_path: Path) -> None:
    """Loads of layers 3, 4 and 60: in the document, its moves, its table of slots, the terminal and the figures."""
    history = replace(as_history(np.stack([LOADS, LOADS[::-1]])), layers=(3, 4, 60))
    old = balance(LOADS, 48, 8, time_budget_s=0)
    planned = replan(old, LOADS[::-1].copy(), max_moves=0.3)
    report = placement_report(planned.placement, history, before=old, last=1)
    assert report.layers == (3, 4, 60)
    assert report.moves is not None
    moved = set(report.moves.table["layer"])
    assert moved <= {3, 4, 60} and 60 in moved
    assert set(slot_table(report)["layer"]) == {3, 4, 60}
    console = Console(file=io.StringIO(), width=120)
    show(report, console)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "(layer 60)" in printed or "(layer 4)" in printed or "(layer 3)" in printed
    assert re.findall(r"(?m)^(\d+) +[ ▁▂▃▄▅▆▇█]{8}", printed) == ["3", "4", "60"]
    assert list(figure(report, "balancedness").data[0].x) == ["3", "4", "60"]
    assert list(figure(report).data[0].y) == ["3", "4", "60"]
    save(report, tmp_path / "placement.json")
    again = load(tmp_path / "placement.json")
    assert again.layers == (3, 4, 60)


def test_moves_are_part_of_the_document() -> None:
    old = balance(LOADS, 48, 8, 2, 4, time_budget_s=0)
    new = replan(old, LOADS[::-1].copy(), max_moves=0.2, num_groups=4)
    document = plain(placement_report(new.placement, LOADS[::-1], num_groups=4, before=old))
    jsonschema.Draft202012Validator(schema_for(PLACEMENT).json_schema()).validate(document)
    moves = document["moves"]
    assert moves["num_moves"] == len(moves["list"]) == new.num_moves > 0
    assert moves["after_balancedness"] == pytest.approx(new.after)
    assert moves["before_balancedness"] == pytest.approx(new.before)
    for move in moves["list"]:
        assert old.expert_of_slot_LP[move["layer"], move["from_slot"]] == move["expert"]
        assert new.placement.expert_of_slot_LP[move["layer"], move["slot"]] == move["expert"]


def test_a_replay_is_valid() -> None:
    replayed = replay(generate_loads("real", 8, 2, 32), num_slots=48, num_gpus=8, windows=(2,), intervals=(2,))
    document = plain(replay_report(replayed))
    jsonschema.Draft202012Validator(schema_for(REPLAY).json_schema()).validate(document)
    assert len(document["rows"]) == len(document["series"]) == len(replayed.rows)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"schema": "weftrace.report/1"}, "not a weftrace.placement/1 document: its schema is 'weftrace.report/1'"),
        (
            {"expert_of_slot": [[0, 1]]},
            r"expert_of_slot or share_of_slot: a placement is \[layers, slots\] with 48 slots",
        ),
        ({"cluster": {}}, "a broken field"),
        ({"cluster": None}, "a broken field"),
        ({"share_of_slot": "half"}, r"a broken field: Expected `array \| null`, got `str` - at `\$.share_of_slot`"),
        ({"share_of_slot": [[0.5, 0.5]]}, r"share_of_slot: shares are \[1, 2\]"),
        ({"num_experts": 7}, "does not exist; there are 7"),
    ],
)
def test_broken_documents_are_refused_by_name(change: dict[str, Any], text: str, tmp_path: Path) -> None:
    document = plain(placement_report(balance(LOADS, 48, 8, time_budget_s=0), LOADS))
    with pytest.raises(DocumentError, match=text):
        placement_of({**document, **change})
    path = tmp_path / "placement.json"
    path.write_text(json.dumps({**document, **change}))
    with pytest.raises(DocumentError, match=r"placement\.json: "):
        read_placement(path)


@pytest.mark.parametrize("data", [b"", b"[1]", b"{", b"\x1f\x8bnot gzip", b"\xff\xfe", b'"text"'])
def test_files_that_are_no_document_are_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "p.json").write_bytes(data)
    with pytest.raises(DocumentError, match=r"p\.json: "):
        read_placement(tmp_path / "p.json")
    with pytest.raises(DocumentError, match=r"absent\.json: cannot be read"):
        read_placement(tmp_path / "absent.json")


@pytest.mark.parametrize(
    ("place", "value", "named"),
    [
        (("layers",), [0, 1], "`layers` has 2 elements, and 3"),
        (("gpu_load", "after", "load", 1), [1.0], r"\$\.gpu_load\.after\.load"),
        (("certificate", "bound"), [1.0], r"`certificate\.bound`"),
        (("gpu_load", "after", "load", 1), [1.0], "rows of 1 and of 8 elements"),
        (("gpu_load", "after", "balancedness", 0), 0.0, r"\$\.gpu_load\.after\.balancedness\[0\]"),
        (("share_of_slot",), [[1.0] + [0.0] * 47] * 3, "the shares of expert"),
        (("layers",), [0, 1, 1], "`layers` gives two layers one number"),
        (("loads",), np.zeros_like(LOADS).tolist(), r"`gpu_load\.after\.load` is not what this placement gives"),
        (("gpu_load", "after", "load", 1), [1.0] * 8, r"`gpu_load\.after\.load` is not what this placement gives"),
        (("gpu_load", "after", "balancedness", 1), 0.5, r"`gpu_load\.after\.balancedness` is not that of"),
        (("gpu_load", "before", "load", 1), [1.0] * 8, r"`gpu_load\.before\.load` does not add up to `loads`"),
    ],
)
def test_tables_that_do_not_fit_each_other_are_named(place: tuple[Any, ...], value: object, named: str) -> None:
    document: Any = plain(placement_report(balance(LOADS, 48, 8, time_budget_s=0), LOADS))
    at = document
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    with pytest.raises(DocumentError, match=named):
        placement_of(document)
