"""`weftrace experts demo`: made loads that drift, balanced and replayed; nothing but weftrace is needed."""

from __future__ import annotations

from typing import Annotated

import typer

from weftrace.cli import outputs
from weftrace.experts.cli import options as experts_options
from weftrace.experts.cli.options import Html

EPILOG = """[bold]Examples[/bold]

weftrace experts demo                                 balance and replay in the terminal

weftrace experts demo --save loads.npz                keep the loads, for weftrace experts balance and replay

weftrace experts demo -o demo.json --html             the placement as JSON and as a page"""


def command(
    layers: Annotated[int, typer.Option("--layers", help="Mixture-of-experts layers.", min=1, max=1000)] = 58,
    windows: Annotated[int, typer.Option("--windows", help="Windows of loads to make.", min=8, max=10_000)] = 24,
    seed: Annotated[int, typer.Option("--seed", help="Of the made loads.", min=0)] = 0,
    save_to: Annotated[
        str | None, typer.Option("--save", help="Write the made loads, .npz or .json.", metavar="FILE")
    ] = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", help="Write the placement as JSON; - for stdout.", metavar="JSON")
    ] = None,
    html: Html = False,
) -> None:
    """Make loads like DeepSeek-V3's prefill (256 experts, 288 slots, 32 GPUs, 4 nodes), place the experts, replay."""
    from weftrace.experts import balance, generate_loads, placement_document, replay, replay_document
    from weftrace.experts import save_loads as write_loads
    from weftrace.experts.render.page import render_placement_html
    from weftrace.experts.render.terminal import print_placement, print_replay

    history = generate_loads("real", windows, layers, 256, seed=seed)
    load_LN = history.load_TLN.sum(axis=0)
    with experts_options.told("balancing") as on_progress:
        placement = balance(load_LN, 288, 32, 4, 8, on_progress=on_progress)
    document = placement_document(placement, load_LN, source=history.source, num_groups=8)
    if output != "-":
        print_placement(document, outputs.stdout())
        with experts_options.counted("replaying") as on_progress:
            replayed = replay(
                history,
                num_slots=288,
                num_gpus=32,
                num_nodes=4,
                num_groups=8,
                estimators=("last", "ema"),
                windows=(4,),
                intervals=(4, 12),
                on_progress=on_progress,
            )
        outputs.stdout().print()
        print_replay(replay_document(replayed), outputs.stdout())
    if save_to is not None:
        write_loads(history, save_to)
        outputs.tell_written(save_to)
    page = experts_options.page_path(output, "experts-demo.html") if html else None
    experts_options.save(document, output, page, render_placement_html)
