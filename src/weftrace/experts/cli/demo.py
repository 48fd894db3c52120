"""`weftrace experts demo`: made loads that drift, balanced and replayed; nothing but weftrace is needed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from weftrace.cli import outputs
from weftrace.experts.cli import options as experts_options

if TYPE_CHECKING:
    from rich.console import Console

    from weftrace.experts import LoadHistory, PlacementReport

EPILOG = """[bold]Examples[/bold]

weftrace experts demo                                 balance and replay in the terminal

weftrace experts demo -o loads.npz                    keep the loads, for weftrace experts balance and replay

weftrace experts demo -q -o demo.html -o demo.json    the placement as a page and as JSON, without the replay"""


def command(
    layers: Annotated[int, typer.Option("--layers", help="Mixture-of-experts layers.", min=1, max=1000)] = 58,
    windows: Annotated[int, typer.Option("--windows", help="Windows of loads to make.", min=8, max=10_000)] = 24,
    seed: Annotated[int, typer.Option("--seed", help="Of the made loads.", min=0)] = 0,
    output: outputs.Files = None,
    json: outputs.Json = False,
    quiet: outputs.Quiet = False,
) -> None:
    """Make loads like DeepSeek-V3's prefill (256 experts, 288 slots, 32 GPUs, 4 nodes), place the experts, replay."""
    from weftrace.experts import balance, generate_loads, placement_report, save_loads
    from weftrace.experts.outputs import PLACEMENT
    from weftrace.outputs import writers

    history = generate_loads("real", windows, layers, 256, seed=seed)
    as_loads = {".npz": lambda _, path: save_loads(history, path)}
    wanted = outputs.wanted(output, writes={**writers(PLACEMENT), **as_loads}, json=json, quiet=quiet)
    with experts_options.balancing_progress("balancing") as on_progress:
        # these loads drift: the last window is the best forecast of the next
        placement = balance(history.total(1), 288, 32, 4, 8, on_progress=on_progress)
        report = placement_report(placement, history, num_groups=8, last=1)
    outputs.deliver(report, PLACEMENT, wanted, show=partial(_show, history=history), save=as_loads)


def _show(report: PlacementReport, console: Console, *, history: LoadHistory) -> None:
    """The placement, and a replay of the loads that it was made for."""
    from weftrace.experts import replay, replay_report
    from weftrace.experts.render.terminal import print_placement, print_replay

    print_placement(report, console)
    with experts_options.counted("replaying") as on_progress:
        replayed = replay(
            history, num_slots=288, num_gpus=32, num_nodes=4, num_groups=8, estimators=("last", "ema"), windows=(4,),
            intervals=(4, 12), on_progress=on_progress,
        )  # fmt: skip
    console.print()
    print_replay(replay_report(replayed), console)
