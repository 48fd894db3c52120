"""`weftrace experts replay`: which estimator, window and interval would have served recorded loads best."""

from __future__ import annotations

from weftrace.cli import completion, outputs
from weftrace.cli.requests import command_of
from weftrace.experts.cli import options as experts_options
from weftrace.experts.cli.requests import ReplayRequest

EPILOG = """[bold]Examples[/bold]

weftrace experts replay recorded/ --slots 288 --gpus 32 --nodes 4 --groups 8

weftrace experts replay loads.npz --slots 288 --gpus 32 --estimators last,ema --windows 4,16 --intervals 1,10

weftrace experts replay loads.npz --slots 288 --gpus 32 -o replay.html -o replay.json -o replay.csv"""


def _run(request: ReplayRequest, to: outputs.Destination) -> None:
    """Plan on what was seen, score on the window that followed, for every combination; recommend one."""
    from weftrace.experts import replay, replay_report
    from weftrace.experts.outputs import REPLAY

    inputs = experts_options.inputs_of(request.loads)
    wanted = to.wanted(writes=REPLAY, inputs=inputs)
    history = experts_options.read_history(request.loads, request.window_steps, request.max_bytes)
    with experts_options.counted("replaying") as on_progress:
        replayed = replay(
            history, num_slots=request.slots, num_gpus=request.gpus, num_nodes=request.nodes,
            num_groups=request.groups, estimators=experts_options.parse_list(request.estimators),
            windows=tuple(experts_options.parse_whole_numbers(request.windows, "--windows") or ()),
            intervals=tuple(experts_options.parse_whole_numbers(request.intervals, "--intervals") or ()),
            solvers=experts_options.parse_list(request.solvers), split=request.split, seed=request.seed,
            on_progress=on_progress,
        )  # fmt: skip
    outputs.deliver(replay_report(replayed), REPLAY, wanted)


command = command_of(
    (ReplayRequest, outputs.Destination),
    _run,
    completes={
        "estimators": completion.listed(*completion.ESTIMATORS),
        "solvers": completion.listed(*completion.SOLVERS),
        "split": completion.among(*completion.SPLITS),
    },
)
