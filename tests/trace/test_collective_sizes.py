"""Sizes of collectives by the shapes of operators, where NCCL's metadata is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.tracefile import ALL_REDUCE, TraceFile, collective
from weftrace.analysis import bandwidth
from weftrace.analysis.arrival_times import arrivals
from weftrace.report import analyze
from weftrace.trace import work_of

GATHER = "ncclDevKernel_AllGather_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"
SCATTER = "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"
SEND_RECV = "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)"
CUSTOM = "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, vllm::RankSignals)"
BF16, FLOAT = "c10::BFloat16", "float"


def called(file: TraceFile, name: str, ts: float, dims: Any, types: Any, values: Any = None) -> TraceFile:
    """An operator of 40 µs with record_shapes."""
    args = {"Input Dims": dims, "Input type": types, **({"Concrete Inputs": values} if values else {})}
    return file.host(name, ts, 40, cat="cpu_op", **args)


def only(file: TraceFile, folder: Path) -> dict[str, Any]:
    (row,) = arrivals(work_of(file.trace(folder))).to_dicts()
    return {name: row[name] for name in ("payload_bytes", "group_size", "sized_by")}


@pytest.mark.parametrize(
    ("kernel", "name", "dims", "types", "values", "size", "ranks"),
    [
        # a list of tensors records no dtype: the kernel that reduces names it
        (ALL_REDUCE, "c10d::allreduce_", [[[100], [7, 3]], [], []], ["TensorList", "", ""], None, 121 * 2, None),
        (ALL_REDUCE, "c10d::allreduce_", [[], [], []], ["TensorList", "", ""], None, None, None),
        # what comes out is eight times what went in, so eight ranks
        (GATHER, "c10d::_allgather_base_", [[800], [100], []], [BF16, BF16, ""], None, 1600, 8),
        (SCATTER, "c10d::_reduce_scatter_base_", [[100], [400], []], [FLOAT, FLOAT, ""], None, 1600, 4),
        (SEND_RECV, "c10d::alltoall_base_", [[300], [200], []], ["long", "long", ""], None, 2400, None),
        (GATHER, "c10d::allgather_", [[], [[100]], []], ["", "TensorList", ""], None, None, None),
        (CUSTOM, "_C_custom_ar::all_reduce", [[], [8, 64], [8, 64], [], []], ["Scalar", BF16, BF16, "Scalar", "Scalar"],
         ["1", "", "", "2", "99"], 1024, None),
        (CUSTOM, "vllm::all_reduce", [[8, 64], []], [BF16, ""], ["", "tp:0"], 1024, None),
        (GATHER, "vllm::all_gather", [[8, 64], [], [], []], [BF16, "Scalar", "Scalar", ""], ["", "-1", "4", "tp"],
         4096, 4),
        (SCATTER, "vllm::reduce_scatter", [[8, 64], [], [], []], [FLOAT, "Scalar", "Scalar", ""], ["", "0", "4", "x"],
         2048, 4),
        (CUSTOM, "aiter::all_reduce_unreg", [[], [10], [9999], [10]], ["Scalar", BF16, "unsigned char", BF16], None,
         20, None),
        (SEND_RECV, "record_param_comms", [[500], [], []], ["unsigned char", "Scalar", ""], None, 500, None),
        (GATHER, "record_param_comms", [[500], [], []], ["unsigned char", "Scalar", ""], None, None, None),
        (ALL_REDUCE, "aten::copy_", [[500], [500]], [BF16, BF16], None, None, None),  # is none that communicates
        (ALL_REDUCE, "c10d::allreduce_", "[[1", ["TensorList"], None, None, None),
        (ALL_REDUCE, "c10d::allreduce_", [[[1 << 40, 1 << 40]]], ["TensorList"], None, None, None),
        (SEND_RECV, "c10d::alltoall_base_", [[True], [{}], []], ["long", "long", ""], None, None, None),
    ],
)  # fmt: skip
def test_shapes_tell_bytes_and_where_they_can_ranks(
    kernel: str, name: str, dims: Any, types: Any, values: Any, size: int | None, ranks: int | None, tmp_path: Path
) -> None:
    file = called(TraceFile(), name, 0, dims, types, values)
    file.kernel(kernel, 100, 50, launch=10)
    found = only(file, tmp_path)
    assert (found["payload_bytes"], found["group_size"]) == (size, ranks)
    assert found["sized_by"] == (None if size is None else "shapes")


def test_the_innermost_operator_counts_and_a_record_comes_last(tmp_path: Path) -> None:
    """A custom operator calls torch's, which writes a record of its input alone."""
    file = called(TraceFile(), "vllm::all_reduce", 0, [[1], []], [BF16, ""])
    file.host(
        "c10d::alltoall_base_", 1, 30, cat="cpu_op", **{"Input Dims": [[300], [200]], "Input type": ["int", "int"]}
    )
    file.host("record_param_comms", 2, 20, cat="cpu_op", **{"Input Dims": [[200]], "Input type": ["int"]})
    assert only(file.kernel(SEND_RECV, 100, 50, launch=10), tmp_path)["payload_bytes"] == 1200


def test_what_is_recorded_goes_first(tmp_path: Path) -> None:
    file = called(TraceFile(), "c10d::_allgather_base_", 0, [[800], [100]], [BF16, BF16])
    facts = {
        **collective("_allgather_base"),
        "In msg nelems": 5,
        "Out msg nelems": 10,
        "dtype": "Float",
        "Group size": 2,
    }
    assert only(file.kernel(GATHER, 100, 50, launch=10, **facts), tmp_path) == {
        "payload_bytes": 40, "group_size": 2, "sized_by": None
    }  # fmt: skip


def test_an_operator_that_launches_two_kernels_tells_the_size_of_neither(tmp_path: Path) -> None:
    file = called(TraceFile(), "c10d::alltoall_base_", 0, [[300], [200]], ["int", "int"])
    file.kernel(SEND_RECV, 100, 50, launch=10).kernel(SEND_RECV, 200, 50, launch=20)
    found = bandwidth([arrivals(work_of(file.trace(tmp_path)))])
    assert found is not None and found.rows.is_empty() and found.num_unsized == 2


def test_another_thread_s_operator_tells_nothing(tmp_path: Path) -> None:
    file = called(TraceFile(), "vllm::all_reduce", 0, [[8, 64], []], [BF16, ""])
    assert only(file.kernel(CUSTOM, 100, 50, launch=10, launch_tid=2), tmp_path)["payload_bytes"] is None


def test_two_ranks_of_known_sizes_have_the_busbw_of_nccl_tests(tmp_path: Path) -> None:
    """An all-gather of 2 x 4 MB that takes 100 µs once both are there: algbw 80 GB/s, busbw 80 x 1/2."""
    for rank, came in enumerate((0, 300)):
        file = TraceFile(rank=rank, world_size=2)
        for number in range(6):
            at = 1_000 * number
            called(file, "c10d::_allgather_base_", at, [[2_000_000], [1_000_000], []], [FLOAT, FLOAT, ""])
            file.kernel(GATHER, at + 100 + came, 400 - came, launch=at + 10)
        file.write(tmp_path / f"rank{rank}.json")
    block = analyze(tmp_path, timelines=False, workers=1).document["bandwidth"]
    assert block is not None
    (row,) = block["rows"]
    assert (row["basis"], row["payload_bytes"], row["group_size"], row["sized_by"]) == (
        "all ranks",
        8_000_000,
        2,
        "shapes",
    )
    assert (row["algbw_GBps"], row["busbw_GBps"]) == pytest.approx((80, 40))
    assert any("operator was called with" in note for note in block["notes"])


@pytest.mark.thorough
def test_two_gloo_ranks_move_what_they_were_given(tmp_path: Path) -> None:
    """All-reduces of 4 MB and all-gathers of 2 x 1 MB; the rate of the whole by hand from the raw files: the median
    duration of gloo's ranges."""
    pytest.importorskip("torch")
    subprocess.run([sys.executable, "-m", "tests.trace.gloo_sizes", str(tmp_path)], check=True, cwd=ROOT, timeout=120)
    paths = [tmp_path / f"rank{rank}.json" for rank in range(2)]
    raw = [json.loads(path.read_text()) for path in paths]
    block = analyze(str(tmp_path / "rank*.json"), timelines=False, workers=1).document["bandwidth"]
    assert block is not None
    rows = {row["collective"]: row for row in block["rows"]}
    for kind, size, factor in (("all_reduce", 4_000_000, 2 * 1 / 2), ("all_gather", 2_000_000, 1 / 2)):
        row = rows[kind]
        assert (row["payload_bytes"], row["group_size"], row["sized_by"]) == (size, 2, "shapes")
        took = [event["dur"] for file in raw for event in file["traceEvents"] if event.get("name") == f"gloo:{kind}"]
        assert row["whole_busbw_GBps"] == pytest.approx(factor * size / (1_000 * median(took)), rel=0.01)
        if row["transfer_ns"] is not None:
            assert row["busbw_GBps"] == pytest.approx(factor * size / row["transfer_ns"])
