"""Metadata of collectives, on the kernel or on the host's record of the call."""

from __future__ import annotations

from pathlib import Path

from tests.tracefile import ALL_REDUCE, GEMM, TraceFile
from weftrace.analysis import overlap
from weftrace.trace import work_of

RECORD = {"Collective name": "_allgather_base", "In msg nelems": 1000, "Out msg nelems": 4000, "dtype": "BFloat16",
          "Group size": 4, "Process Group Name": "7", "Seq": 12}  # fmt: skip


def test_a_kernel_takes_the_metadata_of_the_record_that_was_open_at_its_launch(tmp_path: Path) -> None:
    # record_param_comms   ├──────────┤ 100-120
    # launches                 x 110: NCCL kernel under a generic name     x 130: another, outside
    file = TraceFile().host("record_param_comms", 100, 20, cat="cpu_op", **RECORD)
    file.kernel("ncclDevKernel_Generic(int)", 200, 80, launch=110, stream=20)
    file.kernel(ALL_REDUCE, 300, 10, launch=130, stream=20)
    events = work_of(file.trace(tmp_path)).events
    assert events.get_column("collective").to_list() == ["all_gather", "all_reduce"]
    assert events.get_column("payload_elems").to_list() == [4000, None]
    assert events.get_column("comm_seq").to_list() == [12, None]
    row = overlap(work_of(file.trace(tmp_path))).collectives.row(0, named=True)
    # 8,000 bytes in 80 µs are 0.1 GB/s; an all-gather over 4 ranks moves 3/4 of it across links
    assert (row["payload_bytes"], row["algbw_GBps"], row["busbw_GBps"]) == (8000, 0.1, 0.075)


def test_a_record_does_not_make_communication_of_a_gemm_or_of_another_threads_kernel(tmp_path: Path) -> None:
    file = TraceFile().host("record_param_comms", 100, 20, cat="cpu_op", **RECORD)
    file.kernel(GEMM, 200, 10, launch=110).kernel("nobody_knows_me", 220, 10, launch=111, launch_tid=2)
    file.kernel("nobody_knows_me", 240, 10, launch=112)
    events = work_of(file.trace(tmp_path)).events
    assert events.get_column("kind").to_list() == ["compute", "compute", "communication"]


def test_the_kernels_own_metadata_comes_first(tmp_path: Path) -> None:
    file = TraceFile().host("record_param_comms", 100, 20, cat="cpu_op", **RECORD)
    file.kernel(ALL_REDUCE, 200, 10, launch=110)
    file.events[-1]["args"]["Collective name"] = "reduce_scatter"
    assert work_of(file.trace(tmp_path)).events.get_column("collective").to_list() == ["reduce_scatter"]
