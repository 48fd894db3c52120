"""`weftrace profile train`, `prefill`, `decode`: one profile, or every combination of a sweep."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from weftrace.cli import outputs
from weftrace.moe.cli import request_options as options

if TYPE_CHECKING:
    from weftrace.moe.requests import Request
    from weftrace.moe.setting import Kind

Output = Annotated[
    list[str] | None,
    typer.Option(
        "-o",
        "--output",
        help="File to write, repeatable; its ending decides what. A folder, with a slash (out/), gets a trace a rank.",
        metavar="FILE",
        show_default=False,
        rich_help_panel=outputs.PANEL,
    ),
]
SweepAxes = Annotated[
    list[str] | None,
    typer.Option(
        "--sweep",
        help="Every combination of these values, repeatable: ep=8,16,32. Swept are model, hardware, ep, redundant, "
        "tokens, gpu-tokens, sequence, comm, comm-sms, overlap, costs, layers, ranks, routing, seed, spread, "
        "bandwidth-reached.",
        metavar="OPTION=A,B,…",
        show_default=False,
    ),
]
_WHAT: dict[Kind, str] = {
    "train": "Simulate training: a forward and a backward layer, overlapped as in DualPipe.",
    "prefill": "Simulate prefill: two micro-batches, one computes while the other's tokens travel.",
    "decode": "Simulate decoding: two micro-batches in five stages, whose transfers hold no SM.",
}
_EXAMPLE: dict[Kind, str] = {
    "train": "weftrace profile train --ranks 64 --routing random -o out/     a trace a rank, with stragglers",
    "prefill": "weftrace profile prefill --sweep ep=8,16,32,64 --sweep overlap=none,two-micro-batches -o sweep.json",
    "decode": "weftrace profile decode --ep 64 --sequence 8192 --json",
}
#: Options that mean nothing for a kind of profile, and that its command does not have.
_WITHOUT: dict[Kind, set[str]] = {
    "train": {"gpu_tokens", "tokens_per_request"}, "prefill": {"tokens_per_request"}, "decode": set(),
}  # fmt: skip


def add_to(commands: typer.Typer) -> None:
    """Add the command of each kind of profile."""
    for kind in _WHAT:
        epilog = (
            f"[bold]Examples[/bold]\n\nweftrace profile {kind} -o out/     the published profile, a trace that every "
            f"tool reads\n\n{_EXAMPLE[kind]}"
        )
        commands.command(kind, help=_WHAT[kind], epilog=epilog)(_command(kind))


def _command(kind: Kind) -> Callable[..., None]:
    """The command of a kind: all have the same options, but for those that mean nothing there."""

    def command(
        model: options.Model = "deepseek-v3",
        hardware: options.HardwareName = "h800",
        ep: options.Ep = None,
        redundant: options.Redundant = 0,
        tokens: options.Tokens = None,
        gpu_tokens: options.GpuTokens = None,
        sequence: options.Sequence = None,
        tokens_per_request: options.TokensPerRequest = None,
        comm: options.Comm = None,
        comm_sms: options.CommSms = None,
        overlap: options.OverlapName = None,
        costs: options.Costs = "published",
        layers: options.Layers = 4,
        ranks: options.Ranks = 1,
        routing: options.Routing = "balanced",
        seed: options.Seed = 0,
        spread: options.Spread = 0.0,
        bandwidth_reached: options.BandwidthReached = 1.0,
        loads: options.Loads = None,
        contention: options.Contention = False,
        sweep: SweepAxes = None,
        output: Output = None,
        json: outputs.Json = False,
        quiet: outputs.Quiet = False,
    ) -> None:
        request = options.request_of(
            kind, model=model, hardware=hardware, ep=ep, redundant=redundant, tokens=tokens, gpu_tokens=gpu_tokens,
            sequence=sequence, tokens_per_request=tokens_per_request, comm=comm, comm_sms=comm_sms, overlap=overlap,
            costs=costs, layers=layers, ranks=ranks, routing=routing, seed=seed, spread=spread,
            bandwidth_reached=bandwidth_reached, loads=loads, contention=contention,
        )  # fmt: skip
        _run(request, sweep, output, json=json, quiet=quiet)

    whole = inspect.signature(command, eval_str=True)
    kept = [each for name, each in whole.parameters.items() if name not in _WITHOUT[kind]]
    vars(command)["__signature__"] = whole.replace(parameters=kept)  # what Typer makes the options of
    return command


def _run(request: Request, axes: list[str] | None, output: list[str] | None, *, json: bool, quiet: bool) -> None:
    from weftrace.moe.outputs import PROFILE, SWEEP
    from weftrace.moe.requests import profile_of
    from weftrace.moe.sweeps.many_settings import parse_axes, sweep
    from weftrace.moe.trace_folders import check_folder, write_traces
    from weftrace.units import counted, size

    inputs = [path for path in (request.loads, request.overlap, request.costs) if path and os.path.isfile(path)]
    folders = [path for path in output or () if path.endswith(("/", os.sep)) or os.path.isdir(path)]
    files = [path for path in output or () if path not in folders]
    kind = SWEEP if axes else PROFILE
    for path in files:
        if "." not in os.path.basename(path) and path.strip("- "):
            raise typer.BadParameter(
                f"{path}: there is no such folder; for one with a trace a rank write {path}/", param_hint="--output"
            )
    wanted = outputs.wanted(files, writes=kind, inputs=inputs, json=json, quiet=quiet)
    if axes:
        if folders:
            raise typer.BadParameter(
                f"{folders[0]}: traces are written of one profile; a sweep has many", param_hint="--output"
            )
        with outputs.progress_bar("simulating") as on_progress:
            outputs.deliver(sweep(request, parse_axes(axes), on_progress=on_progress), kind, wanted)
        return
    for folder in folders:
        check_folder(folder, request.kind, request.ranks)
    profile = profile_of(request)
    for folder in folders:
        with outputs.progress_bar("writing traces") as on_progress:
            num_bytes = write_traces(profile, folder, on_progress=on_progress)
        typer.echo(f"wrote {folder}: {counted(profile.num_ranks, 'trace')} ({size(num_bytes)})", err=True)
    outputs.deliver(profile, kind, wanted)
