"""An inferred plan without its host: device work alone, as if every launch had been there in time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from weftrace.plan.inference.values import Inferred


def without_host(inferred: Inferred, note: str) -> Inferred:
    """The plan of what ran on devices: no host ops, no waits of or for them. note: why, for `notes`."""
    plan, measured = inferred.plan, inferred.measured
    on_device = measured.get_column("event").is_not_null()
    number = np.cumsum(on_device.to_numpy()) - 1
    waits = plan.waits.select(pl.col(name).cast(pl.Int64) for name in ("op", "on"))
    stays = pl.Series(on_device.to_numpy()[waits.to_numpy()].all(axis=1))

    def renumbered(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.with_columns(
            pl.Series(name, number[frame.get_column(name).to_numpy()]).cast(pl.UInt32) for name in ("op", "on")
        )

    origin_ns = int(measured.filter(on_device).get_column("start_ns").min() or 0)  # type: ignore[arg-type]
    return replace(
        inferred,
        plan=replace(plan, ops=plan.ops.filter(on_device), waits=renumbered(plan.waits.filter(stays))),
        measured=measured.filter(on_device).with_columns(pl.col("start_ns", "end_ns") - origin_ns),
        edges=inferred.edges.filter(stays),
        sm_waits=renumbered(inferred.sm_waits),
        origin_ns=inferred.origin_ns + origin_ns,
        notes=(*inferred.notes, note),
    )
