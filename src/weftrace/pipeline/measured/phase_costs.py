"""What does a chunk cost, as the phases of a trace tell it?

A phase is a range of the host that a person named, `attn(F)` or `mlp(W)`, with the device work that it launched. Its
letter is read by `letter_of`; beside phases of W, a B is what W leaves of the backward, which is I.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl

from weftrace.alphabet import direction_of
from weftrace.analysis import phases
from weftrace.analysis.intervals import of_events
from weftrace.errors import TraceError
from weftrace.notebook import InNotebook
from weftrace.pipeline.costs import Costs
from weftrace.trace.model import Trace
from weftrace.trace.work import Work, as_work
from weftrace.units import duration

_WEIGHT = re.compile(r"(?:\b|_)(?:wgrad|weight[ _]?grad(?:ient)?)(?:\b|_)", re.IGNORECASE)
_INPUT = re.compile(r"(?:\b|_)(?:dgrad|input[ _]?grad(?:ient)?)(?:\b|_)", re.IGNORECASE)
_EXPLICIT_INPUT = re.compile(r"[(\[_.\s:]I[)\]]?$")
#: Part of the shorter of the two that must run beside the other for a forward and a backward to count as overlapped.
_TOGETHER = 0.2

_NEEDED = {"F": "a forward", "I": "an input gradient", "W": "a weight gradient"}
_HINT = 'Name the parts of a chunk with record_function: "attn(F)", "attn(I)" or "attn(B)", "attn(W)"'


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasePart(InNotebook):
    """The phases of one name. direction: F, I or W, as which they count; count: how many, and busy_ns: the device time
    of all of them, |events of a phase| added up, both of one chunk.
    """

    name: str
    direction: str
    count: int
    busy_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCosts(InNotebook):
    """What one chunk takes on one rank: a stage's work on one micro-batch. Times in ns.

    forward_ns, input_ns, weight_ns: the sum over the chunk's phases of that direction of the device time of each.
        A *serial upper bound* where phases ran beside others: each took longer than alone, and its communication is
        added to its computation as if nothing hid it.
    overlapped_ns: what a forward and a full backward chunk took side by side, from the first start to the last end of
        their phases; None where the trace does not show it.
    num_layers: how often the commonest forward phase ran in a chunk. parts: what the sums are made of.
    source: where from. notes: what was assumed, and what was left out.
    """

    forward_ns: int
    input_ns: int
    weight_ns: int
    overlapped_ns: int | None
    num_layers: int
    parts: tuple[PhasePart, ...] = ()
    source: str = ""
    notes: tuple[str, ...] = ()

    @property
    def serial_ns(self) -> int:
        """F + B = F + I + W."""
        return self.forward_ns + self.input_ns + self.weight_ns

    @property
    def overlapped_part(self) -> float | None:
        """F&B / (F + B): 1 is no gain; None where F&B is not known."""
        return None if self.overlapped_ns is None or not self.serial_ns else self.overlapped_ns / self.serial_ns

    def costs(self, **others: Any) -> Costs:
        """As `Costs` of a stage that holds what the chunk did; others: further fields of it."""
        return Costs(
            forward_ns=self.forward_ns, input_ns=self.input_ns, weight_ns=self.weight_ns,
            overlapped_ns=self.overlapped_ns, **{"activation_bytes": 1, "source": self.source, **others},
        )  # fmt: skip

    def _describe(self) -> Iterator[tuple[str, str]]:
        upper = " (serial upper bound)" if self.overlapped_ns is not None else ""
        for letter, time_ns in (("F", self.forward_ns), ("I", self.input_ns), ("W", self.weight_ns)):
            yield letter, duration(time_ns) + upper
        if self.overlapped_ns is not None:
            yield "F&B", f"{duration(self.overlapped_ns)} = {self.overlapped_part:.2f} (F + B), overlapped"
        yield from (("note", note) for note in self.notes)


def letter_of(name: str) -> str | None:
    """F, B, I or W of a phase's name, None where it has no direction: as `alphabet.direction_of`, and dgrad is I,
    wgrad is W."""
    name = name.strip()
    if _EXPLICIT_INPUT.search(name) or _INPUT.search(name):
        return "I"
    return "W" if _WEIGHT.search(name) else direction_of(name)


def costs_of_phases(
    source: Trace | Work, *, chunks: int | None = None, weight_share: float | None = None
) -> MeasuredCosts:
    """The costs of a chunk from a trace with phases: of each ProfilerStep where there are some, the median.

    chunks: how many forward chunks (and as many backward ones) a step holds, or the recording where it has no steps;
    by default as many as the phases tell micro-batches, and one where they tell none.
    weight_share: part of a full backward that is W, where no phase tells W: an assumption, noted as one.
    Raises `TraceError` where the phases do not tell F, I and W, and says what is missing.
    """
    work = as_work(source)
    path = work.trace.path or "the trace"
    found = phases(work).with_columns(pl.col("name").map_elements(letter_of, return_dtype=pl.String).alias("letter"))
    if found.is_empty():
        raise TraceError(
            f"{path}: it has no phases that launched work on a device, so nothing tells F from I and W. {_HINT}."
        )
    directed, notes = _directed(found, path, weight_share)
    alike, assumed = _alike_steps(directed)
    notes += assumed
    num_chunks = _num_chunks(alike, chunks, path)
    parts = _parts(alike, num_chunks)
    sums = {letter: sum(part.busy_ns for part in parts if part.direction == letter) for letter in ("F", "B", "I", "W")}
    if weight_share is not None and sums["B"]:
        sums["W"] = round(sums["B"] * weight_share)
        sums["I"] = sums["B"] - sums["W"]
    overlapped_ns, why = _overlapped(work, alike, num_chunks)
    left_out = found.filter(pl.col("letter").is_null()).group_by("name", maintain_order=True).agg(pl.sum("busy_ns"))
    if left_out.height:
        names = ", ".join(f"{name} {duration(busy_ns)}" for name, busy_ns in left_out.head(5).iter_rows())
        more = f" and {left_out.height - 5} more" if left_out.height > 5 else ""
        notes.append(f"without a direction, and in none of F, I and W: {names}{more}")
    return MeasuredCosts(
        forward_ns=sums["F"],
        input_ns=sums["I"],
        weight_ns=sums["W"],
        overlapped_ns=overlapped_ns,
        num_layers=max(part.count for part in parts if part.direction == "F"),
        parts=parts,
        source=path,
        notes=(*notes, *why),
    )


def _directed(found: pl.DataFrame, path: str, weight_share: float | None) -> tuple[pl.DataFrame, list[str]]:
    """The phases that have a direction, as F, I and W (or B, where a share of it is to be W); and what was assumed."""
    directed = found.filter(pl.col("letter").is_not_null())
    letters = set(directed.get_column("letter").unique())
    if {"B", "I", "W"} <= letters:
        raise TraceError(f"{path}: it has phases of B as well as I and W, so it is unknown whether a B includes its W.")
    if weight_share is not None and {"F", "B"} <= letters and "W" not in letters:
        if not 0 <= weight_share <= 1:
            raise TraceError(f"{path}: the share of W in a backward is {weight_share}; it lies between 0 and 1.")
        note = f"assumed: W is {weight_share:g} of a full backward, because no phase separates it"
        return directed, [note]
    as_input = directed.with_columns(pl.col("letter").replace({"B": "I"}))
    known = set(as_input.get_column("letter").unique())
    if not known:
        names = ", ".join(found.get_column("name").unique(maintain_order=True).head(8))
        raise TraceError(f"{path}: no phase has a direction in its name: {names}. {_HINT}.")
    if missing := [name for letter, name in _NEEDED.items() if letter not in known]:
        names = ", ".join(directed.get_column("name").unique(maintain_order=True).head(8))
        split = "" if missing != [_NEEDED["W"]] else "; or say which share of B it is (--weight-share)"
        raise TraceError(f"{path}: no phase of {' or '.join(missing)} among {names}. {_HINT}{split}.")
    return as_input, (["beside phases of W, a B is the input gradient (I)"] if "B" in letters else [])


def _alike_steps(directed: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """The phases of the steps that hold as many as most steps do; the first and last of a recording are often cut."""
    counts = directed.group_by("step").agg(pl.len().alias("number"))
    usual = counts.get_column("number").mode().max()
    alike = directed.join(counts.filter(pl.col("number") == usual), on="step", how="semi", nulls_equal=True)
    if not (left := counts.height - alike.get_column("step").n_unique()):
        return alike, []
    return alike, [f"left out: {left} of {counts.height} steps, which hold another number of phases than most"]


def _num_chunks(alike: pl.DataFrame, chunks: int | None, path: str) -> int:
    """Chunks of a step. Raises `TraceError` where a phase does not come in a whole multiple of them."""
    forward = alike.filter(pl.col("letter") == "F")
    if chunks is None:
        chunks = int(forward.group_by("step").agg(pl.col("micro_batch").drop_nulls().n_unique())["micro_batch"].max())  # type: ignore[arg-type]
    num = max(chunks, 1)
    counts = alike.group_by("name", "step", maintain_order=True).len()
    for name, _, count in counts.iter_rows():
        if count % num:
            raise TraceError(f"{path}: {name} ran {count} times in a step, which cannot be {num} chunks (--chunks).")
    return num


def _parts(alike: pl.DataFrame, num_chunks: int) -> tuple[PhasePart, ...]:
    """A row a name; the median over steps, of one chunk."""
    steps = alike.group_by("name", "letter", "step", maintain_order=True).agg(
        pl.len().alias("count"), pl.sum("busy_ns")
    )
    rows = steps.group_by("name", "letter", maintain_order=True).agg(pl.median("count"), pl.median("busy_ns"))
    return tuple(
        PhasePart(name=name, direction=letter, count=int(count) // num_chunks, busy_ns=round(busy_ns / num_chunks))
        for name, letter, count, busy_ns in rows.iter_rows()
    )


def _overlapped(work: Work, alike: pl.DataFrame, num_chunks: int) -> tuple[int | None, list[str]]:
    """What a pair took side by side, the median over steps; or None, and why the trace does not tell it."""
    events = work.events.join(alike.select("phase", "letter", pl.col("step").alias("of_step")), on="phase", how="inner")
    forward, backward = (
        of_events(events.filter((pl.col("letter") == "F") == is_forward)) for is_forward in (True, False)
    )
    together = (forward & backward).total_ns  # in which events of both directions ran
    least = min(forward.total_ns, backward.total_ns)
    if not least or together < _TOGETHER * least:
        return None, [
            f"F&B is not known: forward and backward phases ran one after the other ({duration(together)} side by side)"
        ]
    if num_chunks > 1:
        return None, [f"F&B is unknown: a step of {num_chunks} chunks has warm-up and cool-down in its span"]
    spans = events.group_by("of_step").agg(pl.col("end_ns").max() - pl.col("start_ns").min())
    return round(spans.get_column("end_ns").median() or 0), [  # type: ignore[arg-type]
        "F, I and W are serial upper bounds: their phases ran beside others, and each is counted as if it ran alone",
        "F&B is the time from the first start to the last end of the pair's phases",
    ]
