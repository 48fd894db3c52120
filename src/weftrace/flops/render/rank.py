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
    summary = rank.get("flops")
    if summary is None:
        return None
    full = any(part["full_flops"] != part["flops"] for part in summary["phases"])
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
        for part in summary["phases"]
    ]
    if summary["num_no_phase"]:
        lines.append(["not launched", "", duration(summary["no_phase_ns"]), *[""] * (len(heads) - 3)])
    flops = sum(part["flops"] for part in summary["phases"])
    rate = "–" if summary["flops_per_s"] is None else si(summary["flops_per_s"])
    total = ["all", si(flops), duration(summary["span_ns"]), "", rate, small_percent(summary["mfu"])]
    lines.append([*total, *[small_percent(summary["mfu_full"])] * full, small_percent(summary["hfu"])])
    note = f"{clean(summary['model'])}, {counted(summary['steps'], 'step')}"
    note += f", of the peaks of {clean(summary['hardware'])}" if summary["hardware"] else ""
    parts: list[RenderableType] = [
        section("FLOPs by phase", note),
        table(heads, lines, width, left=("phase",), bold=len(lines) - 1),
    ]
    if summary["ranges"]:
        rows = [
            [clean(row["path"]), si(row["flops"]), duration(row["busy_ns"]), small_percent(row["mfu"])]
            for row in summary["ranges"][:MAX_RANGES]
        ]
        parts.append(
            table(("module range, forward", "FLOP", "busy", "MFU"), rows, width, left=("module range, forward",))
        )
    keys = ("elapsed", "mfu") if summary["hardware"] else ("elapsed",)
    parts += [Text(f"{JOIN_TERMS[key][0]}: {JOIN_TERMS[key][1]}", style=DIM) for key in keys]
    parts += [Text(f"- {clean(text)}") for text in summary["notes"]]
    return Group(*parts)
