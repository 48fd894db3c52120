"""Before ranks rely on each other they agree, by a small reduction: on the schedule, the kind of step, and shapes."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from weftrace.errors import PipelineRunError
from weftrace.pipeline.notation import to_text
from weftrace.pipeline.runtime.link import Link
from weftrace.pipeline.schedule import Schedule


def same_schedule(schedule: Schedule, link: Link) -> None:
    """Raises `PipelineRunError` on all ranks where they were given different ones."""
    least, most = link.least_and_most([zlib.crc32(to_text(schedule).encode())], "comparing the ranks' schedules")
    if least != most:
        raise PipelineRunError(f"the ranks were given different schedules; this one has {schedule.name!r}.")


def any_changed(changed: bool, kind: str, kinds: Sequence[str], link: Link) -> bool:
    """Whether some rank says that shapes changed. Raises `PipelineRunError` where ranks run different kinds of step."""
    least, most = link.least_and_most([kinds.index(kind), int(changed)], f"beginning a {kind}")
    if least[0] != most[0]:
        raise PipelineRunError(f"this rank called {kind}() while another called something else: call the same on all.")
    return bool(most[1])
