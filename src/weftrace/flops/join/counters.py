"""A report as a trace for Perfetto and chrome://tracing, and its rates as counters on a trace that a profiler wrote.

A report knows how long each module took, not when: the step that `write_counters` draws is RECONSTRUCTED from the
medians of each module and phase, one phase after another, children before what the module does itself, in the order
of the tree (of a backward: from its end). Its slices have the right lengths; their places are made up, and the file
says so.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec

from weftrace.costs.cost import NOTHING, PHASES, Phase, Tally
from weftrace.errors import FlopsError
from weftrace.facts import Hardware
from weftrace.files.output import write_output
from weftrace.files.sources import DEFAULT_MAX_BYTES
from weftrace.flops.derived.account import Account, account_of
from weftrace.flops.derived.utilization import model_ns_by_key
from weftrace.flops.join.join import PhaseWork, TraceJoin, join
from weftrace.flops.values import FlopsReport
from weftrace.trace.chrome.annotate import Annotated, annotate, file_base_ns
from weftrace.trace.model import Trace
from weftrace.units import US, S

PROCESS = "weftrace flops"
RECONSTRUCTED = "one step, reconstructed from medians: lengths are measured, places are not"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A module (or, with `module` None, a phase) in the reconstructed step, in ns from its start.

    own_start_ns: where the stretch begins that the module spends itself, at the end of its slice.
    """

    module: int | None
    phase: Phase
    depth: int
    start_ns: int
    own_start_ns: int
    end_ns: int


def reconstructed_step(report: FlopsReport | Account) -> list[Slice]:
    """The median step as nested slices, parents before children. Empty where nothing was timed."""
    account = account_of(report)
    own = {key: spread.typical for key, spread in account.times.exclusive.items()}
    children, slices = account.children, list[Slice]()
    at = 0

    def place(module: int, phase: Phase, depth: int, start: int) -> int:
        """Adds the module's slice and those below it; where it ends."""
        mark = len(slices)
        slices.append(Slice(module=module, phase=phase, depth=depth, start_ns=start, own_start_ns=start, end_ns=start))
        end = start
        for child in _in_order(children.get(module, ()), phase):
            end = place(child, phase, depth + 1, end)
        took = own.get((module, phase), 0)
        if end + took == start:
            del slices[mark:]
            return start
        slices[mark] = Slice(
            module=module, phase=phase, depth=depth, start_ns=start, own_start_ns=end, end_ns=end + took
        )
        return end + took

    for phase in PHASES:
        mark, start = len(slices), at
        slices.append(Slice(module=None, phase=phase, depth=0, start_ns=start, own_start_ns=start, end_ns=start))
        for root in _in_order(children.get(None, ()), phase):
            at = place(root, phase, 1, at)
        if at == start:
            del slices[mark:]
        else:
            slices[mark] = Slice(module=None, phase=phase, depth=0, start_ns=start, own_start_ns=at, end_ns=at)
    return slices


def write_counters(
    report: FlopsReport | Account, path: str | os.PathLike[str], device: Hardware | str | None = None
) -> int:
    """Write a report as Chrome trace JSON: slices of modules, and counters FLOP/s, bytes/s and MFU of one rank.

    Returns the number of events. path: compressed where it ends in .gz or .zst. device: the accelerator whose peaks
    count, by default the report's own where weftrace knows it; without one there is no MFU. Raises `FlopsError` where
    nothing was timed, `WeftraceError` for an unknown accelerator, `OutputError` where the file cannot be written.
    """
    account = account_of(report, device)
    report = account.report
    if not account.timed:
        raise FlopsError(
            f"{report.name}: no module was timed, so there is nothing to draw; profile with time=True on a device"
        )
    events = list(_step_events(account))
    head = {
        "schemaVersion": 1,
        "displayTimeUnit": "ms",
        "weftrace_flops": report.name,
        "weftrace_reconstructed": RECONSTRUCTED,
        "weftrace_notes": [note for note in (account.device_note, _of_ranks(report)) if note],
    }
    lines = b",\n".join(_encode(event) for event in events)
    write_output(path, [_encode(head)[:-1], b',"traceEvents":[\n', lines, b"\n]}\n"])
    return len(events)


def annotate_flops(
    trace: Trace,
    report: FlopsReport,
    out: str | os.PathLike[str],
    *,
    device: Hardware | str | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> Annotated:
    """Copy a trace's file, byte for byte, with counters FLOP/s, bytes/s and MFU of its phases added.

    A trace does not tell the FLOPs of a kernel: the counters hold, over each stretch of a phase, the phase's mean rate.
    Raises `WeftraceError` as `join` does, `TraceError` where it is no Chrome JSON, `OutputError` where `out` cannot be
    written.
    """
    return annotate(trace.path, counter_events(join(report, trace, device), trace), out, max_bytes=max_bytes)


def counter_events(joined: TraceJoin, trace: Trace) -> Iterator[dict[str, Any]]:
    """The counters of a joined trace as events in the time base of its file."""
    base_ns = file_base_ns(trace)
    phases = {str(part.phase): part for part in joined.phases}
    yield from _named(f"mean rates of phases, from {joined.model}'s FLOPs")
    end = None
    for name, start_ns, end_ns in joined.segments.iter_rows():
        yield from _counters(start_ns - base_ns, _mean_rates(phases.get(name)))
        end = end_ns
    if end is not None:
        yield from _counters(end - base_ns, _mean_rates(None))


def _mean_rates(part: PhaseWork | None) -> Mapping[str, float | None]:
    if part is None or not part.elapsed_ns:
        return {"FLOP/s": 0.0, "bytes/s": 0.0, "MFU %": 0.0}
    return {
        "FLOP/s": part.flops_per_s,
        "bytes/s": part.tally.moved_bytes * S / part.elapsed_ns,
        "MFU %": None if part.mfu is None else 100 * part.mfu,
    }


def _step_events(account: Account) -> Iterator[dict[str, Any]]:
    report, chip, sums = account.report, account.device, account.exclusive
    slices = reconstructed_step(account)
    yield from _named("; ".join(text for text in (RECONSTRUCTED, _of_ranks(report)) if text))
    yield {
        "ph": "M",
        "name": "thread_name",
        "pid": PROCESS,
        "tid": 1,
        "ts": 0,
        "args": {"name": "modules (reconstructed)"},
    }
    for each in slices:
        module = None if each.module is None else report.modules[each.module]
        tally = NOTHING if each.module is None else sums.get((each.module, each.phase), NOTHING)
        args = {"phase": str(each.phase), "depth": each.depth, "own_us": _us(each.end_ns - each.own_start_ns)}
        if module is not None:
            args |= {
                "class": module.class_name,
                "own_flops": tally.executed_flops,
                "own_vector_flops": tally.vector_flops,
                "own_bytes": tally.moved_bytes,
            }
        yield {
            "ph": "X",
            "cat": "user_annotation",
            "name": str(each.phase) if module is None else module.path or report.name,
            "pid": PROCESS,
            "tid": 1,
            "ts": _us(each.start_ns),
            "dur": _us(each.end_ns - each.start_ns),
            "args": args,
        }
    peak_ns = {} if chip is None else model_ns_by_key(report, chip)
    end = 0
    for each in sorted((s for s in slices if s.module is not None), key=lambda s: s.own_start_ns):
        took = each.end_ns - each.own_start_ns
        if took and each.module is not None:
            key = (each.module, each.phase)
            at_peak = None if chip is None else peak_ns.get(key, 0.0)
            yield from _counters(each.own_start_ns, _rates(sums.get(key, NOTHING), took * report.ranks, took, at_peak))
            end = each.end_ns
    if end:
        yield from _counters(end, _rates(NOTHING, 1, 1, None if chip is None else 0.0))


def _rates(tally: Tally, ranks_ns: int, took_ns: int, peak_ns: float | None) -> Mapping[str, float | None]:
    """Rates of one rank. ranks_ns: the time, once for each rank whose work is in the tally."""
    return {
        "FLOP/s": tally.executed_flops * S / ranks_ns,
        "bytes/s": tally.moved_bytes * S / ranks_ns,
        "MFU %": None if peak_ns is None else 100 * peak_ns / took_ns,
    }


def _of_ranks(report: FlopsReport) -> str:
    return "" if report.ranks == 1 else f"rates are the mean of {report.ranks} ranks, counts of all of them together"


def _in_order(children: Sequence[int], phase: Phase) -> Sequence[int]:
    return children[::-1] if phase is Phase.BACKWARD else children


def _named(label: str) -> Iterator[dict[str, Any]]:
    for kind, args in (("name", {"name": PROCESS}), ("labels", {"labels": label})):
        yield {"ph": "M", "name": f"process_{kind}", "pid": PROCESS, "tid": 0, "ts": 0, "args": args}


def _counters(time_ns: int, values: Mapping[str, float | None]) -> Iterator[dict[str, Any]]:
    for name, value in values.items():
        if value is not None:
            yield {
                "ph": "C",
                "cat": "weftrace",
                "name": name,
                "pid": PROCESS,
                "tid": 0,
                "ts": _us(time_ns),
                "args": {"value": round(value, 3)},
            }


def _us(time_ns: int) -> Decimal:
    """Microseconds, exactly."""
    return Decimal(time_ns) / US


_encode = msgspec.json.Encoder(decimal_format="number").encode
