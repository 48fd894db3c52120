"""Options that say what to simulate, shared by the commands of `weftrace profile`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from weftrace.cli.options import complete_from, complete_hardware

if TYPE_CHECKING:
    from weftrace.moe.requests import Request

_COUNTS = "Counts"
_COSTS = "Costs"


def _complete_model(incomplete: str) -> list[str]:
    from weftrace.moe.setting import known_moe_models

    return [name for name in known_moe_models() if name.startswith(incomplete.lower())]


def complete_overlap(incomplete: str) -> list[str]:
    """Names of the lists that begin so."""
    from weftrace.moe.overlap_files import known_overlaps

    return [name for name in known_overlaps() if name.startswith(incomplete)]


Model = Annotated[
    str,
    typer.Option(
        "--model",
        help="A model with routed experts that weftrace knows: deepseek-v3, qwen3-235b-a22b …",
        metavar="NAME",
        autocompletion=_complete_model,
    ),
]
HardwareName = Annotated[
    str,
    typer.Option(
        "--hardware",
        help="An accelerator: h800, h100, b200 …",
        metavar="NAME",
        autocompletion=complete_hardware,
    ),
]
Ep = Annotated[
    int | None,
    typer.Option("--ep", help="GPUs of a group of experts.", min=1, metavar="N", show_default=False),
]
Redundant = Annotated[
    int,
    typer.Option("--redundant", help="Experts that are held twice, as EPLB places copies.", min=0, metavar="N"),
]
Tokens = Annotated[
    int | None,
    typer.Option(
        "--tokens",
        help="Tokens of one micro-batch on one GPU. Without it, a GPU has the published profile's, however the list "
        "cuts them.",
        min=1,
        metavar="T",
        show_default=False,
    ),
]
GpuTokens = Annotated[
    int | None,
    typer.Option("--gpu-tokens", help="Or: of all micro-batches on one GPU.", min=1, metavar="T", show_default=False),
]
Sequence = Annotated[
    int | None,
    typer.Option(
        "--sequence", help="Length of a prompt; in decode of the cache.", min=1, metavar="S", show_default=False
    ),
]
TokensPerRequest = Annotated[
    int | None,
    typer.Option(
        "--tokens-per-request",
        help="In decode: tokens of a request in a step; 2 with one drafted token.",
        min=1,
        metavar="N",
        show_default=False,
    ),
]
CommName = Literal["deepep-v1", "deepep-v2", "fused"]
Comm = Annotated[
    CommName | None,
    typer.Option("--comm", help="Kernels that move tokens; by default what the list asks for.", show_default=False),
]
CommSms = Annotated[
    int | None,
    typer.Option("--comm-sms", help="SMs that they hold.", min=0, metavar="N", show_default=False),
]
OverlapName = Annotated[
    str | None,
    typer.Option(
        "--overlap",
        help="The operation list: none, training, two-micro-batches, five-stages, two-batch, dual-batch, chunked:N, "
        "waves, or a .toml file.",
        metavar="NAME|FILE",
        autocompletion=complete_overlap,
        show_default=False,
    ),
]
Costs = Annotated[
    str,
    typer.Option(
        "--costs",
        help="roofline, published, or a calibration's .json.",
        metavar="LEVEL|FILE",
        autocompletion=complete_from("roofline", "published"),
    ),
]
Layers = Annotated[int, typer.Option("--layers", help="Layers that are run.", min=1, metavar="L")]
Ranks = Annotated[int, typer.Option("--ranks", help="Ranks of the group that are simulated.", min=1, metavar="R")]
RoutingName = Literal["balanced", "random"]
Routing = Annotated[RoutingName, typer.Option("--routing", help="balanced, as published; random: drawn for each rank.")]
Seed = Annotated[int, typer.Option("--seed", help="Of random routing.", min=0, metavar="N")]
Spread = Annotated[
    float,
    typer.Option(
        "--spread",
        help="Of random routing: standard deviation of the logarithm of an expert's popularity; 0: all are alike.",
        min=0.0,
        max=3.0,
        metavar="X",
    ),
]
BandwidthReached = Annotated[
    float,
    typer.Option(
        "--bandwidth-reached",
        help="Part of the published bandwidth that transfers get; beside computation 0.55 to 0.78 was measured.",
        metavar="X",
    ),
]
Loads = Annotated[
    str | None,
    typer.Option(
        "--loads",
        "--placement",
        help="Loads of GPUs: a placement that `weftrace experts balance -o` wrote, or JSON whose `loads` lists layers "
        "of GPUs.",
        metavar="FILE",
        show_default=False,
    ),
]
Contention = Annotated[
    bool, typer.Option("--contention", help="Stretch what runs side by side, as measured in training.")
]


def request_of(kind: Literal["train", "prefill", "decode"], **given: object) -> Request:
    """What the options ask for. Raises `typer.BadParameter` for two options that say one thing."""
    from weftrace.moe.requests import Request

    if given.get("tokens") is not None and given.get("gpu_tokens") is not None:
        raise typer.BadParameter("give one of the two", param_hint="--tokens, --gpu-tokens")
    return Request(kind=kind, **given)  # type: ignore[arg-type]
