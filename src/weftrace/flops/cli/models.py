"""`weftrace flops models`: the models that need only their name."""

from __future__ import annotations

from weftrace.cli import outputs

EPILOG = """[bold]Examples[/bold]

weftrace flops models

weftrace flops mixtral-8x7b --input 1x4096 --phase train --hardware h100"""


def command() -> None:
    """List the built-in models: parameters, those that one token uses, layers, and where the numbers are from."""
    from rich.text import Text

    from weftrace.facts.models import active_params, load_models, num_params
    from weftrace.render.console_parts import DIM, table
    from weftrace.units import si

    console = outputs.stdout()
    configs = load_models()
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
