"""Schedule: which rank runs which chunk of which micro-batch, in which order. The value that the whole wing is about.

A pipeline cuts a model into stages, and a batch into micro-batches. A *chunk* is the work of one stage on one
micro-batch in one direction; an *action* is one step of a rank: a chunk, or F&B, a forward and a full backward chunk of
different micro-batches overlapped. The letters are the house's (`weftrace.alphabet`): B is the full backward, I + W.

A schedule holds an order for each rank, and no times: `weftrace.pipeline.simulate` gives it times from costs, the
runtime runs it. `weftrace.pipeline.check` says whether it can run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.alphabet import Direction
from weftrace.errors import ScheduleError
from weftrace.notebook import InNotebook
from weftrace.units import counted, quoted

#: The kinds of action, in the alphabet's order, by which `Schedule.kind_N` numbers them.
KINDS: tuple[Direction, ...] = get_args(Direction)
#: Columns of `Schedule.actions`, one row an action.
ACTION_SCHEMA: dict[str, pl.DataType] = {
    "rank": pl.Int32(),  # that runs it
    "kind": pl.Enum(KINDS),
    "stage": pl.Int32(),  # of an F&B: the forward's
    "micro_batch": pl.Int32(),  # of an F&B: the forward's
    "back_stage": pl.Int32(),  # of an F&B: the backward's; null elsewhere
    "back_micro_batch": pl.Int32(),
    "offload": pl.Boolean(),  # of an F: its activations wait for their backward in the host's memory
}
#: Begins the note of a schedule for a model of known layers: "layers: 13 of 2, 35 of 1", by stages in a row.
NOTE_OF_LAYERS = "layers: "
#: Ranks x stages, at most: a table of them, `replica_of_rank_stage`, is half a GB then.
_MOST_PLACES = 2**27
_DEFAULTS: dict[str, Any] = {"back_stage": None, "back_micro_batch": None, "offload": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Action(InNotebook):
    """One step of one rank. Written `3F5`: stage 3, forward, micro-batch 5; an F&B is `0F4&7B1`.

    stage, micro_batch: of an F&B, its forward's; back_stage, back_micro_batch: its backward's, None for all others.
    offload: of an F, the activations that it leaves behind go to the host, and come back for the backward.
    """

    rank: int
    kind: Direction
    stage: int
    micro_batch: int
    back_stage: int | None = None
    back_micro_batch: int | None = None
    offload: bool = False

    def __str__(self) -> str:
        mark = "^" if self.offload else ""
        if self.kind == "F&B":
            return f"{self.stage}F{self.micro_batch}{mark}&{self.back_stage}B{self.back_micro_batch}"
        return f"{self.stage}{self.kind}{self.micro_batch}{mark}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Schedule(InNotebook):
    """An order of actions for each rank of a pipeline.

    name: what it is called in pictures and messages.
    rank_of: `rank_of[replica][stage]` is the rank that holds the replica's copy of a stage. One replica for most
        schedules; DualPipe has two, one for each direction. A rank holds a stage once at most.
    num_micro_batches: over all replicas; they are numbered from 0. Each runs through the stages of one replica. Where
        sequences are cut into slices, each slice counts as one, and those of a sequence are numbered in a row.
    num_slices: slices of a sequence. A slice's forward needs the forward of the slice before on the same stage, whose
        keys and values it attends to; so its backward needs that of the slice after.
    actions: frame with the columns of `ACTION_SCHEMA`; the rows of a rank are in the order in which it runs them, and
        ranks ascend: rows that are given otherwise are put so. Columns that are left out hold their default.

    Raises `ScheduleError` where a field holds another type than it should, and where an action names a rank, stage or
    micro-batch that is not there, or a stage that its rank does not hold. What is missing, twice, or in an order that
    cannot run is the question of `weftrace.pipeline.check`.
    """

    name: str
    rank_of: tuple[tuple[int, ...], ...]
    num_micro_batches: int
    num_slices: int = 1
    notes: tuple[str, ...] = ()
    actions: pl.DataFrame

    def __post_init__(self) -> None:
        of = f"schedule {self.name!r}"
        object.__setattr__(self, "rank_of", _placement(self.rank_of, of))
        object.__setattr__(self, "notes", _notes(self.notes, of))
        if type(self.name) is not str:
            raise ScheduleError(f"a schedule's name is text, not {self.name!r}.")
        for name in ("num_micro_batches", "num_slices"):
            object.__setattr__(self, name, needed_count(of, name, plain_int(getattr(self, name))))
        if self.num_micro_batches % self.num_slices:
            raise ScheduleError(
                f"{of}: {self.num_micro_batches} micro-batches are no whole number of sequences of "
                f"{self.num_slices} slices."
            )
        object.__setattr__(self, "actions", _in_schema(self.actions, of))
        _check_actions(self, of)

    @classmethod
    def of(
        cls,
        actions: Iterable[Action],
        *,
        name: str,
        rank_of: Iterable[Iterable[int]],
        num_micro_batches: int,
        **facts: Any,
    ) -> Schedule:
        """A small schedule from actions written by hand; facts: the other fields of a `Schedule`."""
        frame = _frame(actions, f"schedule {name!r}")
        return cls(name=name, rank_of=rank_of, num_micro_batches=num_micro_batches, actions=frame, **facts)  # type: ignore[arg-type]

    @property
    def num_replicas(self) -> int:
        """Copies of the model's stages, each a pipeline of its own: 2 for DualPipe, 1 for others."""
        return len(self.rank_of)

    @property
    def num_stages(self) -> int:
        """Parts into which the model is cut."""
        return len(self.rank_of[0])

    @property
    def num_ranks(self) -> int:
        """Devices, or groups of devices, that the stages are on: the highest rank and one."""
        return max(map(max, self.rank_of)) + 1

    @property
    def rank_N(self) -> NDArray[np.int32]:
        """The rank of each action."""
        return self.actions.get_column("rank").to_numpy()

    @property
    def stage_N(self) -> NDArray[np.int32]:
        """The stage of each action."""
        return self.actions.get_column("stage").to_numpy()

    @property
    def kind_N(self) -> NDArray[np.uint8]:
        """The kind of each action, as its position in `KINDS`."""
        return self.actions.get_column("kind").to_physical().to_numpy()

    @property
    def replica_of_rank_stage(self) -> NDArray[np.int32]:
        """Which replica of a stage a rank holds, int32 [ranks, stages]; -1 where it holds none."""
        found = np.full((self.num_ranks, self.num_stages), -1, np.int32)
        for replica, ranks in enumerate(self.rank_of):
            found[list(ranks), range(self.num_stages)] = replica
        return found

    def on_rank(self, rank: int) -> pl.DataFrame:
        """The actions of a rank, in order. Raises `ScheduleError` where there is no such rank."""
        if not isinstance(rank, int | np.integer) or not 0 <= rank < self.num_ranks:
            raise ScheduleError(
                f"schedule {self.name!r} has no rank {rank!r}; it has {self.num_ranks}, counted from 0."
            )
        ranks = self.actions.get_column("rank")
        first, end = (int(ranks.search_sorted(rank, side)) for side in ("left", "right"))
        return self.actions[first:end]

    def action(self, row: int) -> Action:
        """The action of one row of `actions`."""
        return Action(**self.actions.row(row, named=True))

    def listed(self) -> tuple[Action, ...]:
        """All actions as values, in the order of the rows. For small schedules."""
        return tuple(Action(**row) for row in self.actions.iter_rows(named=True))

    def with_actions(self, actions: pl.DataFrame, *, name: str | None = None) -> Schedule:
        """The same pipeline in another order: what passes make."""
        return replace(self, actions=actions, name=self.name if name is None else name)

    def __eq__(self, other: object) -> bool:
        """Same facts, same actions in the same order on each rank. Names and notes are no part of it."""
        if not isinstance(other, Schedule):
            return NotImplemented
        facts = ("rank_of", "num_micro_batches", "num_slices")
        return all(getattr(self, fact) == getattr(other, fact) for fact in facts) and self.actions.equals(other.actions)

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return self.actions.height

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "name", self.name
        copies = f", {self.num_replicas} replicas" if self.num_replicas > 1 else ""
        yield "pipeline", f"{counted(self.num_stages, 'stage')} on {counted(self.num_ranks, 'rank')}{copies}"
        sliced = f" (sequences of {self.num_slices} slices)" if self.num_slices > 1 else ""
        yield "micro-batches", f"{self.num_micro_batches:,}{sliced}"
        yield "actions", f"{len(self):,}"
        yield from (("note", note) for note in self.notes)


def stages_on(schedule: Schedule, rank: int) -> list[int]:
    """The stages that a rank holds, in the model's order."""
    return [stage for stage, ranks in enumerate(zip(*schedule.rank_of, strict=True)) if rank in ranks]


def code_of(kind: Direction) -> int:
    """The position of a kind in `KINDS`."""
    return KINDS.index(kind)


def plain_int(given: Any) -> Any:
    """A whole number of NumPy as Python's; anything else as it is."""
    return int(given) if isinstance(given, np.integer) else given


def needed_count(of: str, name: str, value: object) -> int:
    """The value. Raises `ScheduleError` where it is no whole number above 0. of: whose it is, for the error."""
    if type(value) is not int or value < 1:
        raise ScheduleError(f"{of}: {name} = {quoted(value)}; it must be a whole number above 0.")
    return value


def need_schedule(given: object) -> None:
    """Raise `ScheduleError` where something else stands for a schedule."""
    if not isinstance(given, Schedule):
        raise ScheduleError(f"a Schedule is wanted here, not a {type(given).__name__}.")


def _notes(given: object, of: str) -> tuple[str, ...]:
    if not isinstance(given, list | tuple) or any(type(note) is not str for note in given):
        raise ScheduleError(f"{of}: notes = {given!r}; they are a list of texts.")
    return tuple(given)


def _placement(given: object, of: str) -> tuple[tuple[int, ...], ...]:
    try:
        placed = tuple(tuple(map(plain_int, stages)) for stages in given)  # type: ignore[attr-defined]
    except TypeError:
        raise ScheduleError(f"{of}: rank_of = {given!r}; it is one list of ranks, by stage, a replica.") from None
    if not placed or not placed[0] or len({len(stages) for stages in placed}) > 1:
        raise ScheduleError(f"{of}: rank_of needs a replica or more, each with a rank for every stage.")
    if odd := [rank for stages in placed for rank in stages if type(rank) is not int or rank < 0]:
        raise ScheduleError(f"{of}: rank_of holds {odd[0]!r}; ranks are whole numbers from 0 on.")
    used = {rank for stages in placed for rank in stages}
    if len(used) <= max(used):
        gap = next(rank for rank in range(len(used)) if rank not in used)
        raise ScheduleError(f"{of}: rank {gap} holds no stage; ranks are numbered without gaps.")
    if len(used) * len(placed[0]) > _MOST_PLACES:
        raise ScheduleError(
            f"{of}: {counted(len(placed[0]), 'stage')} on {counted(len(used), 'rank')} are more than there is room for."
        )
    for stage, ranks in enumerate(zip(*placed, strict=True)):
        if len(set(ranks)) < len(ranks):
            raise ScheduleError(f"{of}: a rank holds stage {stage} twice; replicas of a stage are on different ranks.")
    return placed


def _frame(actions: Iterable[Action], of: str) -> pl.DataFrame:
    listed = list(actions) if isinstance(actions, Iterable) else [actions]
    if others := [each for each in listed if not isinstance(each, Action)]:
        raise ScheduleError(f"{of}: actions are a list of Action; {others[0]!r} is none.")
    rows = [[getattr(action, column) for column in ACTION_SCHEMA] for action in listed]
    if odd := [row[1] for row in rows if row[1] not in KINDS]:
        raise ScheduleError(f"{of}: there is no action of kind {odd[0]!r}; the kinds are {', '.join(KINDS)}.")
    for action, row in zip(listed, rows, strict=True):
        numbers = [value for value, dtype in zip(row, ACTION_SCHEMA.values(), strict=True) if dtype == pl.Int32]
        if odd := [each for each in numbers if each is not None and type(plain_int(each)) is not int]:
            raise ScheduleError(f"{of}: {action} on rank {action.rank} holds {odd[0]!r}, which is no whole number.")
    try:
        return pl.DataFrame(rows, schema=ACTION_SCHEMA, orient="row", strict=True)
    except (pl.exceptions.PolarsError, TypeError, OverflowError) as error:
        raise ScheduleError(f"{of}: an action holds a value of another type: {str(error).splitlines()[0]}") from error


def _in_schema(frame: pl.DataFrame, of: str) -> pl.DataFrame:
    """The frame in the columns and types of `ACTION_SCHEMA`, ranks ascending."""
    if not isinstance(frame, pl.DataFrame):
        raise ScheduleError(f"{of}: a Polars DataFrame of actions is wanted here, not a {type(frame).__name__}.")
    if unknown := [name for name in frame.columns if name not in ACTION_SCHEMA]:
        raise ScheduleError(f"{of}: unknown column {unknown[0]!r}; the columns are {', '.join(ACTION_SCHEMA)}.")
    if missing := [name for name in ACTION_SCHEMA if name not in frame.columns and name not in _DEFAULTS]:
        raise ScheduleError(f"{of}: column {missing[0]!r} is missing.")
    for name in frame.columns:
        dtype = frame.schema[name]
        if ACTION_SCHEMA[name] == pl.Int32 and not (dtype.is_integer() or dtype == pl.Null):
            raise ScheduleError(f"{of}: column {name!r} is of {dtype}; it holds whole numbers.")
    columns = [
        (pl.col(name) if name in frame.columns else pl.lit(_DEFAULTS[name])).cast(dtype).alias(name)
        for name, dtype in ACTION_SCHEMA.items()
    ]
    try:
        right = frame.with_columns(columns).select(*ACTION_SCHEMA)
    except pl.exceptions.PolarsError as error:
        raise ScheduleError(f"{of}: {str(error).splitlines()[0]}") from error
    looked_at = right.clone()  # a constant column takes memory in the frame in which it is looked at
    for name in (name for name in ACTION_SCHEMA if not name.startswith("back_")):
        if empty := looked_at.get_column(name).null_count():
            raise ScheduleError(f"{of}: {empty:,} {'action has' if empty == 1 else 'actions have'} no {name}.")
    if not right.get_column("rank").is_sorted():
        right = right.sort("rank", maintain_order=True)
    return right.with_columns(pl.col("rank").set_sorted())


def _check_actions(schedule: Schedule, of: str) -> None:
    """Raise `ScheduleError` for an action that names what is not there."""
    actions = schedule.actions.clone()  # so that constant columns take memory here only
    _check_pairs(actions, of)
    limits = {
        "rank": schedule.num_ranks, "stage": schedule.num_stages, "micro_batch": schedule.num_micro_batches,
        "back_stage": schedule.num_stages, "back_micro_batch": schedule.num_micro_batches,
    }  # fmt: skip
    for column, limit in limits.items():
        values = actions.get_column(column)
        low, high = values.min(), values.max()
        if low is not None and not (low >= 0 and high < limit):  # type: ignore[operator]
            row = int(((values < 0) | (values >= limit)).arg_true()[0])
            what = column.replace("back_", "").replace("_", "-")
            raise ScheduleError(f"{of}: {_where(actions, row)} is of {what} {values[row]}, of {limit} counted from 0.")
    if not len(actions):
        return
    replica_of = schedule.replica_of_rank_stage
    for stage_name in ("stage", "back_stage"):
        given = actions.select("rank", stage_name).with_row_index("row").drop_nulls()
        ranks, stages = given.get_column("rank").to_numpy(), given.get_column(stage_name).to_numpy()
        apart = np.flatnonzero(replica_of[ranks, stages] < 0)
        if len(apart):
            i = int(apart[0])
            holds = ", ".join(map(str, np.flatnonzero(replica_of[ranks[i]] >= 0)))
            raise ScheduleError(
                f"{of}: {_where(actions, given['row'][i])} is of stage {stages[i]}, but its rank holds {holds}."
            )


def _check_pairs(actions: pl.DataFrame, of: str) -> None:
    """Only an F&B has a backward beside its forward, and only a forward's activations are offloaded."""
    is_pair = pl.col("kind") == "F&B"
    has_both = pl.col("back_stage").is_not_null() & pl.col("back_micro_batch").is_not_null()
    has_none = pl.col("back_stage").is_null() & pl.col("back_micro_batch").is_null()
    backs = actions.select(wrong=~pl.when(is_pair).then(has_both).otherwise(has_none)).get_column("wrong").arg_true()
    if len(backs):
        raise ScheduleError(
            f"{of}: {_where(actions, int(backs[0]))}: an F&B needs back_stage and back_micro_batch, others have none."
        )
    offloaded = actions.filter("offload")
    if len(odd := offloaded.filter(~pl.col("kind").is_in(["F", "F&B"]))):
        raise ScheduleError(f"{of}: {_where(odd, 0)}: only a forward's activations can be offloaded.")


def _where(actions: pl.DataFrame, row: int) -> str:
    found = actions.row(row, named=True)
    return f"{Action(**found)} on rank {found['rank']}"
