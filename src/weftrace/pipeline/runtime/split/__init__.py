"""The backward of a stage in two: I, the gradient of its input; and W, the gradients of its weights, later."""

from weftrace.pipeline.runtime.split.engine import StageEngine
from weftrace.pipeline.runtime.split.instrument import defer_weight_grad
from weftrace.pipeline.runtime.split.store import WeightGradStore

__all__ = ["StageEngine", "WeightGradStore", "defer_weight_grad"]
