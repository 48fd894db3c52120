"""`weftrace experts balance`: a placement for recorded loads, with a certificate."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from weftrace.cli import completion, outputs
from weftrace.cli.options import complete_hardware
from weftrace.cli.requests import command_of
from weftrace.experts.cli import options as experts_options
from weftrace.experts.cli.requests import BalanceRequest

if TYPE_CHECKING:
    from weftrace.experts import Placement
    from weftrace.experts.arrays import Floats

EPILOG = """[bold]Examples[/bold]

weftrace experts balance loads.json --slots 288 --gpus 32 --nodes 4 --groups 8 -o placement.html -o placement.json

weftrace experts balance loads.npz --slots 288 --gpus 32 --split uneven           copies may take unequal parts

weftrace experts balance loads.json --gpus 32 --from placement.json --max-moves 6%    re-plan, moving little

weftrace experts balance loads.json --slots 288 --gpus 32 --dead 5 --draining 6,7"""


def _run(request: BalanceRequest, to: outputs.Destination) -> None:
    """Place experts so that the busiest GPU has as little to do as can be, and say how near that is to the best."""
    from weftrace.experts import balance, make_cluster, placement_report, replan
    from weftrace.experts.outputs import PLACEMENT
    from weftrace.experts.solvers.slot_budget import slots_for_budget
    from weftrace.experts.traffic.policy_cost import cost_model_of, model_of_shape

    inputs = experts_options.inputs_of(request.loads, request.old)
    wanted = to.wanted(writes=PLACEMENT, inputs=inputs)
    if request.old is not None:
        _refuse_unused(request)
    most_moved = experts_options.parse_fraction(request.max_moves, "--max-moves")
    history = experts_options.read_history(request.loads, request.window_steps, request.max_bytes)
    if request.last is not None and request.last > history.num_windows:
        raise typer.BadParameter(f"there are {history.num_windows} windows, not {request.last}", param_hint="--last")
    pins = experts_options.parse_pins(request.pin, history.layers)
    load_LN = history.total(request.last)
    before = None
    if request.old is not None:
        before, history = experts_options.read_before(request.old, history)
    slots, slots_G, slots_L = request.slots, request.slots_of_gpu, None
    if slots is None and slots_G is None and before is not None:
        slots_G = before.cluster.slots_G.tolist()
    if request.budget is not None:
        num_lost = len(request.dead | request.draining)
        slots_L, largest = slots_for_budget(load_LN, request.budget, request.gpus, num_lost=num_lost)
        slots = largest if slots is None and slots_G is None else slots
    cluster = make_cluster(
        slots, request.gpus, request.nodes, slots_of_gpu=slots_G, speed_of_gpu=request.speeds, dead=request.dead,
        draining=request.draining,
    )  # fmt: skip
    named = request.model or model_of_shape(history.num_layers, history.num_experts)
    priced = cost_model_of(request.hardware, named)
    with experts_options.balancing_progress("balancing") as on_progress:
        rules: dict[str, Any] = {"cluster": cluster, "pins": pins, "num_groups": request.groups}

        def plan(load_LN: Floats, **searched: Any) -> Placement:
            if before is not None:  # a re-plan keeps the policy, and searches as long as its paths are
                return replan(before, load_LN, max_moves=most_moved, **rules).placement
            return balance(
                load_LN, split=request.split, slots_of_layer=None if slots_L is None else slots_L.tolist(),
                cost_model=priced, on_progress=on_progress, **rules, **searched,
            )  # fmt: skip

        placement = plan(load_LN, policy=request.policy, time_budget_s=request.time_budget)
        report = placement_report(
            placement, history, num_groups=request.groups, before=before, model=priced if named else None,
            last=request.last, plan=partial(plan, policy=placement.policy, time_budget_s=0.0),
            on_progress=lambda done, total: on_progress(f"judging on the next window, {done} of {total}"),
        )  # fmt: skip
    outputs.deliver(report, PLACEMENT, wanted)


def _refuse_unused(request: BalanceRequest) -> None:
    """Options that a re-plan would not heed."""
    given = {"--policy": request.policy != "auto", "--split": request.split != "even",
             "--budget": request.budget is not None}  # fmt: skip
    if names := [name for name, is_given in given.items() if is_given]:
        raise typer.BadParameter(
            "a re-plan keeps the policy, the split and the slots of the old placement", param_hint=", ".join(names)
        )


command = command_of(
    (BalanceRequest, outputs.Destination),
    _run,
    completes={
        "policy": completion.among(*completion.POLICIES),
        "split": completion.among(*completion.SPLITS),
        "hardware": complete_hardware,
    },
    panels={
        "The GPUs": ("gpus", "slots", "nodes", "groups", "slots_of_gpu", "speeds", "dead", "draining"),
        "The placement": ("policy", "split", "pin", "budget", "old", "max_moves", "time_budget"),
        "The loads, and what they cost": ("last", "window_steps", "hardware", "model"),
    },
)
