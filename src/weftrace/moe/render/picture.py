"""A simulated profile as lanes: computation and communication, a box an operation, arrows for what waits for what.

Boxes come from the operation list, and when a lane was busy from the kernels of the profile's own trace: so what is
drawn is what any tool measures in the trace that weftrace writes of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, cast

import polars as pl

from weftrace.alphabet import direction_of
from weftrace.analysis.activity import Stretches, stretches_of
from weftrace.analysis.intervals import of_events
from weftrace.moe.derived.phase_times import COMPUTES, kernels_of, last_rank
from weftrace.moe.profiles import Profile
from weftrace.render.lane_types import ArrowDocument, BoxDocument, LaneDocument, PlannedPicture

#: Bands from top to bottom, and the streams that each shows: both that compute; kernels that move tokens; transfers
#: that hold no SM, which are all the communication there is where no kernels move tokens.
_BANDS = ("compute", "communication", "in flight")
_BAND_OF = {"compute": "compute", "side": "compute", "communication": "communication", "network": "in flight"}
_PAUSE_NS = 30_000  # what the report's lanes take for a wait that parts two boxes


def profile_picture(profile: Profile, rank: int | None = None, *, by_micro_batch: bool = False) -> PlannedPicture:
    """The lanes of one rank of a profile; of the one that ends last where none is given. Times from the plan's start.

    A box is an operation in a layer, or those of one phase and micro-batch that run at once. Kernels that issue and
    receive messages stand in the compute band, whose SMs they hold. by_micro_batch: a lane for each micro-batch of each
    band, "compute 0" and "compute 1".
    """
    rank = last_rank(profile) if rank is None else rank
    kernels = kernels_of(profile, rank).with_columns(band=pl.col("lane").replace_strict(_BAND_OF))
    lanes = [
        _lane(profile, *key, part) for band in _BANDS for key, part in _parts(kernels.filter(band=band), by_micro_batch)
    ]
    if not any(lane["lane"].startswith("communication") for lane in lanes):  # then transfers are all there is of it
        for lane in lanes:
            lane["lane"] = lane["lane"].replace("in flight", "communication")
    compute, communication = (of_events(kernels.filter(each)) for each in (COMPUTES, pl.col("kind") == "communication"))
    exposed, hidden, total = communication - compute, communication & compute, communication.total_ns
    return {
        "rank": rank if len(profile.plan.ranks) > 1 else None,
        "name": "",
        "device": 0,
        "device_name": f"{profile.setting.hardware.name} (simulated)",
        "basis": "device",
        "simulated": True,
        "span_ns": int(kernels.select(pl.col("end_ns").max()).item() or 0),
        "communication_ns": total,
        "exposed_communication_ns": exposed.total_ns,
        "hidden_fraction": hidden.total_ns / total if total else None,
        "busy": _listed(stretches_of(of_events(kernels))),
        "lanes": lanes,
        "exposed": _listed(stretches_of(exposed)),
        "num_exposed": len(exposed.starts),
        "hidden": _listed(stretches_of(hidden)),
        "arrows": list(_arrows(profile, rank, lanes, by_micro_batch)),
    }


def _parts(kernels: pl.DataFrame, by_micro_batch: bool) -> Iterator[tuple[tuple[str, int | None], pl.DataFrame]]:
    """A band's kernels, by micro-batch where that is asked for."""
    if kernels.is_empty():
        return
    band = str(kernels.get_column("band")[0])
    if not by_micro_batch:
        yield (band, None), kernels
        return
    for batch in kernels.get_column("micro_batch").unique().sort().to_list():
        yield (band, batch), kernels.filter(micro_batch=batch)


def _lane(profile: Profile, band: str, batch: int | None, kernels: pl.DataFrame) -> LaneDocument:
    setting = profile.setting
    sms = {"compute": setting.compute_sms, "communication": setting.comm_sms}.get(band, 0)
    busy = stretches_of(of_events(kernels))
    return {
        "lane": band if batch is None else f"{band} {batch}",
        "sms": sms,
        "sms_exact": True,
        "sm_unit": "SMs",
        "busy_ns": busy.total_ns,
        "busy": _listed(busy),
        "streams": kernels.get_column("stream").unique().sort().to_list(),
        "boxes": list(_boxes(profile, kernels)),
    }


def _boxes(profile: Profile, kernels: pl.DataFrame) -> Iterator[BoxDocument]:
    """By start. Operations of one phase, micro-batch and part of one layer are one box where they run at once."""
    operations = profile.overlap.operations
    summary = pl.DataFrame(
        {
            "operation": range(len(operations)),
            "name": [each.phase for each in operations],
            "part": [None if each.part == "whole" else each.part for each in operations],
        },
        schema_overrides={"part": pl.String()},
    )
    key = ("name", "part", "micro_batch", "repetition")
    reach = pl.col("end_ns").cum_max().shift(1).over(key)
    before = pl.col("end_ns").cum_max().shift(1)
    boxes = (
        kernels.join(summary, on="operation", maintain_order="left")
        .sort("start_ns", "end_ns", maintain_order=True)
        .with_columns(piece=(pl.col("start_ns") > reach + _PAUSE_NS).fill_null(False).cum_sum().over(key))
        .group_by(*key, "piece", maintain_order=True)
        .agg(
            pl.col("layer", "operation").first(),
            pl.col("start_ns").min(),
            busy_ns=(pl.col("end_ns") - pl.max_horizontal("start_ns", before)).clip(0).sum(),
            end_ns=pl.col("end_ns").max(),
            sms=pl.col("num_sms").max(),
        )
        .with_columns(
            phase=pl.struct(*key, "operation").rank("dense").cast(pl.Int64) - 1,
            index=pl.int_range(pl.len()).over("name", "part", "micro_batch"),
        )
    )
    for row in boxes.iter_rows(named=True):
        box: BoxDocument = {
            "name": row["name"],
            "index": row["index"],
            "phase": row["phase"],
            "layer": row["layer"],
            "micro_batch": row["micro_batch"],
            "direction": cast(Literal["F", "B", "W"] | None, direction_of(row["name"])),
            "start_ns": row["start_ns"],
            "end_ns": row["end_ns"],
            "busy_ns": row["busy_ns"],
            "sms": row["sms"],
        }
        if row["part"] is not None:
            box["part"] = row["part"]
        yield box


def _arrows(profile: Profile, rank: int, lanes: Sequence[LaneDocument], by_batch: bool) -> Iterator[ArrowDocument]:
    """Waits of the plan from one lane to another, in the order in which ops are issued."""
    place: dict[tuple[int, int | None], int] = {}
    for at, lane in enumerate(lanes):
        batch = lane["boxes"][0]["micro_batch"] if by_batch else None
        place |= {(stream, batch): at for stream in lane["streams"]}
    rows = pl.Series(profile.plan.rows_on(rank), dtype=pl.UInt32)
    columns = ("stream", "micro_batch", "start_ns", "end_ns")
    summary = dict(zip(rows, profile.times.ops.select(columns)[rows].iter_rows(named=True), strict=True))
    for op, on in profile.plan.waits.select("op", "on").filter(pl.col("op").is_in(rows.implode())).iter_rows():
        waiting, awaited = summary[op], summary[on]
        to, since = (place[each["stream"], each["micro_batch"] if by_batch else None] for each in (waiting, awaited))
        if to != since:
            yield {
                "from_lane": since, "from_ns": awaited["end_ns"], "to_lane": to, "to_ns": waiting["start_ns"],
                "held": waiting["start_ns"] == awaited["end_ns"],
            }  # fmt: skip


def _listed(stretches: Stretches) -> list[list[int]]:
    return [list(row) for row in zip(*(column.tolist() for column in stretches), strict=True)]
