"""What `weftrace experts` is asked for: the options of its commands."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from msgspec import Meta

from weftrace.cli.options import MaxBytes
from weftrace.experts.cli.options import DEFAULT_MAX_BYTES, parse_gpus, parse_numbers, parse_whole_numbers
from weftrace.files.schemas import Count, Positive
from weftrace.options import Option

Loads = Annotated[
    str,
    Option(
        "Expert loads: JSON, CSV, .npz, .npy, .pt or Parquet, plain or .gz; a file or folder that SGLang, vLLM or "
        "TensorRT-LLM recorded.",
        is_argument=True,
        metavar="LOADS",
    ),
]
Gpus = Annotated[Positive, Option("GPUs that share the experts.", metavar="G")]
Nodes = Annotated[Positive, Option("Nodes of the GPUs.", metavar="NODES")]
Groups = Annotated[Positive, Option("Groups of group-limited routing; 1 without groups.", metavar="N")]
WindowSteps = Annotated[Positive, Option("Recorded steps that are added up to one window.", metavar="N")]


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceRequest:
    """A placement for recorded loads, or with `old` a re-plan of one."""

    loads: Loads
    gpus: Gpus
    slots: Annotated[Positive | None, Option("Physical slots a layer, redundant ones included.", metavar="P")] = None
    nodes: Nodes = 1
    groups: Groups = 1
    policy: Annotated[str, Option("auto (by estimated cost), global, hierarchical or semi-hierarchical.")] = "auto"
    split: Annotated[str, Option("even: copies take equal parts. uneven: weftrace chooses the parts.")] = "even"
    slots_of_gpu: Annotated[
        list[int] | None,
        Option(
            "Slots GPU by GPU, not --slots: 9*31,8.",
            metavar="LIST",
            reads=partial(parse_whole_numbers, name="--slots-of-gpu"),
        ),
    ] = None
    speeds: Annotated[
        list[float] | None,
        Option(
            "Relative speed of each GPU: 1*30,0.9,0.8.", metavar="LIST", reads=partial(parse_numbers, name="--speeds")
        ),
    ] = None
    dead: Annotated[
        frozenset[int],
        Option("GPUs that lost their weights: 3,8-9.", metavar="GPUS", reads=partial(parse_gpus, name="--dead")),
    ] = frozenset()
    draining: Annotated[
        frozenset[int],
        Option("GPUs to empty, still readable: 3,8-9.", metavar="GPUS", reads=partial(parse_gpus, name="--draining")),
    ] = frozenset()
    pin: Annotated[
        tuple[str, ...], Option("EXPERT:GPU or LAYER:EXPERT:GPU that must hold; repeatable.", metavar="PIN")
    ] = ()
    budget: Annotated[
        int | None, Option("Slots over all layers together, spent where they gain most.", metavar="SLOTS")
    ] = None
    last: Annotated[Positive | None, Option("Plan on the last N recorded windows only.", metavar="N")] = None
    old: Annotated[
        str | None, Option("Start from this placement and move little.", flags=("--from",), metavar="JSON")
    ] = None
    max_moves: Annotated[str, Option("With --from: share of slots that may change, or all.", metavar="PART")] = "6%"
    hardware: Annotated[str, Option("Accelerator that policies and moves are priced for.")] = "H800"
    model: Annotated[
        str | None,
        Option("The model of the experts, for prices: deepseek-v3, or an expert's two widths, 7168x2048.",
               metavar="NAME"),
    ] = None  # fmt: skip
    time_budget: Annotated[float, Meta(ge=0.0), Option("Seconds to search for better.", metavar="S")] = 1.0
    window_steps: WindowSteps = 1
    max_bytes: MaxBytes = DEFAULT_MAX_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRequest:
    """Every combination of estimators, windows, intervals and solvers, on recorded loads."""

    loads: Loads
    slots: Annotated[Positive, Option("Physical expert slots a layer, redundant ones included.", metavar="P")]
    gpus: Gpus
    nodes: Nodes = 1
    groups: Groups = 1
    estimators: Annotated[str, Option("Of last, ema, mean, risk.", metavar="LIST")] = "last,mean,ema"
    windows: Annotated[str, Option("Windows that ema, mean and risk look back over.", metavar="LIST")] = "4,16"
    intervals: Annotated[str, Option("Windows between two re-plans.", metavar="LIST")] = "4,16"
    solvers: Annotated[str, Option("Of deepseek, balance, balance+resplit, replan.", metavar="LIST")] = (
        "deepseek,balance,balance+resplit,replan"
    )
    split: Annotated[str, Option("even or uneven parts for the copies of an expert.")] = "even"
    seed: Annotated[Count, Option("Of the bootstrap.")] = 0
    window_steps: WindowSteps = 1
    max_bytes: MaxBytes = DEFAULT_MAX_BYTES
