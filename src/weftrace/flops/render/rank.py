"""FLOPs joined to a trace, in the terminal: FLOP/s and MFU of each phase of one rank."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from weftrace.flops.render.words import JOIN_TERMS, share_text
from weftrace.render.console_parts import DIM, section, table
from weftrace.render.console_text import clean
from weftrace.units import counted, short_time, si

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
            short_time(part["elapsed_ns"]),
            short_time(part["busy_ns"]),
            "–" if part["flops_per_s"] is None else si(part["flops_per_s"]),
            share_text(part["mfu"]),
            *[share_text(part["mfu_full"])] * full,
            share_text(part["hfu"]),
        ]
        for part in told["phases"]
    ]
    if told["num_no_phase"]:
        lines.append(["not launched", "", short_time(told["no_phase_ns"]), *[""] * (len(heads) - 3)])
    flops = sum(part["flops"] for part in told["phases"])
    rate = "–" if told["flops_per_s"] is None else si(told["flops_per_s"])
    total = ["all", si(flops), short_time(told["span_ns"]), "", rate, share_text(told["mfu"])]
    lines.append([*total, *[share_text(told["mfu_full"])] * full, share_text(told["hfu"])])
    note = f"{clean(told['model'])}, {counted(told['steps'], 'step')}"
    note += f", of the peaks of {clean(told['hardware'])}" if told["hardware"] else ""
    parts: list[RenderableType] = [
        section("FLOPs by phase", note),
        table(heads, lines, width, left=("phase",), bold=len(lines) - 1),
    ]
    if told["ranges"]:
        rows = [
            [clean(row["path"]), si(row["flops"]), short_time(row["busy_ns"]), share_text(row["mfu"])]
            for row in told["ranges"][:MAX_RANGES]
        ]
        parts.append(
            table(("module range, forward", "FLOP", "busy", "MFU"), rows, width, left=("module range, forward",))
        )
    keys = ("elapsed", "mfu") if told["hardware"] else ("elapsed",)
    parts += [Text(f"{JOIN_TERMS[key][0]}: {JOIN_TERMS[key][1]}", style=DIM) for key in keys]
    parts += [Text(f"- {clean(text)}") for text in told["notes"]]
    return Group(*parts)
