"""A run as a plan, and what a profiler would have recorded of it: operators, shapes, calls, kernels, NCCL's metadata.

A program issues host work and kernels thread by thread; `Recorder.traces` runs them with weftrace's engine for plans
and writes down what happened, one `Trace` per rank.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from weftrace.plan.model import Plan
from weftrace.plan.ops import Kind as OpKind
from weftrace.plan.ops import Op, Resource, Wait
from weftrace.plan.times import Timetable, reached_ns, timetable
from weftrace.trace.model import Device, Trace, Track, events_frame

US = 1_000
#: Time between two calls of a thread and between two kernels of a stream, and from a call to its kernel's start.
GAP_NS, LATENCY_NS = 1_000, 2_000
#: The profiler's clock when the run starts.
ORIGIN_NS = 1_700_000_000_000_000_000
COMPUTE, COPIES, COMMUNICATION = 7, 13, 20  # streams
MAIN, AUTOGRAD = 1, 2  # host threads, which are streams of the plan as well
_PID = 4_000
Kind = Literal["user_annotation", "cpu_op", "python_function"]
H100 = Device(
    id=0, name="NVIDIA H100 80GB HBM3 (simulated)", num_sms=132, memory_bytes=85_018_279_936, capability=(9, 0),
    max_threads_per_sm=2048, registers_per_sm=65_536, shared_bytes_per_sm=233_472, warp_size=32,
    max_threads_per_block=1024,
)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class _Range:
    """An annotation, operator or Python frame around host ops, from row `first` of the plan to row `last`."""

    name: str
    kind: Kind
    rank: int
    thread: int
    depth: int
    first: int
    last: int = -1
    columns: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class _Facts:
    """What a profiler records of an op beside its times. operators: around the call, the outermost first."""

    call: str = ""
    operators: tuple[str, ...] = ()
    kernel: str = ""
    launch: int = -1
    sync: tuple[str, int, dict[str, int]] | None = None  # kind of wait, its stream (-1: all), what for
    columns: dict[str, Any] = field(default_factory=dict)


class Recorder:
    """The ops of a run, in the order in which they are issued. noise: how far durations are off, as a share."""

    def __init__(self, name: str, *, seed: int, world_size: int, noise: float = 0.03) -> None:
        self.name, self.seed, self.world_size, self.noise = name, seed, world_size, noise
        self.ops: list[Op] = []
        self.facts: list[_Facts] = []
        self.ranges: list[_Range] = []
        self._drawn: Counter[str] = Counter()

    def about(self, ns: float, label: str) -> int:
        """`ns` with noise that depends on the seed, the label, and how often it was asked for; not on anything else."""
        self._drawn[label] += 1
        uniform = zlib.crc32(f"{self.seed} {label} {self._drawn[label]}".encode()) / 2**32
        return max(1, round(ns * (1 + self.noise * (2 * uniform - 1))))

    def add(self, op: Op, facts: _Facts) -> int:
        self.ops.append(op)
        self.facts.append(facts)
        return len(self.ops) - 1

    def plan(self) -> Plan:
        return Plan.of(
            self.ops, name=self.name, source="weftrace sample", device_name=H100.name, num_sms=H100.num_sms,
            world_size=self.world_size, gap_ns=GAP_NS,
        )  # fmt: skip

    def traces(self, **info: str) -> list[Trace]:
        """What each rank's profiler recorded. info: what the files say of themselves besides."""
        times = timetable(self.plan())
        return [self._trace(times, rank, info) for rank in times.plan.ranks]

    def _trace(self, times: Timetable, rank: int, info: dict[str, str]) -> Trace:
        rows = times.plan.rows_on(rank)
        host = rows[[self.ops[row].kind == "host" for row in rows]]
        began = dict(zip(host.tolist(), reached_ns(times, host).tolist(), strict=True))
        events: list[dict[str, Any]] = []
        for each in self.ranges:
            if each.rank == rank:
                wider = 45 * (11 - each.depth)
                start, end = began[each.first] - wider, int(times.end_ns[each.last]) + wider
                events.append(_host(each.name, each.thread, start, end, each.kind) | each.columns)
        operator_of: dict[int, int] = {}
        for row in rows.tolist():
            facts, op = self.facts[row], self.ops[row]
            if op.kind == "host":
                events += self._host_events(row, began[row], int(times.end_ns[row]), operator_of)
            else:
                events.append(_on_device(op, facts, int(times.start_ns[row]), int(times.end_ns[row]), operator_of))
        events.sort(key=lambda event: (event["ts_ns"], -event["dur_ns"]))
        columns = {name: [event.get(name) for event in events] for name in {key for event in events for key in event}}
        first = events[0]["ts_ns"]
        last = max(event["ts_ns"] + event["dur_ns"] for event in events)
        return Trace(
            events=events_frame(columns, len(events)), rank=rank, world_size=self.world_size, devices=(H100,),
            tracks=tuple(_tracks(self.ops[row].resource.stream for row in rows)), backend="nccl",
            window_ns=(first - 50 * US, last + 50 * US), simulated=True, info=info,
        )  # fmt: skip

    def _host_events(self, row: int, start: int, end: int, operator_of: dict[int, int]) -> Iterator[dict[str, Any]]:
        """The operators around a call, one in the other, then the call."""
        op, facts = self.ops[row], self.facts[row]
        thread = op.resource.stream
        for depth, name in enumerate(facts.operators):
            inner = facts.columns if depth == len(facts.operators) - 1 or name.startswith("aten::") else {}
            operator_of[row] = 10 * row + depth + 1
            yield {**_host(name, thread, start + 300 * (depth + 1), end - 100 * (depth + 1), "cpu_op"),
                   "external_id": operator_of[row], **inner}  # fmt: skip
        if facts.call:
            begin = start if not facts.operators else max(start + 300 * (len(facts.operators) + 1), end - 5 * US)
            yield {**_host(facts.call, thread, begin, end - 100 * (len(facts.operators) + 1), "cpu_op"),
                   "cat": "cuda_runtime", "correlation": row + 1,
                   "external_id": operator_of.get(row)}  # fmt: skip
        if facts.sync:
            kind, stream, waits = facts.sync
            yield {**_host(kind, thread, start, end, "cpu_op"), "cat": "cuda_sync", "pid": "0", "tid": str(stream),
                   "device": 0, "stream": stream, "correlation": row + 1, **waits}  # fmt: skip


@dataclass(slots=True)
class Thread:
    """A host thread of a rank: what it does, and what it launches. slow: factor on what its kernels take.

    ended, awaited: of each stream the last op on it, and ops of others that its next op waits for; one for all threads
    of a rank. pending: what the thread's next op waits for.
    """

    recorder: Recorder
    rank: int = 0
    number: int = MAIN
    slow: float = 1.0
    last: int = -1
    depth: int = 0
    ended: dict[int, int] = field(default_factory=dict)
    awaited: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    pending: list[str | int | Wait] = field(default_factory=list)

    @contextmanager
    def inside(self, name: str, kind: Kind = "user_annotation", **columns: Any) -> Iterator[None]:
        """A range around what is done in it, which must be something. columns: what else is recorded of it."""
        recorder = self.recorder
        before = self.last
        found = _Range(
            name=name, kind=kind, columns=columns, rank=self.rank, thread=self.number, depth=self.depth,
            first=len(recorder.ops),
        )  # fmt: skip
        recorder.ranges.append(found)
        self.depth += 1
        yield
        self.depth -= 1
        assert self.last != before, f"{name}: nothing is done in it"
        found.last = self.last

    def work(self, us: float) -> int:
        """Host work of which nothing but the ranges around it is recorded."""
        return self._host(us, _Facts())

    def synchronize(self, call: str, kind: str, streams: Sequence[int]) -> None:
        """A call that blocks until what was launched to these streams has ended."""
        facts = _Facts(call=call, sync=(kind, streams[0] if len(streams) == 1 else -1, {}))
        self._host(4, facts, [Wait(self.ended[stream], why="host") for stream in streams])

    def join(self, waiting: int, awaited: int) -> None:
        """What is launched next to one stream waits for what was launched last to another."""
        record = self._host(2, _Facts(call="cudaEventRecord"))
        waits = {"wait_stream": awaited, "wait_correlation": record + 1}
        self._host(2, _Facts(call="cudaStreamWaitEvent", sync=("Stream Wait Event", waiting, waits)))
        self.awaited[waiting].append(self.ended[awaited])

    def launch(
        self, operators: str, kernel: str, us: float, *, stream: int = COMPUTE, shapes: Sequence[Sequence[int]] = (),
        meet: int | None = None, host_us: float = 8.0, blocks: int = 1_056,
        call: str = "cudaLaunchKernel", num_bytes: int | None = None, sequence: int | None = None, **columns: Any,
    ) -> int:  # fmt: skip
        """Launch a kernel, or a copy of `num_bytes`, by the innermost of operators (parted by blanks). meet: ops of
        other ranks with the same number happen together with it. sequence: autograd's number of the operator. columns:
        what else is recorded of it."""
        sizes = {"input_shapes": json.dumps([list(shape) for shape in shapes], separators=(",", ":")),
                 "input_types": json.dumps(["c10::BFloat16"] * len(shapes), separators=(",", ":"))}  # fmt: skip
        facts = _Facts(
            call=call,
            operators=tuple(operators.split()),
            columns={"sequence": sequence} | (sizes if shapes else {}) | columns,
        )
        size = {"moved_bytes": num_bytes} if num_bytes else _grid(24 if stream == COMMUNICATION else blocks)
        return self._device(self._host(host_us, facts), kernel, us, stream, meet, size | columns)

    def graph(self, kernels: Sequence[tuple[str, float]], *, host_us: float) -> None:
        """Launch kernels by one call, as a CUDA graph."""
        launched = self._host(host_us, _Facts(call="cudaGraphLaunch"))
        for kernel, us in kernels:
            self._device(launched, kernel, us, COMPUTE, None, _grid(264) | {"graph_id": 1})

    def _host(self, us: float, facts: _Facts, waits: Sequence[Wait] = ()) -> int:
        label = f"{self.rank} host {facts.operators or facts.call}"
        self.last = self.recorder.add(
            Op(
                name=facts.call or "python", duration_ns=self.recorder.about(us * US, label), kind="host",
                resource=Resource(rank=self.rank, stream=self.number), after=(*self.pending, *waits),
            ),
            facts,
        )  # fmt: skip
        self.pending = []
        return self.last

    def _device(
        self, launched: int, kernel: str, us: float, stream: int, meet: int | None, columns: dict[str, Any]
    ) -> int:  # fmt: skip
        kind: OpKind = "memory" if "moved_bytes" in columns else "compute"
        if stream == COMMUNICATION:
            kind = "communication"
        ns = us * US * (self.slow if kind == "compute" else 1)
        self.ended[stream] = self.recorder.add(
            Op(
                name=kernel, duration_ns=self.recorder.about(ns, f"{self.rank if meet is None else ''} {kernel}"),
                kind=kind, meet=meet, resource=Resource(rank=self.rank, stream=stream),
                after=(Wait(launched, lag_ns=LATENCY_NS, why="launch"), *self.awaited.pop(stream, ())),
            ),
            _Facts(kernel=kernel, launch=launched, columns=columns),
        )  # fmt: skip
        return self.ended[stream]


def _grid(blocks: int) -> dict[str, Any]:
    return {"num_blocks": blocks, "num_threads": 256, "registers": 96, "shared_bytes": 0}


def _host(name: str, thread: int, start: int, end: int, kind: Kind) -> dict[str, Any]:
    return {
        "name": name, "cat": kind, "pid": str(_PID),
        "tid": str(_PID + thread), "ts_ns": ORIGIN_NS + start, "dur_ns": max(0, end - start),
    }  # fmt: skip


def _on_device(op: Op, facts: _Facts, start: int, end: int, operator_of: dict[int, int]) -> dict[str, Any]:
    stream = op.resource.stream
    return {
        "name": facts.kernel, "cat": "gpu_memcpy" if op.kind == "memory" else "kernel", "pid": "0", "tid": str(stream),
        "ts_ns": ORIGIN_NS + start, "dur_ns": end - start, "device": 0, "stream": stream,
        "correlation": facts.launch + 1, "external_id": operator_of.get(facts.launch), **facts.columns,
    }  # fmt: skip


def _tracks(resources: Iterator[int]) -> Iterator[Track]:
    yield Track(pid=str(_PID), name="python3 (simulated)", labels="CPU", sort_index=0)
    yield Track(pid="0", name="python3 (simulated)", labels="GPU 0", sort_index=1)
    for stream in np.unique(list(resources)).tolist():
        is_host = stream < COMPUTE
        name = {MAIN: "thread 1 (python3)", AUTOGRAD: "thread 2 (pt_autograd_0)"}.get(stream, f"stream {stream}")
        yield Track(pid=str(_PID) if is_host else "0", tid=str(_PID + stream if is_host else stream), name=name)
