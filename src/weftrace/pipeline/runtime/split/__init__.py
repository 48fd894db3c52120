"""The backward of a stage in two: I, the gradient of its input; and W, the gradients of its weights, later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weftrace.lazy import lazily

if TYPE_CHECKING:
    from weftrace.pipeline.runtime.split.engine import StageEngine as StageEngine
    from weftrace.pipeline.runtime.split.instrument import defer_weight_grad as defer_weight_grad
    from weftrace.pipeline.runtime.split.store import WeightGradStore as WeightGradStore
    from weftrace.pipeline.runtime.split.verify import SplitCheck as SplitCheck
    from weftrace.pipeline.runtime.split.verify import verify_split as verify_split

if not TYPE_CHECKING:  # a checker would take `__getattr__` to mean that every name exists
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "weftrace.pipeline.runtime.split.engine": ("StageEngine",),
            "weftrace.pipeline.runtime.split.instrument": ("defer_weight_grad",),
            "weftrace.pipeline.runtime.split.store": ("WeightGradStore",),
            "weftrace.pipeline.runtime.split.verify": ("SplitCheck", "verify_split"),
        },
    )
