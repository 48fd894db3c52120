"""Recording real runs: bounded, a file a rank, read best by weftrace. Thin over torch.profiler.

    with wt.capture.record("traces/", parallel={"ep": 4}) as recording:
        for batch in loader:
            train_step(batch)            # in it: with wt.capture.phase("attn(F)", layer=3, micro_batch=1): ...
            recording.step()
    print(recording.result.in_lines())   # files, steps, what was dropped, what it cost

Profiling never ends a run: what goes wrong while it runs is warned of once and told in the result. What cannot work
(a file that is there already, a folder that cannot be written) raises `CaptureError` before the run begins.

The root has no torch: the schedule, names of files, how recordings become one file. `runtime/` has the profiler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weftrace.errors import CaptureError as CaptureError
from weftrace.errors import CaptureWarning as CaptureWarning
from weftrace.lazy import lazily, without_torch

if TYPE_CHECKING:
    from weftrace.capture.captured import Captured as Captured
    from weftrace.capture.runtime.ranges import phase as phase
    from weftrace.capture.runtime.recording import Recording as Recording
    from weftrace.capture.runtime.recording import record as record
    from weftrace.capture.schedule import Schedule as Schedule

if not TYPE_CHECKING:  # a checker would take `__getattr__` to mean that every name exists
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        eager=("CaptureError", "CaptureWarning"),
        on_missing=without_torch(CaptureError, "weftrace.capture.{name} records runs of torch, which is missing"),
    )
