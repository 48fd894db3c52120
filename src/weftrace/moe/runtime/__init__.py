"""Profiles executed: the layers of a mixture-of-experts model in torch, taken through an operation list.

    from weftrace.moe.runtime import HowToRun, run
    setting = wt.moe.Setting.of("prefill", model=small, ep=2, tokens=256, sequence=128)
    result = run(setting, wt.moe.load_overlap("two-micro-batches"), HowToRun(group=group), on_step=...)

Needs torch, the extra `torch`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weftrace.errors import ProfileError
from weftrace.lazy import lazily, without_torch

if TYPE_CHECKING:
    from weftrace.moe.runtime.executor import execute as execute
    from weftrace.moe.runtime.layers.tokens import Segment as Segment
    from weftrace.moe.runtime.layers.tokens import split_prompts as split_prompts
    from weftrace.moe.runtime.micro_batch import MicroBatch as MicroBatch
    from weftrace.moe.runtime.moving.payload import PUBLISHED as PUBLISHED
    from weftrace.moe.runtime.moving.payload import Payloads as Payloads
    from weftrace.moe.runtime.steps import HowToRun as HowToRun
    from weftrace.moe.runtime.steps import RunResult as RunResult
    from weftrace.moe.runtime.steps import run as run

if not TYPE_CHECKING:  # a checker would take `__getattr__` to mean that every name exists
    __getattr__, __dir__, __all__ = lazily(
        __name__, on_missing=without_torch(ProfileError, "weftrace.moe.runtime.{name} runs layers, with torch")
    )
