"""Trace: what happened on one rank, in time. A measured run and a simulated run are the same value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Annotated, Literal

import msgspec
import polars as pl

from weftrace.notebook import InNotebook
from weftrace.trace.plain.values import Plain

_Limit = Annotated[int, msgspec.Meta(ge=1)]

#: What a device's multiprocessors are called: streaming multiprocessors, or compute units on AMD.
SmUnit = Literal["SMs", "CUs"]

#: Columns of `Trace.events`, one row a complete event, in file order. Times are absolute integer nanoseconds.
#: A column that a file does not fill is null throughout. A text that is too long (a list over 65,536 characters) is cut
#: and ends with "…": it is no JSON then.
EVENT_SCHEMA: dict[str, pl.DataType] = {
    "name": pl.Categorical(),
    "cat": pl.Categorical(),  # Kineto's category: kernel, gpu_memcpy, cpu_op, cuda_runtime, user_annotation ...
    "pid": pl.Categorical(),
    "tid": pl.Categorical(),
    "ts_ns": pl.Int64(),
    "dur_ns": pl.Int64(),
    "device": pl.Int32(),
    "stream": pl.Int64(),
    "correlation": pl.Int64(),  # joins a device event and its launch call
    "external_id": pl.Int64(),  # joins a launch call and its operator
    "flow_id": pl.Int64(),  # joins a device event and its launch call where correlation cannot
    "graph_id": pl.Int64(),  # CUDA graph
    "graph_node_id": pl.Int64(),
    "num_blocks": pl.Int64(),  # product of the launch grid
    "num_threads": pl.Int32(),  # threads a block
    "grid": pl.Categorical(),  # "[8,16,5]": the launch grid where it is more than [num_blocks, 1, 1]
    "block": pl.Categorical(),  # likewise
    "registers": pl.Int32(),  # a thread
    "shared_bytes": pl.Int32(),  # shared memory of a block
    "occupancy": pl.Int32(),  # percent, as the profiler estimates it
    "moved_bytes": pl.Int64(),  # of a memcpy or memset
    "sequence": pl.Int64(),  # autograd sequence number
    "forward_thread": pl.Int64(),  # of a backward operator
    "input_shapes": pl.Categorical(),  # of an operator's arguments, as JSON: [[1,512],[],[]]
    "input_types": pl.Categorical(),  # ["long int","Scalar","Scalar"]
    "input_strides": pl.Categorical(),  # [[512,1],[],[]]
    "input_values": pl.Categorical(),  # values of scalars, each as a text: ["","-1","False"]
    "stated_flops": pl.Int64(),  # of a kernel of torch.compile: what it states of itself ("kernel_flop")
    "call_stack": pl.Categorical(),  # of an operator, innermost frame first, where an old file has it as a text
    "collective": pl.Categorical(),  # NCCL's metadata: collective name ...
    "in_elems": pl.Int64(),
    "out_elems": pl.Int64(),
    "dtype": pl.Categorical(),
    "group": pl.Categorical(),  # process group name
    "group_size": pl.Int32(),
    "group_ranks": pl.Categorical(),
    "comm_seq": pl.Int64(),  # number of the collective in its group
    "src_rank": pl.Int32(),  # of a receive: the rank in the job that it is from
    "dst_rank": pl.Int32(),  # of a send: the one that it is for
    "wait_stream": pl.Int64(),  # cuda_sync: the stream waited for
    "wait_correlation": pl.Int64(),  # cuda_sync: correlation of the event record waited for
    "op_kind": pl.Categorical(),  # of a simulated device event: the class of its op in the plan
    "layer": pl.Int32(),  # of a simulated phase's host range: which repetition it is; of a run, names tell
    "micro_batch": pl.Int32(),
}

#: Columns of `Trace.frames`: the stretches of time in which a host thread was in a Python function or a module.
FRAME_SCHEMA: dict[str, pl.DataType] = {
    "name": pl.Categorical(),  # "nn.Module: Linear_0", "train.py(12): step"; of TorchScript an operator's hierarchy
    "cat": pl.Categorical(),  # python_function or module_hierarchy
    "pid": pl.Categorical(),
    "tid": pl.Categorical(),
    "ts_ns": pl.Int64(),
    "dur_ns": pl.Int64(),
}

#: Columns of `Trace.memory`: what was allocated and freed while the profiler recorded, an event each.
MEMORY_SCHEMA: dict[str, pl.DataType] = {
    "ts_ns": pl.Int64(),
    "pid": pl.Categorical(),
    "tid": pl.Categorical(),  # the thread that asked for it or gave it back
    "device_type": pl.Int32(),  # as torch numbers them: 0 the host, 1 CUDA, 6 HIP (c10/core/DeviceType.h)
    "device": pl.Int32(),  # its number; -1 of the host
    "address": pl.Int64(),
    "bytes": pl.Int64(),  # above 0 allocated, below it freed
    "allocated_bytes": pl.Int64(),  # by tensors of this device, after it; null in files of old versions
    "reserved_bytes": pl.Int64(),  # by the allocator from the device, after it; likewise
}

#: Names in `Trace.info` that tell how a trace was made begin with one of these.
CONFIGURED = ("profile.", "capture.")

#: Name in `Trace.info` of the number of ranks of each process group that a file lists, where all have as many.
GROUP_SIZE = "process_group_size"

DEVICE_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")
LAUNCH_CATEGORIES = (
    "cuda_runtime",
    "cuda_driver",
    "hip_runtime",
    "xpu_runtime",
    "xpu_driver",
    "mtia_runtime",
    "privateuse1_runtime",
    "privateuse1_driver",
)


def on_device() -> pl.Expr:
    """Kernels, memcpys and memsets: what a device did, on any stream, 0 included. Not GPU annotations or syncs."""
    return pl.col("cat").is_in(DEVICE_CATEGORIES)


def is_launch() -> pl.Expr:
    """Calls of the device runtime or driver on the host."""
    return pl.col("cat").is_in(LAUNCH_CATEGORIES)


def is_annotation() -> pl.Expr:
    """Host ranges that a person or framework named: `record_function`, NVTX."""
    return pl.col("cat") == "user_annotation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Device(InNotebook):
    """One accelerator as the file describes it; None where the file does not say.

    num_sms: SMs (NVIDIA) or compute units (AMD).
    capability: compute capability, (9, 0) of an H100; on AMD the beginning of the gfx number, (9, 4) of an MI300X.
    max_threads_per_sm, registers_per_sm, shared_bytes_per_sm: what one SM holds at most at one time. ROCm does not
    state registers.
    warp_size: threads of a warp, or of AMD's wavefront.
    max_threads_per_block: the most threads that a launch may ask for in one block.
    """

    id: int
    name: str = ""
    num_sms: int | None = None
    memory_bytes: int | None = None
    capability: tuple[int, int] | None = None
    max_threads_per_sm: _Limit | None = None
    registers_per_sm: _Limit | None = None
    shared_bytes_per_sm: _Limit | None = None
    warp_size: _Limit | None = None
    max_threads_per_block: _Limit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Track(InNotebook):
    """A process (tid is None) or a thread/stream, as the file's metadata names it."""

    pid: str
    tid: str | None = None
    name: str = ""
    labels: str = ""
    sort_index: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadQuality(InNotebook):
    """What reading left out, and why. Counts are events.

    dropped: reason -> events lost because they could not be used (bad JSON, no time, negative duration ...).
    repaired: reason -> events kept after a repair (control characters, NaN in an argument ...).
    skipped: kind -> well-formed events that weftrace does not use (flow arrows, instants, counters, Python stacks).
    truncated: where and why the file ended early, or None.
    examples: reason -> the first event of that kind, shortened, for a person to look up.
    unchecked: whether damage could not be told: of Parquet that weftrace wrote before it gave files a digest.
    """

    dropped: Mapping[str, int] = field(default_factory=dict)
    repaired: Mapping[str, int] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    truncated: str | None = None
    examples: Mapping[str, str] = field(default_factory=dict)
    unchecked: bool = False

    @property
    def num_dropped(self) -> int:
        return sum(self.dropped.values())

    @property
    def num_repaired(self) -> int:
        return sum(self.repaired.values())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trace(InNotebook):
    """One rank's events and what its file says of itself.

    events: frame with the columns of `EVENT_SCHEMA`.
    rank, world_size: from `distributedInfo`, else the file's name, else None.
    window_ns: (start, end) of the profiler's recording when the file states it, absolute nanoseconds.
    simulated: True where weftrace made the events rather than a profiler.
    plain: of a Chrome trace that no profiler of devices wrote, what its events are; it may hold many ranks, and then
    `rank` is None.
    frames: frame with the columns of `FRAME_SCHEMA`, in no order; None where they were not asked for (`frames=True`).
    memory: frame with the columns of `MEMORY_SCHEMA`, in order of time; None where the file has no such events
    (`profile_memory=True` of torch.profiler).
    """

    events: pl.DataFrame
    path: str = ""
    rank: int | None = None
    world_size: int | None = None
    devices: tuple[Device, ...] = ()
    tracks: tuple[Track, ...] = ()
    window_ns: tuple[int, int] | None = None
    backend: str | None = None
    simulated: bool = False
    info: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    quality: ReadQuality = field(default_factory=ReadQuality)
    plain: Plain | None = None
    frames: pl.DataFrame | None = None
    memory: pl.DataFrame | None = None

    def __eq__(self, other: object) -> bool:
        """Same events and same facts; where a trace was read from, and what reading it dropped, do not count."""
        if not isinstance(other, Trace):
            return NotImplemented
        facts = ("rank", "world_size", "devices", "tracks", "window_ns", "backend", "simulated")
        if (self.memory is None) != (other.memory is None):
            return False
        same_memory = self.memory is None or other.memory is None or self.memory.equals(other.memory)
        return (
            all(getattr(self, f) == getattr(other, f) for f in facts)
            and same_memory
            and self.events.equals(other.events)
        )

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return self.events.height

    def __repr__(self) -> str:
        rank = "?" if self.rank is None else self.rank
        return f"Trace({self.path or 'in memory'!r}, rank {rank} of {self.world_size or '?'}, {len(self):,} events)"

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "path", self.path or "in memory"
        yield "rank", f"{'?' if self.rank is None else self.rank} of {self.world_size or '?'}"
        yield "events", f"{len(self):,}, {'simulated' if self.simulated else 'measured'}"
        yield from (("device", f"{device.id} {device.name}") for device in self.devices)
        if self.quality.num_dropped or self.quality.truncated:
            yield "lost", f"{self.quality.num_dropped:,} events; {self.quality.truncated or 'the file is whole'}"

    @property
    def configuration(self) -> dict[str, str]:
        """How the trace was made, as far as it says: `profile.*` and `capture.*` of `info`, as "profile.ep": "64"."""
        return {key: value for key, value in self.info.items() if key.startswith(CONFIGURED)}

    @property
    def on_rocm(self) -> bool:
        """Whether an AMD device was driven: its name tells, or HIP's calls, where Kineto left the name empty."""
        if any(device.name.startswith("AMD") for device in self.devices):
            return True
        names = self.events.get_column("name").unique()
        hip = names.filter(names.cast(pl.String).str.starts_with("hip")).implode()
        return bool(self.events.select((is_launch() & pl.col("name").is_in(hip)).any()).item())

    @property
    def device_ids(self) -> tuple[int, ...]:
        """Devices that did work in this trace, ascending. More than one when one process drives several."""
        used = self.events.select("cat", "device").filter(on_device()).get_column("device").unique().drop_nulls()
        return tuple(sorted(used.to_list()))

    def device(self, device_id: int) -> Device:
        """What the file says of a device; a nameless `Device` where it says nothing.

        ROCm numbers the device of an event otherwise than in `deviceProperties`: where the number is not listed and
        all listed devices are alike, it is one of those.
        """
        if (known := next((d for d in self.devices if d.id == device_id), None)) is not None:
            return known
        alike = {replace(d, id=device_id) for d in self.devices}
        return alike.pop() if len(alike) == 1 else Device(id=device_id)


def events_frame(columns: Mapping[str, object], height: int) -> pl.DataFrame:
    """A frame of `EVENT_SCHEMA` from the columns at hand; absent ones are null. All columns have length `height`."""
    unknown = set(columns) - set(EVENT_SCHEMA)
    assert not unknown, f"not event columns: {unknown}"
    present = {name: columns[name] for name in EVENT_SCHEMA if name in columns}
    frame = pl.DataFrame(present, schema={name: EVENT_SCHEMA[name] for name in present}, strict=False)
    assert frame.height == height or not present, (frame.height, height)
    if not height:
        return pl.DataFrame(schema=EVENT_SCHEMA)  # a literal would make a row of nothing
    return frame.select(
        pl.col(name) if name in present else pl.lit(None, dtype=dtype).alias(name)
        for name, dtype in EVENT_SCHEMA.items()
    )
