"""What an operator returns: the rule of each, by name, as `costs.registry` has the formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weftrace.costs.traced_call import TracedCall

Output = Callable[[TracedCall], Any]
OUTPUTS: dict[str, Output] = {}


def output(names: str) -> Callable[[Output], Output]:
    """Register what works out the result (a tensor, a tuple, a list, None) of operators, named in one text.

    aten's come without aten::.
    """

    def register(function: Output) -> Output:
        for name in names.split():
            whole = name if "::" in name else f"aten::{name}"
            assert whole not in OUTPUTS, name
            OUTPUTS[whole] = function
        return function

    return register
