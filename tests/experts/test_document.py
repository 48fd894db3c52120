"""Placements and replays as JSON: valid by their schemas, read back equal, refused with a reason when broken."""

from __future__ import annotations

import gzip
import io
import json
import re
from collections.abc import Mapping
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
from weftrace.experts.build import placement_document
from weftrace.experts.document import PLACEMENT_SCHEMA
from weftrace.experts.recorded.generator import synthetic_loads
from weftrace.experts.replays.document import REPLAY_SCHEMA, replay_document

LOADS = synthetic_loads("logn1", 3, 32)


def plain(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document as a reader gets it."""
    text = json.dumps(document, allow_nan=False)
    decoded: dict[str, Any] = json.loads(text)
    return decoded


@pytest.mark.parametrize("split", ["even", "uneven"])
@pytest.mark.parametrize("options", [{}, {"dead": [3]}, {"speed_of_gpu": [1, 1, 1, 1, 1, 1, 1, 0.5]}], ids=str)
def test_a_placement_is_valid_and_read_back_equal(split: str, options: dict[str, Any], tmp_path: Path) -> None:
    placement = balance(LOADS, 48, 8, 2, 4, split=split, time_budget_s=0, **options)
    document = plain(placement_document(placement, LOADS, source="made", num_groups=4))
    jsonschema.Draft202012Validator(PLACEMENT_SCHEMA.json_schema()).validate(document)
    (tmp_path / "p.json.gz").write_bytes(gzip.compress(json.dumps(document).encode()))
    again = read_placement(tmp_path / "p.json.gz")
    np.testing.assert_array_equal(again.expert_of_slot_LP, placement.expert_of_slot_LP)
    np.testing.assert_array_equal(again.share_of_slot_LP, placement.share_of_slot_LP)
    np.testing.assert_array_equal(again.cluster.capacity_G, placement.cluster.capacity_G)
    np.testing.assert_array_equal(again.cluster.speed_G, placement.cluster.speed_G)
    assert (again.is_even, again.policy) == (placement.is_even, placement.policy)


def test_loads_before_and_after_are_those_of_the_placements() -> None:
    placement = balance(LOADS, 48, 8, time_budget_s=0)
    document = placement_document(placement, LOADS)
    np.testing.assert_allclose(document["gpu_load"]["after"]["load"], placement.gpu_load(LOADS))
    summary = document["gpu_load"]["before"]
    assert summary is not None
    before = np.asarray(summary["load"])
    phy2log, _, logcnt = rebalance_experts(LOADS, 48, 1, 1, 8, order="stable")
    each = np.take_along_axis(LOADS / logcnt, phy2log, axis=1)  # the load of every slot, six to a GPU
    np.testing.assert_allclose(before, each.reshape(3, 8, 6).sum(axis=2))
    np.testing.assert_allclose(summary["balancedness"], before.mean(1) / before.max(1))
    assert summary["label"] == "the published EPLB"


def test_the_baseline_is_what_the_published_code_does_with_nodes_and_groups() -> None:
    by_node = placement_document(balance(LOADS, 48, 8, 2, 4, time_budget_s=0), LOADS, num_groups=4)
    summary = by_node["gpu_load"]["before"]
    assert summary is not None and summary["label"] == "the published EPLB by node"
    phy2log, _, logcnt = rebalance_experts(LOADS, 48, 4, 2, 8, order="stable")
    each = np.take_along_axis(LOADS / logcnt, phy2log, axis=1)
    np.testing.assert_allclose(summary["load"], each.reshape(3, 8, 6).sum(axis=2))


@pytest.mark.parametrize(
    "options",
    [{"dead": [3]}, {"speed_of_gpu": [1] * 7 + [0.5]}, {"slots_of_layer": [48, 40, 36]}],
    ids=["dead", "slow", "budget"],
)
def test_what_the_published_code_cannot_do_has_no_baseline(options: dict[str, Any]) -> None:
    placement = balance(LOADS, 48, 8, time_budget_s=0, **options)
    document = placement_document(placement, LOADS)
    jsonschema.Draft202012Validator(PLACEMENT_SCHEMA.json_schema()).validate(plain(document))
    assert document["gpu_load"]["before"] is None


def test_layers_keep_their_numbers_in_the_document_and_in_what_is_made_of_it(tmp_path: Path) -> None:
    """Loads of layers 3, 4 and 60: in the document, its moves, its table of slots, the terminal and the figures."""
    history = replace(as_history(np.stack([LOADS, LOADS[::-1]])), layers=(3, 4, 60))
    old = balance(LOADS, 48, 8, time_budget_s=0)
    planned = replan(old, LOADS[::-1].copy(), max_moves=0.3)
    report = placement_report(planned.placement, history, before=old, last=1)
    assert report.document["layers"] == [3, 4, 60]
    moves = report.document["moves"]
    assert moves is not None and {move["layer"] for move in moves["list"]} <= {3, 4, 60}
    assert 60 in {move["layer"] for move in moves["list"]}
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
    assert again.document["layers"] == [3, 4, 60]


def test_moves_are_part_of_the_document() -> None:
    old = balance(LOADS, 48, 8, 2, 4, time_budget_s=0)
    new = replan(old, LOADS[::-1].copy(), max_moves=0.2, num_groups=4)
    document = plain(placement_document(new.placement, LOADS[::-1], num_groups=4, before=old))
    jsonschema.Draft202012Validator(PLACEMENT_SCHEMA.json_schema()).validate(document)
    moves = document["moves"]
    assert moves["num_moves"] == len(moves["list"]) == new.num_moves > 0
    assert moves["after_balancedness"] == pytest.approx(new.after)
    assert moves["before_balancedness"] == pytest.approx(new.before)
    for move in moves["list"]:
        assert old.expert_of_slot_LP[move["layer"], move["from_slot"]] == move["expert"]
        assert new.placement.expert_of_slot_LP[move["layer"], move["slot"]] == move["expert"]


def test_a_replay_is_valid() -> None:
    replayed = replay(generate_loads("real", 8, 2, 32), num_slots=48, num_gpus=8, windows=(2,), intervals=(2,))
    document = plain(replay_document(replayed))
    jsonschema.Draft202012Validator(REPLAY_SCHEMA.json_schema()).validate(document)
    assert len(document["rows"]) == len(document["series"]) == len(replayed.rows)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"schema": "weftrace.report/1"}, "not a weftrace.placement/1 document: its schema is 'weftrace.report/1'"),
        ({"expert_of_slot": [[0, 1]]}, r"1 elements, where others have 3 - at `\$\.expert_of_slot`"),
        ({"cluster": {}}, "a broken field"),
        ({"cluster": None}, "a broken field"),
        ({"share_of_slot": "half"}, r"a broken field: Expected `array \| null`, got `str` - at `\$.share_of_slot`"),
        ({"share_of_slot": [[0.5, 0.5]]}, r"at `\$\.share_of_slot`"),
        ({"num_experts": 7}, "does not exist; there are 7"),
    ],
)
def test_broken_documents_are_refused_by_name(change: dict[str, Any], text: str, tmp_path: Path) -> None:
    document = placement_document(balance(LOADS, 48, 8, time_budget_s=0), LOADS)
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
        (("layers",), [0, 1], r"\$\.layers"),
        (("gpu_load", "after", "load", 1), [1.0], r"\$\.gpu_load\.after\.load\[1\]"),
        (("certificate", "bound"), [1.0], r"\$\.certificate\.bound"),
        (("gpu_load", "after", "balancedness", 0), 0.0, r"\$\.gpu_load\.after\.balancedness\[0\]"),
    ],
)
def test_tables_that_do_not_fit_each_other_are_named(place: tuple[Any, ...], value: object, named: str) -> None:
    document: Any = plain(placement_document(balance(LOADS, 48, 8, time_budget_s=0), LOADS))
    at = document
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    with pytest.raises(DocumentError, match=named):
        placement_of(document)
