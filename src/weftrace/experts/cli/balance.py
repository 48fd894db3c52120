"""`weftrace experts balance`: a placement for recorded loads, with a certificate."""

from __future__ import annotations

from typing import Annotated

import typer

from weftrace.cli import outputs
from weftrace.experts.cli import options as experts_options
from weftrace.experts.cli.options import Gpus, Groups, Html, Loads, Nodes, WindowSteps

EPILOG = """[bold]Examples[/bold]

weftrace experts balance loads.json --slots 288 --gpus 32 --nodes 4 --groups 8 -o placement.json --html

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
    time_budget: Annotated[
        float, typer.Option("--time-budget", help="Seconds to search for better.", min=0.0, metavar="S")
    ] = 1.0,
    output: Annotated[
        str | None, typer.Option("-o", "--output", help="Write the placement as JSON; - for stdout.", metavar="JSON")
    ] = None,
    html: Html = False,
    window_steps: WindowSteps = 1,
) -> None:
    """Place experts so that the busiest GPU has as little to do as can be, and say how near that is to the best."""
    from weftrace.experts import (
        CostModel,
        balance,
        make_cluster,
        placement_document,
        read_placement,
        replan,
        share_slots_among_layers,
    )
    from weftrace.experts.render.page import render_placement_html
    from weftrace.experts.render.terminal import print_placement
    from weftrace.facts import hardware as find_hardware

    history = experts_options.read_history(loads, window_steps)
    if last is not None and last > history.num_windows:
        raise typer.BadParameter(f"there are {history.num_windows} windows, not {last}", param_hint="--last")
    load_LN = history.load_TLN[-last if last is not None else 0 :].sum(axis=0)
    out_of_service = {
        "dead": experts_options.parse_gpus(dead, "--dead"),
        "draining": experts_options.parse_gpus(draining, "--draining"),
    }
    if old is not None:
        ignored = {"--policy": policy != "auto", "--split": split != "even", "--budget": budget is not None}
        if given := [name for name, is_given in ignored.items() if is_given]:
            raise typer.BadParameter(
                "a re-plan keeps the policy, the split and the slots of the old placement", param_hint=", ".join(given)
            )
    before = read_placement(old) if old is not None else None
    slots_G = experts_options.parse_whole_numbers(slots_of_gpu, "--slots-of-gpu")
    if before is not None and slots is None and slots_G is None:
        slots_G = before.cluster.slots_G.tolist()
    speed_G = experts_options.parse_numbers(speeds, "--speeds")
    layers = None
    if budget is not None:
        num_usable = max(gpus - len({*out_of_service["dead"], *out_of_service["draining"]}), 1)
        layers = share_slots_among_layers(load_LN, budget, num_usable)
        if slots is None and slots_G is None:
            slots = int(layers.max()) // num_usable * gpus
    cluster = make_cluster(slots, gpus, nodes, slots_of_gpu=slots_G, speed_of_gpu=speed_G, **out_of_service)
    pins = experts_options.parse_pins(pin or [])
    device = find_hardware(hardware)
    model = CostModel(hardware=device, dtype="fp8" if "fp8" in device.peak_flops else "bf16")
    if before is not None:
        placement = replan(
            before,
            load_LN,
            max_moves=experts_options.parse_fraction(max_moves, "--max-moves"),
            cluster=cluster,
            pins=pins,
            num_groups=groups,
        ).placement
    else:
        with experts_options.told("balancing") as on_progress:
            placement = balance(
                load_LN,
                cluster=cluster,
                num_groups=groups,
                policy=policy,
                split=split,
                pins=pins,
                slots_of_layer=None if layers is None else layers.tolist(),
                time_budget_s=time_budget,
                cost_model=model,
                on_progress=on_progress,
            )
    document = placement_document(
        placement, load_LN, source=history.source, num_groups=groups, before=before, model=model
    )
    if output != "-":
        print_placement(document, outputs.stdout())
    page = experts_options.page_path(output, "placement.html") if html else None
    experts_options.save(document, output, page, render_placement_html)
