"""The tables that questions are asked of: every column with its type and what it means, each said once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, TypedDict

import polars as pl
from msgspec import Meta

from weftrace.analysis.efficiency.values import OperatorRateRow, ShapeRow
from weftrace.errors import QueryError
from weftrace.files.columns import Column, columns_of
from weftrace.files.values import As

_INT, _FLOAT, _TEXT, _BOOL = pl.Int64(), pl.Float64(), pl.String(), pl.Boolean()


class ColumnRow(TypedDict):
    """A column of a table."""

    name: str
    type: str
    unit: Annotated[str, Meta(description="Empty for counts and names.")]
    meaning: str


def _column_rows(columns: Sequence[Column]) -> list[dict[str, Any]]:
    return [{"name": c.name, "type": str(c.dtype), "unit": c.unit, "meaning": c.meaning} for c in columns]


@dataclass(frozen=True, slots=True)
class Table:
    """A table that questions are asked of."""

    name: str
    meaning: Annotated[str, Meta(description="What a row is.")]
    columns: Annotated[tuple[Column, ...], As(list[ColumnRow], save=_column_rows)]

    @property
    def schema(self) -> dict[str, pl.DataType]:
        return {column.name: column.dtype for column in self.columns}


_RANK = Column("rank", _INT, "Rank of the file; null if neither the file nor its name has it.")
_DEVICE = Column("device", _INT, "Number of the device; null for work that no device did.")
_START = Column("start_ns", _INT, "Start, absolute.")
_END = Column("end_ns", _INT, "End, absolute.")
_DUR = Column("dur_ns", _INT, "end_ns - start_ns.")
_AT = Column("at_ns", _INT, "start_ns, counted from the first event of the file.")
_TIMES = (_START, _END, _DUR, _AT)
_ROW = Column("event", _INT, "Number of the event in its file: the column event of table events.")
_STEP = Column(
    "step", _INT, "ProfilerStep with the window of the device's time in which it starts; null outside all windows."
)
_PHASE_NAME = Column("phase", _TEXT, "Innermost annotation (record_function, NVTX) that holds its launch.")
_PHASE_ID = Column("phase_id", _INT, "The same phase in table phases.")
_OPERATOR = Column("operator", _TEXT, "Innermost PyTorch operator that holds its launch.")
_NAME = Column("name", _TEXT, "Name, as the profiler wrote it.")
_KIND = Column("kind", _TEXT, "compute, communication, memory (copies and sets), or fused: computes and communicates.")
_FAMILY = Column("family", _TEXT, "Family of kernels: gemm, attention, norm ..., by weftrace's kernel rules.")
_STREAM = Column("stream", _INT, "Stream of the device.")
_COLLECTIVE = Column("collective", _TEXT, "all_reduce, all_gather, dispatch ...; null if it is no communication.")
_ROLE = Column("role", _TEXT, "For communication: data (it moves data) or barrier (it only notifies and waits).")
_PAYLOAD = Column("payload_bytes", _INT, "For a collective, the larger of its input and its output, if recorded.")
_GROUP = Column("process_group", _TEXT, "Process group of a collective, by name.")
_GROUP_SIZE = Column("group_size", _INT, "Ranks in that group.")
_GROUP_RANKS = Column("group_ranks", _TEXT, "These ranks, as the profiler wrote them.")
_SEQ = Column("comm_seq", _INT, "Number of the collective in its group: the same on all its ranks.")
_TYPE = Column("dtype", _TEXT, "Type of the elements of a collective.")
_SRC = Column("src_rank", _INT, "For a receive: the rank that sends.")
_DST = Column("dst_rank", _INT, "For a send: the rank that receives.")
_OWN = Column(
    "own_ns", _INT, "Time by which it lengthens its part of the span: own_ns and idle time add up to the span, exactly."
)
_EXPOSED = Column(
    "exposed_ns", _INT, "For communication, time that neither compute nor earlier communication covers. For memory, "
    "time that neither of both covers. 0 for the rest. Adds up to the exposed time of the device, exactly.",
)  # fmt: skip
_HIDDEN = Column(
    "hidden_ns", _INT, "For communication and memory, the covered time. exposed_ns + hidden_ns add up to the union of "
    "communication, or of memory, exactly.",
)  # fmt: skip
_LAYER = Column("layer", _INT, "Layer, if a plan or the range's name has it.")
_MICRO_BATCH = Column("micro_batch", _INT, "Micro-batch, if a plan or the range's name has it.")
_IDLE_PARTS = (
    Column("idle_host_ns", _INT, "Part of idle_ns until the launch call of the event after it starts: docs/idle.md."),
    Column("idle_call_ns", _INT, "Part of idle_ns in that call."),
    Column("idle_launch_latency_ns", _INT, "Part of idle_ns after that call, up to the usual latency in the trace."),
    Column("idle_turnaround_ns", _INT, "Part of idle_ns in gaps of up to 30 µs before events launched in time."),
    Column("idle_held_ns", _INT, "Part of idle_ns in longer ones: the event was queued, but held."),
    Column(
        "idle_unrecorded_ns", _INT, "Part of idle_ns in which work ran that the file lacks; in none of the other parts."
    ),
    Column("idle_unknown_ns", _INT, "Part of idle_ns before events without a launch in the file."),
)
_CAUSE_NAMES = "data_loading, operators, launch_latency, unrecorded, unknown ...: docs/idle.md"
_GAP = Column("gap", _INT, "Number of the gap on its device: the same in gaps and idle.")
_NEXT = (
    Column("next_event", _INT, "The event that ends the gap, in table events."),
    Column("next_name", _TEXT, "Its name."),
)
_PREVIOUS = (
    Column("prev_event", _INT, "The event that ended as the gap began, in table events."),
    Column("prev_name", _TEXT, "Its name."),
)
#: Columns of a stretch of time that is accounted for.
_PARTS = (
    Column("span_ns", _INT, "Length: compute_ns + exposed_communication_ns + exposed_memory_ns + idle_ns, exactly."),
    Column("compute_ns", _INT, "Time in which compute ran, fused kernels too."),
    Column("communication_ns", _INT, "Time in which communication ran."),
    Column("hidden_communication_ns", _INT, "Of that, with compute beside it."),
    Column("exposed_communication_ns", _INT, "Of that, without compute."),
    Column("memory_ns", _INT, "Time in which copies or sets ran."),
    Column("exposed_memory_ns", _INT, "Of that, with neither compute nor communication beside it."),
    Column("idle_ns", _INT, "Time in which nothing ran."),
    *_IDLE_PARTS,
)

_EVENTS = Table(
    "events",
    "An event of the file, of host or device, in the order of the file. No kernel is classified for it.",
    (
        _RANK, _ROW, _NAME,
        Column("cat", _TEXT, "The profiler's category: kernel, gpu_memcpy, cpu_op, cuda_runtime, user_annotation ..."),
        Column("pid", _TEXT, "Process, or device."),
        Column("tid", _TEXT, "Thread, or stream."),
        *_TIMES,
        Column("device", _INT, "Number of the device, for events of a device."),
        _STREAM,
        Column("correlation", _INT, "The same number on a device event and its launch call."),
        Column("external_id", _INT, "The same number on a launch call and its operator."),
        Column("flow_id", _INT, "The same number at both ends of a flow arrow."),
        Column("graph_id", _INT, "CUDA graph that launched it."),
        Column("graph_node_id", _INT, "Its node of that graph."),
        Column("num_blocks", _INT, "Blocks of the launch grid."),
        Column("num_threads", _INT, "Threads of a block."),
        Column("grid", _TEXT, "Launch grid, if it is more than [num_blocks, 1, 1]."),
        Column("block", _TEXT, "Block, if it is more than [num_threads, 1, 1]."),
        Column("registers", _INT, "Registers of a thread."),
        Column("shared_bytes", _INT, "Shared memory of a block."),
        Column("occupancy", _INT, "Percent, as the profiler estimates it."),
        Column("moved_bytes", _INT, "Bytes of a copy or set."),
        Column("sequence", _INT, "Autograd's number of the operator: the same on forward and backward."),
        Column("forward_thread", _INT, "For a backward operator, the thread of its forward."),
        Column("input_shapes", _TEXT, "Shapes of an operator's arguments, as JSON."),
        Column("input_types", _TEXT, "Their types, as JSON."),
        Column("input_strides", _TEXT, "Their strides in elements, as JSON."),
        Column("input_values", _TEXT, "Values of its scalars, each as a text, as JSON."),
        Column("stated_flops", _INT, "FLOPs that torch.compile states for its kernel."),
        Column("call_stack", _TEXT, "For an operator, innermost frame first, if the file has it."),
        Column("collective", _TEXT, "Collective, in the words of the profiler."),
        Column("in_elems", _INT, "Elements that go into a collective."),
        Column("out_elems", _INT, "Elements that come out of it."),
        _TYPE, _GROUP, _GROUP_SIZE, _GROUP_RANKS, _SEQ, _SRC, _DST,
        Column("wait_stream", _INT, "For a recorded wait: the stream waited for."),
        Column("wait_correlation", _INT, "For a recorded wait: correlation of the event waited for."),
        Column("op_kind", _TEXT, "For a simulated event: the class of its op in the plan."),
        _LAYER, _MICRO_BATCH,
    ),
)  # fmt: skip
_WORK = Table(
    "work",
    "A kernel, copy or set of a device with its class and its launch, in order of start.",
    (
        _RANK, _DEVICE, _ROW, _NAME, _KIND, _FAMILY, _COLLECTIVE, _ROLE, _STREAM, *_TIMES, _STEP,
        Column("launched_step", _INT, "ProfilerStep that launched it."),
        _PHASE_NAME, _PHASE_ID, _OPERATOR,
        Column("operator_event", _INT, "That operator in table events: one number per call."),
        Column("part", _TEXT, "The part that own_ns adds to: compute, exposed communication, exposed memory."),
        _OWN, _EXPOSED, _HIDDEN,
        Column("gap_before_ns", _INT, "How long the whole device was idle before it started; 0 if it was busy."),
        Column("gap_cause", _TEXT, f"Cause of most of it: {_CAUSE_NAMES}; null without a gap."),
        Column("launch_ns", _INT, "Start of its launch call, absolute."),
        Column("launch_delay_ns", _INT, "start_ns - launch_ns: how far the device is behind the host."),
        Column("launch_tid", _TEXT, "Thread that launched it."),
        Column("num_blocks", _INT, "Blocks of the launch grid."),
        Column("sms", _INT, "min(blocks, SMs of the device): an upper bound, unless persistent."),
        Column("persistent", _BOOL, "Whether it holds one block per SM, so that sms is exact."),
        Column("moved_bytes", _INT, "Bytes of a copy or set."),
        _PAYLOAD, _TYPE, _GROUP, _GROUP_SIZE, _GROUP_RANKS, _SEQ, _SRC, _DST,
        Column("rule", _TEXT, "Kernel rule that matched; null: none did, and it counts as compute."),
    ),
)  # fmt: skip
_GAPS = Table(
    "gaps",
    "A stretch in which a device was idle, between its first and its last event.",
    (
        _RANK, _DEVICE, _GAP, *_TIMES, _STEP,
        Column("cause", _TEXT, f"Cause of most of it: {_CAUSE_NAMES}."),
        *_PREVIOUS, *_NEXT,
        Column("next_kind", _TEXT, "Its kind, as in work."),
        Column("next_family", _TEXT, "Its family."),
        Column("next_stream", _INT, "Its stream."),
        Column("next_operator", _TEXT, "The operator that launched it."),
        Column("next_phase", _TEXT, "The annotation that holds its launch."),
        Column("next_launch_ns", _INT, "Start of its launch call, absolute: after start_ns if the host was late."),
    ),
)  # fmt: skip
_IDLE = Table(
    "idle",
    "A piece of a gap with one cause, while the launching thread was in one range. Pieces add up to idle time.",
    (
        _RANK, _DEVICE, _GAP, *_TIMES, _STEP,
        Column("part", _TEXT, "host, call, launch_latency, held, turnaround or unknown: docs/idle.md."),
        Column("cause", _TEXT, f"Its cause: {_CAUSE_NAMES}."),
        Column("name", _TEXT, "Innermost range that was open on the launching thread, or null."),
        Column("name_kind", _TEXT, "Kind of that range: annotation, operator, frame (a Python function) or call."),
        Column("within", _TEXT, "The outermost range around it."),
        Column("call", _TEXT, "The call that launched the event at the end of the gap."),
        *_PREVIOUS, *_NEXT,
    ),
)  # fmt: skip
_PHASES = Table(
    "phases",
    "One occurrence of a host annotation with the device events launched in it, in order of the device.",
    (
        _RANK, _DEVICE, Column("phase_id", _INT, "Number of the phase, as in work."),
        Column("name", _TEXT, "Name of the annotation, without layer and micro-batch."),
        Column("occurrence", _INT, "How many of this name came before it in its step."),
        Column("step", _INT, "ProfilerStep with the host range in which it starts."),
        _LAYER, _MICRO_BATCH,
        Column("lane", _TEXT, "communication or compute: where most of its busy time is."),
        Column("start_ns", _INT, "First start of its device events, absolute."),
        Column("end_ns", _INT, "Last end of its device events, absolute."),
        _DUR, _AT,
        Column("busy_ns", _INT, "Time in which some event of it ran."),
        Column("compute_ns", _INT, "Time in which compute of it ran."),
        Column("communication_ns", _INT, "Time in which communication of it ran."),
        Column("data_ns", _INT, "Of that, in kernels that move data, not in those that wait."),
        Column("hidden_ns", _INT, "Of communication_ns, with any compute of the device beside it."),
        Column("exposed_ns", _INT, "Of communication_ns, without: communication_ns - hidden_ns."),
        Column("sms", _INT, "SMs of its persistent kernels."),
        Column("stream", _INT, "The stream that it used most."),
        Column("num_events", _INT, "Its device events."),
        Column("host_start_ns", _INT, "Start of the annotation on the host, absolute."),
        Column("host_end_ns", _INT, "Its end there."),
        Column("host_dur_ns", _INT, "host_end_ns - host_start_ns."),
        Column("tid", _TEXT, "Thread of the annotation."),
    ),
)  # fmt: skip
_STEPS = Table(
    "steps",
    "A ProfilerStep, or an iteration that a range of the host names, counted from 0: its window of the device's time, "
    "with all work in it. A file without steps has one row, with step null, for all its device work.",
    (
        _RANK, _DEVICE, Column("step", _INT, "Number of the ProfilerStep."), _START, _END, _AT, *_PARTS,
        Column("num_events", _INT, "Device events that start in the window."),
        Column("num_gaps", _INT, "Gaps that start in it."),
        Column("host_start_ns", _INT, "Start of the ProfilerStep on the host, absolute."),
        Column("host_end_ns", _INT, "Its end there."),
    ),
)  # fmt: skip
_COLLECTIVES = Table(
    "collectives",
    "An event of communication, as in work.",
    (
        _RANK, _DEVICE, _ROW, _COLLECTIVE, _ROLE, _NAME, _STREAM, *_TIMES, _STEP, _PHASE_NAME, _PHASE_ID, _OPERATOR,
        _EXPOSED, _HIDDEN, _PAYLOAD,
        Column("algbw_GBps", _FLOAT, "payload_bytes / dur_ns, in GB/s, 10^9 bytes per second."),
        Column("busbw_GBps", _FLOAT, "algbw times NCCL's factor: all-reduce 2(n-1)/n, all-gather, reduce-scatter and "
               "all-to-all (n-1)/n, others 1."),
        _TYPE, _GROUP, _GROUP_SIZE, _GROUP_RANKS, _SEQ, _SRC, _DST,
        Column("launch_delay_ns", _INT, "start - start of its launch call."),
    ),
)  # fmt: skip
_KERNELS = Table(
    "kernels",
    "All device events of one name, kind and family on a device.",
    (
        _RANK, _DEVICE, _NAME, _KIND, _FAMILY,
        Column("num_events", _INT, "Number of events."),
        Column("total_ns", _INT, "Sum of their durations."),
        Column("own_ns", _INT, "Sum of own_ns, as in work."),
        Column("share", _FLOAT, "total_ns / the sum over all kernels of the device."),
        Column("mean_ns", _INT, "Mean duration."),
        Column("p50_ns", _INT, "Median duration."),
        Column("p99_ns", _INT, "99 % are no longer."),
        Column("min_ns", _INT, "The shortest."),
        Column("max_ns", _INT, "The longest."),
        Column("sms", _INT, "min(blocks, SMs of the device), the value that held longest."),
        Column("sms_exact", _BOOL, "Whether they hold one block per SM; else sms is an upper bound."),
    ),
)  # fmt: skip
_OPERATORS = Table(
    "operators",
    "All calls of one operator on a device, with any shapes: their cost by the recorded shapes, and how fast they ran.",
    (_RANK, _DEVICE, *columns_of(OperatorRateRow)),
)
_SHAPES = Table(
    "shapes",
    "All calls of one operator with the same shapes, dtypes and cost on a device. Counts are of all calls together.",
    (_RANK, _DEVICE, *columns_of(ShapeRow)),
)
_QUEUE = Table(
    "queue",
    "A stretch of time with a constant number of device events that are launched and not yet started.",
    (
        _RANK, _DEVICE, *_TIMES,
        Column("queue_length", _INT, "Launches made minus device events started, without events that have no launch."),
    ),
)  # fmt: skip
_RANKS = Table(
    "ranks",
    "A device of a rank: facts from its file, and its whole time.",
    (
        _RANK, _DEVICE, Column("path", _TEXT, "File."),
        Column("world_size", _INT, "Ranks of the job, as the file says."),
        Column("device_name", _TEXT, "Name of the device."),
        Column("num_sms", _INT, "Its SMs, or compute units on AMD."),
        Column("basis", _TEXT, "Contents of table work: device events; host operators or ranges if there are none."),
        Column("simulated", _BOOL, "Whether weftrace simulated the trace."),
        Column("start_ns", _INT, "First device start, absolute."),
        Column("end_ns", _INT, "Last device end, absolute."),
        _AT, *_PARTS,
        Column("num_events", _INT, "Device events."),
        Column("num_steps", _INT, "ProfilerSteps that launched work."),
        Column("num_unlinked", _INT, "Device events without a launch in the file."),
        Column("num_clipped", _INT, "Device events with a duration that contradicts the recording, and was cut."),
        Column("num_dropped", _INT, "Events of the file that could not be read."),
    ),
)  # fmt: skip

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        _EVENTS, _WORK, _GAPS, _IDLE, _PHASES, _STEPS, _COLLECTIVES, _KERNELS, _OPERATORS, _SHAPES, _QUEUE, _RANKS,
    )
}  # fmt: skip


#: Columns whose values follow from what the host did, down to its Python functions.
_OF_FRAMES = {
    "gaps": {"cause"},
    "work": {"gap_cause"},
    "idle": {"cause", "name", "name_kind", "within"},
    "steps": {"idle_unrecorded_ns"},
    "ranks": {"idle_unrecorded_ns"},
}


def needs_frames(needs: Mapping[str, Collection[str]]) -> bool:
    """Whether columns that are wanted of tables take the Python frames of a file."""
    return any(_OF_FRAMES.get(name, set()) & set(columns) for name, columns in needs.items())


def table_named(name: str) -> Table:
    """Raises QueryError, with the nearest, where there is none."""
    if name not in TABLES:
        near = get_close_matches(name.lower(), TABLES, 1)
        hint = f" Do you mean {near[0]}?" if near else ""
        raise QueryError(f"there is no table {name}.{hint} Tables: {', '.join(TABLES)}.")
    return TABLES[name]


def tables_with(column: str) -> Iterator[str]:
    """Names of the tables that have a column."""
    return (table.name for table in TABLES.values() if column in table.schema)
