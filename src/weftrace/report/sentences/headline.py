"""The result in a sentence: the largest loss first, with its cause; then what communication costs beside it."""

from __future__ import annotations

from collections.abc import Sequence

from weftrace.report.document_types import Block, LatenessDocument, LateRankDocument, RankDocument
from weftrace.report.sentences.idle_sentence import host_sentence, idle_sentence, leads_with_unrecorded, recording_note
from weftrace.report.sentences.serving_sentence import serving_sentence
from weftrace.report.sentences.slowdown_sentence import absent_clause, leads_with_cause, slowdown_sentence
from weftrace.units import duration, percent

_MUCH = 0.05  # of the span: where no loss is larger, the kernels lead
_WORTH_SAYING = 0.01  # of the span: a second loss that is smaller is not in the sentence
_LONGER = 1.01  # of the mean: where the longest span is below, all are about as long
_MOST = 0.5  # of a loss: a cause that has more is named as most of it

_WAITED_IN = ("exposed communication", "idle time")  # within events, or before those that show the transfer only
_LATE_UNKNOWN = " No collectives could be matched, so it is not known which rank was late."
_MOST_NAMES = 3  # of files that are left out

_LOSSES = {
    "idle time": "idle_ns",
    "exposed communication": "exposed_communication_ns",
    "exposed memory": "exposed_memory_ns",
}
_LEADS = {
    "idle time": "The device was idle for {share}",  # where who waited for whom tells more than what the host did
    "exposed communication": "Exposed communication takes {share}",
    "exposed memory": "Copies that overlap no kernel take {share}",
}


def headline(
    ranks: Sequence[RankDocument], lateness: LatenessDocument | None = None, slowdown: Block | None = None
) -> str:
    """The result of one rank, or over several, in a sentence or two that a manager can read.

    ranks: those that are summed up: of one job, and each once. lateness: of these ranks, where collectives matched.
    slowdown: of the job, where it was replayed.
    """
    if not ranks:
        return "No rank's file could be read."
    device = [rank for rank in ranks if rank["basis"] in ("device", "ranges") and rank["span_ns"]]
    if not device:
        host = [rank for rank in ranks if rank["basis"] == "host" and rank["span_ns"]]
        if not host:
            return "This trace holds no device work and no host operators, so there is nothing to report."
        summary = _of_host(host) + host_sentence(host)
        cause = "" if slowdown is None or slowdown["absent"] else slowdown_sentence(host, slowdown)
        late = cause or _late(host, lateness) if len(host) > 1 else ""
        return " ".join(filter(None, (summary, late)))
    if len(device) == 1:
        serving, summary = serving_sentence(device[0]), _of_devices(device, duration(device[0]["span_ns"])) + "."
        if serving and max(_sum(device, key) for key in _LOSSES.values()) < _MUCH * _sum(device, "span_ns"):
            return serving + _of_fused(device)
        return " ".join(filter(None, (summary + _of_fused(device) + _recording(device), serving)))
    num_processes = len({(rank["rank"], rank["path"]) for rank in device})
    counted = f"{len(device)} {'ranks' if num_processes == len(device) else 'devices'}"
    summary = _of_devices(device, "the time", lateness)
    notes = _of_fused(device) + _recording(device)
    late = _late(device, lateness, absent_clause(device, slowdown))
    parts = [f"Over {counted}, {summary[0].lower()}{summary[1:]}.{notes}", late]
    if cause := slowdown_sentence(device, slowdown):
        if leads_with_cause(device, slowdown, max(_sum(device, key) for key in _LOSSES.values())):
            return f"{cause} {parts[0]}"
        return f"{parts[0]} {cause}"
    if not lateness:
        parts[1] = _longest(device, num_processes) + _LATE_UNKNOWN * (_sum(device, "communication_ns") > 0)
    elif lateness["late"] is not None and _waited(lateness) >= max(_sum(device, key) for key in _LOSSES.values()):
        parts.reverse()  # the largest loss first
    return " ".join(parts)


def left_out(ranks: Sequence[RankDocument]) -> str:
    """Which files of a job are in none of the headline's sums; why, the notes tell."""
    files = dict.fromkeys((rank["rank"], rank["path"]) for rank in ranks if rank["apart"] is not None)
    names = [path if number is None else f"rank {number} ({path})" for number, path in files]
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    return f" Left out: {', '.join(names[:_MOST_NAMES])}{more}." if names else ""


def _of_devices(ranks: Sequence[RankDocument], whole: str, lateness: LatenessDocument | None = None) -> str:
    """The sentence for device work, without its end. whole: what shares are shares of, in words."""
    span = _sum(ranks, "span_ns")
    losses = {name: _sum(ranks, key) for name, key in _LOSSES.items()}
    loss = max(losses, key=lambda name: losses[name])
    if losses[loss] < _MUCH * span:
        return _of_kernels(ranks, whole, loss, losses[loss])
    lead, cause = _LEADS[loss], _cause(ranks, loss, losses[loss])
    if loss == "idle time" and all(rank["basis"] == "ranges" for rank in ranks):
        lead, cause = "No range covers {share}", ""  # waits, bubbles, or work that nobody wrote down
    waiting = sum(rank["exposed_ns"] for rank in lateness["ranks"]) if lateness and _is_told(lateness) else 0
    if loss in _WAITED_IN and waiting > _MOST * losses[loss]:
        cause = _part(waiting, losses[loss], "spent waiting for other ranks")
    summary = lead.format(share=f"{percent(losses[loss] / span)} of {whole}") + cause
    by_host = loss == "idle time" and any(rank["basis"] == "device" for rank in ranks) and not cause
    if by_host:
        summary = idle_sentence(ranks)
        if leads_with_unrecorded(ranks):
            return summary
    others = sorted((ns, name) for name, ns in losses.items() if name != loss and ns >= _WORTH_SAYING * span)
    also = [(name, percent(ns / span)) for ns, name in reversed(others)]
    further = []
    if also:
        further.append(" and ".join([" takes another ".join(also[0]), *map(" ".join, also[1:])]))
    if losses["exposed communication"] >= _WORTH_SAYING * span:
        further.append(f"{_hidden(ranks)} of communication is hidden")
    if by_host and further:  # its causes fill a sentence
        further[0] = further[0][0].upper() + further[0][1:]
        return f"{summary}. {'; '.join(further)}"
    return "; ".join([summary, *further])


def _cause(ranks: Sequence[RankDocument], loss: str, loss_ns: int) -> str:
    """What most of the largest loss is."""
    if loss == "exposed communication":
        collective, most = _largest(ranks, "collectives", "collective", "exposed_ns")
        return _part(most, loss_ns, f"in {collective}") if most and collective != "other" else ""
    return ""


def _of_kernels(ranks: Sequence[RankDocument], whole: str, loss: str, loss_ns: int) -> str:
    """Where little is lost: what fills the time, and what little is lost most."""
    span, compute = _sum(ranks, "span_ns"), _sum(ranks, "compute_ns")
    family, most = _largest(ranks, "families", "family", "busy_ns", kind="compute")
    kernels = f" ({family} kernels {percent(most / span)})" if family else ""
    summary = f"Computation fills {percent(compute / span)} of {whole}{kernels}"
    if _sum(ranks, "communication_ns"):
        summary += f" and hides {_hidden(ranks)} of communication"
    if loss_ns:
        summary += f"; the largest loss is {loss}, {duration(loss_ns)} ({percent(loss_ns / span)})"
    return summary


def _recording(ranks: Sequence[RankDocument]) -> str:
    """What recording adds to idle time, where that leads."""
    losses = {name: _sum(ranks, key) for name, key in _LOSSES.items()}
    leads = max(losses, key=lambda name: losses[name]) == "idle time"
    return recording_note(ranks) if leads and losses["idle time"] >= _MUCH * _sum(ranks, "span_ns") else ""


def _of_fused(ranks: Sequence[RankDocument]) -> str:
    """What no number of communication holds, where there is any: kernels that compute and communicate in one."""
    fused, span = _sum(ranks, "fused_ns"), _sum(ranks, "span_ns")
    if fused < _WORTH_SAYING * span:
        return ""
    return (
        f" Kernels that compute and communicate in one fill {percent(fused / span)}: their "
        "communication cannot be separated."
    )


def _of_host(ranks: Sequence[RankDocument]) -> str:
    """Files without device work: what the host recorded, which is no account of a device."""
    span = _sum(ranks, "span_ns")
    unused = sorted({name for rank in ranks for name in rank["quality"]["unused"]})
    why = (
        f"weftrace does not read device work of the kind {', '.join(unused)}"
        if unused
        else "the trace holds no device work"
    )
    busy = f"operators ran on the host's threads for {percent(_sum(ranks, 'compute_ns') / span)}"
    if moved := _sum(ranks, "communication_ns"):
        busy += f" and communication for {percent(moved / span)}"
    whole = duration(span) if len(ranks) == 1 else f"the time of {len(ranks)} ranks"
    rest = percent(_sum(ranks, "idle_ns") / span)
    return f"Host only, because {why}: {busy} of {whole}; no thread recorded an operator for {rest}."


def _waited(lateness: LatenessDocument) -> int:
    return sum(rank["suffered_ns"] for rank in lateness["ranks"])


def _is_told(lateness: LatenessDocument) -> bool:
    """Whether ranks wait longer than what the ends of a collective lie apart."""
    times = sum(count for _, _, _, count in lateness["pairs"])
    return lateness["late"] is not None or _waited(lateness) >= 2 * lateness["uncertainty_ns"] * times


def _late(ranks: Sequence[RankDocument], lateness: LatenessDocument | None, absent: str = "") -> str:
    """Which rank the others waited for, and what that took; or that none stands out. Nothing where nothing matched.

    absent: that ranks have no file here, a clause.
    """
    if lateness is None:
        return ""
    span, waited = _sum(ranks, "span_ns"), _waited(lateness)
    if waited < _WORTH_SAYING * span:
        share = percent(waited / span)
        if all(rank["basis"] == "ranges" for rank in ranks):  # which may not record waiting at all
            return f"As far as communication shows, waiting for other ranks takes {share} of the time."
        if absent:
            return f"None of the ranks with a file is late (waiting takes {share}); {absent}."
        return f"No rank is late: waiting for other ranks takes {share} of the time."
    if lateness["late"] is None:
        if not _is_told(lateness):
            known = duration(lateness["uncertainty_ns"])
            summary = (
                f"the clocks, and the ends of one collective, are known only to {known}, and "
                "ranks wait no longer than that"
            )
            return f"It is not known which rank is late: {summary}."
        told = f"Waiting for other ranks takes {percent(waited / span)} of the time, and no rank stands out"
        return f"{told}; {absent}." if absent else f"{told}."
    late, number = lateness["ranks"][lateness["late"]], len(lateness["ranks"])
    name = f"Among the ranks with a file, {late['name']}" if absent else late["name"][0].upper() + late["name"][1:]
    own = sum(r["span_ns"] for r in ranks if (r["rank"], r["device"], r["path"]) == _who(late))
    share, each = percent(late["origin_ns"] / (span - own)), duration(late["origin_ns"] / (number - 1))
    others = [rank["name"] for rank in lateness["ranks"] if rank is not late]
    whom, whose = ("the others wait {} each", "their") if number > 2 else (f"{others[0]} wait {{}}", "its")
    last = f"{late['num_last']:,} of {late['num_matched']:,}"
    made = f"{name} made {whom.format(each)}, {share} of {whose} time"
    rest = f"; {absent}" if absent else ""
    return f"{made}: it was the last to enter {last} matched collectives{rest}."


def _who(late: LateRankDocument) -> tuple[int | None, int | None, str]:
    return late["rank"], late["device"], late["path"]


def _longest(ranks: Sequence[RankDocument], num_processes: int) -> str:
    spans = [rank["span_ns"] for rank in ranks]
    slowest = max(ranks, key=lambda rank: rank["span_ns"])
    called = slowest["name"] or (slowest["path"] if slowest["rank"] is None else f"rank {slowest['rank']}")
    by_device = num_processes < len(ranks) and slowest["device"] is not None
    names = [called] * (num_processes > 1 or not by_device) + [f"device {slowest['device']}"] * by_device
    mean = duration(sum(spans) / len(spans))
    if max(spans) < _LONGER * sum(spans) / len(spans):
        return f"Each takes about {mean}."
    return f"The longest span is {duration(max(spans))} ({' '.join(names)}); the mean is {mean}."


def _part(part_ns: int, whole_ns: int, words: str) -> str:
    """What most of a loss is: ", all of it waiting ...", ", most of it in all_to_all (12.4 ms)"."""
    if part_ns >= 0.999 * whole_ns:
        return f", all of it {words}"
    share = "most of it" if part_ns > _MOST * whole_ns else "the largest part of it"
    return f", {share} {words} ({duration(part_ns)})"


def _largest(ranks: Sequence[RankDocument], table: str, key: str, value: str, **only: str) -> tuple[str, int]:
    """The row of a table with the largest sum over the ranks: its name and sum; ("", 0) of nothing."""
    sums: dict[str, int] = {}
    for rank in ranks:
        for row in rank[table]:  # type: ignore[literal-required]
            if all(row[name] == wanted for name, wanted in only.items()):
                sums[row[key]] = sums.get(row[key], 0) + row[value]
    return max(sums.items(), key=lambda item: item[1], default=("", 0))


def _hidden(ranks: Sequence[RankDocument]) -> str:
    return percent(_sum(ranks, "hidden_communication_ns") / _sum(ranks, "communication_ns"))


def _sum(ranks: Sequence[RankDocument], key: str) -> int:
    return sum(rank[key] for rank in ranks)  # type: ignore[literal-required]
