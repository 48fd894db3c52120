"""What shall be run? A model by name, its input, the phase, how often: one value, read from texts, without torch."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from weftrace.errors import SpecError
from weftrace.facts.models import find_config, load_models
from weftrace.flops.buildable import buildable_models, refuse_what_is_not_built
from weftrace.flops.values import Parallel
from weftrace.notebook import InNotebook
from weftrace.options import Option
from weftrace.units import quoted

RUN, TIME = "What to run", "How to run it"
"""Headings of a run's options in the help."""

RUN_PHASES = ("train", "prefill", "decode")
WARM_UP = 2
"""Steps that are not timed, between the counted one and those that are, unless told otherwise."""

OPTIMIZERS = ("adamw", "sgd", "none")
DTYPES = {
    "fp32": "float32",
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp64": "float64",
    "float": "float32",
    "half": "float16",
    "double": "float64",
    "int": "int32",
    "long": "int64",
}
"""Short names -> torch's. torch's own are taken as they are."""

TORCH_DTYPES = (
    *("float32", "bfloat16", "float16", "float64", "complex64", "complex128"),
    *("int64", "int32", "int16", "int8", "uint8", "bool"),
)

_AXES = {
    "dp": "data",
    "tp": "tensor",
    "pp": "pipeline",
    "cp": "context",
    "ep": "expert",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec(InNotebook):
    """One input tensor. name: of a keyword argument, "" for the next positional one. dtype: torch's, "" to choose."""

    shape: tuple[int, ...]
    dtype: str = ""
    name: str = ""


def parse_input(text: str) -> InputSpec:
    """ "80x128", "1x3x224x224:bf16", "input_ids=1x128:int64". Raises `SpecError` for anything else."""
    match = re.fullmatch(r"\s*(?:([A-Za-z_]\w*)\s*=\s*)?(\d{1,12}(?:[x×]\d{1,12})*)\s*(?::\s*(\w+))?\s*", text)
    if match is None:
        raise SpecError(f"{text!r} is no input; write 80x128, 1x3x224x224:bf16 or input_ids=1x128:int64")
    name, shape, dtype = match.groups()
    return InputSpec(
        shape=tuple(int(size) for size in re.split("[x×]", shape)),
        dtype=parse_dtype(dtype) if dtype else "",
        name=name or "",
    )


def parse_dtype(text: str) -> str:
    """ "bf16" or "bfloat16" -> "bfloat16"; "fp8" stays. Raises `SpecError` for any other name."""
    name = text.strip().lower().removeprefix("torch.")
    if name == "fp8":
        return name
    name = DTYPES.get(name, name)
    if name not in TORCH_DTYPES:
        raise SpecError(f"no dtype {text!r}; choose from {', '.join([*list(DTYPES)[:4], *TORCH_DTYPES])}")
    return name


def parse_parallel(text: str) -> Parallel:
    """ "tp=4,dp=8" -> Parallel(tensor=4, data=8). Axes: dp, tp, pp, cp, ep; dp is at least ep. Raises `SpecError`."""
    sizes: dict[str, int] = {}
    for part in text.split(","):
        axis, _, size = part.strip().partition("=")
        name = _AXES.get(axis.strip().lower())
        if name is None or not size.strip().isdigit() or int(size) < 1 or name in sizes:
            raise SpecError(f"{part.strip()!r} in {text!r}: write the axes once each, like tp=4,dp=8,pp=2,cp=1,ep=8")
        sizes[name] = int(size)
    sizes.setdefault("data", sizes.get("expert", 1))
    return Parallel(**sizes)


def model_kind(model: str) -> str:
    """ "built-in", "config" (Hugging Face) or "user". Raises `SpecError`, with names near to it, for what is none,
    and for a model whose numbers alone are known."""
    found = find_config(model, load_models())
    if found is not None:
        refuse_what_is_not_built(found)
        return "built-in"
    configs = buildable_models()
    if model.endswith(".json") or Path(model, "config.json").is_file():
        return "config"
    if ":" in model:
        return "user"
    if model.endswith(".py"):
        raise SpecError(
            f"{model}: name what makes the model, {model}:build say; a script is run by --config ds_config.json {model}"
        )
    every = [name for config in configs for name in (config.name, *config.aliases)]
    near = get_close_matches(model.strip().lower().replace("_", "-"), every, n=3, cutoff=0.5)
    known = ", ".join(config.name for config in configs)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known are {known}."
    raise SpecError(
        f"no model is called {quoted(model)}; {hint} Your own: package.module:build or ./file.py:build; Hugging "
        "Face's: path/to/config.json"
    )


def complete_model(incomplete: str) -> list[str]:
    """Names of built-in models that begin so."""
    return [name for name in names() if name.startswith(incomplete.lower())]


def names(*, aliases: bool = True) -> list[str]:
    """Names of built-in models."""
    return [name for config in buildable_models() for name in (config.name, *(config.aliases if aliases else ()))]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec(InNotebook):
    """One model, run one way.

    model: a built-in name ("bert-large"), a Hugging Face config.json or its folder, or "module:attribute" or
        "file.py:attribute" that is or makes a torch.nn.Module.
    inputs: of the forward; of built-in models and configs one, BATCH x SEQ, which batch and seq may say as well.
    context: positions in the cache, as `model_inputs` has it.
    phase: one of `RUN_PHASES`, None: forward of all positions.
    backward: also run the backward; always so in phase "train". optimizer: one of `OPTIMIZERS`, stepped after it.
    device: None: the meta device for models by name, CUDA where there is one for others, else the CPU.
    dtype: of parameters and floating-point inputs, torch's name; None: as built. "fp8": linear layers and experts of
        weftrace's own llama and deepseek models in FP8, the rest in BF16.
    attention, experts: implementations: "eager" or "sdpa"; "eager", "bmm" or "grouped_mm".
    masked_positions: positions that BERT's head predicts in the whole batch; None: all.
    parallel: of the job. A model by name is counted whole, but for its experts: of expert ranks, each holds a part, and
        gets as many rows from the others as it sends them.
    steps, warm_up: steps that are timed, after the one that is counted and warm_up more; 0 times nothing.
    each_call: whether a module that is called several times has an entry for each call.
    hardware: the accelerator that the report names, "" for the one that the model runs on.
    """

    model: Annotated[
        str,
        Option(
            "A built-in name (weftrace flops models), package.module:build, ./file.py:build, a Hugging Face "
            "config.json; with --config, a script.",
            is_argument=True, metavar="MODEL", completes="weftrace.flops.run_spec:complete_model",
        ),
    ]  # fmt: skip
    inputs: Annotated[
        tuple[InputSpec, ...],
        Option(
            "An input tensor: 80x128, 1x3x224x224:bf16, input_ids=1x128; repeatable.", ("--input",), metavar="SHAPE",
            panel=RUN, reads=parse_input,
        ),
    ] = ()  # fmt: skip
    batch: Annotated[int | None, Meta(ge=1), Option("Sequences, samples or requests.", panel=RUN)] = None
    seq: Annotated[int | None, Meta(ge=1), Option("New tokens of each; in decode 1, or a few.", panel=RUN)] = None
    context: Annotated[
        int,
        Meta(ge=0),
        Option(
            "Decode: positions attended to, the new ones among them. Prefill: those in the cache before.", panel=RUN
        ),
    ] = 0
    phase: Annotated[
        str | None,
        Option(
            "train (forward and backward), prefill or decode; default: the forward.", metavar="NAME",
            completes="train prefill decode", panel=RUN,
        ),
    ] = None  # fmt: skip
    masked_positions: Annotated[
        int | None, Meta(ge=1), Option("BERT: predicted positions in the batch; all.", panel=RUN)
    ] = None
    backward: Annotated[bool, Option("Run the backward too.", ("--backward/--forward",), panel=RUN)] = False
    optimizer: Annotated[
        str, Option("adamw, sgd or none, stepped after a backward.", completes="adamw sgd none", panel=RUN)
    ] = "none"
    device: Annotated[
        str | None,
        Option(
            "meta, cpu, cuda…; default: meta for models by name, else cuda where there is one.", metavar="NAME",
            completes="meta cpu cuda", panel=TIME,
        ),
    ] = None  # fmt: skip
    dtype: Annotated[
        str | None,
        Option(
            "Of parameters and inputs: fp32, bf16, fp16; fp8 for the linear layers of built-in models.",
            metavar="NAME", completes="fp32 bf16 fp16 fp8", panel=TIME, reads=parse_dtype,
        ),
    ] = None  # fmt: skip
    attention: Annotated[str, Option("sdpa or eager, of models by name.", completes="sdpa eager", panel=TIME)] = "sdpa"
    experts: Annotated[
        str,
        Option("grouped_mm, bmm or eager, of models by name.", completes="grouped_mm bmm eager", panel=TIME),
    ] = "grouped_mm"
    parallel: Annotated[
        Parallel,
        Option(
            "GPUs of the job, tp=4,dp=8,pp=2,cp=1,ep=8; ep leaves one rank's experts.", metavar="AXES", panel=TIME,
            reads=parse_parallel,
        ),
    ] = field(default_factory=Parallel)  # fmt: skip
    steps: Annotated[int, Meta(ge=0), Option("Time so many steps after the counted one.", panel=TIME)] = 0
    warm_up: Annotated[int, Meta(ge=0), Option("Steps between those, not timed.", panel=TIME)] = WARM_UP
    each_call: Annotated[bool, Option("A row of its own for each call of a module.", panel=TIME)] = False
    hardware: str = ""

    @property
    def runs_backward(self) -> bool:
        return self.backward or self.phase == "train" or self.optimizer != "none"

    def check(self) -> None:
        """Raises `SpecError` where parts contradict each other."""
        if self.phase is not None and self.phase not in RUN_PHASES:
            raise SpecError(f"no phase {self.phase!r}; choose from {', '.join(RUN_PHASES)}")
        if self.optimizer not in OPTIMIZERS:
            raise SpecError(f"no optimizer {self.optimizer!r}; choose from {', '.join(OPTIMIZERS)}")
        if self.phase in ("prefill", "decode") and self.runs_backward:
            raise SpecError(f"phase {self.phase} has no backward and no optimizer; use phase train")
        for what, choices in (("attention", ("eager", "sdpa")), ("experts", ("eager", "bmm", "grouped_mm"))):
            if (chosen := getattr(self, what)) not in choices:
                raise SpecError(f"no {what} {chosen!r}; choose from {', '.join(choices)}")
