"""Who came late and who waited, in the terminal: ranks, who waits for whom, kinds, the worst, and how sure it is."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.text import Text

from weftrace.render.console_parts import DIM, section, table
from weftrace.render.console_text import clean
from weftrace.report.document_types import Block, LatenessDocument, ReportDocument
from weftrace.units import counted, duration, unit_for

MAX_RANKS = 24
_MAX_MATRIX = 8  # ranks
_MAX_PAIRS = 10
_MAX_KINDS = 8
_MAX_WORST = 5


def lateness_blocks(document: ReportDocument, width: int) -> list[RenderableType]:
    """Lateness of a job; of ranks that communicate and share no collective, that it is not known."""
    found = document["lateness"]
    if found is None:
        moves = any(rank["communication_ns"] for rank in document["ranks"] if rank["apart"] is None)
        said = "No collectives could be matched between the ranks, so it is not known which rank was late."
        return [Text(said, style=DIM)] if moves else []
    names = [clean(rank["name"]) for rank in found["ranks"]]
    blocks: list[RenderableType] = [_ranks(found, names, width)]
    if found["pairs"]:
        blocks.append(_matrix(found, names, width) or _pairs(found, names, width))
    blocks.append(_kinds(found, names, width))
    if any(row["waiting_ns"] for row in found["worst"]):
        blocks.append(_worst(found, names, width))
    return [*blocks, _trust(found, document["clocks"])]


def _ranks(found: LatenessDocument, names: Sequence[str], width: int) -> RenderableType:
    order = sorted(range(len(names)), key=lambda at: -found["ranks"][at]["origin_ns"])
    unit = unit_for(max(max(rank["origin_ns"], rank["suffered_ns"]) for rank in found["ranks"]))
    rows = []
    for at in order[:MAX_RANKS]:
        rank = found["ranks"][at]
        times = (unit(rank[key]) for key in ("origin_ns", "caused_ns", "suffered_ns", "transfer_ns"))
        last = f"{rank['num_last']:,} of {rank['num_matched']:,}"
        rows.append([names[at], *times, last, "late" if at == found["late"] else ""])
    if left := order[MAX_RANKS:]:
        rows.append(["…", *[""] * 5, f"{len(left):,} more"])
    heads = ("rank", f"caused {unit.name}", "late by", "waited", "transferred", "last", "")
    note = "caused: waiting of all ranks that this rank caused"
    return Group(section("Lateness", note), table(heads, rows, width, left=("rank", ""), bold=0))


def _matrix(found: LatenessDocument, names: Sequence[str], width: int) -> RenderableType | None:
    """A row a rank that waits, a column a rank that came last; None where it does not fit."""
    number = len(names)
    unit = unit_for(max(pair[2] for pair in found["pairs"]))
    waited = {(waiter, last): unit(ns) for waiter, last, ns, _ in found["pairs"]}
    cells = [[waited.get((row, column), "·") for column in range(number)] for row in range(number)]
    wide = sum(2 + max(map(cell_len, (names[at], *(row[at] for row in cells)))) for at in range(number))
    if number > _MAX_MATRIX or wide + max(map(cell_len, names)) > width:
        return None
    body = table(("", *names), [[name, *row] for name, row in zip(names, cells, strict=True)], width, left=("",))
    return Group(
        section("Who waits for whom", f"{unit.name} that the row waited in collectives that the column entered last"),
        body,
    )


def _pairs(found: LatenessDocument, names: Sequence[str], width: int) -> RenderableType:
    shown = found["pairs"][:_MAX_PAIRS]
    unit = unit_for(shown[0][2])
    rows = [[names[waiter], names[last], unit(ns), f"{count:,}"] for waiter, last, ns, count in shown]
    num = len(found["pairs"])
    note = f"the {len(shown)} largest of {num:,} pairs; all in the JSON report" if num > len(shown) else ""
    heads = ("rank", "waited for", unit.name, "times")
    return Group(section("Who waits for whom", note), table(heads, rows, width, left=("rank", "waited for")))


def _kinds(found: LatenessDocument, names: Sequence[str], width: int) -> RenderableType:
    shown = found["collectives"][:_MAX_KINDS]
    unit = unit_for(max(max(row["waiting_ns"], row["transfer_ns"]) for row in shown))
    rows = [
        [clean(row["collective"]), f"{row['num']:,}", unit(row["waiting_ns"]), unit(row["transfer_ns"]),
         f"{names[row['last']]}, {row['num_last']:,}×" if row["num_last"] else ""]
        for row in shown
    ]  # fmt: skip
    heads = ("collective", "matched", f"waiting {unit.name}", "transferring", "most often last")
    return Group(section("Matched collectives", "sums over all ranks"), table(heads, rows, width, left=("collective",)))


def _worst(found: LatenessDocument, names: Sequence[str], width: int) -> RenderableType:
    shown = [row for row in found["worst"][:_MAX_WORST] if row["waiting_ns"]]
    unit, at = unit_for(shown[0]["waiting_ns"]), unit_for(max(row["start_ns"] for row in shown))
    rows = [
        [clean(row["collective"]), *("" if row[key] is None else f"{row[key]:,}" for key in ("seq", "step")),
         at(row["start_ns"]), names[row["last"]], unit(row["caused_ns"]), unit(row["waiting_ns"])]
        for row in shown
    ]  # fmt: skip
    heads = ("collective", "seq", "step", f"at {at.name}", "last", f"late by {unit.name}", "all waited")
    kept = [place for place in range(len(heads)) if any(row[place] for row in rows)]
    cut = [[row[place] for place in kept] for row in rows]
    return Group(section("Longest waits"), table([heads[place] for place in kept], cut, width, left=("collective",)))


def _trust(found: LatenessDocument, clocks: Sequence[Block]) -> Text:
    """How collectives were matched, what was left out, and what was done to clocks."""
    by = found["by"]
    how = [f"{by['sequence']:,} by group and number"] * bool(by["sequence"])
    how += [f"{by['order']:,} by order, because their ends agree"] * bool(by["order"])
    parts = [f"{counted(found['num_matched'], 'collective')} matched: {', '.join(how)}."]
    if left := found["num_unmatched"]:
        apart = (
            f", and {found['not_the_same']:,} of them are of kinds with ends that disagree"
            if found["not_the_same"]
            else ""
        )
        parts.append(f"{counted(left, 'event')} of communication found no partner{apart}.")
    parts.append(_clocks(clocks) or "The clock offsets of the ranks were subtracted." * found["clocks_applied"])
    known = duration(found["uncertainty_ns"])
    parts.append(f"Clocks and ends of one collective are known to {known} (median), so shorter waits are not shown.")
    return Text(" ".join([*filter(None, parts), *map(clean, (f"Note: {note}." for note in found["notes"]))]), style=DIM)


def _clocks(clocks: Sequence[Block]) -> str:
    others = clocks[1:]  # the first is the reference
    if not others:
        return ""
    known = [clock for clock in others if clock["offset_ns"] is not None]
    apart = duration(max((abs(clock["offset_ns"] or 0) for clock in known), default=0))
    text = f"Clocks differ by at most {apart}" if known else "The difference of the clocks is unknown"
    if unknown := len(others) - len(known):
        text += f", and it is unknown for {counted(unknown, 'rank')}" if known else ""
    applied = [clock for clock in known if clock["applied"]]
    drift = max((abs(clock["drift_ppm"]) for clock in applied), default=0.0)
    done = (
        f": subtracted for {counted(len(applied), 'rank')}"
        if applied
        else ", which is within the disagreement of the matches"
    )
    return text + done * bool(known) + (f"; one runs {drift:.1f} ppm faster or slower" if drift else "") + "."
