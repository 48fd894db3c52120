"""Experts placed otherwise: kernels of experts and the rows that move follow the load of their GPU, all else stays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.tracefile import TraceFile
from weftrace.advice.jobs import infer_job
from weftrace.advice.swaps.placements import PlacementSwap, placed_durations, placement_swap
from weftrace.advice.whatifs import what_if
from weftrace.errors import AdviceError
from weftrace.plan import Inferred, Op, Plan, Resource, Wait, infer, simulate_ranks
from weftrace.units import US

GROUPED = "void deep_gemm::sm90_m_grouped_fp8_gemm_contiguous_impl<2112u, 7168u>(float*)"
SHARED = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_nn_n_tilesize128x128x64_cublas"
SILU = "void silu_and_mul_kernel<float>(float*)"
DISPATCH = "void deep_ep::internode::dispatch<false, 8, false, 8>(int4*, float*)"
NOTIFY = "void deep_ep::internode::cached_notify<false>(int, int, int)"
ATTENTION = "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128>>(Flash_fwd_params)"


def swap(before: list[list[int]], after: list[list[int]], layers: tuple[int, ...] = ()) -> PlacementSwap:
    both = {"before_LG": np.array(before, np.float64), "after_LG": np.array(after, np.float64)}
    return PlacementSwap(name="new.json", before_name="old.json", layers=layers, **both)


#: GPU 0 has 3/2 of the mean before and the mean after.
HALVES = swap([[150, 50]], [[100, 100]])


#  us 1000          1100           1200          1300           1400     1500
#  7   [attention   |shared mlp(F) |grouped      |silu          ]                 attn(F) | mlp(F)
#  27  [notify      |dispatch      ]                                              dispatch(F)
def one_rank(tmp_path: Path, *, layer: int | None = None) -> Inferred:
    number = "" if layer is None else f" {{layer={layer}}}"
    file = TraceFile(rank=0, world_size=2)
    file.host(f"attn(F){number}", 100, 50).host(f"mlp(F){number}", 200, 50).host(f"dispatch(F){number}", 300, 50)
    file.kernel(ATTENTION, 1000, 100, launch=110)
    for at, name in enumerate((SHARED, GROUPED, SILU)):
        file.kernel(name, 1100 + 100 * at, 100, launch=210 + at)
    for at, name in enumerate((NOTIFY, DISPATCH)):
        file.kernel(name, 1000 + 100 * at, 100, stream=27, launch=310 + at)
    return infer(file.trace(tmp_path))


def times_us(inferred: Inferred, placed: PlacementSwap) -> dict[str, float]:
    durations, _ = placed_durations(inferred, placed)
    device = (inferred.plan.ops["kind"] != "host").to_numpy()
    return dict(zip(inferred.plan.ops["name"].to_numpy()[device], durations[device] / US, strict=True))


def test_experts_and_rows_follow_the_load_of_their_gpu(tmp_path: Path) -> None:
    third = pytest.approx(200 / 3)
    assert times_us(one_rank(tmp_path), HALVES) == {
        ATTENTION: 100, SHARED: 100, GROUPED: third, SILU: third, NOTIFY: 100, DISPATCH: third,
    }  # fmt: skip


def test_a_layer_that_the_trace_tells_has_its_own_loads(tmp_path: Path) -> None:
    layers = swap([[100, 100], [100, 100]], [[50, 150], [120, 80]], layers=(3, 4))
    assert times_us(one_rank(tmp_path, layer=4), layers)[GROUPED] == pytest.approx(120)
    assert times_us(one_rank(tmp_path), layers)[GROUPED] == pytest.approx(85)  # of both: 170 of 200


def test_what_is_assumed_is_said(tmp_path: Path) -> None:
    _, notes = placed_durations(one_rank(tmp_path), HALVES)
    assert notes == (
        "200 µs of experts' computation: in proportion to rows (assumed), × 0.667 in all",
        "100 µs of dispatch and combine that move data: in proportion to rows (assumed), × 0.667 in all",
        "loads before: old.json",
        "rank r has the experts of GPU r of 2",
        "the trace does not name the layers that it shows: the loads of all 1 together (assumed)",
        "the time that this rank waits for others is as measured: their loads change too, and only the traces of all "
        "ranks, joined by their collectives, show how much that saves",
    )


#  us      0         50    150        160
#  rank 0  [mlp(F) 150      |combine 10]        with 3/2 of the mean load
#  rank 1  [mlp(F) 50 |wait |combine 10]        with half of it
def ops_of_rank(rank: int, time_us: int) -> list[Op]:
    host, stream = Resource(rank=rank, stream=1000), Resource(rank=rank, stream=7)
    launches = [Op(id=f"{name} {rank}", name="cudaLaunchKernel", kind="host", duration_ns=US, resource=host)
                for name in ("first", "second")]  # fmt: skip
    mlp = Op(name="mlp(F)", phase="mlp(F)", resource=stream, duration_ns=time_us * US,
             after=(Wait(f"first {rank}", why="launch"),))  # fmt: skip
    combine = Op(name="combine", phase="combine(F)", kind="communication", resource=stream, duration_ns=10 * US, meet=0,
                 after=(Wait(f"second {rank}", why="launch"),))  # fmt: skip
    return [*launches, mlp, combine]


def test_ranks_that_are_joined_wait_less_when_loads_are_even() -> None:
    plan = Plan.of([*ops_of_rank(0, 150), *ops_of_rank(1, 50)], name="job")
    answer = what_if(infer_job(simulate_ranks(plan).values()), [HALVES])
    assert answer.replayed_ns == 160 * US
    assert answer.after_ns == pytest.approx(120 * US, abs=2)  # both 100; rank 1 sends and takes twice the rows: 20
    assert not any("as measured" in note for note in answer.notes)


def document(
    loads: list[list[float]], *, after: list[list[float]], moves: object = None, **gpus: object
) -> dict[str, object]:
    return {"loads": loads, "layers": [0], "moves": moves, "gpu_load": {"after": {"load": after}, **gpus}}


def test_the_placement_before_is_given_told_or_assumed() -> None:
    loads = [[70.0, 80.0, 20.0, 30.0]]
    even = document(loads, after=[[100.0, 100.0]])
    assumed = placement_swap(even)
    assert assumed.before_LG.tolist() == [[150, 50]]
    assert assumed.before_name == "experts in order, as many on each GPU (assumed)"
    summary = placement_swap(document(loads, after=[[100.0, 100.0]], moves={}, before={"load": [[90.0, 110.0]]}))
    assert summary.before_LG.tolist() == [[90, 110]] and summary.before_name == "the placement that it replaced"
    given = placement_swap(even, document(loads, after=[[120.0, 80.0]]))
    assert given.before_LG.tolist() == [[120, 80]]
    with pytest.raises(AdviceError, match="different loads"):
        placement_swap(even, document(loads, after=[[100.0, 120.0]]))


def test_loads_of_different_clusters_are_refused() -> None:
    with pytest.raises(AdviceError, match="1 x 2 and 1 x 3"):
        swap([[1, 1]], [[1, 1, 1]])


def test_a_trace_without_experts_is_refused(tmp_path: Path) -> None:
    inferred = infer(TraceFile().kernel(ATTENTION, 1000, 100).trace(tmp_path))
    with pytest.raises(AdviceError, match="nothing here is experts' work"):
        placed_durations(inferred, HALVES)


def test_numbers_of_layers_may_be_large(tmp_path: Path) -> None:
    placed = swap([[100, 100], [150, 50]], [[100, 100], [100, 100]], layers=(1 << 40, 7))
    assert times_us(one_rank(tmp_path, layer=7), placed)[GROUPED] == pytest.approx(200 / 3)
