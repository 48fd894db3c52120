"""Why an action started late, by causes that add up to the nanosecond."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from weftrace.pipeline import Action, Schedule
from weftrace.pipeline.dependencies import messages
from weftrace.pipeline.plan_vs_measured.lateness import MeasuredTimes, PlannedTimes, chain_of, lateness
from weftrace.plan import Plan, timetable

_Ints = np.ndarray


def two_stages(num_micro_batches: int = 2) -> Schedule:
    """F0 F1 … then B0 B1 … on both ranks."""
    rows = [(r, k, m) for r in range(2) for k in ("F", "B") for m in range(num_micro_batches)]
    actions = [Action(rank=r, kind=k, stage=r, micro_batch=m) for r, k, m in rows]  # type: ignore[arg-type]
    return Schedule.of(actions, name="two stages", rank_of=[[0, 1]], num_micro_batches=num_micro_batches)


def run(schedule: Schedule, duration: list[int], transit: list[int]) -> tuple[_Ints, _Ints]:
    """Starts and ends by the engine of plans: durations of the actions, and how long each message travels."""
    waits = messages(schedule).select("op", "on").with_columns(lag_ns=np.array(transit, np.int64))
    ops = schedule.actions.select("rank").with_columns(
        name=np.array(["a"] * len(schedule)), duration_ns=np.array(duration)
    )
    times = timetable(Plan(name="run", ops=ops, waits=waits))
    return times.start_ns, times.end_ns


def test_by_pencil() -> None:
    # planned, all 10 and transits 2    rank 0  F0 0-10  F1 10-20          B0 34-44  B1 44-54
    #                                   rank 1           F0 12-22 F1 22-32 B0 32-42, message 42-44 ... B1 42-52
    # measured: F0 on rank 0 takes 13, the message of B0 travels 7
    #                                   rank 0  F0 0-13  F1 13-23                    B0 52-62  B1 62-72
    #                                   rank 1           F0 15-25 F1 25-35 B0 35-45 -> 52   B1 45-55
    schedule = two_stages()
    of = {str(action) + f"@{action.rank}": row for row, action in enumerate(schedule.listed())}
    transit = [2] * 4
    start, end = run(schedule, [10] * 8, transit)
    planned = PlannedTimes(start_ns=start, end_ns=end, transit_ns=np.array(transit))
    slow = [13 if row == of["0F0@0"] else 10 for row in range(8)]
    sent = messages(schedule)
    late_message = [7 if (op, on) == (of["0B0@0"], of["1B0@1"]) else 2 for op, on in sent.select("op", "on").rows()]
    start, end = run(schedule, slow, late_message)
    table = lateness(schedule, planned, MeasuredTimes(start_ns=start, end_ns=end))
    assert planned.start_ns[of["0B0@0"]] == 44 and start[of["0B0@0"]] == 52
    b0 = table.row(of["0B0@0"], named=True)
    assert (b0["reason"], b0["cause"], b0["p2p_ns"], b0["slack_ns"]) == ("input", of["1B0@1"], 5, 0)
    assert (b0["late_ns"], b0["caused_own_ns"], b0["caused_p2p_ns"], b0["caused_slack_ns"]) == (8, 3, 5, 0)
    names = [str(schedule.action(row)) for row in chain_of(table, of["0B1@0"])]
    assert names == ["0F0", "1F0", "1F1", "1B0", "0B0", "0B1"]
    assert table["own_ns"].to_list() == [3 if row == of["0F0@0"] else 0 for row in range(8)]


times = st.integers(1, 30)


@given(st.data())
def test_causes_add_up_to_every_lateness_and_own_is_what_was_injected(data: st.DataObject) -> None:
    schedule = two_stages(3)
    num, sent = len(schedule), messages(schedule).height
    plan_ns, real_ns = (data.draw(st.lists(times, min_size=num, max_size=num)) for _ in range(2))
    plan_transit, real_transit = (data.draw(st.lists(times, min_size=sent, max_size=sent)) for _ in range(2))
    start, end = run(schedule, plan_ns, plan_transit)
    planned = PlannedTimes(start_ns=start, end_ns=end, transit_ns=np.array(plan_transit))
    start, end = run(schedule, real_ns, real_transit)
    table = lateness(schedule, planned, MeasuredTimes(start_ns=start, end_ns=end))
    own, p2p, between, slack = (table[f"caused_{name}_ns"].to_numpy() for name in ("own", "p2p", "between", "slack"))
    assert (own + p2p + between - slack == table["late_ns"].to_numpy()).all()
    assert table["own_ns"].to_list() == [real - plan for real, plan in zip(real_ns, plan_ns, strict=True)]
    assert (table["slack_ns"].to_numpy() >= 0).all() and (table["between_ns"].to_numpy() == 0).all()


@given(st.data())
def test_waits_that_a_run_tells_of_part_messages_from_what_the_host_did(data: st.DataObject) -> None:
    # Messages travel as planned; the host idles after each action for a while, which no wait tells of.
    schedule = two_stages(3)
    num, sent = len(schedule), messages(schedule).height
    pause = data.draw(st.lists(st.integers(0, 9), min_size=num, max_size=num))
    start, end = run(schedule, [10] * num, [2] * sent)
    planned = PlannedTimes(start_ns=start, end_ns=end, transit_ns=np.full(sent, 2))
    # The pause lies before the action: it is ready when the wait ends, and starts a pause later.
    waits = messages(schedule).select("op", "on").with_columns(lag_ns=2)
    ops = schedule.actions.select("rank").with_columns(name=np.array(["a"] * num), duration_ns=np.array(pause) + 10)
    run_ns = timetable(Plan(name="run", ops=ops, waits=waits))
    begin, until = run_ns.start_ns, run_ns.start_ns + np.array(pause)
    rank = schedule.actions["rank"].to_numpy()
    free = np.where(np.diff(rank, prepend=-1) != 0, 0, np.roll(run_ns.end_ns, 1))
    measured = MeasuredTimes(start_ns=until, end_ns=run_ns.end_ns, waited_ns=begin - free, waited_until_ns=begin)
    table = lateness(schedule, planned, measured)
    parts = table.select(part=table["caused_own_ns"] + table["caused_p2p_ns"] + table["caused_between_ns"])
    assert (parts["part"] - table["caused_slack_ns"] == table["late_ns"]).all()
    assert table["between_ns"].to_list() == pause
    assert table["p2p_ns"].to_list() == [0] * num
