"""`weftrace profile train`, `prefill`, `decode`: one profile, or every combination of a sweep."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from weftrace.cli import outputs
from weftrace.cli.requests import command_of
from weftrace.moe.requests import PANELS, ModelPhase, Request
from weftrace.options import Option


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileDestination(outputs.Destination):
    """Where a profile goes, or a sweep."""

    output: Annotated[
        tuple[str, ...],
        Option(
            "File to write, repeatable; its ending decides what. A folder, with a slash (out/), gets "
            "one trace per rank.",
            ("-o", "--output"), metavar="FILE", panel=outputs.PANEL, shows_default=False,
        ),
    ] = ()  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """What is varied."""

    sweep: Annotated[
        tuple[str, ...],
        Option(
            "Every combination of these values, repeatable: ep=8,16,32. Swept are model, hardware, ep, redundant, "
            "tokens, gpu-tokens, sequence, comm, comm-sms, overlap, costs, layers, ranks, routing, seed, spread, "
            "bandwidth-reached.",
            metavar="OPTION=A,B,…",
        ),
    ] = ()


_WHAT: dict[ModelPhase, str] = {
    "train": "Simulate training: a forward and a backward layer, overlapped as in DualPipe.",
    "prefill": "Simulate prefill: two micro-batches, one computes while the other's tokens travel.",
    "decode": "Simulate decoding: two micro-batches in five stages; transfers hold no SM.",
}
_EXAMPLE: dict[ModelPhase, str] = {
    "train": "weftrace profile train --ranks 64 --routing random -o out/     one trace per rank, with stragglers",
    "prefill": "weftrace profile prefill --sweep ep=8,16,32,64 --sweep overlap=none,two-micro-batches -o sweep.json",
    "decode": "weftrace profile decode --ep 64 --sequence 8192 --json",
}
#: Options that mean nothing for a kind of profile, and that its command does not have.
_WITHOUT: dict[ModelPhase, set[str]] = {
    "train": {"gpu_tokens", "tokens_per_request"}, "prefill": {"tokens_per_request"}, "decode": set(),
}  # fmt: skip


def add_to(commands: typer.Typer) -> None:
    """Add the command of each kind of profile."""
    for kind in _WHAT:
        epilog = (
            f"[bold]Examples[/bold]\n\nweftrace profile {kind} -o out/     the published profile, a trace that every "
            f"tool reads\n\n{_EXAMPLE[kind]}"
        )
        command = command_of(
            (Request, Axes, ProfileDestination), run, fixed={"kind": kind}, without=_WITHOUT[kind], panels=PANELS
        )
        commands.command(kind, help=_WHAT[kind], epilog=epilog)(command)


def run(request: Request, axes: Axes, to: ProfileDestination) -> None:
    from weftrace.moe.outputs import PROFILE, SWEEP
    from weftrace.moe.requested import profile_of
    from weftrace.moe.sweeps import many_settings
    from weftrace.moe.trace_folders import check_folder, write_traces
    from weftrace.units import counted, size

    if request.tokens is not None and request.gpu_tokens is not None:
        raise typer.BadParameter("give one of the two", param_hint="--tokens, --gpu-tokens")
    inputs = [path for path in (request.loads, request.overlap, request.costs) if path and os.path.isfile(path)]
    folders = [path for path in to.output if path.endswith(("/", os.sep)) or os.path.isdir(path)]
    files = [path for path in to.output if path not in folders]
    writes = SWEEP if axes.sweep else PROFILE
    for path in files:
        if "." not in os.path.basename(path) and path.strip("- "):
            raise typer.BadParameter(
                f"{path}: there is no such folder; to write one trace per rank, give {path}/", param_hint="--output"
            )
    wanted = replace(to, output=tuple(files)).wanted(writes=writes, inputs=inputs)
    if axes.sweep:
        if folders:
            raise typer.BadParameter(
                f"{folders[0]}: traces are written of one profile; a sweep has many", param_hint="--output"
            )
        with outputs.progress_bar("simulating") as on_progress:
            found = many_settings.sweep(request, many_settings.parse_axes(axes.sweep), on_progress=on_progress)
            outputs.deliver(found, SWEEP, wanted)
        return
    for folder in folders:
        check_folder(folder, request.kind, request.ranks)
    profile = profile_of(request)
    for folder in folders:
        with outputs.progress_bar("writing traces") as on_progress:
            num_bytes = write_traces(profile, folder, on_progress=on_progress)
        typer.echo(f"wrote {folder}: {counted(profile.num_ranks, 'trace')} ({size(num_bytes)})", err=True)
    outputs.deliver(profile, PROFILE, wanted)
