"""Plans as text: printed, parsed, compared."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from weftrace.errors import PlanError
from weftrace.plan import (
    Op,
    Plan,
    Resource,
    Wait,
    deepseek_training_layers,
    from_json,
    load_parquet,
    save_parquet,
    to_json,
)
from weftrace.plan.document import SCHEMAS

PLAN = Plan.of(
    (
        Op(id="a", name="attn(F)", duration_ns=5, resource=Resource(stream=7)),
        Op(name="send", duration_ns=3, resource=Resource(rank=1, stream=27), after=("a", Wait("a", "start", -4, "sm"))),
        Op(id="m", name="mlp", duration_ns=2, resource=Resource(stream=7), after=(1,), meet=0, start_bytes=8),
    ),
    name="p",
    gap_ns=2,
    notes=('quotes " and µ',),
)

GOLDEN = """\
{
 "schema": "weftrace.plan/2",
 "name": "p",
 "notes": [
  "quotes \\" and µ"
 ],
 "gap_ns": 2,
 "ops": [
  {"id":"a","name":"attn(F)","duration_ns":5,"resource":{"rank":0,"stream":7}},
  {"name":"send","duration_ns":3,"resource":{"rank":1,"stream":27},"after":["a",{"on":"a","since":"start","lag_ns":-4,"why":"sm"}]},
  {"id":"m","name":"mlp","duration_ns":2,"resource":{"rank":0,"stream":7},"after":[1],"meet":0,"start_bytes":8}
 ]
}
"""


def test_one_op_a_line() -> None:
    assert to_json(PLAN) == GOLDEN
    json.loads(GOLDEN)


@pytest.mark.parametrize(
    "plan", [PLAN, Plan.of((), name="p", gap_ns=2), Plan.of((), name=""), deepseek_training_layers(2)]
)
def test_round_trip(plan: Plan) -> None:
    assert from_json(to_json(plan)) == plan
    assert from_json(to_json(plan).encode()) == plan


def test_documents_keep_to_their_schema() -> None:
    (made,) = SCHEMAS
    validator = jsonschema.Draft202012Validator(made.json_schema())
    for plan in (PLAN, deepseek_training_layers(2)):
        validator.validate(json.loads(to_json(plan)))
    assert not validator.is_valid(json.loads(GOLDEN.replace('"duration_ns":5', '"duration_ns":"5"')))


def test_plans_compare_by_value() -> None:
    assert from_json(GOLDEN) == PLAN
    assert from_json(GOLDEN.replace('"duration_ns":5', '"duration_ns":6')) != PLAN
    assert from_json(GOLDEN.replace(" ", "").replace("quotes", "quotes ").replace("and", " and ")) == PLAN


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "not a weftrace.plan/2 document"),
        ("[1, 2]", "not a weftrace.plan/2 document"),
        ('{"ops": []}', "missing required field `schema`"),
        (GOLDEN[:-20], "not a weftrace.plan/2 document"),
        (GOLDEN.replace("plan/2", "plan/7"), "'weftrace.plan/7', and this weftrace reads 'weftrace.plan/2'"),
        (GOLDEN.replace('"duration_ns":5', '"duration_ns":5.5'), r"ops[0].duration_ns"),
        (GOLDEN.replace('"duration_ns":5', '"duration_us":5'), "duration_us"),
        (GOLDEN.replace('"gap_ns"', '"gap"'), "gap"),
        (GOLDEN.replace('"stream":7', '"lane":7'), "unknown field `lane` - at `$.ops[0].resource`"),
        (GOLDEN.replace('"rank":1', '"rank":"1"'), "$.ops[1].resource.rank"),
        (GOLDEN.replace('"lag_ns"', '"lag"'), "unknown field `lag` - at `$.ops[1].after[1]`"),
        (GOLDEN.replace('"after":["a",', '"after":["b",'), "waits for 'b', which is not among its 3 ops"),
        ('{"schema": "weftrace.plan/2", "name": "p", "ops": [1]}', "$.ops[0]"),
        ('{"schema": "weftrace.plan/2", "name": "p", "ops": {}}', "$.ops"),
        ("\udcff", "not a weftrace.plan/2 document"),
        ('{"schema": "weftrace.plan/2", "ops": ' + "[" * 100_000, "not a weftrace.plan/2 document"),
    ],
)
def test_text_that_is_not_a_plan(text: str, expected: str) -> None:
    with pytest.raises(PlanError) as caught:
        from_json(text)
    assert expected in str(caught.value)


def test_what_json_cannot_hold() -> None:
    with pytest.raises(PlanError, match="cannot be written"):
        to_json(replace(PLAN, name="\udcff"))
    with pytest.raises(PlanError, match="cannot be written"):
        to_json(replace(PLAN, notes=("\udcff",)))


@pytest.mark.parametrize("plan", [PLAN, Plan.of((), name=""), deepseek_training_layers(2)])
def test_parquet_round_trip(plan: Plan, tmp_path: Path) -> None:
    save_parquet(plan, tmp_path / "plan.parquet")
    assert load_parquet(tmp_path / "plan.parquet") == plan


def test_parquet_that_is_not_a_plan(tmp_path: Path) -> None:
    path = tmp_path / "plan.parquet"
    with pytest.raises(PlanError, match="no such file"):
        load_parquet(path)
    path.write_text("no parquet")
    with pytest.raises(PlanError, match="is damaged, cut short or changed"):
        load_parquet(path)
    PLAN.ops.write_parquet(path)
    with pytest.raises(PlanError, match="not a plan that this weftrace saved"):
        load_parquet(path)
    save_parquet(PLAN, path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(PlanError, match="is damaged, cut short or changed"):
        load_parquet(path)
