"""A profile executed: its operation list on the layers of a small model, on gloo or NCCL, timed, and recorded.

    torchrun --nproc-per-node 4 -m weftrace.moe.run prefill --layers 4 --hidden 256 --profile out/
    weftrace report out/

The command stands above what it joins: `weftrace.moe.runtime` runs the list and knows nothing of recordings, and
`weftrace.capture` records steps and knows nothing of lists.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weftrace.cli.requests import command_of
from weftrace.errors import ProfileError, WeftraceError
from weftrace.files.schemas import Positive
from weftrace.installing import install_command
from weftrace.moe.requests import ModelPhase
from weftrace.options import Option
from weftrace.units import counted, duration

if TYPE_CHECKING:
    from weftrace.capture import Recording
    from weftrace.facts.models import ModelConfig
    from weftrace.moe.runtime.processes import Ran

#: kind -> tokens of a micro-batch on a rank, and length of a prompt or of the cache: a second on a laptop.
SMALL: dict[ModelPhase, tuple[int, int]] = {"train": (256, 256), "prefill": (512, 256), "decode": (64, 256)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """Which list is run, on how large a model, how, and whether it is recorded."""

    kind: Annotated[ModelPhase, Option("Which profile.", is_argument=True)]
    overlap: Annotated[str, Option("The operation list: a name or a .toml file; as published if left out.")] = ""
    model: Annotated[str, Option("A mixture-of-experts model, by name.")] = "tiny-mla"
    hidden: Annotated[Positive, Option("Its width; its experts' width goes along.")] = 256
    experts: Annotated[Positive | None, Option("Its experts, all ranks' together; as it has them if left out.")] = None
    layers: Annotated[Positive, Option("Layers, all of them with experts.")] = 4
    tokens: Annotated[Positive | None, Option("Per micro-batch on a rank; a few hundred if left out.")] = None
    sequence: Annotated[Positive | None, Option("Of a prompt, or of the cache; 256 if left out.")] = None
    ep: Annotated[
        Positive | None, Option("Ranks of the group; a process alone stands for several with copies for messages.")
    ] = None
    steps: Annotated[Positive, Option("Steps that are timed.")] = 8
    balanced: Annotated[
        bool,
        Option(
            "Experts: equally many tokens each, or as random weights of the gate choose.",
            ("--balanced/--random-routing",),
        ),
    ] = True
    exact: Annotated[bool, Option("Rows travel as they are, not in FP8 and BF16.")] = False
    dtype: Annotated[str, Option("Of the layers; bfloat16 on a GPU, else float32.")] = ""
    device: Annotated[str, Option("cpu or cuda; the GPU where there is one.")] = ""
    seed: Annotated[int, Option("Of weights and inputs.")] = 0
    profile: Annotated[
        Path | None, Option("Record steps after the timed ones: a folder, one file per rank.", metavar="FOLDER")
    ] = None
    recorded: Annotated[Positive, Option("Steps that are recorded.")] = 3
    shapes: Annotated[bool, Option("Record operators' shapes.")] = False
    stacks: Annotated[bool, Option("Record Python's stacks.")] = False
    max_mb: Annotated[float, Option("Of a rank's file at most; the oldest steps go first.")] = 256


def run(request: RunRequest) -> None:
    """Run the operation list of a profile for real, in the processes of torchrun or in one alone."""
    from weftrace.facts.models import model_config
    from weftrace.moe.overlap_files import load_overlap
    from weftrace.moe.profiles import PUBLISHED_OVERLAP
    from weftrace.moe.setting import Setting

    kind, (few, short) = request.kind, SMALL[request.kind]
    setting = Setting.of(
        kind, model=_sized(model_config(request.model), request.hidden, request.experts), num_layers=request.layers,
        ep=request.ep or int(os.environ.get("WORLD_SIZE", "1")), tokens=request.tokens or few,
        sequence=request.sequence or short,
    )  # fmt: skip
    chosen = load_overlap(request.overlap or PUBLISHED_OVERLAP[kind], kind)
    processes = _processes()
    how = processes.how_to_run(
        device=request.device, dtype=request.dtype, routing="balanced" if request.balanced else "learned",
        exact=request.exact, seed=request.seed,
    )  # fmt: skip
    recordings: list[Recording] = []
    recorder = None
    if request.profile is not None:
        recorder = _recorder(
            recordings, request.profile, wait=processes.WARM_UP + request.steps, active=request.recorded,
            shapes=request.shapes, stacks=request.stacks, max_mb=request.max_mb, parallel={"ep": setting.ep},
        )  # fmt: skip
    ran = processes.run_in_processes(
        setting, chosen, how, steps=request.steps, recorded=1 + request.recorded if recorder else 0, recorder=recorder
    )
    if ran.rank == 0:
        typer.echo(_describe(ran, recordings))


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command()(command_of(RunRequest, run))


def _processes() -> Any:
    try:
        from weftrace.moe.runtime import processes
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "torch":
            raise
        raise ProfileError(f"to run a profile needs torch: {install_command('torch')}") from missing
    return processes


def _sized(model: ModelConfig, hidden: int, experts: int | None) -> ModelConfig:
    """The model at another width: that of experts in proportion, heads as they are."""
    if model.experts is None:
        raise ProfileError(f"{model.name} has no experts: a profile is of mixture-of-experts layers")
    width = max(1, model.experts.intermediate_size * hidden // model.hidden_size)
    sized = replace(model.experts, num_experts=experts or model.experts.num_experts, intermediate_size=width)
    return replace(
        model, hidden_size=hidden, head_dim=model.head_dim or model.hidden_size // model.num_heads, experts=sized
    )


def _recorder(
    made: list[Recording], folder: Path, *, wait: int, active: int, **asked: Any
) -> Callable[[Mapping[str, str]], Recording]:
    """Who records the steps after the timed ones, and one before them as the profiler's warm-up. made: gets it."""
    try:
        from weftrace.capture import Schedule, record
    except ModuleNotFoundError as missing:
        raise ProfileError("--profile needs weftrace.capture, which this installation lacks") from missing

    def recorder(summary: Mapping[str, str]) -> Recording:
        made.append(record(folder, schedule=Schedule(wait, 1, active), info=summary, **asked))
        return made[0]

    return recorder


def _describe(ran: Ran, recordings: list[Recording]) -> str:
    summary = {key.removeprefix("profile."): text for key, text in ran.summary.items()}
    layers, tokens = counted(int(summary["layers"]), "layer"), counted(ran.tokens, "token")
    lines = [
        f"{summary['kind']}, overlap {summary['overlap']}: {summary['model']}, {layers} of {summary['hidden']}, "
        f"EP{summary['ep']}, "
        f"{summary['tokens']}, {summary['hardware']}",
        f"{ran.tokens_per_s:,.0f} tokens/s: {tokens} a step on all ranks, {duration(ran.step_ns)} a step",
        *(f"note: {note}" for note in ran.notes),
        *(recording.result.in_lines() for recording in recordings),
    ]
    return "\n".join(lines)


def main() -> None:
    try:
        app()
    except WeftraceError as error:
        typer.echo(f"weftrace.moe.run: {error}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
