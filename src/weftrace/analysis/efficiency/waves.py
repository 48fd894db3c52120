"""In how many waves do a kernel's blocks run, and how much of the last is empty?

An SM holds as many blocks at once as its threads, registers and shared memory allow; the chip so many times its SMs.
That is a wave. 133 blocks of which an SM holds one take 132 SMs two waves, and in the second 131 of 132 places are
empty.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from weftrace.facts import sm_limits
from weftrace.trace.model import Device

WAVE_SCHEMA: dict[str, pl.DataType] = {
    "blocks_per_sm": pl.Int32(),
    "num_waves": pl.Int64(),
    "last_wave_empty_share": pl.Float64(),
    "occupancy_percent": pl.Float64(),
    "estimated_percent": pl.Float64(),
}

_WARP_SIZE = 32  # NVIDIA's; AMD's wavefronts of 64 share registers otherwise
_SUB_PARTITIONS = 4  # of an SM, each with a quarter of the registers, since Maxwell
#: More shared memory a block needs an opt-in, of which Kineto's estimate of the occupancy knows nothing: it says 0.
KINETO_SHARED_BYTES = 48 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sm:
    """All limits of one SM that count, and the SMs of the chip."""

    num_sms: int
    warp_size: int
    max_blocks: int
    max_threads: int
    registers: int
    shared_bytes: int
    shared_bytes_reserved: int
    register_granularity: int
    shared_granularity: int


def waves_of(launches: pl.DataFrame, device: Device) -> pl.DataFrame:
    """Waves of each launch, row by row (`WAVE_SCHEMA`).

    launches: num_blocks, num_threads (of a block), registers (of a thread), shared_bytes (of a block) as `EVENT_SCHEMA`
    has them; `persistent` where it is known. All is null where the launch or the device's limits are not recorded.
    blocks_per_sm: blocks that one SM holds at once, the least that threads, registers, shared memory and the limit of
    blocks allow. num_waves: blocks over blocks_per_sm x SMs, rounded up. last_wave_empty_share: places of the last wave
    without a block over all of its places; of one wave that is not full the same. Both are null of persistent kernels,
    whose blocks take one piece of work after another.
    occupancy_percent: threads that an SM can hold of this kernel over what it can hold at most. estimated_percent: the
    same where the blocks are too few to fill it, which is how Kineto estimates the occupancy.
    """
    sm = _sm(device)
    if sm is None:
        return pl.DataFrame(schema=WAVE_SCHEMA, data=[[None] * launches.height for _ in WAVE_SCHEMA])
    blocks, threads = pl.col("num_blocks").cast(pl.Int64), pl.col("num_threads").cast(pl.Int64)
    warps = _rounded_up(threads, sm.warp_size) // sm.warp_size
    registers_per_warp = _rounded_up(pl.col("registers").cast(pl.Int64) * sm.warp_size, sm.register_granularity)
    warps_by_registers = _SUB_PARTITIONS * (sm.registers // _SUB_PARTITIONS // _at_least_one(registers_per_warp))
    shared = _rounded_up(pl.col("shared_bytes").cast(pl.Int64) + sm.shared_bytes_reserved, sm.shared_granularity)
    by_limit = (
        pl.lit(sm.max_blocks, pl.Int64),
        sm.max_threads // sm.warp_size // _at_least_one(warps),
        pl.when(pl.col("registers") > 0).then(warps_by_registers // _at_least_one(warps)),
        pl.when(shared > 0).then(sm.shared_bytes // _at_least_one(shared)),
    )
    is_told = (threads > 0) & (blocks > 0) & pl.col("registers").is_not_null() & pl.col("shared_bytes").is_not_null()
    held = pl.when(is_told).then(pl.min_horizontal(by_limit)).alias("held")
    table = launches.select(
        held, blocks.alias("blocks"), threads.alias("threads"), _persistent(launches).alias("persistent")
    )
    places, fits = pl.col("held") * sm.num_sms, pl.col("held") > 0
    num_waves = pl.when(fits & ~pl.col("persistent")).then((pl.col("blocks") + places - 1) // _at_least_one(places))
    of_threads = 100 * pl.col("threads") / sm.max_threads
    return table.select(
        pl.when(fits).then("held").alias("blocks_per_sm"),
        num_waves.alias("num_waves"),
        (1 - (pl.col("blocks") - (num_waves - 1) * places) / places).alias("last_wave_empty_share"),
        pl.when(fits).then(pl.col("held") * of_threads).alias("occupancy_percent"),
        pl.when(fits)
        .then(pl.min_horizontal(pl.col("held").cast(pl.Float64), pl.col("blocks") / sm.num_sms) * of_threads)
        .alias("estimated_percent"),
    ).select(pl.col(name).cast(dtype) for name, dtype in WAVE_SCHEMA.items())


def untold(device: Device) -> str:
    """Why the waves of a device's kernels cannot be told, "" where they can."""
    if _sm(device) is not None:
        return ""
    if device.num_sms is None:
        return "Waves are unknown: the file does not say how many SMs its device has."
    if device.warp_size not in (None, _WARP_SIZE):
        return "Waves are unknown: ROCm's profiler records neither the registers of a kernel nor those of a CU."
    return "Waves are unknown: the file does not say what one SM of its device holds at one time."


def _sm(device: Device) -> _Sm | None:
    """The limits of the file's device; where it states only some, those of its compute capability for the others."""
    known = sm_limits(device.capability) if device.capability else None
    if device.num_sms is None or known is None or device.warp_size != _WARP_SIZE:
        return None
    return _Sm(
        num_sms=device.num_sms,
        warp_size=_WARP_SIZE,
        max_blocks=known.max_blocks_per_sm,
        max_threads=device.max_threads_per_sm or known.max_threads_per_sm,
        registers=device.registers_per_sm or known.registers_per_sm,
        shared_bytes=device.shared_bytes_per_sm or known.shared_bytes_per_sm,
        shared_bytes_reserved=known.shared_bytes_reserved,
        register_granularity=known.register_granularity,
        shared_granularity=known.shared_granularity,
    )


def _persistent(launches: pl.DataFrame) -> pl.Expr:
    return pl.col("persistent").fill_null(False) if "persistent" in launches.columns else pl.lit(False)


def _rounded_up(number: pl.Expr, step: int) -> pl.Expr:
    return (number + step - 1) // step * step


def _at_least_one(number: pl.Expr) -> pl.Expr:
    return number.clip(1)
