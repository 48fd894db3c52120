"""Which rank computes longer than its peers, in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from weftrace.report.document_types import Block
from weftrace.units import counted, duration

_MOST_NAMED = 3


def slow_sentence(found: Block | None) -> str:
    """What stands out, in a sentence or two, with a blank before; nothing where nothing does."""
    if found is None:
        return ""
    summary = []
    a_step = " per step" if found["num_steps"] else ""
    slow = sorted((rank for rank in found["ranks"] if rank["is_slow"]), key=lambda rank: -rank["ratio"])
    if slow:
        first = slow[0]
        peers = "the ranks of its stage" if first["stage"] is not None and found["stages"] else "the other ranks"
        phase = f", most of it in {first['phase']}" if first["phase"] else ""
        summary.append(
            f"{_named(slow)} {'computes' if len(slow) == 1 else 'compute'} {first['ratio']:.2f}× as long as {peers} "
            f"({duration(first['compute_ns'])}{a_step} against {duration(first['peers_ns'])}){phase}."
        )
    for stage in found["stages"]:
        alone = [rank for rank in found["ranks"] if rank["stage"] == stage["stage"]]
        if stage["is_slow"] and len(alone) == 1:
            summary.append(
                f"{_named(alone)} computes {stage['ratio']:.2f}× as long as the other stages "
                f"({duration(stage['compute_ns'])}{a_step}): either the rank is slow, or its stage has too much "
                "work."
            )
        elif stage["is_slow"]:
            last = " (the last)" if stage["stage"] == max(s["stage"] for s in found["stages"]) else ""
            summary.append(
                f"Stage {stage['stage']}{last} has too much work: each of its ranks computes "
                f"{stage['ratio']:.2f}× as long as the ranks of the other stages "
                f"({duration(stage['compute_ns'])}{a_step})."
            )
    if found["varies"] is not None:
        summary.append(
            f"No rank is slow in every step. The slowest computes {found['varies']:.2f}× as long as "
            "its peers, but the slowest rank changes from step to step "
            f"({counted(found['num_slowest'], 'rank')} in {counted(found['num_steps'], 'step')}), as it does "
            "when sequences or micro-batches differ in length."
        )
    return "".join(f"{sentence} " for sentence in summary)


def _named(ranks: Sequence[Block]) -> str:
    names = [rank["name"] or (rank["path"] if rank["rank"] is None else f"rank {rank['rank']}") for rank in ranks]
    names[0] = names[0][0].upper() + names[0][1:]
    more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
