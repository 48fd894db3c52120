"""What can be done with the values of the wing: see `weftrace.outputs`."""

from __future__ import annotations

from weftrace.analysis.memory import MemoryUse
from weftrace.memory.of_traces import TraceMemory, trace_table
from weftrace.memory.render.pictures import snapshot_figure, snapshot_svg, trace_figure, trace_svg, use_figure
from weftrace.memory.render.terminal import print_snapshot, print_trace_memory
from weftrace.memory.snapshot_of_memory import MemorySnapshot, snapshot_table
from weftrace.outputs import Output, text_writer

SNAPSHOT = Output(
    value=MemorySnapshot,
    schema="weftrace.memory_snapshot/1",
    title="A snapshot of torch's caching allocator",
    show=print_snapshot,
    table=snapshot_table,
    save={".svg": text_writer(snapshot_svg)},
    figures={"memory": snapshot_figure},
)
TRACE_MEMORY = Output(
    value=TraceMemory,
    schema="weftrace.memory/1",
    title="Memory over the recording of a trace",
    show=print_trace_memory,
    table=trace_table,
    save={".svg": text_writer(trace_svg)},
    figures={"memory": trace_figure},
)
#: What Python works with.
USE = Output(value=MemoryUse, figures={"memory": use_figure})

OUTPUTS: tuple[Output, ...] = (SNAPSHOT, TRACE_MEMORY, USE)
