"""Hooks on a user's model that stay behind when the model is copied or saved."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any


class OwnHook:
    """A hook of weftrace's on one module. A copy of the module (an average of weights, say) and a saved one get a hook
    that does nothing, and that needs no weftrace to be loaded: what counts cannot be copied and is nobody else's.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *args: Any) -> Any:
        return self._function(*args)

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (nullcontext(), "__exit__")  # takes anything, returns None
