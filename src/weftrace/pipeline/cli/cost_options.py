"""Where a command takes the costs of a chunk from: a trace, numbers in a file, or FLOPs and hardware."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from weftrace.pipeline.measured.told_costs import ToldCosts

PANEL = "What a chunk costs"

TraceFile = Annotated[
    str | None,
    typer.Option(
        "--trace",
        help="A trace whose phases are named by direction, attn(F), mlp(B), mlp(W) …, or the traces (a folder) of a "
        "pipeline that weftrace ran.",
        metavar="TRACE",
        show_default=False,
        rich_help_panel=PANEL,
    ),
]
CostsFile = Annotated[
    str | None,
    typer.Option(
        "--costs", help='JSON such as {"F_ms": 97.4, "I_ms": 111.6, "W_ms": 29.8, "F&B_ms": 129.0}.', metavar="JSON",
        show_default=False, rich_help_panel=PANEL,
    ),
]  # fmt: skip
FlopsFile = Annotated[
    str | None,
    typer.Option(
        "--flops",
        help="An estimate: the JSON of `weftrace flops MODEL --phase train`, whose batch is a micro-batch; needs "
        "--hardware.",
        metavar="JSON",
        show_default=False,
        rich_help_panel=PANEL,
    ),
]
HardwareName = Annotated[
    str | None,
    typer.Option(
        "--hardware", help="The accelerator: H800, H100 …: for --flops, and for MFU.", metavar="NAME",
        show_default=False, rich_help_panel=PANEL,
    ),
]  # fmt: skip
Chunks = Annotated[
    int | None,
    typer.Option(
        "--chunks",
        help="Forward chunks, and as many backward ones, that the trace holds in a step; one, where its phases tell "
        "no micro-batches.",
        min=1,
        metavar="N",
        show_default=False,
        rich_help_panel=PANEL,
    ),
]
WeightShare = Annotated[
    float | None,
    typer.Option(
        "--weight-share",
        help="Part of a full backward that is W, where the trace tells B alone: an assumption.",
        min=0,
        max=1,
        metavar="PART",
        show_default=False,
        rich_help_panel=PANEL,
    ),
]
LatencyUs = Annotated[
    float | None,
    typer.Option(
        "--latency-us", help="What a message between ranks needs on its way.", min=0, metavar="US", show_default=False,
        rich_help_panel=PANEL,
    ),
]  # fmt: skip


def told_costs(
    *, trace: str | None, costs: str | None, flops: str | None, hardware: str | None, num_stages: int,
    chunks: int | None, weight_share: float | None, latency_us: float | None,
) -> ToldCosts:  # fmt: skip
    """The costs of one of `num_stages` stages, from the one source that is given.

    Raises `typer.BadParameter` where none is given, or several.
    """
    from weftrace.pipeline.costs import need_times
    from weftrace.pipeline.measured.told_costs import costs_of_file, costs_of_trace, with_latency
    from weftrace.trace import open_trace

    given = [name for name, value in (("--trace", trace), ("--costs", costs), ("--flops", flops)) if value is not None]
    if len(given) != 1:
        said = f"{' and '.join(given)} are given" if given else "none is given"
        raise typer.BadParameter(f"give one of the three; {said}", param_hint="--trace, --costs, --flops")
    if trace is not None:
        told = costs_of_trace(open_trace(trace), chunks=chunks, weight_share=weight_share)
    elif costs is not None:
        told = costs_of_file(costs)
    else:
        assert flops is not None
        if hardware is None:
            raise typer.BadParameter("FLOPs become times on an accelerator: name it", param_hint="--hardware")
        from weftrace.facts import hardware as known_hardware
        from weftrace.pipeline.measured.flops_costs import costs_of_flops

        told = costs_of_flops(flops, known_hardware(hardware), num_stages)
    need_times(told.costs)
    return told if latency_us is None else with_latency(told, round(latency_us * 1_000))


def inputs_of(*paths: str | None) -> list[str]:
    """The files of this machine that are read."""
    from weftrace.cli.options import inputs_of as inputs

    return inputs([path for path in paths if path is not None])
