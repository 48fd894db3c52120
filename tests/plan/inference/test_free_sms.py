"""Waits for free SMs: two kernels of 112 blocks on a device with 132."""

from __future__ import annotations

import numpy as np
import pytest

from weftrace.plan.inference.streams.free_sms import drain_ns, sm_waits, told_sm_waits, waits_for_sms
from weftrace.plan.inference.streams.launch_order import Launched
from weftrace.units import US


def beside(second_start_us: int, *, blocks: int = 112) -> Launched:
    """A kernel of 112 blocks from 0 to 1,000 µs on stream 7, and one on stream 23 that was ready at 300."""
    return Launched(
        op=np.array([4, 5]), stream=np.array([7, 23]), start_ns=np.array([0, second_start_us]) * US,
        end_ns=np.array([1000, second_start_us + 500]) * US, ready_ns=np.array([0, 300]) * US,
        at_ns=np.array([0, 1]), thread=np.zeros(2, int), name=np.array([0, 1]), phase=np.zeros(2, int),
        blocks=np.array([112, blocks]),
    )  # fmt: skip


def test_an_op_waits_for_the_sms_of_the_one_that_drains() -> None:
    ops = beside(982)
    found = waits_for_sms(ops, ops.ready_ns, 132)
    assert found.rows() == [(1, 0, 682 * US, 18 * US, True)]
    assert sm_waits(ops, found).select("op", "on", "lag_ns", "votes_for").row(0) == (5, 4, -18 * US, 1)
    assert told_sm_waits(found) == []


@pytest.mark.parametrize(("blocks", "num_sms"), [(20, 132), (112, 300), (112, None)])
def test_an_op_for_which_there_is_room_does_not_wait_for_sms(blocks: int, num_sms: int | None) -> None:
    ops = beside(982, blocks=blocks)
    assert waits_for_sms(ops, ops.ready_ns, num_sms).is_empty()


def test_a_wait_that_ends_in_the_midst_of_another_op_is_named_and_not_replayed() -> None:
    ops = beside(600)
    found = waits_for_sms(ops, ops.ready_ns, 132)
    assert found.rows() == [(1, 0, 300 * US, 400 * US, False)]
    assert sm_waits(ops, found).is_empty()
    assert drain_ns(found) == 0
    assert told_sm_waits(found)[0].startswith("1 op waited 300 µs for free SMs that another op released before its end")


def test_a_start_in_time_is_no_wait() -> None:
    ops = beside(305)
    assert waits_for_sms(ops, ops.ready_ns, 132).is_empty()
