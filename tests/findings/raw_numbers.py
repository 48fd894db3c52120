"""Computes the numbers that decide which findings a trace must have, from the raw JSON and with no code of weftrace.

`python -m tests.findings.raw_numbers FILE` prints them. Units stand in the names: `_us` microseconds, `_pct` percent.
A percentage is of the span of the device's work where the name says nothing else.
"""

from __future__ import annotations

import bisect
import gzip
import json
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

Intervals = list[tuple[int, int]]
Numbers = dict[str, float]

COMM = re.compile(r"nccl|rccl|dpsk::ep|deep_ep", re.IGNORECASE)
COMM_WAITS = re.compile(r"notify|get_dispatch_layout", re.IGNORECASE)
FLASH = re.compile(r"flash|fmha|attn|unified_attention", re.IGNORECASE)
SOFTMAX = re.compile(r"softmax", re.IGNORECASE)
CONV = re.compile(r"scudnn|convol|dgrad|wgrad|fprop", re.IGNORECASE)
GEMM = re.compile(r"(?<!fb)gemm|Cijk_|matmul", re.IGNORECASE)
FP32 = re.compile(r"sgemm|scudnn|simt|dgrad_engine|wgrad_alg0_engine")
# Names of kernels that are made for GPUs before this major compute capability.
OLDER = {
    9: re.compile(r"cutlass_[78]\d|ampere_|sm8\d|volta_|turing_"),
    8: re.compile(r"cutlass_7\d|volta_|turing_"),
}
LAYOUT = re.compile(r"nchwToNhwc|nhwcToNchw|batched_transpose")
COPY = re.compile(r"copy|cast|CatArray|transpose", re.IGNORECASE)
GLUE = re.compile(
    r"elementwise|reduce_|norm|_bn_|::bn_|copy|cast|CatArray|transpose|rotary|swiglu_|triton_poi|indexSelect|gather|expand",
    re.IGNORECASE,
)
HOST_WAITS = re.compile(r"Synchronize|MemcpyWithStream")
TINY_NS = 5_000
HELD_NS = 20_000


class Event(NamedTuple):
    name: str
    cat: str
    pid: Any
    tid: Any
    start: int
    end: int
    args: dict[str, Any]

    @property
    def dur(self) -> int:
        return self.end - self.start


def read(path: Path) -> tuple[dict[str, Any], list[Event]]:
    """The document without its events, and its complete events in order of start, in nanoseconds."""
    document = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)
    document = document if isinstance(document, dict) else {"traceEvents": document}
    events = [
        Event(
            e["name"],
            str(e.get("cat", "")),
            e["pid"],
            e["tid"],
            start,
            start + round(e["dur"] * 1000),
            e.get("args") or {},
        )
        for e in document.pop("traceEvents")
        if e.get("ph") == "X"
        for start in [round(e["ts"] * 1000)]
    ]
    return document, sorted(events, key=lambda event: (event.start, -event.end))


def union(intervals: Iterable[tuple[int, int]]) -> Intervals:
    found: Intervals = []
    for start, end in sorted(intervals):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        elif end > start:
            found.append((start, end))
    return found


def length(intervals: Intervals) -> int:
    return sum(end - start for start, end in intervals)


def common(left: Intervals, right: Intervals) -> int:
    """How long both hold, of two unions."""
    return length(left) + length(right) - length(union([*left, *right]))


def spans(events: Iterable[Event]) -> Intervals:
    return union((event.start, event.end) for event in events)


def pct(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 0.0


class Recording:
    """One file's events by their place: on the device, on the host, at the host's calls of the runtime."""

    def __init__(self, path: Path) -> None:
        self.document, self.events = read(path)
        self.device = [e for e in self.events if e.cat in ("kernel", "gpu_memcpy", "gpu_memset")]
        self.kernels = [e for e in self.device if e.cat == "kernel"]
        self.calls = [e for e in self.events if e.cat in ("cuda_runtime", "cuda_driver")]
        self.steps = [e for e in self.events if e.cat == "user_annotation" and e.name.startswith("ProfilerStep")]
        self.busy = spans(self.device)
        self.gaps = [(end, start) for (_, end), (start, _) in zip(self.busy, self.busy[1:], strict=False)]
        self.span = self.busy[-1][1] - self.busy[0][0] if self.busy else 0
        self.step = sum(step.dur for step in self.steps) / len(self.steps) if self.steps else self.span
        self.call_of = {e.args["correlation"]: e for e in self.calls if "correlation" in e.args}

    def ranges(self, pattern: str) -> list[Event]:
        return [
            e
            for e in self.events
            if e.cat in ("cpu_op", "user_annotation", "python_function") and re.search(pattern, e.name)
        ]


def raw_numbers(path: Path) -> Numbers:
    """Every number that the file's events allow."""
    run = Recording(path)
    if not run.device and not run.steps and any(e.name == "forward-compute" for e in run.events):
        return {name: round(number, 3) for name, number in ({"device_events": 0} | timeline(run)).items()}
    found: Numbers = {
        "device_events": len(run.device),
        "world_ranks": run.document.get("distributedInfo", {}).get("world_size", 1),
    }
    found |= steps(run) | host(run)
    if run.device:
        found |= idle(run) | waits(run) | families(run) | communication(run) | contention(run) | phases(run)
    return {name: round(number, 3) for name, number in found.items()}


def steps(run: Recording) -> Numbers:
    lengths = [step.dur for step in run.steps]
    rest = statistics.mean(lengths[1:]) if len(lengths) > 1 else 0
    return {
        "steps": len(lengths),
        "step_us": run.step / 1000,
        "first_step_over_others": lengths[0] / rest if rest else 0,
        "last_step_over_others": lengths[-1] / statistics.mean(lengths[:-1]) if rest else 0,
    }


def host(run: Recording) -> Numbers:
    """What the host did, whether or not there is work of a device."""

    def total(pattern: str) -> float:
        return length(spans(e for e in run.events if e.cat != "kernel" and re.search(pattern, e.name))) / 1000

    items = run.ranges(r"^aten::(_local_scalar_dense|nonzero|masked_select)$")
    loader = run.ranges(r"enumerate\(DataLoader\)")
    return {
        "items": len(items),
        "item_us": sum(e.dur for e in items) / 1000,
        "loader_us": length(spans(loader)) / 1000,
        "loader_pct_of_step": pct(length(spans(loader)), run.step * max(1, len(run.steps))),
        "malloc_calls": sum(bool(re.search(r"(cuda|hip)(Malloc|Free)$", e.name)) for e in run.calls),
        "compile_us": total(r"ModuleLoad|[Dd]ynamo.*compile|compile_fx|_compile\.compile_inner|[Aa]utotun"),
        "compiled_regions": len(run.ranges("Torch-Compiled Region")),
        "graph_launches": sum("GraphLaunch" in e.name for e in run.calls),
        "single_launches": sum(bool(re.search(r"Launch(Cooperative)?Kernel|ModuleLaunch", e.name)) for e in run.calls),
        "graph_launch_us": sum(e.dur for e in run.calls if "GraphLaunch" in e.name) / 1000,
        "longest_launch_us": max((e.dur for e in run.calls if "LaunchKernel" in e.name), default=0) / 1000,
        "gc_us": total(r"^gc$|gc\.collect|gc: collect"),
    }


def idle(run: Recording) -> Numbers:
    """Idle time by what the next piece of work waited for: its launch was late, or it was launched and did not run."""
    late = launch = held = held_long = 0
    firsts = {e.start: e for e in reversed(run.device)}
    loading = spans(run.ranges(r"enumerate\(DataLoader\)"))
    for start, end in run.gaps:
        call = run.call_of.get(firsts[end].args.get("correlation"))
        if call is None:
            continue
        late += max(0, min(end, call.start) - start)
        launch += max(0, min(end, call.end) - max(start, call.start))
        queued = end - max(start, call.end)
        held += max(0, queued)
        held_long += queued if queued >= HELD_NS else 0
    leads = [e.start - call.end for e in run.device if (call := run.call_of.get(e.args.get("correlation")))]
    tiny = [e for e in run.kernels if e.dur < TINY_NS]
    before = {end: end - start for start, end in run.gaps}
    return {
        "span_us": run.span / 1000,
        "idle_us": length(run.gaps) / 1000,
        "idle_pct": pct(length(run.gaps), run.span),
        "idle_launched_late_pct": pct(late, run.span),
        "idle_launched_late_without_loader_pct": pct(late - common(run.gaps, loading), run.span),
        "idle_in_launch_pct": pct(launch, run.span),
        "idle_though_queued_pct": pct(held, run.span),
        "idle_though_queued_20us_pct": pct(held_long, run.span),
        "idle_in_loader_us": common(run.gaps, loading) / 1000,
        "idle_in_loader_pct": pct(common(run.gaps, loading), run.span),
        "median_lead_us": statistics.median(leads) / 1000 if leads else 0,
        "kernels": len(run.kernels),
        "kernels_under_5us_pct": pct(len(tiny), len(run.kernels)),
        "kernels_under_5us_and_gaps_pct": pct(sum(e.dur + before.get(e.start, 0) for e in tiny), run.span),
    }


def waits(run: Recording) -> Numbers:
    """Calls in which the host waits for the device, and how long the device is idle once they return."""
    starts = [start for start, _ in run.gaps]

    def idle_after(events: Iterable[Event]) -> int:
        found = 0
        for at in {e.end for e in events}:
            i = bisect.bisect_right(starts, at) - 1
            found += max(0, run.gaps[i][1] - max(at, run.gaps[i][0])) if i >= 0 else 0
        return found

    blocking = [e for e in run.calls if HOST_WAITS.search(e.name)]
    inside = spans(run.ranges(r"^aten::(_local_scalar_dense|nonzero|masked_select)$"))
    in_item = [e for e in blocking if any(start <= e.start and e.end <= end for start, end in inside)]
    pageable = [e for e in run.device if "Pageable" in e.name]
    launches = [e for e in run.calls if "LaunchKernel" in e.name or "Memcpy" in e.name]
    return {
        "blocking_calls": len(blocking),
        "blocking_us": sum(e.dur for e in blocking) / 1000,
        "item_waits": len(in_item),
        "item_wait_us": sum(e.dur for e in in_item) / 1000,
        "idle_after_item_waits_us": idle_after(in_item) / 1000,
        "idle_after_item_waits_pct_of_step": pct(idle_after(in_item), run.step * max(1, len(run.steps))),
        "calls_of_100us": sum(e.dur >= 100_000 for e in launches),
        "calls_of_100us_us": sum(e.dur for e in launches if e.dur >= 100_000) / 1000,
        "pageable_copies": len(pageable),
        "pageable_copy_us": sum(e.dur for e in pageable) / 1000,
        "pageable_copy_pct_of_step": pct(sum(e.dur for e in pageable), run.step * max(1, len(run.steps))),
    }


def families(run: Recording) -> Numbers:
    """Shares of kernels' time, by their names."""
    total = sum(e.dur for e in run.kernels)

    def time(found: Iterable[Event]) -> int:
        return sum(e.dur for e in found)

    compute = [e for e in run.kernels if not COMM.search(e.name)]
    matrix = [e for e in compute if FLASH.search(e.name) or CONV.search(e.name) or GEMM.search(e.name)]
    apart = {id(e) for e in matrix}
    softmax = [e for e in compute if SOFTMAX.search(e.name) and not FLASH.search(e.name)]
    flash = [e for e in compute if FLASH.search(e.name)]
    conv = [e for e in compute if CONV.search(e.name) and not FLASH.search(e.name)]
    gemm = [e for e in compute if GEMM.search(e.name) and not FLASH.search(e.name) and not CONV.search(e.name)]
    glue = [e for e in compute if GLUE.search(e.name) and id(e) not in apart]
    copies = [e for e in compute if COPY.search(e.name) and id(e) not in apart]
    device = (run.document.get("deviceProperties") or [{}])[0]
    names = OLDER.get(device.get("computeMajor", 0)) if device.get("name", "").startswith(("NVIDIA", "Tesla")) else None
    older = time(e for e in gemm if names and names.search(e.name))
    copied = [e for e in run.device if e.cat == "gpu_memcpy" and "DtoD" in e.name]
    return {
        "kernel_us": total / 1000,
        "gemm_pct_of_kernels": pct(time(gemm), total),
        "conv_pct_of_kernels": pct(time(conv), total),
        "flash_pct_of_kernels": pct(time(flash), total),
        "softmax_pct_of_kernels": pct(time(softmax), total),
        "glue_pct_of_compute": pct(length(spans(glue)), length(spans(compute))),
        "glue_pct_of_kernels": pct(time(glue), total),
        "copies_pct_of_kernels": pct(time(copies) + time(copied), total),
        "layout_pct_of_kernels": pct(time(e for e in compute if LAYOUT.search(e.name)), total),
        "fp32_pct_of_gemm_and_conv": pct(
            time(e for e in gemm + conv if FP32.search(e.name) and "tensorop" not in e.name), time(gemm + conv)
        ),
        "fp32_pct_of_gemm": pct(time(e for e in gemm if FP32.search(e.name) and "tensorop" not in e.name), time(gemm)),
        "older_gemm_pct_of_gemm": pct(older, time(gemm)),
        "older_gemm_us": older / 1000,
    }


def communication(run: Recording) -> Numbers:
    """Communication by kernels' names, and what of it no computing kernel hides."""
    comm = [e for e in run.kernels if COMM.search(e.name)]
    covered, compute = spans(comm), spans(e for e in run.kernels if not COMM.search(e.name))
    exposed = length(covered) - common(covered, compute)
    alone = [e.dur - common([(e.start, e.end)], compute) for e in comm]
    waits = [e.dur for e in comm if COMM_WAITS.search(e.name)]
    fourth = max(1, len(waits) // 4)
    first = sum(alone[:2])
    tails = [ns for e, ns in zip(comm, alone, strict=True) if e.end > run.busy[-1][1] - run.span // 5]
    return {
        "comm_kernels": len(comm),
        "comm_us": length(covered) / 1000,
        "comm_pct": pct(length(covered), run.span),
        "exposed_us": exposed / 1000,
        "exposed_pct": pct(exposed, run.span),
        "comm_waiting_us": sum(e.dur for e in comm if COMM_WAITS.search(e.name)) / 1000,
        "comm_waiting_last_over_first_quarter": sum(waits[-fourth:]) / sum(waits[:fourth])
        if sum(waits[:fourth])
        else 0,
        "first_exposed_pct": pct(first, run.span),
        "last_transfer_exposed_pct": pct(max(tails, default=0), run.span),
    }


def contention(run: Recording) -> Numbers:
    """Memory-bound kernels of equal names and grids beside communication and alone, by their medians.

    Only kernels that take the same time alone, within 15 %: names and grids do not tell shapes apart.
    """
    covered = spans(e for e in run.kernels if COMM.search(e.name))
    groups: dict[tuple[str, str], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for e in run.kernels if covered else []:
        if GLUE.search(e.name) and not COMM.search(e.name) and not GEMM.search(e.name):
            share = common([(e.start, e.end)], covered) / max(1, e.dur)
            if share >= 0.9 or share <= 0.1:
                groups[e.name, str(e.args.get("grid"))][share <= 0.1].append(e.dur)
    both = [
        (beside, alone) for beside, alone in groups.values() if beside and alone and max(alone) <= 1.15 * min(alone)
    ]
    beside_ns = sum(statistics.median(beside) * len(beside) for beside, _ in both)
    alone_ns = sum(statistics.median(alone) * len(beside) for beside, alone in both)
    return {
        "glue_beside_over_alone": beside_ns / alone_ns if alone_ns else 0,
        "glue_beside_excess_pct": pct(beside_ns - alone_ns, run.span),
    }


def phases(run: Recording) -> Numbers:
    """The optimizer: kernels that its range launches, and its share of the steps.

    And DDP's work before the forward's first convolution, where it sends buffers to all ranks.
    """
    optimizer = [e for e in run.ranges(r"^Optimizer\.step#") if e.cat == "user_annotation"]
    covered = spans(optimizer)
    starts = [start for start, _ in covered]

    def inside(e: Event) -> bool:
        i = bisect.bisect_right(starts, e.start) - 1
        return i >= 0 and e.start < covered[i][1]

    launched = [e for e in run.kernels if (call := run.call_of.get(e.args.get("correlation"))) and inside(call)]
    whole = run.step * max(1, len(run.steps))
    convolutions = [e.start for e in run.ranges(r"^aten::conv2d$")]
    forwards = run.ranges(r"^DistributedDataParallel\.forward$")
    inside_forwards = [(e.start, [at for at in convolutions if e.start <= at < e.end]) for e in forwards]
    heads = [(start, min(ats)) for start, ats in inside_forwards if ats]
    return {
        "optimizer_kernels_a_step": len(launched) / max(1, len(run.steps)),
        "optimizer_pct_of_step": pct(length(covered), whole),
        "optimizer_kernel_pct_of_step": pct(sum(e.dur for e in launched), whole),
        "idle_in_optimizer_pct": pct(common(run.gaps, covered), run.span),
        "broadcasts_a_step": sum(e.name == "c10d::broadcast_" for e in run.events) / max(1, len(run.steps)),
        "idle_before_first_conv_us": sum(common(run.gaps, [head]) for head in heads) / 1000,
        "idle_before_first_conv_pct": pct(sum(common(run.gaps, [head]) for head in heads), run.span),
    }


def timeline(run: Recording) -> Numbers:
    """A job's timeline of ranges: compute of its stages and data-parallel ranks, and how long stages stand in between.

    A step's window lasts from the first to the last of all ranks' compute in it.
    """
    work = [e for e in run.events if e.name in ("forward-compute", "backward-compute")]
    threads = sorted({e.tid for e in work})
    ranks = sorted({e.pid for e in work})
    stages = [
        sum(e.dur for e in work if e.tid in threads[i : i + len(ranks)]) for i in range(0, len(threads), len(ranks))
    ]
    replicas = [sum(e.dur for e in work if e.pid == rank) for rank in ranks]
    by_step: dict[int, list[Event]] = defaultdict(list)
    for e in work:
        by_step[e.args["step"]].append(e)
    windows = sum(max(e.end for e in step) - min(e.start for e in step) for step in by_step.values())
    slowest = max(stages)
    return {
        "steps": len(by_step),
        "stages": len(stages),
        "slowest_stage": stages.index(slowest),
        "slowest_stage_over_mean": slowest * len(stages) / sum(stages),
        "slowest_replica_over_mean": max(replicas) * len(replicas) / sum(replicas),
        "standing_pct_of_windows": 100 - pct(sum(stages), windows * len(threads)),
        "standing_of_slowest_stage_pct": 100 - pct(slowest, windows * len(ranks)),
        "gc_us": sum(e.dur for e in run.events if e.name == "gc") / 1000,
    }


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(argument)
        for name, number in raw_numbers(Path(argument)).items():
            print(f"  {name:36} {number:,.3f}")
