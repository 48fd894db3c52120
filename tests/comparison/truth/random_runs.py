"""Small random jobs of one or two ranks, and whose each nanosecond of them is by a method of its own: one at a time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Any

from weftrace.plan import Op, Plan, Resource, Wait, simulate_ranks
from weftrace.trace import Trace

NAMES = {
    "compute": ("gemm", "norm"),
    "communication": ("all_reduce", "dispatch"),
    "memory": ("copy",),
    "fused": ("moe",),
}
KERNELS = {f"weftrace::sim::{kind}::{name}": kind for kind, names in NAMES.items() for name in names}
PARTS = {"compute": "compute", "fused": "compute", "communication": "exposed communication", "memory": "exposed memory"}
THREAD = 100
GAP_NS = 30_000  # below it, a gap before a kernel that was launched in time is one between kernels

#: (step, part, cause of idle time, kind, kernel, phase) -> ns
Owned = Counter[tuple[int | None, str, str | None, str, str, str | None]]


def random_job(seed: int) -> dict[int, Trace]:
    """Traces by rank: steps, three streams, kernels of all kinds in and out of phases, collectives that ranks do
    together; a host that is invented, or one that launches late. A nanosecond is a nanosecond.
    """
    chance = Random(seed)
    ranks, has_host = range(chance.choice((1, 1, 2))), chance.random() < 0.6
    ops: list[Op] = []
    for step in range(chance.choice((1, 2, 3, 4))):
        for moment in range(chance.randint(3, 7)):
            is_met = chance.random() < 0.25
            kind = "communication" if is_met else chance.choice(("compute", "compute", *NAMES))
            summary: dict[str, Any] = {
                "name": chance.choice(NAMES[kind]), "kind": kind, "step": step,
                "phase": chance.choice((None, "attn(F)", "mlp(B)")), "meet": 10 * step + moment if is_met else None,
            }  # fmt: skip
            for rank in ranks if is_met else (chance.choice(ranks),):
                ops += _launched(chance, rank, len(ops), has_host, summary)
    for rank in ranks:  # none is empty
        ops += _launched(chance, rank, len(ops), has_host, {"name": "norm", "kind": "compute", "step": step})
    return simulate_ranks(Plan.of(ops, name="random", gap_ns=chance.choice((0, 2))))


def _launched(chance: Random, rank: int, at: int, has_host: bool, summary: dict[str, Any]) -> list[Op]:
    """An op with, where there is a host, its launch before it; at: how many ops stand before."""
    lane = Resource(rank=rank, stream=chance.choice((7, 7, 20, 30)))
    waits = at and summary.get("meet") is None and chance.random() < 0.2  # a meet's members do not wait for each other
    after = [Wait(chance.randrange(at), lag_ns=chance.choice((0, 5)))] if waits else []
    device = {
        "resource": lane,
        "duration_ns": chance.randint(0, 25),
        "num_kernels": chance.choice((1, 1, 2)),
        **summary,
    }
    if not has_host:
        return [Op(**device, after=tuple(after))]
    call = Op(
        name="cudaLaunchKernel", kind="host", resource=Resource(rank=rank, stream=THREAD), step=summary["step"],
        duration_ns=chance.choice((1, 5, 30)), phase=summary.get("phase"),
    )  # fmt: skip
    return [call, Op(**device, after=(*after, Wait(at, why="launch")))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    row: int
    start: int
    end: int
    kernel: str
    launch: int | None
    step: int | None
    phase: str | None

    @property
    def kind(self) -> str:
        return KERNELS[self.kernel]


def events_of(trace: Trace) -> list[Event]:
    """Device events by start, with what the ranges around their launch calls tell."""
    rows = list(enumerate(trace.events.iter_rows(named=True)))
    calls = {r["correlation"]: r for _, r in rows if r["cat"] == "cuda_runtime" and r["correlation"] is not None}
    ranges = [r for _, r in rows if r["cat"] == "user_annotation"]
    steps = [r for r in ranges if r["name"].startswith("ProfilerStep#")]
    found = []
    for number, row in rows:
        if row["name"] not in KERNELS:
            continue
        call = calls.get(row["correlation"])
        phase = [] if call is None else [r for r in ranges if r not in steps and _holds(r, call["ts_ns"])]
        step = [] if call is None else [r for r in steps if _holds(r, call["ts_ns"])]
        found.append(
            Event(
                row=number, start=row["ts_ns"], end=row["ts_ns"] + row["dur_ns"], kernel=row["name"],
                launch=None if call is None else call["ts_ns"],
                step=int(step[-1]["name"].split("#")[1]) if step else None,
                phase=phase[-1]["name"] if phase else None,
            )
        )  # fmt: skip
    return sorted(found, key=lambda event: (event.start, event.row))


def _holds(range_: dict[str, Any], time: int) -> bool:
    return bool(range_["ts_ns"] <= time < range_["ts_ns"] + range_["dur_ns"])


def windows_of(events: list[Event]) -> dict[int, tuple[int, int]]:
    """Each step's window: from the first kernel that it launched, or the first copy that did not run ahead."""
    kernels = [event for event in events if event.kind != "memory"]
    starts: dict[int, int] = {}
    for step in sorted({event.step for event in events if event.step is not None}):
        first = min((event.start for event in kernels if event.step == step), default=None)
        busy_to = max((e.end for e in kernels if first is not None and e.start < first), default=0)
        copies = [e.start for e in events if e.kind == "memory" and e.step == step and e.start >= busy_to]
        begins = [*copies, *([] if first is None else [first])]
        if begins:
            starts[step] = max(min(begins), max(starts.values(), default=0))
    ends = [*list(starts.values())[1:], max((e.end for e in events if e.step is not None), default=0)]
    return {step: (start, end) for (step, start), end in zip(starts.items(), ends, strict=True)}


def owned(trace: Trace) -> tuple[Owned, dict[int, tuple[int, int]]]:
    """Whose each nanosecond of a device's span is, one at a time, and the windows of its steps."""
    events = events_of(trace)
    windows = windows_of(events)
    whose: Owned = Counter()
    step_at = {at: step for step, window in windows.items() for at in range(*window)}
    for at in range(events[0].start, max(event.end for event in events)):
        running = [event for event in events if event.start <= at < event.end]
        if running:
            order = ["exposed memory", "exposed communication", "compute"]
            part = max((PARTS[event.kind] for event in running), key=order.index)
            owner = next(event for event in running if PARTS[event.kind] == part)
            cause = None
        else:
            owner = next(event for event in events if event.start > at)
            part, cause = "idle", _cause(owner, max(event.end for event in events if event.start <= at))
        whose[step_at.get(at), part, cause, owner.kind, owner.kernel, owner.phase] += 1
    return whose, windows


def _cause(ended_by: Event, idle_from: int) -> str:
    if ended_by.launch is None:
        return "unknown"
    if ended_by.launch > idle_from:
        return "host_wait"
    return "kernel_gap" if ended_by.start - idle_from < GAP_NS else "dependency_wait"
