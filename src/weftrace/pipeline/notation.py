"""A schedule as text that people read and write, and as torch's CSV.

    # weftrace pipeline schedule, version 1
    name: DualPipe
    micro-batches: 8
    replica 0: 0 1 2 3
    replica 1: 3 2 1 0
    rank 0: 0F0 0F1 3F4 0F2&3B4 ...

A line `replica K` has the rank of each stage, a line `rank R` its actions in order: `3F5` is stage 3, forward,
micro-batch 5; `I`, `W` and `B` likewise; `0F4&7B1` is a forward overlapped with a full backward; `^` after a forward
says that its activations are offloaded. `slices: K` tells sequence slices, `note: TEXT` a note. What follows a `#` at
the start of a line or after a blank is a comment.

torch's CSV (`torch.distributed.pipelining`) has a row a rank and `(0F4;7B1)OVERLAP_F_B` for F&B; empty cells are idle
time slots. It is written in its "compute_only" form, and read with messages too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from weftrace.errors import DocumentError, ScheduleError
from weftrace.files.documents import read_text
from weftrace.pipeline.schedule import ACTION_SCHEMA, Schedule, need_schedule

VERSION = 1
_HEAD = f"# weftrace pipeline schedule, version {VERSION}"
_HEAD_OF_ANY = re.compile(r"# weftrace pipeline schedule, version (\d+)")
_ACTION = re.compile(r"(\d+)([FIWB])(\d+)(\^?)")
_PAIR = re.compile(r"(\d+)F(\d+)(\^?)&(\d+)B(\d+)")
_TORCH_PAIR = re.compile(r"\((\d+)F(\d+);(\d+)B(\d+)\)OVERLAP_F_B")
_TORCH_COMMUNICATION = re.compile(r"\d+(SEND|RECV)_[FB]\d+|\d+(UN|RE)SHARD|\d*REDUCE_GRAD\d*")
_COMMENT = re.compile(r"(?:^|\s)#.*")
_Row = tuple[str, int, int, int | None, int | None, bool]


def to_text(schedule: Schedule) -> str:
    """The schedule as text; `from_text` of it is the schedule again."""
    need_schedule(schedule)
    lines = [_HEAD, f"name: {_one_line(schedule.name)}", f"micro-batches: {schedule.num_micro_batches}"]
    if schedule.num_slices > 1:
        lines.append(f"slices: {schedule.num_slices}")
    lines += [f"note: {_one_line(note)}" for note in schedule.notes]
    lines += [f"replica {k}: {' '.join(map(str, ranks))}" for k, ranks in enumerate(schedule.rank_of)]
    lines += [f"rank {rank}: {' '.join(cells)}" for rank, cells in enumerate(_cells(schedule))]
    return "\n".join(lines) + "\n"


def from_text(text: str, *, what: str = "the text") -> Schedule:
    """A schedule from its text. what: the file, for errors. Raises `ScheduleError` with the line that is wrong."""
    facts: dict[str, Any] = {"name": "schedule", "slices": 1, "micro-batches": None}
    text = _text(text, what)
    notes: list[str] = []
    replicas: dict[int, tuple[int, ...]] = {}
    rows_of: dict[int, list[_Row]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        where = f"{what}, line {number}"
        if (version := _HEAD_OF_ANY.fullmatch(line.strip())) and int(version[1]) > VERSION:
            raise ScheduleError(f"{where}: version {version[1]} is newer than this weftrace, which reads {VERSION}.")
        key, colon, value = (part.strip() for part in _uncommented(line).partition(":"))
        if not key and not colon:
            continue
        word, _, index = key.partition(" ")
        if not colon:
            raise ScheduleError(f"{where}: {key[:60]!r} has no colon; a line is 'rank 0: 0F0 0F1 0B0', say.")
        if key in ("name", "note"):
            value = line.partition(":")[2].strip()  # a # belongs to it
            notes.append(value) if key == "note" else facts.update(name=value)
        elif key in facts:
            facts[key] = _whole(value, f"{where}: {key}")
        elif word == "replica":
            _new(replicas, _whole(index, where), tuple(_whole(v, where) for v in value.split()), f"{where}: replica")
        elif word == "rank":
            actions = [_action(cell, where) for cell in value.split()]
            _new(rows_of, _whole(index, where), actions, f"{where}: rank")
        else:
            known = "name, note, micro-batches, slices, replica K, rank K"
            raise ScheduleError(f"{where}: {key[:60]!r} is none of {known}.")
    if not rows_of:
        raise ScheduleError(f"{what} holds no line such as 'rank 0: 0F0 0F1 0B0': it is no schedule.")
    if sorted(replicas) != list(range(len(replicas))):
        raise ScheduleError(f"{what}: its replicas are {sorted(replicas)}; they are numbered from 0 on, without gaps.")
    rank_of = tuple(replicas[k] for k in range(len(replicas))) or (_stages_by_rank(rows_of, what),)
    return _schedule(rows_of, rank_of, facts["micro-batches"], facts["slices"], facts["name"], tuple(notes))


def differences(one: Schedule, other: Schedule) -> list[str]:
    """In what two schedules differ, a line each: facts, and for each rank the first action that is another one.

    Empty where they are equal; names and notes are no part of that.
    """
    need_schedule(one)
    need_schedule(other)
    found = [
        f"{what}: {getattr(one, fact)} against {getattr(other, fact)}"
        for fact, what in (
            ("rank_of", "ranks of the stages"),
            ("num_micro_batches", "micro-batches"),
            ("num_slices", "slices"),
        )
        if getattr(one, fact) != getattr(other, fact)
    ]
    for rank in range(min(one.num_ranks, other.num_ranks)):
        mine, theirs = (written(schedule.on_rank(rank)).to_list() for schedule in (one, other))
        at = next(
            (i for i, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), min(len(mine), len(theirs))
        )
        if at < max(len(mine), len(theirs)):
            a, b = (cells[at] if at < len(cells) else "no more" for cells in (mine, theirs))
            found.append(f"rank {rank}, action {at}: {a} against {b}")
    return found


def to_torch_csv(schedule: Schedule) -> str:
    """The schedule as CSV for `torch.distributed.pipelining`'s runtime (`_load_csv`, compute only).

    Raises `ScheduleError` for what that form cannot say: a stage on two ranks, as in DualPipe, for it tells messages by
    stage and micro-batch alone; sequence slices and offloaded activations.
    """
    need_schedule(schedule)
    reason = ""
    if schedule.num_replicas > 1:
        ranks = " and ".join(str(stages[0]) for stages in schedule.rank_of)
        reason = (
            f"each stage is on {schedule.num_replicas} ranks (stage 0 on {ranks}), and torch's schedules know one rank "
            "for each stage. DualPipeV says the same with one; weftrace's own runtime runs both"
        )
    elif schedule.num_slices > 1:
        reason = "its sequences are cut into slices, which torch's stages do not carry keys and values between"
    elif schedule.actions.get_column("offload").any():
        reason = "it offloads activations, for which torch has no action"
    if reason:
        raise ScheduleError(f"schedule {schedule.name!r} cannot be written as torch's CSV: {reason}.")
    return "".join(f"{','.join(cells)}\n" for cells in _cells(schedule, "({f};{b})OVERLAP_F_B"))


def from_torch_csv(text: str, *, name: str = "schedule", what: str = "the CSV") -> Schedule:
    """A schedule from the CSV of torch's schedules, as `_dump_csv` writes it in either of its forms.

    The ranks are the rows, each holds the stages that its actions name. Messages, and gathers and reductions of
    parameters (`0SEND_F1`, `0UNSHARD`), are left out: they follow from the others. what: the file, for errors. Raises
    `ScheduleError` for cells that are no action.
    """
    rows_of: dict[int, list[_Row]] = {}
    for rank, line in enumerate(_text(text, what).splitlines()):
        where = f"{what}, row {rank + 1}"
        cells = (cell.strip().strip('"').strip() for cell in line.split(","))  # no action has a comma in it
        rows_of[rank] = [
            _torch_action(cell, where) for cell in cells if cell and not _TORCH_COMMUNICATION.fullmatch(cell)
        ]
    while rows_of and not rows_of[max(rows_of)]:
        del rows_of[max(rows_of)]  # empty lines at the end
    if not rows_of:
        raise ScheduleError(f"{what} holds no action.")
    return _schedule(rows_of, (_stages_by_rank(rows_of, what),), None, 1, name, ())


def read_schedule(path: str | os.PathLike[str]) -> Schedule:
    """A schedule from a file: torch's CSV where its name ends in .csv, else text.

    Raises `DocumentError` where the file cannot be read, or holds no schedule.
    """
    what = os.fspath(path)
    text = read_text(path)
    try:
        if what.lower().endswith(".csv"):
            return from_torch_csv(text, name=Path(path).stem, what=what)
        return from_text(text, what=what)
    except ScheduleError as error:
        raise DocumentError(str(error) if str(error).startswith(what) else f"{what}: {error}") from error


def written(actions: pl.DataFrame, pair: str = "{f}&{b}") -> pl.Series:
    """Each action as text. pair: how an F&B is put together of its forward {f} and its backward {b}."""
    mark = pl.when("offload").then(pl.lit("^")).otherwise(pl.lit(""))
    kind = pl.col("kind").cast(pl.String)
    forward = pl.format("{}F{}{}", "stage", "micro_batch", mark)
    backward = pl.format("{}B{}", "back_stage", "back_micro_batch")
    both = pl.format(pair.replace("{f}", "{}").replace("{b}", "{}"), forward, backward)
    one = pl.format("{}{}{}{}", "stage", kind, "micro_batch", mark)
    return actions.select(pl.when(kind == "F&B").then(both).otherwise(one)).to_series()


def _cells(schedule: Schedule, pair: str = "{f}&{b}") -> Iterator[list[str]]:
    """Each rank's actions as text, as in `written`."""
    yield from (written(schedule.on_rank(rank), pair).to_list() for rank in range(schedule.num_ranks))


def _action(cell: str, where: str) -> _Row:
    if match := _ACTION.fullmatch(cell):
        return match[2], int(match[1]), int(match[3]), None, None, bool(match[4])
    if match := _PAIR.fullmatch(cell):
        return "F&B", int(match[1]), int(match[2]), int(match[4]), int(match[5]), bool(match[3])
    raise ScheduleError(f"{where}: {cell[:60]!r} is no action; one is written 3F5, 3I5, 3W5, 3B5 or 0F4&7B1.")


def _torch_action(cell: str, where: str) -> _Row:
    if match := _TORCH_PAIR.fullmatch(cell):
        return "F&B", int(match[1]), int(match[2]), int(match[3]), int(match[4]), False
    if (match := _ACTION.fullmatch(cell)) and not match[4]:
        return match[2], int(match[1]), int(match[3]), None, None, False
    raise ScheduleError(f"{where}: {cell[:60]!r} is no action; torch writes 3F5, 3I5, 3W5, 3B5, (0F4;7B1)OVERLAP_F_B.")


def _schedule(
    rows_of: dict[int, list[_Row]],
    rank_of: tuple[tuple[int, ...], ...],
    num_micro_batches: int | None,
    num_slices: int,
    name: str,
    notes: tuple[str, ...],
) -> Schedule:
    """micro-batches that are not given are counted: the highest and one."""
    rows = [(rank, *row) for rank in sorted(rows_of) for row in rows_of[rank]]
    if num_micro_batches is None:
        num_micro_batches = max((row[3] for row in rows), default=0) + 1
    try:
        frame = pl.DataFrame(rows, schema=ACTION_SCHEMA, orient="row")
    except (pl.exceptions.PolarsError, OverflowError) as error:
        raise ScheduleError(f"schedule {name!r}: a number is too large: {str(error).splitlines()[0]}") from error
    return Schedule(
        name=name,
        rank_of=rank_of,
        num_micro_batches=num_micro_batches,
        num_slices=num_slices,
        notes=notes,
        actions=frame,
    )


def _stages_by_rank(rows_of: dict[int, list[_Row]], what: str) -> tuple[int, ...]:
    """The rank of each stage, from the actions. Raises `ScheduleError` where a stage is on two, or on none."""
    stages = {(stage, rank) for rank, rows in rows_of.items() for _, *of_row in rows for stage in of_row[:3:2]}
    pairs = [(stage, rank) for stage, rank in stages if stage is not None]
    rank_of: dict[int, int] = {}
    for stage, rank in sorted(pairs):
        if stage in rank_of:
            raise ScheduleError(
                f"{what}: stage {stage} is on ranks {rank_of[stage]} and {rank}. A stage on several ranks needs lines "
                "such as 'replica 0: 0 1 2 3' for each copy."
            )
        rank_of[stage] = rank
    if missing := [stage for stage in range(max(1, len(rank_of))) if stage not in rank_of]:
        raise ScheduleError(f"{what}: no rank has an action of stage {missing[0]}.")
    return tuple(rank_of[stage] for stage in range(len(rank_of)))


def _text(given: object, what: str) -> str:
    """Text without the mark that some editors and spreadsheets put before it."""
    if not isinstance(given, str):
        raise ScheduleError(f"{what} is wanted as text, not as {type(given).__name__}.")
    return given.removeprefix("\ufeff")


def _uncommented(line: str) -> str:
    return _COMMENT.sub("", line)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _whole(text: str, what: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text):
        raise ScheduleError(f"{what}: {text[:60]!r} is no whole number.")
    return int(text)


def _new(found: dict[int, Any], key: int, value: Any, what: str) -> None:
    if key in found:
        raise ScheduleError(f"{what} {key} stands twice.")
    found[key] = value
