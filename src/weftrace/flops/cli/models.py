"""`weftrace flops models`: the models that need only their name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weftrace.cli import outputs
from weftrace.cli.requests import command_of

if TYPE_CHECKING:
    from rich.console import Console

    from weftrace.facts import ModelConfig

EPILOG = """[bold]Examples[/bold]

weftrace flops models

weftrace flops mixtral-8x7b --input 1x4096 --phase train --hardware h100"""

SCHEMA = "weftrace.flops.models/1"


def run(to: outputs.Destination) -> None:
    """List the built-in models: parameters, those that one token uses, layers, and where the numbers are from."""
    from weftrace.flops.buildable import buildable_models
    from weftrace.outputs import Output

    kind = Output(value=tuple, document=_document, show=_show)
    outputs.deliver(buildable_models(), kind, to.wanted(writes=kind))


command = command_of(outputs.Destination, run, without=("open",))


def _document(configs: Sequence[ModelConfig]) -> dict[str, Any]:
    """Every number of each model as `ModelConfig` has it, and its counts of parameters."""
    from dataclasses import asdict, replace

    from weftrace.facts import active_params, num_params

    models = [
        asdict(replace(config, sources={}))
        | {
            "sources": dict(config.sources),
            "num_params": num_params(config),
            "active_params": active_params(config),
        }
        for config in configs
    ]
    return {"schema": SCHEMA, "models": models}


def _show(configs: Sequence[ModelConfig], console: Console) -> None:
    from rich.text import Text

    from weftrace.facts import active_params, num_params
    from weftrace.render.console_parts import DIM, table
    from weftrace.units import si

    lines = [
        [
            config.name,
            si(num_params(config)),
            si(active_params(config)),
            str(config.num_layers),
            f"{config.hidden_size:,}",
            "–" if config.experts is None else f"{config.experts.num_experts}, top {config.experts.top_k}",
            ", ".join(config.aliases) or "–",
        ]
        for config in configs
    ]
    heads = ["model", "params", "active", "layers", "hidden", "experts", "also called"]
    console.print(table(heads, lines, console.width, left=("model", "also called")))
    console.print()
    for config in configs:
        console.print(Text(f"{config.name}: {config.sources['hidden_size']}", style=DIM), soft_wrap=True)
