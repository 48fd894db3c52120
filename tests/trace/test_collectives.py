"""Metadata of collectives, on the kernel or on the host's record of the call."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import polars as pl

from tests.tracefile import ALL_REDUCE, GEMM, NOTIFY, TraceFile, collective
from weftrace.analysis import overlap
from weftrace.trace import work_of
from weftrace.trace.job import read

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


SEND_RECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
RCCL = "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)"


def test_the_innermost_range_at_the_launch_names_a_grouped_kernel(tmp_path: Path) -> None:
    # c10d::alltoall_base_   ├────────────────┤ 100-140      launch 110, before nccl:, and 125 within
    #   nccl:all_to_all          ├────────┤     120-130
    file = TraceFile().host("my all_reduce of weights", 90, 100)
    file.host("c10d::alltoall_base_", 100, 40, cat="cpu_op").host("nccl:all_to_all", 120, 10)
    file.kernel(SEND_RECV, 200, 10, launch=110, stream=20).kernel(SEND_RECV, 220, 10, launch=125, stream=20)
    file.host("c10d::allgather_", 150, 9, cat="cpu_op").host("nccl:reduce_scatter_tensor_coalesced", 152, 3)
    file.kernel(SEND_RECV, 240, 10, launch=153, stream=20).kernel(SEND_RECV, 260, 10, launch=157, stream=20)
    file.kernel(SEND_RECV, 280, 10, launch=180, stream=20)  # in nobody's range but the user's own, which is a phase
    found = work_of(file.trace(tmp_path)).events.get_column("collective").to_list()
    assert found == ["all_to_all", "all_to_all", "reduce_scatter", "all_gather", "send_recv"]


def test_ranges_name_the_generic_kernels_of_rccl(tmp_path: Path) -> None:
    file = TraceFile()
    for number, said in enumerate(("nccl:all_gather", "nccl:_reduce_scatter_base", "nccl:barrier", "nccl:send 0->1")):
        file.host(said, 100 + 10 * number, 5)
        file.kernel(RCCL, 200 + 10 * number, 5, launch=101 + 10 * number, call="hipExtModuleLaunchKernel")
    events = work_of(file.trace(tmp_path)).events
    assert events.get_column("collective").to_list() == ["all_gather", "reduce_scatter", "barrier", "send_recv"]
    assert events.get_column("role").to_list() == ["data", "data", "barrier", "data"]


def test_a_group_of_operations_leaves_the_name_to_the_range_around_it_or_to_the_kernel(tmp_path: Path) -> None:
    file = (
        TraceFile().host("c10d::allgather_into_tensor_coalesced_", 100, 30, cat="cpu_op").host("nccl:coalesced", 110, 9)
    )
    file.kernel(RCCL, 200, 5, launch=115).host("nccl:coalesced", 150, 10).kernel(SEND_RECV, 300, 5, launch=155)
    assert work_of(file.trace(tmp_path)).events.get_column("collective").to_list() == ["all_gather", "send_recv"]


def test_metadata_comes_before_ranges_and_ranges_speak_for_communication_alone(tmp_path: Path) -> None:
    file = TraceFile().host("nccl:all_to_all", 100, 50).host("record_param_comms", 110, 5, cat="cpu_op", **RECORD)
    file.kernel(SEND_RECV, 200, 10, launch=112)  # the record states an all-gather
    file.kernel(SEND_RECV, 220, 10, launch=120, **collective("broadcast"))
    file.kernel(GEMM, 240, 10, launch=130).kernel(NOTIFY, 260, 10, launch=131)
    events = work_of(file.trace(tmp_path)).events
    assert events.get_column("collective").to_list() == ["all_gather", "broadcast", None, "barrier"]


def test_a_collective_on_the_cpu_counts_once(tmp_path: Path) -> None:
    # three records of one all-reduce, one within the other, and the second one's on a thread of gloo's
    # main  [c10d::allreduce_ 100-200 [record_param_comms 110-190 [gloo:all_reduce 120-180]]]  [c10d::allreduce_ 300-]
    # gloo                                                                                      [gloo:all_reduce 305-400
    record = {**RECORD, "Collective name": "allreduce"}
    file = TraceFile().host("c10d::allreduce_", 100, 100, cat="cpu_op")
    file.host("record_param_comms", 110, 80, cat="cpu_op", **record).host("gloo:all_reduce", 120, 60)
    file.host("optimizer", 290, 30).host("c10d::allreduce_", 300, 10, cat="cpu_op")
    file.host("gloo:all_reduce", 305, 95, tid=9).host("aten::mm", 500, 10, cat="cpu_op")
    work = work_of(file.trace(tmp_path))
    calls = work.events.filter(pl.col("kind") == "communication")
    spans = calls.select(pl.col("start_ns", "end_ns", "launch_ts_ns") // 1000).rows()
    assert spans == [(100, 200, 100), (305, 400, 300)]
    assert calls.get_column("phase").is_null().to_list() == [True, False]  # the phase of the thread that asked for it
    row = overlap(work).collectives.row(0, named=True)
    assert (row["collective"], row["num_events"], row["payload_bytes"]) == ("all_reduce", 2, 8000)


def test_collectives_of_gloo_that_overlap_on_a_thread_stay_apart(tmp_path: Path) -> None:
    # Asynchronous: gloo's range begins in the call and outlasts it, and the next call.
    # main    [c10d::allreduce_ 0-10]   [c10d::allreduce_ 20-30]
    #           [gloo:all_reduce 5-50]      [gloo:all_reduce 25-80]
    file = TraceFile()
    for start, end in ((0, 50), (20, 80)):
        file.host("c10d::allreduce_", start, 10, cat="cpu_op").host("gloo:all_reduce", start + 5, end - start - 5)
    events = work_of(file.trace(tmp_path)).events
    assert events.select(pl.col("start_ns", "end_ns") // 1000).rows() == [(0, 50), (20, 80)]


def test_a_call_whose_execution_was_not_recorded_still_counts(tmp_path: Path) -> None:
    file = TraceFile().host("gloo:broadcast", 0, 5, tid=9).host("c10d::broadcast_", 10, 5, cat="cpu_op")
    assert work_of(file.trace(tmp_path)).events.get_column("collective").to_list() == ["broadcast", "broadcast"]


def test_the_ranges_of_htas_two_ranks_name_kernels_that_are_all_called_send_recv(shared_data: Path) -> None:
    trace = read(shared_data / "hta-two-ranks" / "sampled_rank-0.json.gz")
    kernels = work_of(trace).events.filter(pl.col("kind") == "communication")
    assert kernels.get_column("name").cast(pl.String).str.contains("SendRecv").all()
    assert Counter(kernels["collective"]) == {"all_to_all": 4, "all_reduce": 4, "all_gather": 2}
