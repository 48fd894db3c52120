"""Are the device's stamps early beside the host's, so that work begins before the call that launched it?"""

from __future__ import annotations

import polars as pl

from weftrace.units import MS, duration

#: Clocks differ where at least this share of the launched ops, and this many, begin before their launch call.
LEAST_SHARE, LEAST_OPS = 0.02, 3
#: What begins earlier than this before its call was joined to the wrong one.
MOST_SKEW_NS = 10 * MS


def skew_ns(on_device: pl.DataFrame) -> int:
    """By how much the device's stamps are early, at the least: so much later nearly no op begins before its call. 0
    where none, or only a few, do. An op joined to a wrong call, as a few in a file may be, tells nothing.

    on_device: of `device_ops`.
    """
    early = on_device.select(pl.col("launch_ts_ns") - pl.col("start_ns")).to_series().drop_nulls()
    leads = early.filter(early.is_between(1, MOST_SKEW_NS))
    if len(leads) < max(LEAST_OPS, LEAST_SHARE * len(early)):
        return 0
    return int(leads.quantile(0.99) or 0)


def later(on_device: pl.DataFrame, skew: int) -> pl.DataFrame:
    """The ops that much later."""
    return on_device.with_columns(pl.col("start_ns", "end_ns") + skew) if skew else on_device


def told_skew(skew: int) -> list[str]:
    if not skew:
        return []
    return [
        f"device work begins up to {duration(skew)} before the calls that launch it: the clocks of host and device "
        "differ, and the device's is taken that much later."
    ]
