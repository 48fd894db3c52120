"""What each rank does, turn by turn: its actions, and between them the messages that it sends and receives.

Messages carry no tags: NCCL has none. They are matched by their order alone, so all ranks follow one order of all
actions and messages. It lists actions by their start in a simulation in which F, I and W take one unit each (and by
rank, where these are equal), and puts each message behind the action that makes it. Every action then comes after all
that it needs, and each rank's own actions stay in their order.

A rank posts a message, as sender or receiver, between those two of its actions between which it stands in that order.
So a pair of ranks posts its messages in the same order. And no rank waits in a circle, not even where a send ends only
once its receive has begun, or where the messages that are posted together end together, as NCCL's do: among those not
done yet, the first in the order has everything that it waits for behind it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.pipeline.dependencies import messages
from weftrace.pipeline.rules import check
from weftrace.pipeline.schedule import Action, Schedule
from weftrace.plan import Plan, timetable

#: What an action takes where nothing is known: the order of messages needs times, and any will do.
_UNITS = {"F": 1, "I": 1, "W": 1, "B": 2, "F&B": 3}


@dataclass(frozen=True, slots=True, order=True)
class Message:
    """A boundary value on its way between two ranks.

    number: its place in the one order. stage, micro_batch: of the chunk that needs it: an activation of `stage - 1`, or
    where is_gradient, the gradient of what `stage` gave to `stage + 1`.
    """

    number: int
    source: int
    target: int
    is_gradient: bool
    stage: int
    micro_batch: int

    @property
    def key(self) -> tuple[bool, int, int]:
        """What is in it, for who needs it."""
        return self.is_gradient, self.stage, self.micro_batch

    def __str__(self) -> str:
        what = "the gradient" if self.is_gradient else "the input"
        return f"{what} of stage {self.stage}, micro-batch {self.micro_batch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """An action and what comes before it. The last turn of a program has no action.

    post: messages to be posted, in this order. done: messages sent earlier that are received by now, for who received
    them is, in the one order, at work with them. needs: received messages that the action takes.
    """

    action: Action | None
    post: tuple[Message, ...] = ()
    done: tuple[Message, ...] = ()
    needs: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A rank's turns. peak_received: received messages that are held at once, at most: posted, and not yet taken."""

    rank: int
    turns: tuple[Turn, ...]
    peak_received: int


def program_of(schedule: Schedule, rank: int) -> Program:
    """The turns of a rank. Raises `ScheduleError` as `check` does."""
    check(schedule)
    return _program(schedule, _numbered(schedule), rank)


def programs_of(schedule: Schedule) -> tuple[Program, ...]:
    """Those of all ranks."""
    check(schedule)
    numbered = _numbered(schedule)
    return tuple(_program(schedule, numbered, rank) for rank in range(schedule.num_ranks))


@dataclass(frozen=True, slots=True)
class _Numbered:
    """place: of each action in the one order, int64 [actions]; passed: messages between ranks, with their numbers."""

    place: NDArray[np.int64]
    passed: pl.DataFrame


def _numbered(schedule: Schedule) -> _Numbered:
    waits = messages(schedule)
    actions = schedule.actions
    units = actions.get_column("kind").cast(pl.String).replace_strict(_UNITS, return_dtype=pl.Int64)
    ops = actions.select(name=pl.lit("action"), rank="rank", duration_ns=units)
    start_ns = timetable(Plan(name=schedule.name, ops=ops, waits=waits.select("op", "on"))).start_ns
    rank = schedule.rank_N
    place = np.empty(len(actions), np.int64)
    place[np.lexsort((rank, start_ns))] = np.arange(len(actions))
    op, on = (waits.get_column(name).to_numpy() for name in ("op", "on"))
    is_gradient = waits.get_column("is_gradient").to_numpy()
    back = actions.select(
        stage=pl.coalesce("back_stage", "stage"), micro_batch=pl.coalesce("back_micro_batch", "micro_batch")
    )
    passed = pl.DataFrame(
        {
            "number": 2 * place[on] + is_gradient,  # an F&B makes an activation and a gradient
            "source": rank[on],
            "target": rank[op],
            "is_gradient": is_gradient,
            "op": op,
            "on": on,
        }
    ).with_columns(
        pl.when("is_gradient").then(back[column].gather(op)).otherwise(actions[column].gather(op)).alias(column)
        for column in ("stage", "micro_batch")
    )
    return _Numbered(place, passed.filter(pl.col("source") != pl.col("target")).sort("number"))


def _program(schedule: Schedule, numbered: _Numbered, rank: int) -> Program:
    actions = [Action(**row) for row in schedule.on_rank(rank).iter_rows(named=True)]
    place = numbered.place[(schedule.actions.get_column("rank") == rank).to_numpy()]
    empty: list[list[list[Message]]] = [[[] for _ in range(len(actions) + 1)] for _ in range(3)]
    post, done, needs = empty
    mine = numbered.passed.filter((pl.col("source") == rank) | (pl.col("target") == rank))
    taken_at = numbered.place[mine.get_column("op").to_numpy()]
    turns = {
        "post": np.searchsorted(place, numbered.place[mine.get_column("on").to_numpy()], "right"),
        "taken": np.searchsorted(place, taken_at),
        "done": np.searchsorted(place, taken_at, "right"),
    }
    for i, row in enumerate(mine.select("number", "source", "target", "is_gradient", "stage", "micro_batch").rows()):
        message = Message(*row)
        post[turns["post"][i]].append(message)
        if message.target == rank:
            needs[turns["taken"][i]].append(message)
        else:
            done[turns["done"][i]].append(message)
    held = np.cumsum([sum(m.target == rank for m in p) - len(n) for p, n in zip(post, needs, strict=True)])
    taken = np.array([len(n) for n in needs])
    return Program(
        rank=rank,
        turns=tuple(
            Turn(action=action, post=tuple(post[i]), done=tuple(done[i]), needs=tuple(needs[i]))
            for i, action in enumerate([*actions, None])
        ),
        peak_received=int((held + taken).max()),
    )
