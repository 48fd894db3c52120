"""Whom do operators that send and receive name? Its rank in a group is one of their scalars, with record_shapes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
import polars as pl

from weftrace.trace.chrome.events import MISSING, Args

#: Operators of torch.distributed, and the column of whom they name; `inputs` of both are tensors, group, rank, tag.
PEER_OF = {"c10d::send": "dst_rank", "c10d::recv_": "src_rank"}
_NUMBER = 2  # of the scalar that tells it
_PIPELINE = re.compile("pp|pipe")  # in what a group is called: "mesh_pp", as torch's device meshes do


def with_peer(args: Args, name: str) -> Args:
    """The arguments with the rank that is named, in its group; as they are where they state it themselves, which files
    that weftrace wrote do."""
    if getattr(args, PEER_OF[name]) is not MISSING:
        return args
    try:
        inputs = msgspec.json.decode(args.inputs, type=list[Any])
        return msgspec.structs.replace(args, **{PEER_OF[name]: int(inputs[_NUMBER])})
    except (msgspec.MsgspecError, ValueError, TypeError, IndexError):
        return args


def with_ranks_of_the_job(events: pl.DataFrame, world: Mapping[str, Any], rank: int | None) -> pl.DataFrame:
    """The events with ranks of the job in place of those in a group, which no operator names: null where groups of this
    rank differ in that.

    world: `distributedInfo`, of whose groups each that holds this rank may be the one; those called a pipeline's come
    first.
    """
    names = events.get_column("name").unique()
    names = names.filter(names.cast(pl.String).is_in(list(PEER_OF)))
    is_named = pl.col("name").is_in(names.implode()) & (pl.col("cat") == "cpu_op")
    if (
        rank is None
        or names.is_empty()
        or not events.select((is_named & pl.any_horizontal(pl.col(*PEER_OF.values()).is_not_null())).any()).item()
    ):
        return events
    ranks = {number: _in_job(number, rank, world) for number in range(max(_most(events), 0) + 1)}
    return events.with_columns(
        pl.when(is_named)
        .then(pl.col(column).replace_strict(ranks, default=None, return_dtype=pl.Int32))
        .otherwise(pl.col(column))
        .alias(column)
        for column in PEER_OF.values()
    )


def _most(events: pl.DataFrame) -> int:
    most: int = events.select(pl.max_horizontal(pl.col(*PEER_OF.values()).max())).item() or 0
    return min(most, 1 << 16)


def _in_job(number: int, rank: int, world: Mapping[str, Any]) -> int | None:
    listed = world.get("pg_config")
    groups = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    groups = [each for each in groups if isinstance(each.get("ranks"), list) and rank in each["ranks"]]
    pipelines = [each for each in groups if _PIPELINE.search(str(each.get("pg_desc")))]
    mine = [each["ranks"] for each in pipelines or groups]
    if not mine:
        return number
    found = {ranks[number] for ranks in mine if number < len(ranks) and ranks[number] != rank}
    only = found.pop() if len(found) == 1 else None
    return only if isinstance(only, int) else None
