"""Names for parts of a step."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch.autograd import profiler

from weftrace.alphabet import phase_name

_NOTHING: AbstractContextManager[Any] = nullcontext()


def phase(
    name: str, *, layer: int | None = None, micro_batch: int | None = None, **more: int | None
) -> AbstractContextManager[Any]:
    """A range of the host, which reports read as a phase: `with phase("attn(F)", layer=3, micro_batch=1): ...`

    name: what is done, and its direction in the house's alphabet. more: other numbers, such as a chunk's. Where no
    profiler records, it costs a function call (`record_function` by itself costs some ten times as much). It knows any
    profiler of torch, weftrace's or not.
    """
    if not profiler._is_profiler_enabled:
        return _NOTHING
    return profiler.record_function(phase_name(name, layer=layer, micro_batch=micro_batch, **more))
