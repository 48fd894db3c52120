"""The plans that are timed, as frames for `weftrace.plan.Plan`: pipelines, expert layers, launches of a training step.

Each is made whole, a column at a time: who generates millions of ops has no object for each. Columns that are left out
have their default. Times are of the right order for a large model on H100s, and scattered so that few things tie.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

Frames = tuple[pl.DataFrame, pl.DataFrame]
COMPUTE_STREAM, NETWORK_STREAM, HOST_STREAM = 7, 27, 1000


def pipeline(num_ranks: int, num_micro_batches: int, seed: int = 0) -> Frames:
    """A pipeline with the backward split in two (F, I, W) in the order of ZB-H1; P2P messages of 20 us between ranks.

    Rank p runs num_ranks - p forwards ahead, then in turns the input gradient of micro-batch k, the weight gradient
    of micro-batch k - p, and a forward; so every rank holds num_ranks micro-batches at most, as in 1F1B. An F adds
    64 MB, its I and its W free half of that each.
    """
    num_ops = 3 * num_micro_batches  # of a rank
    micro_batch = np.arange(num_micro_batches)
    row = np.empty((num_ranks, 3, num_micro_batches), np.uint32)  # of each rank's F, I and W
    action = np.empty((num_ranks, num_ops), np.uint8)
    of_micro_batch = np.empty((num_ranks, num_ops), np.int32)
    for p in range(num_ranks):
        turn = np.stack([3 * (micro_batch - (num_ranks - p)) + 2, 3 * micro_batch, 3 * (micro_batch + p) + 1])
        order = np.argsort(turn, axis=None)
        row[p].reshape(-1)[order] = np.arange(p * num_ops, (p + 1) * num_ops)
        action[p] = order // num_micro_batches
        of_micro_batch[p] = order % num_micro_batches
    code = action.reshape(-1)
    scatter = np.random.default_rng(seed).integers(0, 40_000, num_ranks * num_ops, np.int32)
    ops = pl.DataFrame(
        {
            "name": named(("F", "I", "W"), code),
            "rank": np.repeat(np.arange(num_ranks, dtype=np.int32), num_ops),
            "stream": np.full(num_ranks * num_ops, COMPUTE_STREAM, np.int32),
            "duration_ns": np.array([1_000_000, 1_100_000, 800_000])[code] + scatter,
            "micro_batch": of_micro_batch.reshape(-1),
            "start_bytes": np.array([64_000_000, 0, 0])[code],
            "end_bytes": np.array([0, -32_000_000, -32_000_000])[code],
        }
    )
    forward, backward = row[:, 0], row[:, 1]
    waits = pl.DataFrame(
        {
            "op": np.concatenate([forward[1:].reshape(-1), backward[:-1].reshape(-1)]),
            "on": np.concatenate([forward[:-1].reshape(-1), backward[1:].reshape(-1)]),
        }
    )
    return ops, waits.with_columns(lag_ns=pl.lit(20_000, pl.Int64))


def expert_layers(num_layers: int, num_ranks: int, seed: int = 0) -> Frames:
    """The forward of a model of experts, two micro-batches in turns: attention, dispatch, MLP and combine on each rank.

    dispatch and combine are meets of all ranks; they, and the MLP, take as long as the tokens that a random routing
    sends to the rank ask for, so each meet waits for the rank with most.
    """
    chance = np.random.default_rng(seed)
    row = np.arange(num_layers * 4 * 2 * num_ranks, dtype=np.uint32).reshape(num_layers, 4, 2, num_ranks)
    layer, phase, micro_batch, rank = np.indices(row.shape, np.int32)
    mean_ns = np.array([350_000, 180_000, 300_000, 220_000])[phase]
    load = chance.gamma(16, 1 / 16, (num_layers, 1, 2, num_ranks))
    load = np.where(phase == 0, chance.uniform(0.98, 1.02, row.shape), load)
    is_meet = phase % 2 == 1
    meet = np.where(is_meet, (layer * 4 + phase) * 2 + micro_batch, -1).astype(np.int32).reshape(-1)
    ops = pl.DataFrame(
        {
            "name": named(("attn(F)", "dispatch(F)", "mlp(F)", "combine(F)"), phase.reshape(-1)),
            "kind": named(("compute", "communication"), is_meet.reshape(-1).astype(np.uint8)),
            "rank": rank.reshape(-1),
            "stream": np.where(is_meet, NETWORK_STREAM, COMPUTE_STREAM).astype(np.int32).reshape(-1),
            "duration_ns": (mean_ns * load).astype(np.int64).reshape(-1),
            "meet": pl.Series(meet).replace(-1, None),
            "layer": layer.reshape(-1),
            "micro_batch": micro_batch.reshape(-1),
        }
    )
    by_phase = row.reshape(num_layers * 4, -1)  # each phase waits for the one before it
    return ops, pl.DataFrame({"op": by_phase[1:].reshape(-1), "on": by_phase[:-1].reshape(-1)})


def launched_kernels(num_kernels: int, seed: int = 0) -> Frames:
    """A step as a host thread issues it: every kernel after its launch and in the order of its one of four streams.

    One kernel in ten waits for an event of another stream. The host runs 1,000 kernels ahead at most, and every 2,000
    launches it waits for what it issued last. Launches take 3 to 8 us, kernels 6 us as a median.
    """
    chance = np.random.default_rng(seed)
    kernel = np.arange(num_kernels)
    launch_row, kernel_row = (2 * kernel).astype(np.uint32), (2 * kernel + 1).astype(np.uint32)
    duration_ns = np.stack(
        [chance.uniform(3_000, 8_000, num_kernels), 6_000 * np.exp(chance.normal(0, 1, num_kernels))]
    )
    streams = np.array([COMPUTE_STREAM, NETWORK_STREAM, 20, 24], np.int32)
    stream = streams[chance.choice(4, num_kernels, p=(0.7, 0.1, 0.1, 0.1))]
    ops = pl.DataFrame(
        {
            "name": named(
                ("cudaLaunchKernel", "gemm", "elementwise", "all_reduce"), _pairs(0 * kernel, kernel % 3 + 1)
            ),
            "kind": named(("host", "compute"), _pairs(0 * kernel, 0 * kernel + 1)),
            "stream": _pairs(np.full(num_kernels, HOST_STREAM, np.int32), stream),
            "duration_ns": _pairs(*duration_ns.astype(np.int64)),
        }
    )
    event = np.flatnonzero(chance.random(num_kernels) < 0.1)[50:]
    limited, synchronous = kernel[1_000:], kernel[2_000::2_000]
    waits = [
        _waits("launch", kernel_row, launch_row, lag_ns=1_500),
        _waits("data", kernel_row[event], kernel_row[event - chance.integers(1, 50, len(event))]),
        _waits("host", launch_row[limited], kernel_row[limited - 1_000], since="start"),
        _waits("host", launch_row[synchronous], kernel_row[synchronous - 1], lag_ns=3_000),
    ]
    return ops, pl.concat(waits)


#: Kernels of a layer that `layers_of_launches` makes; which of them communicate; the first after what was communicated.
LAYER_KERNELS, LAYER_SENDS, LAYER_RECEIVES = 100, (40, 60), 70
#: Ops of a layer: two calls that make a stream wait and one that may block, besides two a kernel.
_LAYER_OPS = 2 * LAYER_KERNELS + 3


def layers_of_launches(num_layers: int, seed: int = 0) -> Frames:
    """A model's layers as a host thread issues them, 100 kernels each: 40 compute, 20 communicate on a stream of their
    own once these have ended, 10 compute beside them, 30 more once they have ended.

    Before the first that waits for the other stream stands a cudaStreamWaitEvent, which says no more than real ones do.
    At the end of every 20th layer the host waits for the device, at that of others it does something else as long.
    Kernels of one place last as long in each layer but for 5 %, 10 us as a median; launches 5 us.
    """
    chance = np.random.default_rng(seed)
    place = np.arange(LAYER_KERNELS)
    sends = (place >= LAYER_SENDS[0]) & (place < LAYER_SENDS[1])
    in_layer = 2 * place + (place >= LAYER_SENDS[0]) + (place >= LAYER_RECEIVES)  # of each kernel's launch
    kind = np.zeros(_LAYER_OPS, np.uint32)
    name, stream = np.zeros(_LAYER_OPS, np.uint32), np.full(_LAYER_OPS, HOST_STREAM, np.int32)
    kind[in_layer + 1] = 1 + sends
    name[in_layer + 1] = np.where(sends, 4, 5 + place % 7)
    stream[in_layer + 1] = np.where(sends, NETWORK_STREAM, COMPUTE_STREAM)
    name[[in_layer[LAYER_SENDS[0]] - 1, in_layer[LAYER_RECEIVES] - 1]] = 1
    took = np.full((num_layers, _LAYER_OPS), 5_000.0)
    usual = 10_000 * np.exp(chance.normal(0, 0.7, LAYER_KERNELS))
    took[:, in_layer + 1] = usual * chance.uniform(0.95, 1.05, (num_layers, LAYER_KERNELS))
    names = np.tile(name, (num_layers, 1))
    synchronous = np.arange(num_layers) % 20 == 19
    names[:, -1] = np.where(synchronous, 2, 3)
    layer = np.repeat(np.arange(num_layers), _LAYER_OPS)
    words = ("cudaLaunchKernel", "cudaStreamWaitEvent", "cudaDeviceSynchronize", "cudaEventQuery", "all_to_all", "gemm",
             "rms_norm", "silu", "rope", "cast", "topk", "add")  # fmt: skip
    ops = pl.DataFrame({
        "name": named(words, names.reshape(-1)),
        "kind": named(("host", "compute", "communication"), np.tile(kind, num_layers)),
        "stream": np.tile(stream, num_layers), "duration_ns": took.reshape(-1).astype(np.int64),
        "phase": named(("layer",), 0 * layer), "layer": layer.astype(np.int32),
    })  # fmt: skip
    first = np.arange(num_layers)[:, None] * _LAYER_OPS
    rows = (first + in_layer + 1).astype(np.uint32)
    last, whole = rows[synchronous, -1], (first[synchronous, 0] + _LAYER_OPS - 1).astype(np.uint32)
    waits = [
        _waits("launch", rows.reshape(-1), rows.reshape(-1) - 1, lag_ns=2_000),
        _waits("data", rows[:, LAYER_SENDS[0]], rows[:, LAYER_SENDS[0] - 1], lag_ns=1_500),
        _waits("data", rows[:, LAYER_RECEIVES], rows[:, LAYER_SENDS[1] - 1], lag_ns=1_500),
        _waits("host", whole, last),
    ]
    return ops, pl.concat(waits)


def named(names: tuple[str, ...], code: NDArray[Any]) -> pl.Series:
    """A column of a few names, by their positions."""
    return pl.Series(names, dtype=pl.Categorical()).gather(pl.Series(code.astype(np.uint32)))


def _pairs(first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    return np.stack([first, second], axis=1).reshape(-1)


def _waits(why: str, op: NDArray[Any], on: NDArray[Any], *, since: str = "end", lag_ns: int = 0) -> pl.DataFrame:
    return pl.DataFrame({"op": op, "on": on}).with_columns(
        since=pl.lit(since), lag_ns=pl.lit(lag_ns, pl.Int64), why=pl.lit(why)
    )
