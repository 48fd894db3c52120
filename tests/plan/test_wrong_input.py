"""Whatever else than a plan is given: one `PlanError` that says so, and never an error of the libraries below."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest

from weftrace.errors import PlanError
from weftrace.plan import (
    Op,
    Plan,
    Wait,
    check,
    critical_path,
    drawn,
    from_json,
    longest_chain,
    memory_curve,
    memory_peaks,
    simulate,
    simulate_ranks,
    slack_ns,
    timetable,
    trace_of,
)

OPS = pl.DataFrame({"name": ["a", "b"], "duration_ns": [3, 4]})
PLAN = Plan(name="p", ops=OPS)


def made(**fields: Any) -> Plan:
    return Plan(**{"name": "p", "ops": OPS, **fields})


def of(*, after: Any = (), **fields: Any) -> Plan:
    return Plan.of(
        [Op(**{"name": "a", "duration_ns": 1, **fields}), Op(name="b", duration_ns=1, after=after)], name="p"
    )


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (lambda: made(ops=None), "a Polars DataFrame is wanted here, not a NoneType"),
        (lambda: made(ops=[Op(name="a", duration_ns=1)]), "Plan.of([...], name=...) makes a plan of Ops"),
        (lambda: made(ops=OPS.lazy()), "not a LazyFrame"),
        (lambda: made(waits=[]), "waits: a Polars DataFrame is wanted here, not a list"),
        (lambda: made(waits=pl.DataFrame({"op": [0]})), "waits: column 'on' is missing"),
        (lambda: made(name=3), "name = 3; it must be str"),
        (lambda: made(num_sms="132"), "num_sms = '132'; it must be int or None"),
        (lambda: made(world_size=2.5), "world_size = 2.5"),
        (lambda: made(gap_ns=1.5), "gap_ns = 1.5; it must be int"),
        (lambda: made(notes="one"), "notes = 'one'; it must be tuple"),
        (lambda: made(notes=(1,)), "a note is 1"),
        (lambda: made(ops=OPS.with_columns(kind=pl.lit("gpu"))), "kind = 'gpu' in row 0; it must be one of compute, "),
        (lambda: made(ops=OPS.with_columns(stream=pl.lit(140_234_567_890_123))), "stream = 140234567890123 in row 0"),
        (
            lambda: made(ops=OPS.with_columns(duration_ns=pl.lit(2**64 - 1, pl.UInt64))),
            "a number that fits Int64. (1 more",
        ),
        (lambda: Plan.of(Op(name="a", duration_ns=1), name="p"), "Plan.of takes a list of Ops"),  # type: ignore[arg-type]
        (lambda: Plan.of([{"name": "a"}], name="p"), "row 0 is {'name': 'a'}, and should be an Op"),  # type: ignore[list-item]
        (lambda: of(resource=(0, 7)), "resource = (0, 7); it is Resource(rank=0, stream=7), say"),
        (lambda: of(after=None), "has after = None. Give a tuple: ()."),
        (lambda: of(after=0), "has after = 0. Give a tuple of ids: (0,)."),
        (lambda: of(id="a", after=Wait("a")), "Give a tuple of ids: (Wait(on='a'"),
        (lambda: of(id="a", after={"a"}), "has after = {'a'}"),
        (lambda: of(name="\ud800"), "which no file can hold"),
        (lambda: PLAN.op(1.5), "give a row number or an id"),  # type: ignore[arg-type]
        (lambda: PLAN.op(None), "give a row number or an id"),  # type: ignore[arg-type]
        (lambda: PLAN.label(9), "no op number 9"),
        (lambda: PLAN.rows_on("0"), "no op on rank '0': ranks are numbers"),  # type: ignore[arg-type]
        (lambda: PLAN.with_ops(duration_ns=object()), "its ops changed"),  # type: ignore[arg-type]
        (lambda: from_json(None), "not a weftrace.plan/2 document"),  # type: ignore[arg-type]
        (lambda: drawn(timetable(PLAN), 80.0), "a whole number of columns wide, not 80.0"),  # type: ignore[arg-type]
        (lambda: memory_curve(timetable(PLAN), "0"), "ranks are numbers"),  # type: ignore[arg-type]
    ],
)
def test_wrong_input_is_one_clear_error(wrong: Callable[[], object], expected: str) -> None:
    with pytest.raises(PlanError) as caught:
        wrong()
    assert expected in str(caught.value)


def test_a_plan_is_no_timetable_and_a_timetable_no_plan() -> None:
    wants_times: list[Callable[[Any], object]] = [
        critical_path, slack_ns, drawn, memory_peaks, lambda x: memory_curve(x, 0), lambda x: trace_of(x, 0),
    ]  # fmt: skip
    for function in wants_times:
        with pytest.raises(PlanError, match=r"a Timetable is wanted here, not a Plan: timetable\(plan\) makes one"):
            function(PLAN)
    wants_plan: list[Callable[[Any], object]] = [timetable, check, longest_chain, simulate, simulate_ranks]
    for function in wants_plan:
        with pytest.raises(PlanError, match="a Plan is wanted here, not a Timetable"):
            function(timetable(PLAN))


def test_what_is_meant_well_is_taken() -> None:
    assert made(notes=["one"]) == made(notes=("one",))
    assert PLAN.op(np.int64(1)).name == "b"  # type: ignore[arg-type]
    ops = pl.DataFrame({"name": pl.Series(["a", "b"], dtype=pl.Categorical(pl.Categories("x", "y"))),
                        "duration_ns": pl.Series([3, 4], dtype=pl.UInt64)})  # fmt: skip
    assert made(ops=ops) == PLAN
    assert of(id="a", after=["a"]) == of(id="a", after=("a",))
    assert timetable(Plan(name="p", ops=pl.DataFrame())).makespan_ns == 0


def test_a_million_meets_and_a_meet_of_a_million() -> None:
    n = 1_000_000
    pairs = pl.DataFrame(
        {"name": ["x"] * 2 * n, "rank": np.repeat([0, 1], n), "duration_ns": 1, "meet": np.tile(np.arange(n), 2)}
    )
    assert timetable(Plan(name="pairs", ops=pairs)).makespan_ns == n
    joint = pl.DataFrame({"name": ["x"] * n, "rank": np.arange(n), "duration_ns": np.arange(n), "meet": 7})
    times = timetable(Plan(name="joint", ops=joint))
    assert times.makespan_ns == n - 1
    assert len(memory_peaks(times)) == n
