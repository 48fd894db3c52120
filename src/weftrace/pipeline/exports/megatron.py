"""A schedule as Megatron-LM's arguments.

Megatron-LM has two orders, 1F1B and interleaved 1F1B, which its `core/pipeline_parallel/schedules.py` makes of a few
numbers (`get_pp_rank_microbatches`, `get_schedule_table`). `order_of` makes the same; a schedule with another one is
refused, so the arguments that are printed run the schedule action by action.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import groupby

import numpy as np
import polars as pl

from weftrace.pipeline.exports.values import Export, Setting, need_layers, need_plain, refusal
from weftrace.pipeline.generators.columns import Columns, frame_of
from weftrace.pipeline.notation import differences
from weftrace.pipeline.rules import check
from weftrace.pipeline.schedule import Schedule, code_of

TITLE = "Megatron-LM"
VERSION = "core 0.16.1"


def to_megatron(schedule: Schedule, layers: Sequence[int] = ()) -> Export:
    """Megatron-LM's arguments. layers: of each stage; empty where the number of the model's layers is not known.

    Raises `ScheduleError` for a schedule that Megatron-LM does not run, with the first action that it runs otherwise.
    """
    check(schedule)
    need_plain(schedule, TITLE)
    ranks, many = schedule.num_ranks, schedule.num_micro_batches
    turns = schedule.num_stages // ranks
    group, overlaps = _need_order(schedule, turns)
    settings = [("--pipeline-model-parallel-size", str(ranks))]
    notes = [
        "Micro-batches are --global-batch-size / (--micro-batch-size x data-parallel ranks): the two are for one "
        f"data-parallel rank and micro-batches of one sequence, {many} of them."
    ]
    if layers:
        need_layers(layers, schedule.num_stages)
        settings.append(("--num-layers", str(sum(layers))))
    if len(set(layers)) > 1:
        settings.append(("--pipeline-model-parallel-layout", _layout(layers)))
        notes.append("The layout puts the embedding into the first stage, and the loss into the last.")
    elif turns > 1:
        settings.append(("--num-virtual-stages-per-pipeline-rank", str(turns)))
    if turns > 1:
        settings.append(("--microbatch-group-size-per-virtual-pipeline-stage", str(group)))
    if overlaps:
        settings.append(("--overlap-moe-expert-parallel-comm", ""))
        notes.append(
            "--overlap-moe-expert-parallel-comm runs each F&B as one. It asks for experts on several ranks "
            "(--expert-model-parallel-size), --moe-token-dispatcher-type alltoall or flex, bf16 or fp16, and no full "
            "recomputation."
        )
    settings += [("--micro-batch-size", "1"), ("--global-batch-size", str(many))]
    if not layers:
        notes.append(
            f"--num-layers of the model must be a multiple of {schedule.num_stages}; else give layers by stage."
        )
    return Export(
        framework="megatron",
        title=TITLE,
        version=VERSION,
        schedule=schedule.name,
        settings=[Setting(name=name, value=value) for name, value in settings],
        text="".join(" ".join([name, *([shlex.quote(value)] if value else [])]) + "\n" for name, value in settings),
        notes=notes,
    )


def order_of(num_ranks: int, num_micro_batches: int, turns: int, group: int, *, overlaps: bool) -> Schedule:
    """What Megatron-LM runs. turns: stages of a rank. group: micro-batches that a stage runs in a row; the rest is the
    last group.

    A rank runs so many forwards ahead: its distance to the last rank with one stage; with several twice that, a group
    for each stage but one, and one more where F&B follow. Then forwards and backwards take turns, or are F&B.
    """
    groups = [np.arange(start, min(start + group, num_micro_batches)) for start in range(0, num_micro_batches, group)]
    micro_batch = np.concatenate([np.tile(each, turns) for each in groups])
    turn = np.concatenate([np.repeat(np.arange(turns), len(each)) for each in groups])
    ranks = []
    for rank in range(num_ranks):
        distance = num_ranks - 1 - rank
        ahead = distance if turns == 1 else 2 * distance + (turns - 1) * group + overlaps
        forward = np.stack([turn * num_ranks + rank, micro_batch])
        backward = np.stack([(turns - 1 - turn) * num_ranks + rank, micro_batch])
        ranks.append(_of_rank(rank, min(len(turn), ahead), forward, backward, overlaps))
    return Schedule(
        name=f"{TITLE}'s order",
        rank_of=(tuple(range(num_ranks)) * turns,),
        num_micro_batches=num_micro_batches,
        actions=frame_of(ranks),
    )


def _of_rank(rank: int, ahead: int, forward: Columns, backward: Columns, overlaps: bool) -> Columns:
    """forward, backward: [2, chunks], stage and micro-batch of each."""
    num = forward.shape[1]
    paired = np.arange(num - ahead)
    columns = np.full((6, num + ahead if overlaps else 2 * num), -1, np.int32)
    columns[0] = rank
    columns[1, :ahead], columns[2:4, :ahead] = code_of("F"), forward[:, :ahead]
    if overlaps:
        columns[1, ahead + paired] = code_of("F&B")
        columns[2:4, ahead + paired], columns[4:6, ahead + paired] = forward[:, ahead:], backward[:, paired]
    else:
        columns[1, ahead + 2 * paired], columns[2:4, ahead + 2 * paired] = code_of("F"), forward[:, ahead:]
        columns[1, ahead + 2 * paired + 1] = code_of("B")
        columns[2:4, ahead + 2 * paired + 1] = backward[:, paired]
    end = columns.shape[1] - ahead
    columns[1, end:], columns[2:4, end:] = code_of("B"), backward[:, num - ahead :]
    return columns


def _need_order(schedule: Schedule, turns: int) -> tuple[int, bool]:
    """The group size, and whether F&B are one. Raises `ScheduleError` where Megatron-LM has another order."""
    ranks, many = schedule.num_ranks, schedule.num_micro_batches
    if schedule.rank_of != (tuple(range(ranks)) * turns,):
        raise refusal(
            schedule, TITLE, "it puts stage s on rank s mod the number of ranks, and here stages lie otherwise"
        )
    kinds = set(schedule.actions.get_column("kind").unique())
    if kinds & {"I", "W"}:
        raise refusal(schedule, TITLE, "it splits backwards into I and W, and there a backward is one")
    overlaps = "F&B" in kinds
    if turns == 1 and overlaps:
        raise refusal(schedule, TITLE, "F&B ask for several stages per rank there")
    if turns > 1 and ranks == 1:
        raise refusal(schedule, TITLE, "several stages per rank ask for two ranks there")
    group = ranks
    if turns > 1:
        forwards = schedule.on_rank(0).filter(pl.col("kind").is_in(["F", "F&B"])).get_column("stage")
        group = int((forwards != 0).arg_max() or len(forwards))  # of the first stage in a row
        last = many % group
        if group < ranks or 0 < last < ranks:
            raise refusal(
                schedule, TITLE,
                f"its groups of micro-batches are {group}{f', the last {last}' if last else ''}, and none may be "
                f"smaller than the {ranks} ranks",
            )  # fmt: skip
    theirs = order_of(ranks, many, turns, group, overlaps=overlaps)
    if theirs != schedule:
        raise refusal(schedule, TITLE, f"its order is another one ({differences(schedule, theirs)[0]} there)")
    return group, overlaps


def _layout(layers: Sequence[int]) -> str:
    """Stages in the model's order: E the embedding, t a layer, L the loss; "(t*2|)*3" is three stages of two layers."""
    stages = ["t" if number == 1 else f"t*{number}" for number in layers]
    runs = [(stage, len(list(run))) for stage, run in groupby(stages[1:-1])]
    middle = "".join(f"({stage}|)*{number}" if number > 2 else f"{stage}|" * number for stage, number in runs)
    return f"E{stages[0]}|{middle}{stages[-1]}L"
