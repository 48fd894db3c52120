"""From which batch on overlapping pays, in a terminal; drawn from its document, so a saved JSON prints the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from weftrace.moe.render.sweep_terminal import assumed_in
from weftrace.moe.sweeps.crossings import signed
from weftrace.moe.sweeps.document import PaysDocument
from weftrace.render.console_parts import BOLD, DIM, print_blocks, section, table
from weftrace.render.console_text import clean, joined

MAX_WIDTH = 140
SAMPLES = 8


def print_pays(document: PaysDocument, console: Console) -> None:
    """Print a `weftrace.profile.pays/1` document: from where on each list pays, and what it gains at some batches."""
    width = min(console.width, MAX_WIDTH)
    curves: list[Mapping[str, Any]] = [dict(curve) for curve in document["curves"]]  # type: ignore[call-overload]
    shared = ", ".join(f"{name} {value}" for name, value in document["shared"].items())
    blocks: list[RenderableType] = [
        joined([Text("weftrace profile pays", style=BOLD), clean(shared)], " · "),
        Text(clean(document["headline"]), style=BOLD),
        _lists(document, curves, width),
        _gains(document, curves, width),
    ]
    blocks.append(assumed_in({curve["overlap"]: curve["assumed"] for curve in curves if not curve["reason"]}))
    reasons = [Text(clean(f"{curve['overlap']}: {curve['reason']}")) for curve in curves if curve["reason"]]
    if reasons:
        blocks.append(Group(section("Impossible here"), *reasons))
    print_blocks(blocks, console, width)


def _lists(document: PaysDocument, curves: Sequence[Mapping[str, Any]], width: int) -> RenderableType:
    lines = [
        [
            curve["overlap"],
            "–" if curve["pays_from"] is None else f"{curve['pays_from']:,}",
            ", ".join(f"{first:,}–{last:,}" for first, last in curve["pays_between"][:2])
            + (f" +{len(curve['pays_between']) - 2}" if len(curve["pays_between"]) > 2 else "")
            or "–",
            signed(curve["best_gain"]),
            "–" if curve["best_batch"] is None else f"{curve['best_batch']:,}",
        ]
        for curve in curves[1:]
        if not curve["reason"]
    ]
    if not lines:
        return Text("none of the lists can run here")
    note = f"against no overlap, {document['unit']} a GPU; {_all(len(document['batches']))} simulated"
    heads = ["", "pays from", "faster at", "at best", "at"]
    return Group(section("Lists", note), table(heads, lines, width, left=[""]))


def _all(num: int) -> str:
    return f"each of {num:,} batches" if num > 1 else "one batch"


def _gains(document: PaysDocument, curves: Sequence[Mapping[str, Any]], width: int) -> RenderableType:
    batches = document["batches"]
    shown = sorted({round(at * (len(batches) - 1) / (SAMPLES - 1)) for at in range(SAMPLES)})
    base = curves[0]["tokens_per_gpu"]
    others = [curve for curve in curves[1:] if not curve["reason"]]
    lines = [
        [
            f"{batches[at]:,}",
            "–" if base[at] is None else f"{base[at]:,.0f}",
            *(_gain(curve["tokens_per_gpu"][at], base[at]) for curve in others),
        ]
        for at in shown
    ]
    heads = ["batch", "none, tokens/s", *(curve["overlap"] for curve in others)]
    note = Text("–: the batch cannot be cut so; tokens a second of one GPU, all layers alike", style=DIM)
    return Group(section("Gain over no overlap", "some of the batches"), table(heads, lines, width), note)


def _gain(rate: float | None, base: float | None) -> str:
    return "–" if rate is None or not base else signed(rate / base - 1)
