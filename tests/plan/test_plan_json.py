"""Plans as text: printed, parsed, compared."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from weftrace.errors import PlanError
from weftrace.plan import Op, Plan, Resource, deepseek_training_layers, from_json, to_json

PLAN = Plan(
    name="p",
    ops=(
        Op(id="a", name="attn(F)", duration_ns=5, resource=Resource(stream=7)),
        Op(id="d", name="dispatch", duration_ns=3, resource=Resource(rank=1, stream=27), after=("a",), lags_ns=(4,)),
    ),
    gap_ns=2,
    notes=('quotes " and µ',),
)

GOLDEN = """\
{
 "schema": "weftrace.plan/1",
 "name": "p",
 "notes": [
  "quotes \\" and µ"
 ],
 "gap_ns": 2,
 "ops": [
  {"id":"a","name":"attn(F)","duration_ns":5,"resource":{"rank":0,"stream":7}},
  {"id":"d","name":"dispatch","duration_ns":3,"resource":{"rank":1,"stream":27},"after":["a"],"lags_ns":[4]}
 ]
}
"""


def test_one_op_a_line() -> None:
    assert to_json(PLAN) == GOLDEN
    json.loads(GOLDEN)


@pytest.mark.parametrize("plan", [PLAN, replace(PLAN, ops=()), Plan(name="", ops=()), deepseek_training_layers(2)])
def test_round_trip(plan: Plan) -> None:
    assert from_json(to_json(plan)) == plan
    assert from_json(to_json(plan).encode()) == plan


def test_plans_compare_by_value() -> None:
    assert from_json(GOLDEN) == PLAN
    assert from_json(GOLDEN.replace('"duration_ns":5', '"duration_ns":6')) != PLAN
    assert from_json(GOLDEN.replace(" ", "").replace("quotes", "quotes ").replace("and", " and ")) == PLAN


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "not a weftrace.plan/1 document"),
        ("[1, 2]", "not a weftrace.plan/1 document"),
        ('{"ops": []}', "missing required field `schema`"),
        (GOLDEN[:-20], "not a weftrace.plan/1 document"),
        (GOLDEN.replace("plan/1", "plan/7"), "'weftrace.plan/7', and this weftrace reads 'weftrace.plan/1'"),
        (GOLDEN.replace('"duration_ns":5', '"duration_ns":5.5'), r"ops[0].duration_ns"),
        (GOLDEN.replace('"duration_ns":5', '"duration_us":5'), "duration_us"),
        (GOLDEN.replace('"gap_ns"', '"gap"'), "gap"),
        (GOLDEN.replace('"stream":7', '"lane":7'), "unknown field `lane` - at `$.ops[0].resource`"),
        (GOLDEN.replace('"rank":1', '"rank":"1"'), "$.ops[1].resource.rank"),
        ('{"schema": "weftrace.plan/1", "name": "p", "ops": [1]}', "$.ops[0]"),
        ('{"schema": "weftrace.plan/1", "name": "p", "ops": {}}', "$.ops"),
        ("\udcff", "not a weftrace.plan/1 document"),
        ('{"schema": "weftrace.plan/1", "ops": ' + "[" * 100_000, "not a weftrace.plan/1 document"),
    ],
)
def test_text_that_is_not_a_plan(text: str, expected: str) -> None:
    with pytest.raises(PlanError) as caught:
        from_json(text)
    assert expected in str(caught.value)


def test_what_json_cannot_hold() -> None:
    odd = replace(PLAN.ops[0], duration_ns=object())  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="cannot be written"):
        to_json(replace(PLAN, ops=(odd,)))
    with pytest.raises(PlanError, match="cannot be written"):
        to_json(replace(PLAN, name="\udcff"))
