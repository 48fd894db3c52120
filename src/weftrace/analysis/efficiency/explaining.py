"""Why is each shape below, or above, its peak? A sentence where the numbers hold one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from weftrace.analysis.efficiency.below_peak import ShapeFacts, published_flops_per_s, why_below
from weftrace.analysis.efficiency.launches import Launches
from weftrace.analysis.efficiency.least_times import LeastTime
from weftrace.analysis.efficiency.peaks import over_peak_sentence
from weftrace.analysis.efficiency.precision import KernelPrecision
from weftrace.analysis.efficiency.sizes import product_sides
from weftrace.analysis.intervals import covered, of_events
from weftrace.costs.cost import Status
from weftrace.facts import Hardware
from weftrace.trace.work import Work
from weftrace.units import S, grouped, percent

#: A rate this much above a bandwidth is a clock's rounding.
_TOLERANCE = 1.0005
_MOST_STREAMS = 64  # of more none is looked at
_MANY = 2  # times a bandwidth: below, percent tell it
_AT_MOST = "Its FLOPs are counted at most, so the last is likeliest."
_LAYOUTS = "(?i)nchwToNhwc|nhwcToNchw|batched_transpose"


def explanations(
    work: Work,
    events: pl.DataFrame,
    sums: pl.DataFrame,
    rated: Sequence[LeastTime],
    launches: Launches,
    chip: Hardware | None,
) -> dict[int, str]:
    """Shape -> why it is below or above its peak; no entry where nothing tells.

    events: rated ones, with shape. sums: a row per shape: num_calls, busy_ns, best_ns. launches: of `launches_of`.
    """
    if chip is None or work.device is None:
        return {}
    copies = events.filter(_is_copy(events)).group_by("shape").agg(pl.col("dur_ns").sum())
    spent = dict(copies.iter_rows()), _beside_others(work, events)
    found = {}
    for each in sums.to_dicts():
        shape, of = each["shape"], rated[each["shape"]]
        if of.bound is None or not each["busy_ns"]:
            continue
        share = each["num_calls"] * of.bound_ns / each["busy_ns"]
        if of.peak is None:
            sentence = _above_bandwidth(of, share, chip)
        else:
            sentence = _of_product(work, of, each, launches.get(shape, {}), [ns.get(shape, 0) for ns in spent], chip)
        if sentence:
            found[shape] = sentence
    return found


def _beside_others(work: Work, events: pl.DataFrame) -> dict[int, int]:
    """Shape -> time of its events in which kernels of other streams ran, which took SMs, or bandwidth."""
    works = pl.col("kind") != "memory"
    every = work.around.events.filter(works).select("stream", "start_ns", "end_ns")
    if not 1 < every.get_column("stream").n_unique() <= _MOST_STREAMS:
        return {}
    found = []
    for (stream,), mine in events.filter(works, pl.col("shape") >= 0).group_by("stream"):
        others = of_events(every.filter(pl.col("stream") != stream))
        ns = covered(others, mine.get_column("start_ns").to_numpy(), mine.get_column("end_ns").to_numpy())
        found.append(mine.select("shape", pl.Series("ns", ns)))
    return dict(pl.concat(found).group_by("shape").agg(pl.col("ns").sum()).iter_rows()) if found else {}


def _is_copy(events: pl.DataFrame) -> pl.Series:
    """Kernels that copy, or change layouts around convolutions."""
    names = events.get_column("name").unique()
    layouts = names.filter(names.cast(pl.String).str.contains(_LAYOUTS)).implode()
    return events.select((pl.col("family").cast(pl.String) == "copy") | pl.col("name").is_in(layouts)).to_series()


def _above_bandwidth(of: LeastTime, share: float, chip: Hardware) -> str:
    if share <= _TOLERANCE or of.bound == "compute":
        return ""
    if of.bound == "host link":
        return f"{_times(share)} the PCIe peak of {chip.name}: the link is another, or less was copied."
    return (
        f"{_times(share)} the memory bandwidth of {chip.name}: its tensors were in the cache, or it touched "
        "fewer bytes than they have."
    )


def _times(share: float) -> str:
    return f"{percent(share)} of" if share < _MANY else f"{grouped(share, 1)} times"


def _of_product(
    work: Work, of: LeastTime, sums: Mapping[str, Any], launch: Mapping[str, Any], spent: Sequence[int], chip: Hardware
) -> str:
    """spent: time of copies in its calls, and beside kernels of other streams."""
    assert of.peak is not None
    calls, busy = sums["num_calls"], sums["busy_ns"]
    rate = calls * of.cost.executed_flops / busy * S
    if above := over_peak_sentence(rate, of.peak, chip, stored_dtype=of.cost.dtype, kernel_dtype=of.kernel.dtype):
        return f"{above} {_AT_MOST}" if of.cost.status is Status.UPPER_BOUND else above
    is_memory = of.bound == "memory"
    memory_share = calls * of.bound_ns / busy
    if is_memory and memory_share > _TOLERANCE:
        return _above_bandwidth(of, memory_share, chip)
    cost = of.cost
    return why_below(
        ShapeFacts(
            call_ns=busy / calls,
            peak_share=calls * of.peak_ns / busy,
            peak_dtype=of.peak.dtype,
            stored_dtype=cost.dtype,
            chip=chip,
            intensity=(cost.executed_flops + cost.vector_flops) / cost.moved_bytes if cost.moved_bytes else None,
            memory_share=memory_share if is_memory else None,
            launch_ns=launch.get("launch_dur_ns"),
            kernel=KernelPrecision(
                dtype=of.kernel.dtype,
                tensor_cores=of.kernel.tensor_cores,
                split_k=of.kernel.split_k,
                sparse=of.kernel.sparse,
                architecture=of.kernel.architecture,
            ),
            capability=work.trace.device(work.device or 0).capability,
            num_blocks=launch.get("num_blocks"),
            num_waves=launch.get("num_waves"),
            last_wave_empty_share=launch.get("last_wave_empty_share"),
            copies_ns=spent[0] / calls,
            beside_share=min(1.0, spent[1] / busy),
            best_share=of.peak_ns / sums["best_ns"] if sums["best_ns"] else None,
            published_flops_per_s=_published(of, chip),
        )
    )


def _published(of: LeastTime, chip: Hardware) -> float | None:
    sides = product_sides(of.shape.sizes)
    return None if sides is None else published_flops_per_s(*sides, of.cost.dtype, chip)
