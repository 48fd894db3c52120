"""Who makes a job slow, in a sentence of the headline: where the job was replayed, and the replay can be trusted."""

from __future__ import annotations

from collections.abc import Sequence

from weftrace.report.document_types import Block, RankDocument

_WORTH_SAYING = 0.01  # of the job's time
_LITTLE = 1.01  # S below which nothing is to be gained


def slowdown_sentence(ranks: Sequence[RankDocument], slowdown: Block | None) -> str:
    """The largest cause and S; nothing where the replay does not tell.

    Of ranges it is told whatever it is, for they show nothing else of waiting. Of kernels only where a cause is worth
    it and no rank is absent: what those that are here waited for others is in their communication then.
    """
    if slowdown is None or not slowdown["is_trusted"]:
        return ""
    are_ranges = all(rank["basis"] == "ranges" for rank in ranks)
    cause = _largest(slowdown)
    if not are_ranges and (cause is None or _are_absent(ranks)):
        return ""
    if cause is None:
        return str(slowdown["headline"])
    return f"{cause['sentence']} S = {slowdown['slowdown']:.2f}."


def leads_with_cause(ranks: Sequence[RankDocument], slowdown: Block | None, loss_ns: int) -> bool:
    """Whether it is said before what else is lost. loss_ns: the largest loss over the ranks."""
    if all(rank["basis"] == "ranges" for rank in ranks):
        return True  # who is slow is why the others have no range recorded
    cause = None if slowdown is None else _largest(slowdown)
    return cause is not None and 2 * cause["share"] * sum(rank["span_ns"] for rank in ranks) >= loss_ns


def _largest(slowdown: Block) -> Block | None:
    causes = [cause for cause in slowdown["causes"] if cause["kind"] != "spread" and cause["share"] >= _WORTH_SAYING]
    return causes[0] if causes and slowdown["slowdown"] >= _LITTLE else None


def _are_absent(ranks: Sequence[RankDocument]) -> bool:
    world = max((rank["shares"]["world_size"] or 0 for rank in ranks), default=0)
    return world > len({rank["rank"] for rank in ranks})
