"""Placements and replays as JSON: valid by their schemas, read back equal, refused with a reason when broken."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from weftrace.errors import DocumentError
from weftrace.experts import balance, generate_loads, placement_of, read_placement, replan, replay
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
    jsonschema.validate(document, json.loads(PLACEMENT_SCHEMA.file.read_text()))
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
    told = document["gpu_load"]["before"]
    assert told is not None
    before = np.asarray(told["load"])
    np.testing.assert_allclose(before, LOADS.reshape(3, 8, 4).sum(axis=2))  # experts in order, four a GPU
    np.testing.assert_allclose(told["balancedness"], before.mean(1) / before.max(1))


def test_moves_are_part_of_the_document() -> None:
    old = balance(LOADS, 48, 8, 2, 4, time_budget_s=0)
    new = replan(old, LOADS[::-1].copy(), max_moves=0.2, num_groups=4)
    document = plain(placement_document(new.placement, LOADS[::-1], num_groups=4, before=old))
    jsonschema.validate(document, json.loads(PLACEMENT_SCHEMA.file.read_text()))
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
    jsonschema.validate(document, json.loads(REPLAY_SCHEMA.file.read_text()))
    assert len(document["rows"]) == len(document["series"]) == len(replayed.rows)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"schema": "weftrace.report/1"}, "not a weftrace.placement/1 document: its schema is 'weftrace.report/1'"),
        ({"expert_of_slot": [[0, 1]]}, "with 48 slots"),
        ({"cluster": {}}, "a broken field"),
        ({"cluster": None}, "a broken field"),
        ({"share_of_slot": "half"}, r"a broken field: Expected `array \| null`, got `str` - at `\$.share_of_slot`"),
        ({"share_of_slot": [[0.5, 0.5]]}, "shares are"),
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
