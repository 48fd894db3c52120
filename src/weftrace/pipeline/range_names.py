"""What the ranges of a run pipeline are called: what `runtime` writes, and what reads a measured trace of it.

Only a range's name survives in the JSON of every torch (arguments of `record_function` do not), so names say it all:

    pipeline step                                    one call of `step` or `forward`, on one rank
      messages                                       sends and receives of boundary values are posted
      wait                                           for what the action after it needs from other ranks
      3F5                                            the action, as a schedule writes it: stage 3, micro-batch 5
        stage3(F)                                    the chunk in it, in the house's alphabet
      0F4&7B1                                        an F&B holds the chunks of both directions, in turns where the
        stage0(F)  stage7(B)  stage0(F)  stage7(B)     module offers its phases, else one after the other
      reduce gradients                               of stages of DDP or fully_shard, over data-parallel ranks
      sum of replicas                                gradients of replicas of stages, and of tied parameters

The outer name tells one action from every other: `action_in` reads it, and a trace is so matched with its schedule. The
inner name is the same for all micro-batches of a stage: the phase, of which a report has a row (the innermost range is
the phase). Nothing but work of a chunk lies within an action; a rank's times between actions are `wait`, `messages`, or
Python's. A range may say more of itself as `alphabet.phase_name` writes it, "attn(F) {layer=3, micro_batch=1}": neither
convention takes the other's names for its own.
"""

from __future__ import annotations

import re
from typing import Final

from weftrace.pipeline.schedule import Action

STEP: Final = "pipeline step"
MESSAGES: Final = "messages"
WAIT: Final = "wait"
REDUCE: Final = "reduce gradients"
REPLICAS: Final = "sum of replicas"

_ACTION = re.compile(r"(\d{1,9})(F|B|I|W)(\d{1,9})(\^?)(?:&(\d{1,9})B(\d{1,9}))?")


def action_name(action: Action) -> str:
    """The range of a whole action: `3F5`, `0F4&7B1`."""
    return str(action)


def chunk_name(stage: int, kind: str) -> str:
    """The range of a chunk within its action: `stage3(F)`; kind is F, B, I or W."""
    return f"stage{stage}({kind})"


def action_in(name: str, rank: int) -> Action | None:
    """The action that a range of that name on that rank is; None where it is no action's range."""
    found = _ACTION.fullmatch(name)
    if found is None or (found[5] is not None and found[2] != "F") or (found[4] and found[2] != "F"):
        return None
    stage, micro_batch, offload = int(found[1]), int(found[3]), bool(found[4])
    if found[5] is None:
        return Action(rank=rank, kind=found[2], stage=stage, micro_batch=micro_batch, offload=offload)  # type: ignore[arg-type]
    back = {"back_stage": int(found[5]), "back_micro_batch": int(found[6])}
    return Action(rank=rank, kind="F&B", stage=stage, micro_batch=micro_batch, offload=offload, **back)
