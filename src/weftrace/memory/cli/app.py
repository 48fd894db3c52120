"""`weftrace memory`: who held the memory of a device, by a trace or by a snapshot of torch's allocator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from weftrace.cli import options, outputs
from weftrace.cli.requests import command_of
from weftrace.options import Option

EPILOG = """[bold]Examples[/bold]

weftrace memory dump_snapshot.pickle                    what torch's allocator held, and the stacks of its peak

weftrace memory dump_snapshot.pickle -o memory.svg -o memory.json

weftrace memory train.json.gz                           the peak of a trace, and the operators that held it

weftrace memory train.json.gz --step 12

A snapshot is what torch.cuda.memory._dump_snapshot() writes. Only plain values are read of it; nothing of it is run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A file, and what of it."""

    file: Annotated[
        str,
        Option("A snapshot of torch's allocator, or a trace with memory events.", is_argument=True, metavar="FILE"),
    ]
    step: Annotated[int | None, Option("Of a trace: only ProfilerStep N.", metavar="N")] = None
    max_bytes: options.MaxBytes = options.DEFAULT_MAX_BYTES


def run(request: Request, to: outputs.Destination) -> None:
    """Show who held a device's memory at its peak: of a snapshot of torch's allocator, or of a trace."""
    from weftrace.memory.outputs import SNAPSHOT, TRACE_MEMORY
    from weftrace.memory.snapshots import is_snapshot

    max_bytes = options.parse_size(request.max_bytes, "--max-bytes")
    if is_snapshot(request.file):
        if request.step is not None:
            raise typer.BadParameter("a snapshot has no steps", param_hint="--step")
        from weftrace.memory.snapshot_of_memory import read_snapshot

        wanted = to.wanted(writes=SNAPSHOT, inputs=[request.file])
        with outputs.working("reading the snapshot"):
            snapshot = read_snapshot(request.file, max_bytes=max_bytes)
        outputs.deliver(snapshot, SNAPSHOT, wanted)
        return
    from weftrace.memory.of_traces import memory_of
    from weftrace.trace import Trace

    wanted = to.wanted(writes=TRACE_MEMORY, inputs=options.inputs_of([request.file]))
    with options.opened([request.file], ranks=None, max_bytes=request.max_bytes) as source:
        trace = source
    if not isinstance(trace, Trace):
        raise typer.BadParameter("it holds many files; give one", param_hint="FILE")
    outputs.deliver(memory_of(trace, step=request.step), TRACE_MEMORY, wanted)


def add_to(app: typer.Typer) -> None:
    """Add the wing's command to weftrace's."""
    app.command("memory", epilog=EPILOG)(command_of((Request, outputs.Destination), run, without=("open",)))
