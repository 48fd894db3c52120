"""Random runs whose plan is known, and their traces as a profiler would have written them.

A run repeats a layer some times, in a step or more: phases, each a few kernels on its stream, that wait for each other
across streams in the same way in each layer. One host thread a rank launches them and may block; with `autograd` a
second one launches the later phases, of the last layer first, while the first waits. Nothing is a constant
that an inference could know: each launch, each wait, each pause between two kernels has a lag of its own, drawn
around a figure of the run, and a kernel's duration varies from layer to layer by up to a half.

The truth is a `Plan` without a gap. A trace tells of it what a profiler tells: kernels under names of real ones,
launches, ranges, and as `Shown` says calls that wait and records of waits, as Kineto writes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import polars as pl

from weftrace.plan import Op, Plan, Resource, Timetable, Wait, timetable
from weftrace.plan.times import reached_ns
from weftrace.trace import Trace, events_frame
from weftrace.trace.model import Device
from weftrace.units import US

#: What a file tells of waits between streams. records: Kineto's cuda_sync events, and the calls; calls: that streams
#: were told to wait, not for what, as DeepSeek's file; nothing: not even that. `hidden` shows a run in another way.
Shown = Literal["records", "calls", "nothing"]

HOST = 1000
ORIGIN_NS = 1_730_000_000_000_000_000
_PHASES = ("attn(F)", "dispatch(F)", "mlp(F)", "combine(F)", "attn(B)", "dispatch(B)", "mlp(B)", "combine(B)")
_NAMES = {
    "compute": (
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_nn_n_tilesize128x128x64_cublas",
        "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 64, 64, 4> >(Flash_fwd_params)",
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float> >(int)",
        "void deep_gemm::fp8_gemm_kernel<7168u, 4096u, 128u>(__nv_bfloat16*, float*)",
    ),
    "communication": (
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*, unsigned long, ncclWork*)",
        "ncclDevKernel_AllGather_RING_LL(ncclDevComm*, unsigned long, ncclWork*)",
        "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevComm*, unsigned long, ncclWork*)",
    ),
    "memory": ("Memcpy HtoD (Pinned -> Device)", "Memcpy DtoD (Device -> Device)", "Memset (Device)"),
}
_BLOCKS = ("cudaStreamSynchronize", "cudaEventSynchronize", "item")


@dataclass(slots=True, kw_only=True)
class _Kernel:
    """One kernel of a layer. mean_ns, spread: its durations, mean · (1 ± spread). after: kernels of the layer by number
    that it waits for, with how many layers before (0 or 1) and whether their event is recorded at once, or the stream
    is waited for as it stands when the wait is called.
    """

    name: str
    kind: Literal["compute", "communication", "memory"]
    stream: int
    phase: int
    mean_ns: float
    spread: float
    num_blocks: int | None
    after: list[tuple[int, int, bool]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """What all ranks and layers of a run have in common. *_ns: figures around which lags are drawn."""

    kernels: list[_Kernel]
    num_layers: int
    num_steps: int
    num_ranks: int
    call_ns: float
    work_ns: float
    latency_ns: float
    pause_ns: float
    crossing_ns: float
    blocks_after: int | None  # phase behind which the host blocks in each layer
    blocks_by: str
    device_sync: bool  # at the end of each step
    has_phases: bool
    whole_us: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A plan that was run, and by rows of the plan: crossings, waits between streams, a row each with op, on and the
    calls that recorded the event and that waited (`record`, `call`); syncs, the calls that wait, as `_records` takes
    them; places, for each op on a device (`row`) its `number` in the layer.
    """

    plan: Plan
    times: Timetable
    shape: _Shape
    crossings: pl.DataFrame
    syncs: pl.DataFrame
    places: pl.DataFrame

    def trace(self, rank: int = 0, shown: Shown = "records") -> Trace:
        """What a profiler on a rank would have written. Correlation ids are rows of the plan, plus one."""
        return _trace(self, rank, shown)


def random_run(seed: int, *, num_ranks: int | None = None, autograd: bool = False) -> Run:
    """The run of a seed, always the same one. num_ranks: None for 1 in most, up to 4 in some."""
    chance = np.random.default_rng(seed)
    shape = _drawn_shape(chance, num_ranks)
    drafts = _Draft(chance=chance, shape=shape, autograd=autograd)
    for rank in range(shape.num_ranks):
        drafts.add_rank(rank)
    plan = Plan.of(drafts.ops, name=f"run {seed}", num_sms=132, world_size=shape.num_ranks)
    return Run(
        plan=plan,
        times=timetable(plan),
        shape=shape,
        crossings=_frame(drafts.crossings, "op", "on", "record", "call"),
        syncs=_frame(drafts.syncs, "row", "name", "stream", "wait_stream", "record"),
        places=_frame(drafts.places, "row", "number"),
    )


def _frame(rows: list[Any], *columns: str) -> pl.DataFrame:
    schema = {column: pl.String if column == "name" else pl.Int64 for column in columns}
    return pl.DataFrame(rows, schema=schema, orient="row")


# --- the shape --------------------------------------------------------------------------------------------------------


def _drawn_shape(chance: np.random.Generator, num_ranks: int | None) -> _Shape:
    num_phases = int(chance.integers(2, 7))
    blocks = chance.random() < 0.35
    return _Shape(
        kernels=_drawn_kernels(chance, num_phases),
        num_layers=int(chance.integers(3, 9)),
        num_steps=int(chance.choice((1, 1, 1, 2, 3))),
        num_ranks=num_ranks or int(chance.choice((1, 1, 1, 1, 2, 3, 4))),
        call_ns=chance.uniform(1.5, 6) * US,
        work_ns=chance.uniform(1, 15) * US,
        latency_ns=chance.uniform(2, 9) * US,
        pause_ns=chance.uniform(0.8, 2.5) * US,
        crossing_ns=chance.uniform(0.8, 3) * US,
        blocks_after=int(chance.integers(num_phases)) if blocks else None,
        blocks_by=str(chance.choice(_BLOCKS)),
        device_sync=chance.random() < 0.5,
        has_phases=chance.random() < 0.85,
        whole_us=chance.random() < 0.25,
    )


def _drawn_kernels(chance: np.random.Generator, num_phases: int) -> list[_Kernel]:
    """Phases on the streams 7 (which computes) and one to three more; the first kernel of each waits as a rule."""
    others = chance.permutation((20, 23, 27, 31))[: int(chance.integers(1, 4))].tolist()
    communicates = others[: int(chance.integers(1, len(others) + 1))]
    kernels: list[_Kernel] = []
    last_of: list[int] = []  # of each phase, its last kernel
    firsts: list[int] = []
    for phase in range(num_phases):
        stream = 7 if phase == 0 else int(chance.choice((7, *others)))
        is_short = chance.random() < 0.3  # bound by the host that launches it
        kind = "communication" if stream in communicates else "compute"
        firsts.append(len(kernels))
        for _ in range(int(chance.integers(1, 3 if kind == "communication" else 6))):
            kernels.append(_drawn_kernel(chance, kind, stream, phase, is_short=is_short))
        last_of.append(len(kernels) - 1)
    for phase, first in enumerate(firsts):
        _draw_waits(chance, kernels, phase, first, last_of)
    return kernels


def _drawn_kernel(chance: np.random.Generator, kind: Any, stream: int, phase: int, *, is_short: bool) -> _Kernel:
    if kind == "compute" and chance.random() < 0.1:
        kind = "memory"
    low, high = (2, 12) if is_short else (30, 400)
    return _Kernel(
        name=str(chance.choice(_NAMES[kind])),
        kind=kind,
        stream=stream,
        phase=phase,
        mean_ns=float(np.exp(chance.uniform(np.log(low), np.log(high)))) * US,
        spread=float(chance.uniform(0.02, 0.5)),
        num_blocks={"compute": int(chance.integers(8, 4096)), "communication": 20, "memory": None}[kind],
    )


def _draw_waits(
    chance: np.random.Generator, kernels: list[_Kernel], phase: int, first: int, last_of: list[int]
) -> None:
    """The first kernel of a phase waits for one or two phases before it, of this layer or of the layer before."""
    stream = kernels[first].stream
    here = [(last, 0) for last in last_of[:phase] if kernels[last].stream != stream]
    there = [(last, 1) for last in last_of[phase:] if kernels[last].stream != stream]
    for candidates, share in ((here, 0.9), (there, 0.6 if not here else 0.2)):
        if candidates and chance.random() < share:
            number, back = candidates[int(chance.integers(len(candidates)))]
            kernels[first].after.append((number, back, bool(chance.random() < 0.6)))


#: Of each kernel of a layer, by number, its op and, where recorded at once, the call that recorded its event.
_Done = dict[int, tuple[int, int]]


# --- the plan ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class _Draft:
    """The plan of all ranks while it is written."""

    chance: np.random.Generator
    shape: _Shape
    ops: list[Op] = field(default_factory=list)
    crossings: list[tuple[int, int, int, int]] = field(default_factory=list)
    syncs: list[tuple[int, str, int, int, int]] = field(default_factory=list)
    places: list[tuple[int, int]] = field(default_factory=list)
    meets: dict[tuple[int, int, int], tuple[int, int]] = field(default_factory=dict)
    place: dict[str, Any] = field(default_factory=dict)  # phase, layer, step
    rank: int = 0
    last_on: dict[int, int] = field(default_factory=dict)
    autograd: bool = False
    thread: int = HOST
    handed: tuple[Wait, ...] = ()  # what the next call of the thread waits for: the other thread's last

    def jittered(self, around_ns: float) -> int:
        """Around a figure, skewed as latencies are."""
        return int(around_ns * np.exp(self.chance.normal(0, 0.25)))

    def add(self, op: Op) -> int:
        self.ops.append(op)
        return len(self.ops) - 1

    def host(self, name: str, around_ns: float, *after: Wait) -> int:
        after, self.handed = (*self.handed, *after), ()
        return self.add(
            Op(name=name, kind="host", duration_ns=self.jittered(around_ns), after=after,
               resource=Resource(rank=self.rank, stream=self.thread), **self.place)
        )  # fmt: skip

    def hand_over(self, thread: int) -> None:
        last = self.host("python", self.shape.work_ns)
        self.thread, self.handed = thread, (Wait(last, lag_ns=self.jittered(8 * US)),)

    def add_rank(self, rank: int) -> None:
        self.rank, self.last_on = rank, {}
        shape = self.shape
        for step in range(shape.num_steps):
            numbers = list(range(len(shape.kernels)))
            forward = [n for n in numbers if not self.autograd or shape.kernels[n].phase == 0]
            done: list[_Done] = [{} for _ in range(shape.num_layers)]
            for layer in range(shape.num_layers):
                self.add_layer(step, layer, forward, done[layer], done[layer - 1] if layer else {})
            if self.autograd:
                self.hand_over(HOST + 1)
                for layer in reversed(range(shape.num_layers)):
                    self.add_layer(step, layer, numbers[len(forward) :], done[layer], (done[layer + 1 :] or [{}])[0])
                self.hand_over(HOST)
            self.place = {"phase": None, "layer": None, "step": step}
            self.host("python", 5 * shape.work_ns)
            if shape.device_sync:
                self.block("cudaDeviceSynchronize", list(self.last_on))

    def add_layer(self, step: int, layer: int, numbers: list[int], done: _Done, before: _Done) -> None:
        """Kernels of a layer. done: is filled. before: of the layer before."""
        shape = self.shape
        at_once = {number for kernel in shape.kernels for number, _, early in kernel.after if early}
        for number in numbers:
            kernel = shape.kernels[number]
            self.place = {"phase": _PHASES[kernel.phase], "layer": layer, "step": step}
            self.host("python", shape.work_ns)
            awaited = [((done, before)[back].get(on), early) for on, back, early in kernel.after]
            crossings = [self.cross(kernel, *known, early=early) for known, early in awaited if known]
            op = self.launch(kernel, (step, layer, number), [on for on, _, _ in crossings])
            self.crossings += [(op, *crossing) for crossing in crossings]
            self.places.append((op, number))
            record = self.host("cudaEventRecord", shape.call_ns / 3) if number in at_once else -1
            done[number] = (op, record)
            ends_phase = number + 1 == len(shape.kernels) or shape.kernels[number + 1].phase != kernel.phase
            if kernel.phase == shape.blocks_after and ends_phase:
                self.block(shape.blocks_by, [kernel.stream])

    def cross(self, kernel: _Kernel, on: int, record: int, *, early: bool) -> tuple[int, int, int]:
        """The calls that make a stream wait: what it waits for in the end, the record, and the wait."""
        on_stream = self.ops[on].resource.stream
        if not early or record < 0:
            on, record = self.last_on[on_stream], self.host("cudaEventRecord", self.shape.call_ns / 3)
        call = self.host("cudaStreamWaitEvent", self.shape.call_ns / 3)
        self.syncs.append((call, "Stream Wait Event", kernel.stream, on_stream, record))
        return on, record, call

    def launch(self, kernel: _Kernel, where: tuple[int, int, int], crossings: Iterable[int] = ()) -> int:
        shape = self.shape
        duration_ns = int(kernel.mean_ns * (1 + self.chance.uniform(-kernel.spread, kernel.spread)))
        meet = None
        if kernel.kind == "communication" and shape.num_ranks > 1:
            meet, duration_ns = self.meets.setdefault(where, (len(self.meets), duration_ns))
        call = self.host("cudaMemcpyAsync" if kernel.kind == "memory" else "cudaLaunchKernel", shape.call_ns)
        after = [Wait(call, since="start", lag_ns=self.jittered(shape.latency_ns), why="launch")]
        if kernel.stream in self.last_on:
            after.append(Wait(self.last_on[kernel.stream], lag_ns=self.jittered(shape.pause_ns)))
        after += [Wait(on, lag_ns=self.jittered(shape.crossing_ns)) for on in crossings]
        op = self.add(
            Op(name=kernel.name, kind=kernel.kind, duration_ns=duration_ns, meet=meet,
               resource=Resource(rank=self.rank, stream=kernel.stream), after=tuple(after), **self.place)
        )  # fmt: skip
        self.last_on[kernel.stream] = op
        return op

    def block(self, name: str, streams: list[int]) -> None:
        """A host call that returns some time after what was launched to the streams has ended."""
        shape, record = self.shape, -1
        if name == "item":  # a copy to the host, and a wait for it
            copy = _Kernel(name="Memcpy DtoH (Device -> Pageable)", kind="memory", stream=streams[0], phase=0,
                           mean_ns=1.5 * US, spread=0.3, num_blocks=None)  # fmt: skip
            self.launch(copy, (-1, -1, -1))
            name = "cudaStreamSynchronize"
        if name == "cudaEventSynchronize":
            record = self.host("cudaEventRecord", shape.call_ns / 3)
            self.host("python", shape.work_ns)
        waits = [Wait(self.last_on[s], lag_ns=self.jittered(shape.latency_ns / 2), why="host") for s in streams]
        call = self.host(name, US / 2, *waits)
        kind = {"cudaDeviceSynchronize": "Context Sync", "cudaStreamSynchronize": "Stream Sync"}.get(name, "Event Sync")
        of_stream = streams[0] if kind == "Stream Sync" else -1
        self.syncs.append((call, kind, of_stream, streams[0] if record >= 0 else -1, record))


# --- the trace --------------------------------------------------------------------------------------------------------


def _trace(run: Run, rank: int, shown: Shown) -> Trace:
    rows = run.plan.rows_on(rank)
    ops = run.times.ops.with_row_index("row")[rows]
    host = ops.filter(kind="host")
    reached = reached_ns(run.times, host.get_column("row").to_numpy().astype(np.int64))
    host = host.with_columns(start_ns=pl.Series(reached))
    parts = [*_ranges(host, run.shape), _calls(host, shown), _kernels(ops.filter(pl.col("kind") != "host"), run)]
    if shown == "records":
        parts.append(_records(host, run))
    events = pl.concat([part for part in parts if len(part)], how="diagonal_relaxed").sort("ts_ns", maintain_order=True)
    if run.shape.whole_us:  # as Kineto wrote until 2024: start and duration, cut
        events = events.with_columns(pl.col("ts_ns", "dur_ns") // US * US)
    events = events.with_columns(pl.col("ts_ns") + ORIGIN_NS)
    return Trace(
        events=events_frame({name: events.get_column(name) for name in events.columns}, len(events)),
        rank=rank,
        world_size=run.shape.num_ranks,
        devices=(Device(id=0, name="NVIDIA H800", num_sms=132),),
    )


def _calls(host: pl.DataFrame, shown: Shown) -> pl.DataFrame:
    """Calls of the runtime; the time between them is Python's, of which nothing is recorded."""
    hidden = {"records": (), "calls": ("cudaEventRecord",), "nothing": ("cudaEventRecord", "cudaStreamWaitEvent")}
    return host.filter(pl.col("name") != "python", ~pl.col("name").cast(pl.String).is_in(hidden[shown])).select(
        pl.col("name").cast(pl.String), *_place("cuda_runtime"), *_extent(), correlation=pl.col("row") + 1
    )


def _kernels(ops: pl.DataFrame, run: Run) -> pl.DataFrame:
    launches = run.plan.waits.filter(why="launch").select(row="op", correlation=pl.col("on") + 1)
    blocks = {kernel.name: kernel.num_blocks for kernel in run.shape.kernels if kernel.num_blocks}
    name = pl.col("name").cast(pl.String)
    is_memset, is_memory = name.str.starts_with("Memset"), pl.col("kind") == "memory"
    return ops.join(launches, on="row", maintain_order="left").select(
        name,
        pl.when(is_memset).then(pl.lit("gpu_memset")).when(is_memory).then(pl.lit("gpu_memcpy"))
        .otherwise(pl.lit("kernel")).alias("cat"),
        *_extent(),
        "correlation",
        pid=pl.lit("0"), tid=pl.col("stream").cast(pl.String), device=pl.lit(0), stream="stream",
        num_blocks=name.replace_strict(blocks, default=None, return_dtype=pl.Int64),
        group=pl.when(pl.col("meet").is_not_null()).then(pl.lit("0")), comm_seq="meet",
        group_size=pl.when(pl.col("meet").is_not_null()).then(run.shape.num_ranks),
    )  # fmt: skip


def _ranges(host: pl.DataFrame, shape: _Shape) -> Iterator[pl.DataFrame]:
    """Phases, as record_function makes them, and steps of the profiler; on autograd's thread its nodes."""
    main, autograd = host.filter(stream=HOST), host.filter(pl.col("stream") > HOST)
    phase = pl.col("phase").cast(pl.String)
    node = pl.lit("autograd::engine::evaluate_function: MulBackward0")
    if shape.has_phases:
        yield _merged(main, ("step", "layer", "phase"), phase, "user_annotation")
    yield _merged(main, ("step",), pl.format("ProfilerStep#{}", "step"), "user_annotation")
    yield _merged(autograd, ("step", "layer", "phase"), node, "cpu_op")


def _merged(host: pl.DataFrame, keys: tuple[str, ...], name: pl.Expr, cat: str) -> pl.DataFrame:
    """A range around each run of calls that share the keys."""
    runs = host.filter(pl.col(keys[-1]).is_not_null()).with_columns(run=pl.struct(*keys).rle_id())
    return (
        runs.group_by("run", maintain_order=True)
        .agg(name.first().alias("name"), pl.col("start_ns").min(), pl.col("end_ns").max(), pl.col("stream").first())
        .select("name", *_place(cat), *_extent())
    )


def _records(host: pl.DataFrame, run: Run) -> pl.DataFrame:
    """Kineto's cuda_sync events, a stream of -1 where the host waits."""
    calls = host.select(pl.col("row").cast(pl.Int64), "start_ns", "end_ns")
    return calls.join(run.syncs, on="row", maintain_order="left").select(
        "name", *_extent(), "stream", cat=pl.lit("cuda_sync"), pid=pl.lit("0"), tid=pl.col("stream").cast(pl.String),
        device=pl.lit(0), correlation=pl.col("row") + 1,
        wait_stream=pl.when(pl.col("name").is_in(("Event Sync", "Stream Wait Event"))).then("wait_stream"),
        wait_correlation=pl.when(pl.col("record") >= 0).then(pl.col("record") + 1),
    )  # fmt: skip


def _place(cat: str) -> tuple[pl.Expr, ...]:
    tid = (pl.col("stream") - HOST + 4242).cast(pl.String)
    return pl.lit(cat).alias("cat"), pl.lit("4242").alias("pid"), tid.alias("tid")


def _extent() -> tuple[pl.Expr, ...]:
    return pl.col("start_ns").alias("ts_ns"), (pl.col("end_ns") - pl.col("start_ns")).alias("dur_ns")
