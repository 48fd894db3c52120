"""A schedule as a value: what it is made of, and what it refuses to be made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest

from weftrace.errors import ScheduleError
from weftrace.pipeline import (
    Action,
    Costs,
    Schedule,
    compare,
    generate,
    laws_of,
    most_held,
    offload_activations,
    place_weights,
    split_backward,
)

ONE = Action(rank=0, kind="F", stage=0, micro_batch=0)


def made(actions: Any = (ONE,), **fields: Any) -> Schedule:
    given: dict[str, Any] = {"name": "x", "rank_of": [[0]], "num_micro_batches": 1} | fields
    return Schedule.of(actions, **given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"actions": ["0F0"]}, "actions are a list of Action; '0F0' is none"),
        ({"actions": None}, "actions are a list of Action; None is none"),
        ({"actions": [Action(rank=0, kind="Q", stage=0, micro_batch=0)]}, "no action of kind 'Q'; the kinds are F, B"),  # type: ignore[arg-type]
        ({"actions": [Action(rank=0.5, kind="F", stage=0, micro_batch=0)]}, "holds 0.5, which is no whole number"),  # type: ignore[arg-type]
        ({"actions": [Action(rank=0, kind="F", stage=0, micro_batch=True)]}, "holds True, which is no whole number"),
        ({"actions": [Action(rank=0, kind="F", stage=0, micro_batch=1)]}, "0F1 on rank 0 is of micro-batch 1, of 1"),
        ({"rank_of": 5}, "rank_of = 5; it is one list of ranks, by stage, a replica"),
        ({"rank_of": [0]}, r"rank_of = \[0\]; it is one list"),
        ({"rank_of": [[0], [0]]}, "a rank holds stage 0 twice"),
        ({"rank_of": [[2]]}, "rank 0 holds no stage"),
        ({"rank_of": [range(20_000)]}, "20,000 stages on 20,000 ranks are more than there is room for"),
        ({"num_micro_batches": 0}, "num_micro_batches = 0; it must be a whole number"),
        ({"num_slices": 2}, "1 micro-batches are no whole number of sequences of 2 slices"),
        ({"name": 5}, "a schedule's name is text, not 5"),
        ({"notes": "abc"}, "notes = 'abc'; they are a list of texts"),
    ],
)
def test_what_is_no_schedule_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ScheduleError, match=said):
        made(**given)


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (pl.DataFrame({"rank": [0]}), "column 'kind' is missing"),
        (pl.DataFrame({"rank": [0.5], "kind": ["F"], "stage": [0], "micro_batch": [0]}), "column 'rank' is of Float64"),
        (pl.DataFrame({"rank": [0], "kind": ["F"], "stage": ["0"], "micro_batch": [0]}), "column 'stage' is of String"),
        (pl.DataFrame({"rank": [0], "kind": ["F"], "stage": [0], "micro_batch": [0], "x": [0]}), "unknown column 'x'"),
        (None, "a Polars DataFrame of actions is wanted here"),
    ],
)
def test_a_frame_of_other_columns_is_refused_and_not_rounded(frame: Any, said: str) -> None:
    with pytest.raises(ScheduleError, match=said):
        made().with_actions(frame)


def test_numbers_of_numpy_are_numbers() -> None:
    counts: Any = np.arange(2, 4)
    for count in counts:
        assert generate("zb1p", num_ranks=count, num_micro_batches=count).num_stages == count
    action = Action(rank=np.int64(0), kind="F", stage=np.int32(0), micro_batch=0)  # type: ignore[arg-type]
    assert made([action], rank_of=np.array([[0]]), num_micro_batches=np.int64(1)) == made()


ONE_F_ONE_B = generate("1f1b", num_ranks=2, num_micro_batches=4)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: split_backward(3), "a Schedule is wanted here, not a int"),  # type: ignore[arg-type]
        (lambda: most_held(None), "a Schedule is wanted here"),  # type: ignore[arg-type]
        (lambda: place_weights(ONE_F_ONE_B, None), "Costs are wanted here, not a NoneType"),  # type: ignore[arg-type]
        (lambda: place_weights(ONE_F_ONE_B, Costs.units(), "3"), "most_activations = '3'"),  # type: ignore[arg-type]
        (lambda: offload_activations(ONE_F_ONE_B, None, 2), "Costs are wanted here"),  # type: ignore[arg-type]
        (lambda: laws_of("zb1p", num_ranks=4, num_micro_batches=8, costs=None), "Costs are wanted here"),  # type: ignore[arg-type]
    ],
)
def test_what_stands_in_the_wrong_place_is_named(call: Callable[[], object], said: str) -> None:
    with pytest.raises(ScheduleError, match=said):
        call()


def test_a_count_of_hundreds_of_digits_is_told_in_a_few() -> None:
    """Python refuses to write more than 4,300 digits at all."""
    for power in (300, 5_000):
        for wrong in (
            lambda: generate("1f1b", num_ranks=8, num_micro_batches=10**power),  # noqa: B023 - called at once
            lambda: generate("interleaved", num_stages=2 * 10**power + 1, num_micro_batches=4),  # noqa: B023
            lambda: generate("1f1b", num_ranks=-(10**power), num_micro_batches=4),  # noqa: B023
            lambda: compare(Costs.units(), num_stages=8, num_micro_batches=10**power),  # noqa: B023
        ):
            with pytest.raises(ScheduleError) as told:
                wrong()
            assert f"e+{power}" in str(told.value), told
            assert len(str(told.value)) < 200
    with pytest.raises(ScheduleError, match="interleaved 1F1B: 1 stage cannot be dealt out"):
        generate("interleaved", num_stages=1, num_micro_batches=4)
