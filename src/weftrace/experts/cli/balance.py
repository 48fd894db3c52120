"""`weftrace experts balance`: a placement for recorded loads, with a certificate."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weftrace.cli import outputs
from weftrace.experts.cli import options as experts_options
from weftrace.experts.cli.options import Gpus, Groups, Loads, Nodes, WindowSteps

if TYPE_CHECKING:
    from weftrace.experts import Placement
    from weftrace.experts.arrays import Floats

EPILOG = """[bold]Examples[/bold]

weftrace experts balance loads.json --slots 288 --gpus 32 --nodes 4 --groups 8 -o placement.html -o placement.json

weftrace experts balance loads.npz --slots 288 --gpus 32 --split uneven           copies may take unequal parts

weftrace experts balance loads.json --gpus 32 --from placement.json --max-moves 6%    re-plan, moving little

weftrace experts balance loads.json --slots 288 --gpus 32 --dead 5 --draining 6,7"""


def command(
    loads: Loads,
    gpus: Gpus,
    slots: Annotated[
        int | None,
        typer.Option("--slots", help="Physical slots a layer, redundant ones included.", min=1, metavar="P"),
    ] = None,
    nodes: Nodes = 1,
    groups: Groups = 1,
    policy: Annotated[
        str,
        typer.Option("--policy", help="auto (by estimated cost), global, hierarchical or semi-hierarchical."),
    ] = "auto",
    split: Annotated[
        str, typer.Option("--split", help="even: copies take equal parts. uneven: weftrace chooses the parts.")
    ] = "even",
    slots_of_gpu: Annotated[
        str | None,
        typer.Option("--slots-of-gpu", help="Slots GPU by GPU, not --slots: 9*31,8.", metavar="LIST"),
    ] = None,
    speeds: Annotated[
        str | None, typer.Option("--speeds", help="Relative speed of each GPU: 1*30,0.9,0.8.", metavar="LIST")
    ] = None,
    dead: Annotated[
        str | None, typer.Option("--dead", help="GPUs whose weights are lost: 3,8-9.", metavar="GPUS")
    ] = None,
    draining: Annotated[
        str | None, typer.Option("--draining", help="GPUs to empty, still readable: 3,8-9.", metavar="GPUS")
    ] = None,
    pin: Annotated[
        list[str] | None,
        typer.Option("--pin", help="EXPERT:GPU or LAYER:EXPERT:GPU that must hold; repeatable.", metavar="PIN"),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option("--budget", help="Slots over all layers together, spent where they gain most.", metavar="SLOTS"),
    ] = None,
    last: Annotated[
        int | None, typer.Option("--last", help="Plan on the last N recorded windows only.", min=1, metavar="N")
    ] = None,
    old: Annotated[
        str | None, typer.Option("--from", help="Start from this placement and move little.", metavar="JSON")
    ] = None,
    max_moves: Annotated[
        str, typer.Option("--max-moves", help="With --from: share of slots that may change, or all.", metavar="PART")
    ] = "6%",
    hardware: Annotated[
        str, typer.Option("--hardware", help="Accelerator that policies and moves are priced for.")
    ] = "H800",
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            help="Whose experts these are, for prices: deepseek-v3, or an expert's two widths, 7168x2048.",
            metavar="NAME",
        ),
    ] = None,
    time_budget: Annotated[
        float, typer.Option("--time-budget", help="Seconds to search for better.", min=0.0, metavar="S")
    ] = 1.0,
    window_steps: WindowSteps = 1,
    output: outputs.Files = None,
    json: outputs.Json = False,
    quiet: outputs.Quiet = False,
) -> None:
    """Place experts so that the busiest GPU has as little to do as can be, and say how near that is to the best."""
    from weftrace.experts import make_cluster, placement_report
    from weftrace.experts.outputs import PLACEMENT
    from weftrace.experts.solvers.slot_budget import slots_for_budget
    from weftrace.experts.traffic.policy_cost import cost_model_of, model_of_shape

    inputs = experts_options.inputs_of(loads, old)
    wanted = outputs.wanted(output, writes=PLACEMENT, inputs=inputs, json=json, quiet=quiet)
    if old is not None:
        _refuse_unused({"--policy": policy != "auto", "--split": split != "even", "--budget": budget is not None})
    out_of_service = {
        "dead": experts_options.parse_gpus(dead, "--dead"),
        "draining": experts_options.parse_gpus(draining, "--draining"),
    }
    slots_G = experts_options.parse_whole_numbers(slots_of_gpu, "--slots-of-gpu")
    speed_G = experts_options.parse_numbers(speeds, "--speeds")
    most_moved = experts_options.parse_fraction(max_moves, "--max-moves")
    history = experts_options.read_history(loads, window_steps)
    if last is not None and last > history.num_windows:
        raise typer.BadParameter(f"there are {history.num_windows} windows, not {last}", param_hint="--last")
    pins = experts_options.parse_pins(pin or [], history.layers)
    load_LN = history.total(last)
    before = None
    if old is not None:
        before, history = experts_options.read_before(old, history)
    slots_L = None
    if slots is None and slots_G is None and before is not None:
        slots_G = before.cluster.slots_G.tolist()
    if budget is not None:
        num_lost = len({*out_of_service["dead"], *out_of_service["draining"]})
        slots_L, largest = slots_for_budget(load_LN, budget, gpus, num_lost=num_lost)
        slots = largest if slots is None and slots_G is None else slots
    cluster = make_cluster(slots, gpus, nodes, slots_of_gpu=slots_G, speed_of_gpu=speed_G, **out_of_service)
    named = model or model_of_shape(history.num_layers, history.num_experts)
    priced = cost_model_of(hardware, named)
    with experts_options.told("balancing") as on_progress:
        plan: Callable[..., Placement]
        if before is not None:
            plan = partial(
                _replanned, before=before, max_moves=most_moved, cluster=cluster, pins=pins, num_groups=groups
            )
        else:
            plan = partial(
                _balanced,
                cluster=cluster,
                num_groups=groups,
                split=split,
                pins=pins,
                slots_of_layer=None if slots_L is None else slots_L.tolist(),
                cost_model=priced,
                on_progress=on_progress,
            )
        placement = plan(load_LN, policy=policy, time_budget_s=time_budget)
        report = placement_report(
            placement,
            history,
            num_groups=groups,
            before=before,
            model=priced if named else None,
            last=last,
            plan=partial(plan, policy=placement.policy, time_budget_s=0.0),
            on_progress=lambda done, total: on_progress(f"judging on the next window, {done} of {total}"),
        )
    outputs.deliver(report, PLACEMENT, wanted)


def _balanced(load_LN: Floats, **options: Any) -> Placement:
    from weftrace.experts import balance

    return balance(load_LN, **options)


def _replanned(load_LN: Floats, *, before: Placement, policy: str, time_budget_s: float, **options: Any) -> Placement:
    """A re-plan keeps the policy, and searches as long as its paths are."""
    from weftrace.experts import replan

    return replan(before, load_LN, **options).placement


def _refuse_unused(given: dict[str, bool]) -> None:
    """Options that a re-plan would not heed."""
    if names := [name for name, is_given in given.items() if is_given]:
        raise typer.BadParameter(
            "a re-plan keeps the policy, the split and the slots of the old placement", param_hint=", ".join(names)
        )
