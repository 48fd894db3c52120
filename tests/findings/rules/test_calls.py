"""Rules of allocations, copies, FSDP's limit, optimizers and DDP, on small made traces."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.findings.rules.test_host import US, evidence_of, fired, launch
from tests.tracefile import GEMM, TraceFile, collective
from weftrace.advice.findings.advising import replays_of
from weftrace.advice.findings.rules.calls import allocator, fsdp_rate_limiter, pageable_copies
from weftrace.advice.findings.rules.host import host_bound, sync_every_step
from weftrace.advice.findings.rules.optimizer import ddp_overhead, optimizer_step
from weftrace.advice.findings.rules.pauses import gc_pause

HTOD, DTOH = "Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pageable)"
MALLOC, ADAM = "cudaMalloc", "Optimizer.step#AdamW.step"
PASS = "void at::native::multi_tensor_apply_kernel<TensorListMetadata<2>, BinaryOpListAlphaFunctor<float, 2, 2, 0>>"
FUSED = (
    "void at::native::multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4>, FusedAdamMathFunctor<float, 4>>"
)


def with_calls(us: float, calls: dict[int, str], *, kernel_us: float = 500, wait: str = "") -> TraceFile:
    """Steps of one kernel; in some an operator makes a call of so many µs before it launches that. wait: an annotation
    around the call."""
    file, at, free = TraceFile(), 10.0, 0.0
    for step in range(6):
        begin, took = at - 5, 0.0
        if call := calls.get(step, ""):
            took = us
            file.host(wait or "aten::empty", at, us + 2, cat="user_annotation" if wait else "cpu_op")
            file.host(call, at + 1, us, cat="cuda_runtime")
        at += took + 10
        start = max(at + 3, free)
        launch(file, at, start, kernel_us, op=4)
        free = start + kernel_us
        at += 10
        if "Event" not in call:
            at = max(at, free - 100)
        file.host(f"ProfilerStep#{step}", begin, at - begin - 6)
    return file


def test_allocations_in_steady_steps(tmp_path: Path) -> None:
    evidence = evidence_of(with_calls(2_000, dict.fromkeys(range(6), MALLOC)), tmp_path)
    one = fired(list(allocator(evidence)))
    charged = dict(evidence.idle.causes.select("cause", "ns").iter_rows())["allocation"]
    steady = 4 * (2_001 - 100) * US  # in each of the last four steps, from the end of the kernel before
    assert one.evidence[0].value == steady and one.cost_ns == steady * 6 // 4  # a step's in each of six
    assert charged == 5 * (2_001 - 100) * US  # before the second step too, which warms up
    assert one.evidence[1].value == 4 and "4 calls in 4 steps" in one.sentence
    names = evidence.trace.events.get_column("name").cast(str).gather(list(one.where.events)).to_list()
    assert names == [MALLOC] * 4
    gain, _ = replays_of(evidence).gain_of(one)
    assert gain is not None and gain.high_ns == round(one.cost_ns / 6)
    assert list(host_bound(evidence)) == list(sync_every_step(evidence)) == []


@pytest.mark.parametrize(
    ("us", "calls"),
    [
        (2_000, {0: MALLOC, 1: MALLOC}),  # while the cache fills
        (80, dict.fromkeys(range(6), MALLOC)),  # behind work that is still running
        (2_000, dict.fromkeys(range(6), "cudaHostAlloc")),  # another allocator's
        (2_000, dict.fromkeys(range(6), "cudaMallocAsync")),  # the driver's own cache
    ],
)
def test_allocations_that_cost_nothing(tmp_path: Path, us: float, calls: dict[int, str]) -> None:
    assert list(allocator(evidence_of(with_calls(us, calls), tmp_path))) == []


def copying(name: str, mib: float, us: float, *, op: str = "aten::copy_", beside: bool = False) -> TraceFile:
    """Steps that copy from or to pageable memory, which blocks the host, and then launch a kernel of 1 ms. beside:
    another kernel runs on another stream all the time."""
    file, at = TraceFile(), 10.0
    for step in range(4):
        begin = at - 5
        file.host(op, at, us + 24, cat="cpu_op")
        file.kernel(
            name, at + 10, us, launch=at + 1, cat="gpu_memcpy", call="cudaMemcpyAsync", bytes=int(mib * (1 << 20))
        )
        file.events[-2]["dur"] = us + 12  # the call returns when the copy has ended
        file.host("cudaStreamSynchronize", at + us + 14, 8, cat="cuda_runtime")
        at += us + 40
        launch(file, at, at + 3, 1_000, op=5)
        if beside:
            file.kernel(GEMM, at + 3, 1_000 + us + 60, launch=at + 2, stream=8)
        at += 1_010
        file.host(f"ProfilerStep#{step}", begin, at - begin - 6)
    return file


def test_copies_of_pageable_memory(tmp_path: Path) -> None:
    evidence = evidence_of(copying(HTOD, 64, 6_400), tmp_path)
    one = fired(list(pageable_copies(evidence)))
    copies, waits, moved = (number.value for number in one.evidence)
    assert copies == 4 * 6_400 * US and moved == 4 * 64 * (1 << 20)
    assert one.cost_ns == copies + waits and 0 < waits <= 4 * 60 * US
    assert "in aten::copy_, 64.0 MiB per step" in one.sentence
    gain, why = replays_of(evidence).gain_of(one)
    assert gain is not None, why
    pinned_us = 64 * (1 << 20) / (0.8 * 64e9) * 1e6  # of the H800's link
    assert gain.low_ns == pytest.approx((6_400 - pinned_us) * US, rel=0.05)
    assert gain.high_ns >= gain.low_ns


@pytest.mark.parametrize(
    ("mib", "us", "op", "beside"),
    [
        (0.001, 60, "aten::copy_", False),  # few bytes
        (64, 6_400, "aten::copy_", True),  # behind other work
        (0.000004, 60, "aten::_local_scalar_dense", False),  # a number that is read: another rule's
    ],
)
def test_copies_that_are_not_told(tmp_path: Path, mib: float, us: float, op: str, beside: bool) -> None:
    assert list(pageable_copies(evidence_of(copying(DTOH, mib, us, op=op, beside=beside), tmp_path))) == []


@pytest.mark.parametrize(("call", "told"), [("hipMemcpyWithStream", True), ("hipMemcpyAsync", False)])
def test_names_of_amd_do_not_tell_pageable_memory(tmp_path: Path, call: str, told: bool) -> None:
    file = copying("Memcpy HtoD (Host -> Device)", 64, 6_400)
    for event in file.events:
        event["name"] = call if event["name"] == "cudaMemcpyAsync" else event["name"]
    found = list(pageable_copies(evidence_of(file, tmp_path)))
    assert [(one.cost_ns >= 4 * 6_400 * US, one.confidence) for one in found] == [(True, "medium")] * told


def test_copies_to_the_host_stay_waits_for_it(tmp_path: Path) -> None:
    evidence = evidence_of(copying(DTOH, 64, 6_400), tmp_path)
    one = fired(list(pageable_copies(evidence)))
    assert one.least == one.most  # the host needs what is copied
    assert list(sync_every_step(evidence)) == []


GATHER = "ncclDevKernel_AllGather_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"


def limited(us: float, *, gathers: bool = True) -> TraceFile:
    """Each step the host waits for an event until a kernel is done, and works for a while before the next launch: of an
    all-gather, with a kernel after it."""
    file, at = TraceFile(world_size=2), 10.0
    for step in range(4):
        begin = at - 5
        if gathers:
            file.kernel(GATHER, at + 3, 50, launch=at, stream=8, **collective("_allgather_base"))
        launch(file, at + 6, at + 60, 300, op=4)
        file.host("cudaEventSynchronize", at + 9, 353, cat="cuda_runtime")
        at += 370 + us
        file.host(f"ProfilerStep#{step}", begin, at - begin - 6)
    return file


def test_the_rate_limiter_of_fsdp(tmp_path: Path) -> None:
    evidence = evidence_of(limited(60), tmp_path)
    one = fired(list(fsdp_rate_limiter(evidence)))
    assert one.evidence[1].value == 3 / 4 and one.is_bound  # nothing follows the last
    assert one.cost_ns >= 3 * 60 * US  # the host's work hides behind the kernel of the step before
    gain, why = replays_of(evidence).gain_of(one)
    assert gain is not None and gain.method == "bound", why
    assert gain.high_ns * 4 == pytest.approx(one.cost_ns, rel=0.01)


def test_other_waits_are_not_the_rate_limiters(tmp_path: Path) -> None:
    evidence = evidence_of(limited(60, gathers=False), tmp_path)
    assert list(fsdp_rate_limiter(evidence)) == []
    fired(list(sync_every_step(evidence)))


def updating(
    kernels: int, each_us: float, gap_us: float, *, kernel: str = PASS, passes_us: float = 1_000, steps: int = 3
) -> TraceFile:
    """Steps of one kernel of the passes, then an optimizer that launches kernels, each so many µs after the last."""
    file, at, free = TraceFile(), 10.0, 0.0
    for step in range(steps):
        begin = at - 5
        free = max(at + 3, free) + passes_us
        launch(file, at, free - passes_us, passes_us, op=4)
        at += 10
        at = start = max(at, free - each_us - gap_us)
        for _ in range(kernels):
            at += each_us + gap_us
            free = max(at + 1, free) + each_us
            file.host("aten::_foreach_add_", at - gap_us, gap_us + 2, cat="cpu_op")
            file.kernel(kernel, free - each_us, each_us, launch=at)
        at += 4
        file.host(ADAM, start, at - start)
        file.host(f"ProfilerStep#{step}", begin, at - begin + 2)
        at += 10
    return file


def test_an_optimizer_that_the_device_waits_in(tmp_path: Path) -> None:
    evidence = evidence_of(updating(50, 5, 45), tmp_path)
    one = fired(list(optimizer_step(evidence)))
    idle, kernels, launches = (number.value for number in one.evidence)
    assert launches == 50 and kernels == 150 * 5 * US
    assert idle == pytest.approx(3 * 50 * 45 * US, rel=0.03)
    assert one.cost_ns == idle + kernels * 2 // 3
    gain, why = replays_of(evidence).gain_of(one)
    assert gain is not None, why
    assert gain.high_ns * 3 == pytest.approx(one.cost_ns, rel=0.1)
    assert gain.low_ns * 3 == pytest.approx(
        150 * 25 * US, rel=0.02
    )  # an operator each 25 µs, behind which a kernel hides

    assert list(host_bound(evidence)) == []


def test_an_optimizer_of_many_passes_over_memory(tmp_path: Path) -> None:
    one = fired(list(optimizer_step(evidence_of(updating(120, 20, 0), tmp_path))))
    assert one.cost_ns == pytest.approx(3 * 120 * 20 * US * 2 / 3, rel=0.03)
    assert "launches 120 kernels in Optimizer" in one.sentence and "needless memory traffic" in one.sentence


@pytest.mark.parametrize(
    ("kernels", "each_us", "gap_us", "kernel", "passes_us"),
    [
        (120, 20, 0, FUSED, 1_000),  # as many as chunks of a large model, each done in one pass
        (50, 5, 45, PASS, 100_000),  # little of a step
        (10, 5, 0, PASS, 1_000),  # few
    ],
)
def test_optimizers_that_are_well(
    tmp_path: Path, kernels: int, each_us: float, gap_us: float, kernel: str, passes_us: float
) -> None:
    file = updating(kernels, each_us, gap_us, kernel=kernel, passes_us=passes_us)
    assert list(optimizer_step(evidence_of(file, tmp_path))) == []


def test_the_published_gpt_spends_most_of_its_step_in_the_optimizer(tmp_path: Path) -> None:
    """DeepSpeed's tutorial of its profiler: forward 1.89 s, backward 5.38 s, update 34.12 s of 41.39 s. What an update
    can reach is 4.2 s, here the time of kernels that each do a whole update: all else of it is to be saved."""
    s = 1e6
    kernels = 1_000
    each = 4.2 * s / kernels
    file = updating(kernels, each, (34.12 - 4.2) * s / kernels, kernel=FUSED, passes_us=(1.89 + 5.38) * s, steps=2)
    evidence = evidence_of(file, tmp_path)
    one = fired(list(optimizer_step(evidence)))
    assert evidence.step_ns == pytest.approx(41.39 * s * US, rel=0.01)
    assert one.cost_ns / 2 == pytest.approx((34.12 - 4.2) * s * US, rel=0.01)
    gain, why = replays_of(evidence).gain_of(one)
    assert gain is not None, why
    assert gain.high_ns == pytest.approx((34.12 - 4.2) * s * US, rel=0.01)
    assert gain.high_share == pytest.approx(29.92 / 41.39, rel=0.01)


def distributed(ranges: list[tuple[str, str]], us: float) -> TraceFile:
    """Steps that spend a while in ranges of DDP, all open at once, before they launch a kernel."""
    file, at = TraceFile(), 10.0
    for step in range(4):
        begin = at - 5
        for inner, (name, cat) in enumerate(ranges):
            file.host(name, at + inner, us - 2 * inner, cat=cat)
        at += us + 10
        launch(file, at, at + 3, 1_000, op=4)
        at += 1_010
        file.host(f"ProfilerStep#{step}", begin, at - begin - 6)
    return file


@pytest.mark.parametrize(
    ("ranges", "says"),
    [
        ([("DDP._sync_buffers", "user_annotation"), ("aten::copy_", "cpu_op")], "Buffers are sent by DDP"),
        ([("torch::distributed::reducer::search_unused_parameters", "cpu_op")], "Unused parameters"),
        ([("DataParallel.forward", "user_annotation"), ("Broadcast", "cpu_op")], "The model is sent to each device"),
    ],
)
def test_what_ddp_does_beside_the_passes(tmp_path: Path, ranges: list[tuple[str, str]], says: str) -> None:
    evidence = evidence_of(distributed(ranges, 300), tmp_path)
    one = fired(list(ddp_overhead(evidence)))
    assert one.cost_ns == pytest.approx(3 * 300 * US, rel=0.03) and says in one.sentence
    assert list(ddp_overhead(evidence_of(distributed(ranges, 3), tmp_path))) == []


def test_a_search_before_another_thread_launches(tmp_path: Path) -> None:
    file, at = TraceFile(), 10.0
    for step in range(6):
        begin = at - 5
        file.kernel(GEMM, at + 3, 1_000, launch=at)
        if step == 3:
            file.host("torch.distributed.ddp.reducer::search_unused_parameters", at + 10, 4_000, cat="cpu_op")
            at += 3_007
        at += 1_004
        file.host("MmBackward0", at - 1, 9, cat="cpu_op", tid=2)
        file.kernel(GEMM, at + 3, 1_000, launch=at, launch_tid=2)
        at += 1_008
        file.host(f"ProfilerStep#{step}", begin, at - begin - 6)
    evidence = evidence_of(file, tmp_path)
    one = fired(list(ddp_overhead(evidence)))
    assert one.cost_ns == pytest.approx(3_007 * US, rel=0.01)
    assert list(gc_pause(evidence)) == []


def test_data_parallel_sends_the_model_in_each_step(tmp_path: Path) -> None:
    file = distributed([("DataParallel.forward", "user_annotation"), ("Broadcast", "cpu_op")], 30)
    for at in (10, 1_060):
        file.kernel("ncclDevKernel_Broadcast_RING_LL(ncclDevComm*)", at + 10, 20, launch=at + 5, stream=8)
    one = fired(list(ddp_overhead(evidence_of(file, tmp_path))))
    idle, sending = (number.value for number in one.evidence)
    assert one.cost_ns == idle + sending and sending == 40 * US


def test_passes_of_ddp_are_no_overhead(tmp_path: Path) -> None:
    ranges = [("DistributedDataParallel.forward", "user_annotation"), ("aten::linear", "cpu_op")]
    assert list(ddp_overhead(evidence_of(distributed(ranges, 300), tmp_path))) == []
