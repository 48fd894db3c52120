"""From which batch on overlapping pays, in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.text import Text

from weftrace.moe.render.sweep_terminal import assumed_in, opening_of
from weftrace.moe.sweeps.break_even import Curve, Pays
from weftrace.render.console_parts import DIM, print_blocks, rows_table, section, table
from weftrace.render.console_text import clean
from weftrace.units import signed

MAX_WIDTH = 140
SAMPLES = 8


def print_pays(found: Pays, console: Console) -> None:
    """Print from where on each list pays, and what it gains at some batches."""
    width = min(console.width, MAX_WIDTH)
    others = [curve for curve in found.curves[1:] if not curve.reason]
    blocks: list[RenderableType] = [
        *opening_of("pays", found),
        _lists(found, others, width),
        _gains(found, others, width),
    ]
    blocks.append(assumed_in({curve.overlap: curve.assumed for curve in found.curves if not curve.reason}))
    reasons = [Text(clean(f"{curve.overlap}: {curve.reason}")) for curve in found.curves if curve.reason]
    if reasons:
        blocks.append(Group(section("Impossible here"), *reasons))
    print_blocks(blocks, console, width)


def _lists(found: Pays, curves: Sequence[Curve], width: int) -> RenderableType:
    if not curves:
        return Text("none of the lists can run here")
    num = len(found.batches)
    simulated = f"each of {num:,} batches" if num > 1 else "one batch"
    rows = rows_table(
        Curve, curves, width, ["overlap", "pays_from", "pays_between", "best_gain", "best_batch"], left=("",),
        heads={"overlap": "", "pays_between": "faster at"},
        cells={
            "pays_from": lambda curve: "–" if curve.pays_from is None else f"{curve.pays_from:,}",
            "pays_between": _between, "best_gain": lambda curve: signed(curve.best_gain),
            "best_batch": lambda curve: "–" if curve.best_batch is None else f"{curve.best_batch:,}",
        },
    )  # fmt: skip
    return Group(section("Lists", f"against no overlap, {found.unit} a GPU; {simulated} simulated"), rows)


def _between(curve: Curve) -> str:
    texts = [f"{first:,}–{last:,}" for first, last in curve.pays_between]
    return ", ".join(texts[:2]) + f" +{len(texts) - 2}" * (len(texts) > 2) or "–"


def _gains(found: Pays, curves: Sequence[Curve], width: int) -> RenderableType:
    num = len(found.batches)
    shown = sorted({round(at * (num - 1) / (SAMPLES - 1)) for at in range(SAMPLES)})
    base = found.curves[0].tokens_per_gpu
    lines = [
        [
            f"{found.batches[at]:,}",
            "–" if (rate := base[at]) is None else f"{rate:,.0f}",
            *(_gain(curve.tokens_per_gpu[at], rate) for curve in curves),
        ]
        for at in shown
    ]
    heads = ["batch", "none, tokens/s", *(curve.overlap for curve in curves)]
    note = Text("–: the batch cannot be cut so; tokens per second of one GPU, all layers alike", style=DIM)
    return Group(section("Gain over no overlap", "some of the batches"), table(heads, lines, width), note)


def _gain(rate: float | None, base: float | None) -> str:
    return "–" if rate is None or not base else signed(rate / base - 1)
