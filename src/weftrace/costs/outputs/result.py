"""The result of any call: of an in-place operator its first argument, of out= that, else what its rule says."""

from __future__ import annotations

from typing import Any

from weftrace.costs.outputs.elementwise import foreach
from weftrace.costs.outputs.registry import OUTPUTS
from weftrace.costs.registry import OutputUnknown
from weftrace.costs.tensors import Tensor
from weftrace.costs.traced_call import TracedCall


def result_of(call: TracedCall) -> Any:
    """A tensor, a tuple or a list of tensors, or None. Raises `OutputUnknown` where nothing says what."""
    given = call.kwargs.get("out")
    rule = OUTPUTS.get(call.name)
    if given is not None and (rule is None or not isinstance(given, Tensor) or given.numel()):
        return given  # an empty one is about to be made as large as the result
    if rule is not None:
        return rule(call)
    name = call.name
    if name.startswith("c10d::") and call.args and isinstance(call.args[0], (list, Tensor)):
        return call.args[0]  # what a collective receives
    if name.endswith("_") and not name.endswith("__") and not name.startswith("c10d::"):
        return call.args[0] if call.args and isinstance(call.args[0], Tensor) else None
    if name.startswith("aten::_foreach_"):
        return foreach(call)
    raise OutputUnknown(f"the shapes of the results of {name}")
