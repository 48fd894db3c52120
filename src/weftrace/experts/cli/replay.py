"""`weftrace experts replay`: which estimator, window and interval would have served recorded loads best."""

from __future__ import annotations

from typing import Annotated

import typer

from weftrace.cli import outputs
from weftrace.experts.cli import options as experts_options
from weftrace.experts.cli.options import Gpus, Groups, Loads, Nodes, Slots, WindowSteps

EPILOG = """[bold]Examples[/bold]

weftrace experts replay recorded/ --slots 288 --gpus 32 --nodes 4 --groups 8

weftrace experts replay loads.npz --slots 288 --gpus 32 --estimators last,ema --windows 4,16 --intervals 1,10

weftrace experts replay loads.npz --slots 288 --gpus 32 -o replay.html -o replay.json -o replay.csv"""


def command(
    loads: Loads,
    slots: Slots,
    gpus: Gpus,
    nodes: Nodes = 1,
    groups: Groups = 1,
    estimators: Annotated[
        str, typer.Option("--estimators", help="Of last, ema, mean, risk.", metavar="LIST")
    ] = "last,mean,ema",
    windows: Annotated[
        str, typer.Option("--windows", help="Windows that ema, mean and risk look back over.", metavar="LIST")
    ] = "4,16",
    intervals: Annotated[
        str, typer.Option("--intervals", help="Windows between two re-plans.", metavar="LIST")
    ] = "4,16",
    solvers: Annotated[
        str, typer.Option("--solvers", help="Of deepseek, balance, balance+resplit, replan.", metavar="LIST")
    ] = "deepseek,balance,balance+resplit,replan",
    split: Annotated[str, typer.Option("--split", help="even or uneven parts for the copies of an expert.")] = "even",
    seed: Annotated[int, typer.Option("--seed", help="Of the bootstrap.", min=0)] = 0,
    window_steps: WindowSteps = 1,
    output: outputs.Files = None,
    json: outputs.Json = False,
    quiet: outputs.Quiet = False,
) -> None:
    """Plan on what was seen, score on the window that followed, for every combination; recommend one."""
    from weftrace.experts import replay, replay_report
    from weftrace.experts.outputs import REPLAY

    inputs = experts_options.inputs_of(loads)
    wanted = outputs.wanted(output, writes=REPLAY, inputs=inputs, json=json, quiet=quiet)
    history = experts_options.read_history(loads, window_steps)
    with experts_options.counted("replaying") as on_progress:
        replayed = replay(
            history,
            num_slots=slots,
            num_gpus=gpus,
            num_nodes=nodes,
            num_groups=groups,
            estimators=experts_options.parse_list(estimators),
            windows=tuple(experts_options.parse_whole_numbers(windows, "--windows") or ()),
            intervals=tuple(experts_options.parse_whole_numbers(intervals, "--intervals") or ()),
            solvers=experts_options.parse_list(solvers),
            split=split,
            seed=seed,
            on_progress=on_progress,
        )
    outputs.deliver(replay_report(replayed), REPLAY, wanted)
