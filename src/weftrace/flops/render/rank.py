"""FLOPs joined to a trace, in the terminal: FLOP/s and MFU of each phase of one rank."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from weftrace.flops.render.words import JOIN_TERMS
from weftrace.render.console_parts import DIM, section, table
from weftrace.render.console_text import clean
from weftrace.units import counted, duration, si, small_percent

MAX_RANGES = 12


def flops_block(rank: Mapping[str, Any], width: int) -> RenderableType | None:
    """The section of a rank that has `flops`; None for one that has not."""
    told = rank.get("flops")
    if told is None:
        return None
    full = any(part["full_flops"] != part["flops"] for part in told["phases"])
    heads = ["phase", "FLOP", "elapsed", "busy", "FLOP/s", "MFU", *["MFU, PaLM"] * full, "HFU"]
    lines = [
        [
            part["phase"],
            si(part["flops"]),
            duration(part["elapsed_ns"]),
            duration(part["busy_ns"]),
            "–" if part["flops_per_s"] is None else si(part["flops_per_s"]),
            small_percent(part["mfu"]),
            *[small_percent(part["mfu_full"])] * full,
            small_percent(part["hfu"]),
        ]
        for part in told["phases"]
    ]
    if told["num_no_phase"]:
        lines.append(["not launched", "", duration(told["no_phase_ns"]), *[""] * (len(heads) - 3)])
    flops = sum(part["flops"] for part in told["phases"])
    rate = "–" if told["flops_per_s"] is None else si(told["flops_per_s"])
    total = ["all", si(flops), duration(told["span_ns"]), "", rate, small_percent(told["mfu"])]
    lines.append([*total, *[small_percent(told["mfu_full"])] * full, small_percent(told["hfu"])])
    note = f"{clean(told['model'])}, {counted(told['steps'], 'step')}"
    note += f", of the peaks of {clean(told['hardware'])}" if told["hardware"] else ""
    parts: list[RenderableType] = [
        section("FLOPs by phase", note),
        table(heads, lines, width, left=("phase",), bold=len(lines) - 1),
    ]
    if told["ranges"]:
        rows = [
            [clean(row["path"]), si(row["flops"]), duration(row["busy_ns"]), small_percent(row["mfu"])]
            for row in told["ranges"][:MAX_RANGES]
        ]
        parts.append(
            table(("module range, forward", "FLOP", "busy", "MFU"), rows, width, left=("module range, forward",))
        )
    keys = ("elapsed", "mfu") if told["hardware"] else ("elapsed",)
    parts += [Text(f"{JOIN_TERMS[key][0]}: {JOIN_TERMS[key][1]}", style=DIM) for key in keys]
    parts += [Text(f"- {clean(text)}") for text in told["notes"]]
    return Group(*parts)
