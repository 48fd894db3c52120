"""A placement of experts, and a replay, in a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.text import Text

from weftrace.experts.arrays import Floats
from weftrace.experts.certificate import Certificate
from weftrace.experts.document import MovesSummary, PlacementReport
from weftrace.experts.placement import Choice, Placement
from weftrace.experts.render.words import (
    balance_text,
    fit_words,
    gpu_ratios,
    how_judged,
    may_have_seen,
    mean_of,
    page_words,
    placement_headline,
    points,
)
from weftrace.experts.replays.document import ReplayReport
from weftrace.experts.replays.held_out import NextWindows
from weftrace.render.console_parts import BOLD, DIM, print_blocks, section, table
from weftrace.render.console_text import clean, joined
from weftrace.units import counted, duration, grouped, percent, size

MAX_WIDTH = 140
MAX_LAYERS = 6
MAX_ROWS = 16

_BARS = " ▁▂▃▄▅▆▇█"
_WHY = {
    "none": "nothing: the mean is reached",
    "replica granularity": "replicas are whole",
    "slots": "too few slots for the hottest expert",
    "node partition": "groups may not leave their node",
    "duplicates": "the hottest expert is on every GPU already",
    "constraints": "pins, or GPUs that differ",
    "packing": "the search ended here",
}


def print_placement(report: PlacementReport, console: Console) -> None:
    """Print what a placement does to loads: how balanced, how good that is, why this policy, what moves."""
    width = min(console.width, MAX_WIDTH)
    blocks: list[RenderableType] = [
        joined([Text("weftrace experts", style=BOLD), clean(report.source), _shape(report)], " · "),
        Text(clean(placement_headline(report)), style=BOLD),
        *([] if report.next_windows is None else [_next_windows(report, report.next_windows, width)]),
        _before_after(report, width),
        _profiles(report, width),
    ]
    if report.certificate is not None:
        blocks.append(_certificate(report.certificate, width))
    if report.choice is not None:
        blocks.append(_choice(report.choice, report.policy, width))
    if report.moves is not None:
        blocks.append(_moves(report.moves))
    print_blocks(blocks, console, width)


def print_placement_alone(placement: Placement, console: Console) -> None:
    """Print what a placement says without loads: its shape, its policy, its certificate."""
    width = min(console.width, MAX_WIDTH)
    summary = [(clean(name), clean(text)) for name, text in placement._describe()]
    column = max(len(name) for name, _ in summary) + 2
    lines = [joined([Text(f"{name:{column}}", style=DIM), text]) for name, text in summary]
    hint = "What it does to loads: weftrace.experts.placement_report(placement, loads)"
    print_blocks([Text("placement of experts", style=BOLD), Group(*lines), Text(hint, style=DIM)], console, width)


def print_replay(report: ReplayReport, console: Console) -> None:
    """Print what a replay says: what to use, and what each combination would have reached."""
    width = min(console.width, MAX_WIDTH)
    summary = (
        f"{report.num_windows} windows of {report.num_layers} layers × {report.num_experts} experts, "
        f"{report.num_slots} slots on {report.num_gpus} GPUs"
    )
    blocks: list[RenderableType] = [
        joined([Text("weftrace experts replay", style=BOLD), clean(report.source), summary], " · "),
        Text(clean(report.recommendation.text), style=BOLD),
        _replay_rows(report, width),
    ]
    print_blocks(blocks, console, width)


def _shape(report: PlacementReport) -> str:
    cluster = report.cluster
    nodes = f" in {cluster.num_nodes} nodes" if cluster.num_nodes > 1 else ""
    out = len(cluster.dead) + len(cluster.draining)
    return (
        f"{report.num_layers} layers, {report.num_experts} experts, {report.num_slots} slots on "
        f"{cluster.num_gpus} GPUs{nodes}{f', {out} of them out of service' if out else ''}"
    )


def _next_windows(report: PlacementReport, judged: NextWindows, width: int) -> RenderableType:
    lines = []
    for row in judged.rows:
        gain = round(points(row.balancedness_W, judged.rows[0].balancedness_W), 1)
        name = row.name.removeprefix("the ")
        if row.part == "this" and not name.startswith("this"):
            name = f"{name} (this)"
        cells = _balance_cells(name, row.balancedness_W, "window", judged.windows_W)
        lines.append([*cells, "" if row.part == "this" else "+" * (gain > 0) + grouped(gain, 1)])
    note = f"not seen when planning; {how_judged(judged)}; points: against the first row"
    heads = ("", "balancedness", "worst window", "points")
    parts: list[RenderableType] = [section("Next window", note), table(heads, lines, width, left=("",), bold=0)]
    if caution := may_have_seen(report):
        parts.append(Text(caution))
    return Group(*parts)


def _balance_cells(name: str, values: Sequence[float] | Floats, what: str, numbers: Sequence[int]) -> list[str]:
    """A name, the mean of its values, the least of them and where that is."""
    worst = int(np.argmin(values))
    return [clean(name), balance_text(mean_of(values)), f"{balance_text(values[worst])} ({what} {numbers[worst]})"]


def _before_after(report: PlacementReport, width: int) -> RenderableType:
    lines = []
    for loads in report.gpu_load.sides.values():
        name = "this placement" if loads.label == "after" else loads.label.removeprefix("the ")
        cells = _balance_cells(name, loads.balancedness_L, "layer", report.layers)
        lines.append([*cells, f"{1 / loads.balancedness_L.min():.3f} × mean"])
    if (certificate := report.certificate) is not None:
        lines.append(["no placement exceeds", balance_text(certificate.bound_balancedness), "", ""])
    heads = ("", "balancedness", "worst layer", "hottest GPU")
    return Group(
        section("Balance", f"{fit_words(report)}: mean over layers of mean / maximum GPU time; 1 is perfect"),
        table(heads, lines, width, left=("",), bold=len(lines) - (2 if certificate is not None else 1)),
    )


def _profiles(report: PlacementReport, width: int) -> RenderableType:
    """GPU times of the layers that were worst before, as bars of their mean: ▄ is the mean, █ twice that or more."""
    loads = report.gpu_load.sides
    first = next(iter(loads.values()))
    layers = np.sort(np.argsort(first.balancedness_L, kind="stable")[:MAX_LAYERS])
    room = max((width - 14) // 2 - 2, 8)
    ratios = [gpu_ratios(report, each.load_LG).tolist() for each in loads.values()]
    lines = [[str(report.layers[layer]), *(_bars(ratio_LG[layer], room) for ratio_LG in ratios)] for layer in layers]
    called = page_words(report)
    heads = ("layer", *(called[which] for which in loads))
    least = "" if first.label == "after" else f" under {first.label}"
    note = f"the {len(layers)} layers least balanced{least}, GPU by GPU: ▄ is the mean, █ twice that or more"
    return Group(section("GPU time", note), table(heads, lines, width, left=heads))


def _bars(relative_G: Sequence[float], room: int) -> str:
    """One bar a GPU; where they do not fit, one for the hottest of several neighbours."""
    group = -(-len(relative_G) // room)
    hottest = [max(relative_G[at : at + group]) for at in range(0, len(relative_G), group)]
    return "".join(_BARS[min(round(value * 4), 8)] for value in hottest)


def _certificate(certificate: Certificate, width: int) -> RenderableType:
    binding = np.asarray(certificate.binding_L)
    lines = []
    for name, number in Counter(certificate.binding_L).most_common():
        here = (binding == name) & (certificate.mean_L > 0)
        mean = certificate.mean_L[here]
        lines.append(
            [
                _WHY.get(name, clean(name)),
                f"{number:,}",
                balance_text(mean_of(mean / certificate.achieved_L[here])),
                balance_text(mean_of(mean / certificate.bound_L[here])),
                f"{int(certificate.is_optimal_L[binding == name].sum()):,}",
            ]
        )
    target, slots = certificate.target, certificate.slots_for_target
    needed = (
        f"Under these rules no number of slots reaches a balancedness of {target}."
        if slots is None
        else f"A balancedness of {target} needs at least {slots:,} slots."
    )
    heads = ("what keeps a layer from its mean", "layers", "balancedness", "bound", "proved optimal")
    note = f"largest gap to the bound in any layer: {percent(certificate.gap, 3)}"
    return Group(section("Certificate", note), table(heads, lines, width, left=heads[:1]), Text(needed))


def _choice(choice: Choice, policy: str, width: int) -> RenderableType:
    lines = [
        [
            cost.policy,
            balance_text(cost.balancedness),
            *(f"{us:,.0f}" for us in (cost.compute_us, cost.dispatch_us, cost.combine_us, cost.total_us)),
            f"{cost.remote_nodes:.2f}",
        ]
        for cost in choice.costs
    ]
    heads = ("policy", "balance", "compute", "dispatch", "combine", "total", "nodes")
    taken = next((at for at, line in enumerate(lines) if line[0] == policy), None)
    note = (
        "estimated µs of an average layer and micro-batch on these loads; nodes: remote ones a token visits"
        if lines
        else ""
    )
    parts: list[RenderableType] = [section("Policy", note)]
    if lines:
        parts.append(table(heads, lines, width, left=("policy",), bold=taken))
    parts.append(Text(clean(choice.reason)))
    parts += [Text(f"{clean(name)} was not possible: {clean(why)}", style=DIM) for name, why in choice.ruled_out]
    if choice.assumptions:
        parts.append(Text("Assumed: " + clean("; ".join(choice.assumptions)), style=DIM))
    return Group(*parts)


def _moves(moves: MovesSummary) -> RenderableType:
    lines = [
        ["slots rewritten", f"{moves.num_moves:,} of {moves.num_slots:,}"],
        ["rounds", f"{moves.num_rounds:,}; a GPU holds {moves.most_staged} experts aside at most"],
        *_price(moves),
        [
            "balancedness",
            f"{balance_text(moves.before_balancedness)} before, {balance_text(moves.after_balancedness)} after",
        ],
        ["not priced" if moves.num_bytes is None else "assumed", clean("; ".join(moves.assumptions))],
    ]
    if moves.num_from_storage:
        lines.insert(1, ["from storage", f"{moves.num_from_storage:,}: every copy is lost"])
    body = Group(*(joined([Text(f"{name:22}", style=DIM), text]) for name, text in lines))
    return Group(section("Moves", "one peer per rank in each round; the JSON lists them in order"), body)


def _price(moves: MovesSummary) -> list[list[str]]:
    """What the moves cost and when that has paid; nothing where the size of an expert is not known."""
    sent, time_s, saved_s = moves.num_bytes, moves.time_s, moves.saved_s_per_step
    if sent is None or time_s is None or saved_s is None:
        return []
    steps = "never: the busiest GPUs get no less to do"
    if moves.break_even_steps is not None:
        shorter = f"each {duration(saved_s * 1e9)} shorter if loads stay as they are (estimated)"
        steps = f"{counted(moves.break_even_steps, 'step')}, {shorter}"
    return [["weights sent", size(sent)], ["estimated time", duration(time_s * 1e9)], ["pays after", steps]]


def _replay_rows(report: ReplayReport, width: int) -> RenderableType:
    rows, best = report.rows, report.recommendation
    order = sorted(range(len(rows)), key=lambda at: -rows[at].balancedness)
    marks = {best.baseline_row: "baseline", best.row: "best"}
    if best.cheaper_row is not None:
        marks.setdefault(best.cheaper_row, "cheaper")
    shown = [at for place, at in enumerate(order) if place < MAX_ROWS or at in marks]
    lines = []
    for at in shown:
        row = rows[at]
        lines.append(
            [
                clean(row.solver),
                clean(row.estimator) + ("" if row.window is None else f" {row.window}"),
                "once" if row.interval is None else str(row.interval),
                f"{row.balancedness:.4f}",
                f"{row.low:.4f}–{row.high:.4f}",
                percent(row.moved_fraction, 0),
                "–" if row.plan_ms is None else f"{row.plan_ms:,.0f}",
                marks.get(at, ""),
            ]
        )
    heads = ("solver", "plans for", "every", "balance", "95 % band", "moved", "ms", "")
    left = len(rows) - len(shown)
    parts: list[RenderableType] = [
        section(
            "What each would have reached",
            "planned on what was seen, scored on the window that followed. moved: slots rewritten by a re-plan",
        ),
        table(heads, lines, width, left=("solver", "plans for", ""), bold=shown.index(best.row)),
    ]
    if left:
        parts.append(Text(f"… and {left:,} more in the JSON", style=DIM))
    return Group(*parts)
