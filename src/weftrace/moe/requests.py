"""What to simulate, in names and numbers: what a command's options say, and what a sweep varies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from msgspec import Meta

from weftrace.files.schemas import Count, Positive
from weftrace.options import Option

ModelPhase = Literal["train", "prefill", "decode"]
PHASES: tuple[ModelPhase, ...] = get_args(ModelPhase)

#: Kernels that move tokens to their experts: DeepEP as it was when DeepSeek published its profiles (normal kernels; in
#: decode the low-latency ones), DeepEP since 2026, and one fused kernel that moves tokens and multiplies.
Comm = Literal["deepep-v1", "deepep-v2", "fused"]
COMMS: tuple[Comm, ...] = get_args(Comm)

Routing = Literal["balanced", "random"]


#: Heading in a command's help -> fields of a `Request`.
PANELS = {
    "The model and its GPUs": ("model", "hardware", "ep", "redundant", "tokens", "gpu_tokens", "sequence",
                               "tokens_per_request", "layers"),
    "How it overlaps, and what it costs": ("comm", "comm_sms", "overlap", "costs", "bandwidth_reached", "contention"),
    "How tokens are routed": ("ranks", "routing", "seed", "spread", "loads"),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One profile; what is None is the published profile's.

    With neither tokens nor gpu_tokens a GPU has the published profile's, whatever the list. loads: file with the loads
    of GPUs, [layers, ep].
    """

    kind: Annotated[ModelPhase, Option("Which profile.", is_argument=True)]
    model: Annotated[
        str,
        Option(
            "A model with routed experts that weftrace knows: deepseek-v3, qwen3-235b-a22b …",
            metavar="NAME",
            completes="weftrace.moe.setting:complete_model",
        ),
    ] = "deepseek-v3"
    hardware: Annotated[
        str,
        Option(
            "An accelerator: h800, h100, b200 …", metavar="NAME", completes="weftrace.cli.options:complete_hardware"
        ),
    ] = "h800"
    ep: Annotated[Positive | None, Option("GPUs of a group of experts.", metavar="N")] = None
    redundant: Annotated[Count, Option("Experts that are held twice, as EPLB places copies.", metavar="N")] = 0
    tokens: Annotated[
        Positive | None,
        Option(
            "Tokens of one micro-batch on one GPU. Without it, a GPU has the published profile's, however the list "
            "cuts them.",
            metavar="T",
        ),
    ] = None
    gpu_tokens: Annotated[Positive | None, Option("Or: of all micro-batches on one GPU.", metavar="T")] = None
    sequence: Annotated[Positive | None, Option("Length of a prompt; in decode of the cache.", metavar="S")] = None
    tokens_per_request: Annotated[
        Positive | None,
        Option("In decode: tokens of a request in a step; 2 with one drafted token.", metavar="N"),
    ] = None
    comm: Annotated[Comm | None, Option("Kernels that move tokens; by default what the list asks for.")] = None
    comm_sms: Annotated[Count | None, Option("SMs that they hold.", metavar="N")] = None
    overlap: Annotated[
        str | None,
        Option(
            "The operation list: none, training, two-micro-batches, five-stages, two-batch, dual-batch, chunked:N, "
            "waves, or a .toml file.",
            metavar="NAME|FILE",
            completes="weftrace.moe.overlap_files:complete_overlap",
        ),
    ] = None
    costs: Annotated[
        str,
        Option(
            "roofline, published, or a calibration's .json.",
            metavar="LEVEL|FILE",
            completes="roofline published",
        ),
    ] = "published"
    layers: Annotated[Positive, Option("Layers that are run.", metavar="L")] = 4
    ranks: Annotated[Positive, Option("Ranks of the group that are simulated.", metavar="R")] = 1
    routing: Annotated[Routing, Option("balanced, as published; random: drawn for each rank.")] = "balanced"
    seed: Annotated[Count, Option("Of random routing.", metavar="N")] = 0
    spread: Annotated[
        float,
        Meta(ge=0.0, le=3.0),
        Option(
            "Of random routing: standard deviation of the logarithm of an expert's popularity; 0: all are the same.",
            metavar="X",
        ),
    ] = 0.0
    bandwidth_reached: Annotated[
        float,
        Option(
            "Part of the published bandwidth that transfers get; beside computation 0.55 to 0.78 was measured.",
            metavar="X",
        ),
    ] = 1.0
    loads: Annotated[
        str | None,
        Option(
            "Loads of GPUs: a placement that `weftrace experts balance -o` wrote, or JSON with `loads`, a list of "
            "layers of GPUs.",
            flags=("--loads", "--placement"),
            metavar="FILE",
        ),
    ] = None
    contention: Annotated[bool, Option("Stretch what runs side by side, as measured in training.")] = False
