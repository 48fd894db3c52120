"""Memory over time of a rank as a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weftrace.analysis.memory.curves import CurveRow
from weftrace.errors import WeftraceError
from weftrace.files.columns import frame_of
from weftrace.render.memory_pictures import memory_figure
from weftrace.report.document_types import RankDocument

if TYPE_CHECKING:
    import plotly.graph_objects as go


def memory_of_rank(rank: RankDocument) -> go.Figure:
    """Allocated and reserved bytes of the rank's device, or of the CPU where no other has memory events.

    Raises WeftraceError without plotly, and where the file has none.
    """
    if not rank.get("memory"):
        raise WeftraceError(
            "the trace has no memory events: record it with torch.profiler.profile(profile_memory=True)"
        )
    use = rank["memory"][0]
    return memory_figure(use["device"], frame_of(CurveRow, use["curve"]))
