"""Who makes a job slow, in a sentence of the headline: where the job was replayed, and the replay can be trusted."""

from __future__ import annotations

from collections.abc import Sequence

from weftrace.report.document_types import Block, RankDocument

_WORTH_SAYING = 0.01  # of the job's time
_LITTLE = 1.01  # S below which nothing is to be gained


def slowdown_sentence(ranks: Sequence[RankDocument], slowdown: Block | None) -> str:
    """The largest cause and S; nothing where the replay does not tell.

    Of ranges it is told whatever it is, for they show nothing else of waiting; of kernels where a cause is worth it.
    Where ranks are absent, S is of those that are here and says little.
    """
    if slowdown is None:
        return ""
    are_ranges = all(rank["basis"] == "ranges" for rank in ranks)
    if not slowdown["is_trusted"]:
        return str(slowdown["headline"]) if are_ranges else ""
    cause = _largest(slowdown)
    if cause is None and not are_ranges:
        return ""
    of_all = "" if slowdown["absent"] or "S = " in slowdown["headline"] else f" S = {slowdown['slowdown']:.2f}."
    return f"{slowdown['headline']}{of_all}"


def absent_clause(ranks: Sequence[RankDocument], slowdown: Block | None) -> str:
    """Who of the job has no file here, where a cause may lie: a clause; nothing where all have, as far as is known."""
    if slowdown is not None and slowdown["absent"]:
        return f"{slowdown['absent']}, and the cause may lie there"
    worlds = [shares["world_size"] or 0 for rank in ranks if (shares := rank.get("shares"))]
    here = {rank["rank"] for rank in ranks}
    missing = [number for number in range(max(worlds, default=0)) if number not in here]
    if not missing:
        return ""
    if len(missing) == 1:
        return f"the file of rank {missing[0]} is missing, and the cause may lie there"
    return f"the files of {len(missing):,} of {max(worlds):,} ranks are missing, and the cause may lie there"


def leads_with_cause(ranks: Sequence[RankDocument], slowdown: Block | None, loss_ns: int) -> bool:
    """Whether it is said before what else is lost. loss_ns: the largest loss over the ranks."""
    if all(rank["basis"] == "ranges" for rank in ranks):
        return True  # who is slow is why the others have no range recorded
    cause = None if slowdown is None else _largest(slowdown)
    return cause is not None and 2 * cause["share"] * sum(rank["span_ns"] for rank in ranks) >= loss_ns


def _largest(slowdown: Block) -> Block | None:
    """The cause that the job's own ranks are, or that ranks are absent; of which hosts are late cannot be told then."""
    unsure = ("spread", "late host") if slowdown["absent"] else ("spread",)
    worth = [cause for cause in slowdown["causes"] if cause["kind"] not in unsure and cause["share"] >= _WORTH_SAYING]
    return worth[0] if worth and (slowdown["slowdown"] >= _LITTLE or slowdown["absent"]) else None
