"""`weftrace experts demo`: made loads that drift, balanced and replayed; nothing but weftrace is needed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from weftrace.cli import outputs
from weftrace.cli.requests import command_of
from weftrace.experts.cli import options as experts_options
from weftrace.options import Option

if TYPE_CHECKING:
    from rich.console import Console

    from weftrace.experts import LoadHistory, PlacementReport

EPILOG = """[bold]Examples[/bold]

weftrace experts demo                                 balance and replay in the terminal

weftrace experts demo -o loads.npz                    only make the loads, for weftrace experts balance and replay

weftrace experts demo -q -o demo.html -o demo.json    the placement as a page and as JSON, without the replay"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Which loads to make."""

    layers: Annotated[int, Meta(ge=1, le=1000), Option("Mixture-of-experts layers.")] = 58
    windows: Annotated[int, Meta(ge=8, le=10_000), Option("Windows of loads to make.")] = 24
    seed: Annotated[int, Meta(ge=0), Option("Of the made loads.")] = 0


def run(request: Request, to: outputs.Destination) -> None:
    """Make loads like DeepSeek-V3's prefill (256 experts, 288 slots, 32 GPUs, 4 nodes), place the experts, replay."""
    from weftrace.experts import balance, generate_loads, placement_report, save_loads
    from weftrace.experts.outputs import PLACEMENT

    history = generate_loads("real", request.windows, request.layers, 256, seed=request.seed)
    kind = replace(PLACEMENT, save={".npz": lambda _, path: save_loads(history, path)})
    wanted = to.wanted(writes=kind)
    if wanted.paths and not wanted.json and all(path.lower().endswith(".npz") for path in wanted.paths):
        for path in wanted.paths:  # loads alone: nothing to balance
            save_loads(history, path)
            outputs.tell_written(path)
        return
    with experts_options.balancing_progress("balancing") as on_progress:
        # these loads drift: the last window is the best forecast of the next
        placement = balance(history.total(1), 288, 32, 4, 8, on_progress=on_progress)
        report = placement_report(placement, history, num_groups=8, last=1)
    outputs.deliver(report, kind, wanted, show=partial(_show, history=history))


command = command_of((Request, outputs.Destination), run)


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
