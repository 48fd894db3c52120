"""Who computes longer than those that do the same, in the terminal; nothing where nobody stands out."""

from __future__ import annotations

from rich.console import Group, RenderableType

from weftrace.render.console_parts import section, table
from weftrace.render.console_text import clean
from weftrace.report.document_types import Block, ReportDocument
from weftrace.report.render.parts import rank_name
from weftrace.units import unit_for

_MAX_RANKS = 8


def slow_work_block(document: ReportDocument, width: int) -> list[RenderableType]:
    """Ranks that are slow and stages that are too long, each with its peers; most first."""
    found = document["slow_work"]
    if found is None:
        return []
    slow = sorted((rank for rank in found["ranks"] if rank["is_slow"]), key=lambda rank: -rank["ratio"])
    stages = [stage for stage in found["stages"] if stage["is_slow"]]
    if not slow and not stages:
        return []
    unit = unit_for(max(rank["compute_ns"] for rank in found["ranks"]))
    rows = [[rank_name(r), unit(r["compute_ns"]), unit(r["peers_ns"]), f"{r['ratio']:.2f}×", *_phase(r)] for r in slow]
    if len(rows) > _MAX_RANKS:
        rows[_MAX_RANKS:] = [[f"… {len(slow) - _MAX_RANKS:,} more", *[""] * 5]]
    usual = min(stage["compute_ns"] / stage["ratio"] for stage in found["stages"]) if stages else 0
    for stage in stages:
        times = unit(stage["compute_ns"]), unit(round(usual))
        rows.append([f"stage {stage['stage']}", *times, f"{stage['ratio']:.2f}×", "", "f"])
    heads = ("rank", f"compute {unit.name}", "peers'", "ratio", "most of it in", "ratio there")
    return [
        Group(
            section("Slow ranks", _note(found)),
            table(heads, rows, width, left=("rank", "most of it in"), bold=0),
        )
    ]


def _phase(rank: Block) -> tuple[str, str]:
    if rank["phase"] is None or rank["phase_ratio"] is None:
        return "", ""
    return clean(rank["phase"]), f"{rank['phase_ratio']:.2f}×"


def _note(found: Block) -> str:
    peers = "the ranks of its stage, or the other stages" if found["stages"] else "the median of the ranks"
    return f"{'per step, ' if found['num_steps'] else ''}compared with {peers}"
