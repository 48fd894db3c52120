"""Documents about experts for tests of what draws them: small ones for the pencil, large ones made with a seed.

The placement: 2 layers after three dense ones, 4 experts, 2 nodes of one GPU with 3 slots each, even split.

    layer 3, loads 8 4 2 2      before  GPU 0: 0 1   = 12   GPU 1: 2 3   =  4      mean 8   balancedness 8/12  = 0.6667
                                after   GPU 0: 0 1 2 =  8   GPU 1: 0 1 3 =  8                            8/8   = 1
    layer 4, loads 12 1 0 3     before  GPU 0: 0 1   = 13   GPU 1: 2 3   =  3      mean 8                8/13  = 0.6154
                                after   GPU 0: 0 1 2 = 6.5  GPU 1: 0 1 3 = 9.5                           8/9.5 = 0.8421

With copies of 0 and 3 instead, layer 4 would have 6 + 1.5 + 1 = 8.5 and 7.5: the bound given is 8.5, and the gap
9.5 / 8.5 - 1 = 11.8 %. The moves are three of the twelve slots, one of them from storage; they go with no particular
map before. The next window: two of them, which gained 20 and 10 points over the placement before, kept.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from weftrace.experts.outputs import OUTPUTS

#: JSON as a reader gets it; that it fits the schema is tested in test_page.py.
Document = Any


MOVING = {
    "num_from_storage": 1,
    "expert_bytes": 44_000_000,
    "most_staged": 2,
    "assumptions": ["H800 SXM: 50 GB/s between nodes, 160 GB/s inside a node"],
    "saved_s_per_step": 0.0004,
    "break_even_steps": 5,
}


def read(document: Document) -> Any:
    """The placement or replay that a document holds."""
    (output,) = (each for each in OUTPUTS if each.schema == document["schema"])
    assert output.load is not None
    return output.load(document, what="a document of the tests")


def page(document: Document) -> str:
    """The page of a document."""
    (output,) = (each for each in OUTPUTS if each.schema == document["schema"])
    assert output.page is not None
    return output.page(read(document))


def placement(**changes: Any) -> Document:
    """The placement of the pencil; changes: fields to replace."""
    document: Document = {
        "schema": "weftrace.placement/1",
        "weftrace": "0.0.0",
        "source": "pencil.json",
        "num_layers": 2,
        "layers": [3, 4],
        "num_experts": 4,
        "num_slots": 6,
        "num_groups": 2,
        "cluster": {
            "num_nodes": 2,
            "slots_of_gpu": [3, 3],
            "speed_of_gpu": [1.0, 1.0],
            "dead": [],
            "draining": [],
        },
        "policy": "global",
        "split": "even",
        "expert_of_slot": [[0, 1, 2, 0, 1, 3], [0, 1, 2, 0, 1, 3]],
        "share_of_slot": None,
        "solver_of_layer": ["lpt-swaps", "deepseek"],
        "certificate": {
            "mean": [8.0, 8.0],
            "bound": [8.0, 8.5],
            "achieved": [8.0, 9.5],
            "is_optimal": [True, False],
            "binding": ["none", "packing"],
            "balancedness": (1 + 8 / 9.5) / 2,
            "bound_balancedness": (1 + 8 / 8.5) / 2,
            "gap": 9.5 / 8.5 - 1,
            "target": 0.99,
            "slots_for_target": 8,
        },
        "choice": {
            "costs": [
                cost("global", 0.921, 100.0, 60.0, 110.0, 0.9),
                cost("hierarchical", 0.7, 140.0, 50.0, 95.0, 0.7),
            ],
            "reason": "global is cheaper by 15.0 µs a layer: it balances better, which outweighs its dispatch",
            "assumptions": ["hardware: H800", "tokens a GPU: 4096"],
            "ruled_out": [["semi-hierarchical", "no foreign replicas were allowed"]],
        },
        "loads": [[8.0, 4.0, 2.0, 2.0], [12.0, 1.0, 0.0, 3.0]],
        "next_windows": {
            "windows": [10, 11],
            "look_back": 4,
            "rows": [
                {"name": "this re-plan", "part": "this", "balancedness": [0.9, 0.8]},
                {"name": "the placement before, kept", "part": "baseline", "balancedness": [0.7, 0.7]},
                {"name": "the published EPLB", "part": "beside", "balancedness": [0.8, 0.78]},
            ],
        },
        "gpu_load": {
            "before": {
                "label": "the placement before",
                "load": [[12.0, 4.0], [13.0, 3.0]],
                "balancedness": [8 / 12, 8 / 13],
            },
            "after": {"label": "after", "load": [[8.0, 8.0], [6.5, 9.5]], "balancedness": [1.0, 8 / 9.5]},
        },
        "moves": {
            "num_moves": 3,
            "num_slots": 12,
            "bytes": 3 * 44e6,
            "time_s": 0.00176,
            "rounds": 2,
            **MOVING,
            "before_balancedness": (8 / 12 + 8 / 13) / 2,
            "after_balancedness": (1 + 8 / 9.5) / 2,
            "list": [
                move(0, 3, 3, 0, 0, 0, 1),
                move(1, 3, 4, 1, 1, 0, 1),
                move(0, 4, 2, 2, -1, -1, 0),
            ],
        },
    }
    return {**document, **changes}


def cost(policy: str, balancedness: float, compute: float, dispatch: float, combine: float, nodes: float) -> Document:
    return {
        "policy": policy,
        "balancedness": balancedness,
        "compute_us": compute,
        "dispatch_us": dispatch,
        "combine_us": combine,
        "remote_nodes": nodes,
        "total_us": compute + dispatch + combine,
    }


def move(at: int, layer: int, slot: int, expert: int, from_slot: int, from_gpu: int, to_gpu: int) -> Document:
    return {
        "round": at,
        "layer": layer,
        "slot": slot,
        "expert": expert,
        "from_slot": from_slot,
        "from_gpu": from_gpu,
        "to_gpu": to_gpu,
        "staged": False,
    }


def bare_placement() -> Document:
    """No certificate, no choice, no moves, nothing before, no next window."""
    document = placement(certificate=None, choice=None, moves=None, solver_of_layer=[], next_windows=None)
    return {**document, "gpu_load": {"before": None, "after": document["gpu_load"]["after"]}}


def large_placement(
    num_layers: int = 58,
    num_experts: int = 256,
    num_slots: int = 288,
    num_gpus: int = 32,
    num_nodes: int = 4,
    *,
    uneven: bool = False,
    sigma: tuple[float, float] = (0.6, 1.6),
    dead: tuple[int, ...] = (),
    moved: float = 1.0,
    seed: int = 1,
) -> Document:
    """A placement of lognormal loads by plain rules: copies to the largest replica, replicas to the emptiest GPU.

    moved: the part of the slots that the list of moves names. dead GPUs keep empty slots.
    """
    draw = random.Random(seed)
    per_gpu = num_slots // num_gpus
    usable = [gpu for gpu in range(num_gpus) if gpu not in dead]
    layers = []
    for layer in range(num_layers):
        spread = sigma[0] + (sigma[1] - sigma[0]) * layer / max(1, num_layers - 1)
        loads = [draw.lognormvariate(8, spread) for _ in range(num_experts)]
        layers.append(_placed(loads, per_gpu * len(usable), usable, per_gpu, num_gpus))
    after = [_gpu_loads(layer, num_gpus, per_gpu) for layer in layers]
    before = []
    for placed in layers:
        row = [0.0] * num_gpus
        for expert, load in enumerate(placed["loads"]):
            row[usable[expert * len(usable) // num_experts]] += load
        before.append(row)
    mean = [sum(layer["loads"]) / len(usable) for layer in layers]
    bound = [max(m, max(layer["values"])) for m, layer in zip(mean, layers, strict=True)]
    achieved = [max(row) for row in after]
    if uneven:
        for placed in layers:  # as wide in text as solved shares are
            weights = [draw.uniform(0.9, 1.1) * share for share in placed["shares"]]
            whole = dict.fromkeys(placed["experts"], 0.0)
            for expert, weight in zip(placed["experts"], weights, strict=True):
                whole[expert] += weight
            placed["shares"] = [
                weight / (whole[expert] or 1.0) for expert, weight in zip(placed["experts"], weights, strict=True)
            ]
    slots = [(layer, slot) for layer in range(num_layers) for slot in range(num_slots)]
    moving = [(layer, slot) for layer, slot in slots if layers[layer]["experts"][slot] >= 0 and draw.random() < moved]
    balancedness = sum(m / a for m, a in zip(mean, achieved, strict=True)) / num_layers
    document = placement(
        source=f"{num_layers} layers of lognormal loads, seed {seed}",
        num_layers=num_layers,
        layers=list(range(3, 3 + num_layers)),
        num_experts=num_experts,
        num_slots=num_slots,
        num_groups=8,
        cluster={
            "num_nodes": num_nodes,
            "slots_of_gpu": [per_gpu] * num_gpus,
            "speed_of_gpu": [1.0] * num_gpus,
            "dead": list(dead),
            "draining": [],
        },
        split="uneven" if uneven else "even",
        expert_of_slot=[layer["experts"] for layer in layers],
        share_of_slot=[layer["shares"] for layer in layers] if uneven else None,
        solver_of_layer=["lpt-swaps"] * num_layers,
        loads=[layer["loads"] for layer in layers],
        gpu_load={
            "before": {
                "label": "the placement before",
                "load": before,
                "balancedness": [m / max(row) for m, row in zip(mean, before, strict=True)],
            },
            "after": {
                "label": "after",
                "load": after,
                "balancedness": [m / a for m, a in zip(mean, achieved, strict=True)],
            },
        },
        certificate={
            "mean": mean,
            "bound": bound,
            "achieved": achieved,
            "is_optimal": [a <= b * (1 + 1e-9) for a, b in zip(achieved, bound, strict=True)],
            "binding": [
                "slots" if b > 1.0001 * m else "packing" if a > 1.0001 * m else "none"
                for a, b, m in zip(achieved, bound, mean, strict=True)
            ],
            "balancedness": balancedness,
            "bound_balancedness": sum(m / b for m, b in zip(mean, bound, strict=True)) / num_layers,
            "gap": max(a / b - 1 for a, b in zip(achieved, bound, strict=True)),
            "target": 0.99,
            "slots_for_target": num_slots,
        },
    )
    document["moves"] = {
        "num_moves": len(moving),
        "num_slots": num_layers * num_slots,
        "bytes": len(moving) * 44e6,
        "time_s": len(moving) * 44e6 / num_gpus / 50e9,
        "rounds": 40,
        **MOVING,
        "before_balancedness": document["gpu_load"]["before"]["balancedness"][0],
        "after_balancedness": balancedness,
        "list": [
            _some_move(draw, layer, slot, layers, per_gpu, num_slots) | {"layer": layer + 3} for layer, slot in moving
        ],
    }
    return document


def _placed(loads: list[float], num_slots: int, usable: list[int], per_gpu: int, num_gpus: int) -> Document:
    copies = [1] * len(loads)
    for _ in range(num_slots - len(loads)):
        copies[max(range(len(loads)), key=lambda e: loads[e] / copies[e] if copies[e] < len(usable) else -1)] += 1
    values = [load / count for load, count in zip(loads, copies, strict=True)]
    room = dict.fromkeys(usable, per_gpu)
    filled = dict.fromkeys(usable, 0.0)
    held: list[list[int]] = [[] for _ in range(num_gpus)]
    for expert in sorted(range(len(loads)), key=lambda e: -values[e]):
        for _ in range(copies[expert]):
            free = [gpu for gpu in usable if room[gpu] and expert not in held[gpu]] or [g for g in usable if room[g]]
            gpu = min(free, key=lambda g: filled[g])
            room[gpu] -= 1
            filled[gpu] += values[expert]
            held[gpu].append(expert)
    experts = [expert for row in held for expert in row + [-1] * (per_gpu - len(row))]
    shares = [0.0 if expert < 0 else 1 / copies[expert] for expert in experts]
    return {"loads": loads, "experts": experts, "shares": shares, "values": values}


def _gpu_loads(layer: Document, num_gpus: int, per_gpu: int) -> list[float]:
    part = [
        layer["loads"][expert] * share if expert >= 0 else 0.0
        for expert, share in zip(layer["experts"], layer["shares"], strict=True)
    ]
    return [sum(part[gpu * per_gpu : (gpu + 1) * per_gpu]) for gpu in range(num_gpus)]


def _some_move(
    draw: random.Random, layer: int, slot: int, layers: list[Document], per_gpu: int, num_slots: int
) -> Document:
    expert = layers[layer]["experts"][slot]
    source = draw.randrange(num_slots)
    return move(draw.randrange(40), layer, slot, expert, source, source // per_gpu, slot // per_gpu)


def replay(**changes: Any) -> Document:
    """Five rows on six windows: the recommended, the published on the last window, a cheaper one, once, the ceiling."""
    document: Document = {
        "schema": "weftrace.replay/1",
        "weftrace": "0.0.0",
        "source": "pencil.npz",
        "num_windows": 6,
        "num_layers": 2,
        "num_experts": 4,
        "num_slots": 6,
        "num_gpus": 2,
        "rows": [
            row("balance+resplit", "mean", 4, 2, 0.96, 0.95, 0.97, 0.2, 3, 4.0),
            row("deepseek", "last", None, 2, 0.90, 0.88, 0.92, 0.9, 3, 2.0),
            row("replan", "ema", 4, 2, 0.955, 0.94, 0.965, 0.05, 3, 1.0),
            row("once", "first window", None, None, 0.80, 0.75, 0.85, 0.0, 1, 2.0),
            row("oracle", "oracle", None, 1, 0.99, 0.988, 0.992, 0.9, 5, None),
        ],
        "series": [
            series(0, [0.95, 0.96, 0.97, 0.95, 0.97], [0.2, None, 0.2, None, 0.2]),
            series(1, [0.95, 0.90, 0.85, 0.90, 0.90], [0.9, None, 0.9, None, 0.9]),
            series(2, [0.95, 0.96, 0.955, 0.955, 0.955], [0.05, None, 0.05, None, 0.05]),
            series(3, [0.95, 0.85, 0.80, 0.75, 0.65], [None] * 5),
            series(4, [0.99, 0.99, 0.99, 0.99, 0.99], [0.9, 0.9, 0.9, 0.9, 0.9]),
        ],
        "recommendation": {
            "row": 0,
            "baseline_row": 1,
            "gain_points": 6.0,
            "gain_low": 4.5,
            "gain_high": 7.5,
            "cheaper_row": 2,
            "text": "balance+resplit on the mean of 4 windows gains 6.0 points (4.5 to 7.5) over deepseek on last.",
        },
    }
    return {**document, **changes}


def series(number: int, balancedness: Sequence[float], moved: Sequence[float | None]) -> Document:
    """The first window is never scored: there is nothing to plan it on."""
    return {"row": number, "balancedness": [None, *balancedness], "moved_fraction": [None, *moved]}


def row(
    solver: str,
    estimator: str,
    window: int | None,
    interval: int | None,
    balancedness: float,
    low: float,
    high: float,
    moved: float,
    plans: int,
    plan_ms: float | None,
) -> Document:
    return {
        "solver": solver,
        "estimator": estimator,
        "window": window,
        "interval": interval,
        "balancedness": balancedness,
        "low": low,
        "high": high,
        "moved_fraction": moved,
        "num_plans": plans,
        "plan_ms": plan_ms,
    }


def large_replay(num_windows: int = 200, seed: int = 3) -> Document:
    """Thirty-odd rows over windows that drift: a level by row, waves, noise, and a shift of the loads halfway."""
    draw = random.Random(seed)
    rows, all_series = [], []
    kinds = [
        (solver, estimator, window, interval)
        for solver in ("deepseek", "balance", "balance+resplit", "replan")
        for estimator, window in (("last", None), ("mean", 8), ("ema", 4))
        for interval in (1, 8)
    ] + [("once", "first window", None, None), ("oracle", "oracle", None, 1)]
    level = {
        "deepseek": 0.88,
        "balance": 0.91,
        "balance+resplit": 0.95,
        "replan": 0.935,
        "once": 0.75,
        "oracle": 0.9995,
    }
    moved = {"deepseek": 0.93, "balance": 0.9, "balance+resplit": 0.6, "replan": 0.05, "once": 0.0, "oracle": 0.95}
    for number, (solver, estimator, window, interval) in enumerate(kinds):
        base = (
            level[solver] + {"last": -0.01, "mean": 0.0, "ema": 0.012}.get(estimator, 0) - 0.004 * ((interval or 1) > 1)
        )
        values: list[float | None] = [None]
        moves: list[float | None] = [None]
        for at in range(1, num_windows):
            dip = 0.08 * max(0.0, 1 - abs(at - num_windows / 2) / 12) if solver != "oracle" else 0
            fall = 0.1 * at / num_windows if solver == "once" else 0
            noise = draw.gauss(0, 0.006 if solver != "oracle" else 0.0002)
            values.append(min(1.0, base - dip - fall + noise))
            planned = interval is not None and (at - 1) % interval == 0
            moves.append(moved[solver] * draw.uniform(0.8, 1.05) if planned else None)
        known = [value for value in values if value is not None]
        mean = sum(known) / len(known)
        summary = [value for value in moves if value is not None]
        rows.append(
            row(
                solver,
                estimator,
                window,
                interval,
                mean,
                mean - 0.006,
                min(1.0, mean + 0.005),
                sum(summary) / len(summary) if summary else 0.0,
                max(1, len(summary)),
                draw.uniform(1, 30),
            )
        )
        all_series.append({"row": number, "balancedness": values, "moved_fraction": moves})
    best = max(range(len(rows) - 2), key=lambda n: rows[n]["balancedness"])
    gain = 100 * (rows[best]["balancedness"] - rows[1]["balancedness"])
    return replay(
        source="loads-2026-05-12.npz",
        num_windows=num_windows,
        num_layers=58,
        num_experts=256,
        num_slots=288,
        num_gpus=32,
        rows=rows,
        series=all_series,
        recommendation={
            "row": best,
            "baseline_row": 1,
            "gain_points": gain,
            "gain_low": gain - 0.6,
            "gain_high": gain + 0.7,
            "cheaper_row": next(n for n, r in enumerate(rows) if r["solver"] == "replan" and r["estimator"] == "ema"),
            "text": f"Use balance+resplit on ema of 4 windows, every window: {gain:.1f} points over deepseek on last. "
            "replan on ema moves 5 % of the slots for 1.6 points less.",
        },
    )
