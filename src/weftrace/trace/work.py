"""Work: what one device did, ready for analysis.

The device events of a trace with their class (compute, communication, memory, fused), launch and phase. Every analysis
starts here, so that all of them count the same events.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import polars as pl

from weftrace.errors import TraceError
from weftrace.notebook import InNotebook
from weftrace.trace.clipping import FARTHEST_NS, clipped, extent, inside_window
from weftrace.trace.collective_sizes import with_sizes_of_operators, with_sizes_of_ranges
from weftrace.trace.containment import METADATA, collective_of_range, with_host_metadata
from weftrace.trace.device_windows import step_windows
from weftrace.trace.host_collectives import one_each
from weftrace.trace.kernels import BUILT_IN, HOST_FAMILY, KINDS, KernelRules, class_of_metadata, classify, load_rules
from weftrace.trace.launches import link_launches
from weftrace.trace.limits import DEVICES, DEVICES_OF_FEW_EVENTS, EVENTS_PER_DEVICE, FEW_EVENTS
from weftrace.trace.model import GROUP_SIZE, SmUnit, Trace, on_device
from weftrace.trace.phases import PHASE_SCHEMA, assign_phases, find_phases, find_steps, step_at
from weftrace.trace.plain.cutting import cut_around
from weftrace.units import duration

#: What is accounted: device events; host operators in their place; ranges of a plain Chrome trace; or nothing.
Basis = Literal["device", "host", "ranges", "none"]

#: What a step is: a window of the device's time with all that ran in it, or the events that it launched, whenever
#: they ran.
StepBy = Literal["window", "launch"]

#: Columns of `Work.events`, in order of start. Times are absolute nanoseconds.
WORK_SCHEMA: dict[str, pl.DataType] = {
    "row": pl.UInt32(),  # in the trace's events
    "name": pl.Categorical(),
    "kind": pl.Categorical(),  # compute, communication, memory, fused
    "family": pl.Categorical(),
    "collective": pl.Categorical(),
    "role": pl.Categorical(),  # data or barrier, of communication
    "persistent": pl.Boolean(),  # one block per SM: num_blocks is the number of SMs
    "rule": pl.Categorical(),  # the kernel rule that named it; null: unnamed
    "stream": pl.Int64(),
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "num_blocks": pl.Int64(),
    "moved_bytes": pl.Int64(),
    "payload_elems": pl.Int64(),
    "sized_by": pl.Categorical(),  # "shapes": its size is by those of the operator that called it; null: as recorded
    "dtype": pl.Categorical(),
    "group": pl.Categorical(),
    "group_size": pl.Int32(),
    "group_ranks": pl.Categorical(),
    "comm_seq": pl.Int64(),
    "src_rank": pl.Int32(),
    "dst_rank": pl.Int32(),
    "launch_ts_ns": pl.Int64(),
    "launch_pid": pl.Categorical(),
    "launch_tid": pl.Categorical(),
    "link": pl.String(),
    "phase": pl.Int32(),  # row of Work.phases
    "step": pl.Int64(),  # ProfilerStep that launched it; without a launch, that of the event which started before it
}


# Of a device's events, all that is asked on the way to their work: they are copied a few times.
_ASKED = ("name", "cat", "ts_ns", "dur_ns", "stream", "correlation", "external_id", "flow_id", "graph_id", "num_blocks",
          "moved_bytes", "op_kind", *METADATA)  # fmt: skip

#: Bands of the lane picture, in the order of drawing. Memory copies belong to neither.
LaneName = Literal["compute", "communication"]
LANES: tuple[LaneName, ...] = ("compute", "communication")


def in_lane(lane: LaneName) -> pl.Expr:
    """Events of a lane. A kernel that computes and communicates in one holds the SMs: it stands with compute."""
    return pl.col("kind").is_in(("compute", "fused")) if lane == "compute" else pl.col("kind") == lane


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class Work(InNotebook):
    """One device's work, and what had to be left out or mended to account for it.

    basis: "device"; "host" where a trace has no device events and host operators stand in for them; "ranges" of a rank
    of a plain Chrome trace, which its file tells by ranges alone; "none".
    events: frame of `WORK_SCHEMA`. phases: frame of `weftrace.trace.phases.PHASE_SCHEMA`.
    num_unlinked: device events without a launch (kept in all times, in no phase).
    num_clipped: events whose duration contradicts the recording and was cut. num_out_of_window: events that lie outside
    the recording and were left out. num_overlapping: events that start before their predecessor on the stream ended.

    Of a part: step, the ProfilerStep asked for; window_ns, the stretch of time that it is of, absolute, None where it
    is not one of time; whole, the work that it is part of.
    """

    trace: Trace
    device: int | None
    basis: Basis
    events: pl.DataFrame
    phases: pl.DataFrame
    step: int | None = None
    window_ns: tuple[int, int] | None = None
    whole: Work | None = None
    num_unlinked: int = 0
    num_clipped: int = 0
    num_out_of_window: int = 0
    num_overlapping: int = 0

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "trace", self.trace.path or "in memory"
        yield "device", "–" if self.device is None else str(self.device)
        yield "events", f"{self.events.height:,} in {self.phases.height:,} phases ({self.basis})"
        yield "span", duration(self.end_ns - self.start_ns)
        left = {"unlinked": self.num_unlinked, "clipped": self.num_clipped, "out of window": self.num_out_of_window}
        yield from ((name, f"{count:,} events") for name, count in left.items() if count)

    @property
    def start_ns(self) -> int:
        """First start, or that of the window; absolute ns, 0 where there is no work."""
        return self.window_ns[0] if self.window_ns else int(self.events.get_column("start_ns").min() or 0)  # type: ignore[arg-type]

    @property
    def end_ns(self) -> int:
        """Last end, or that of the window; absolute ns, 0 where there is no work."""
        return self.window_ns[1] if self.window_ns else int(self.events.get_column("end_ns").max() or 0)  # type: ignore[arg-type]

    @property
    def num_sms(self) -> int | None:
        """SMs (or compute units) of the device, where the file says."""
        return None if self.device is None else self.trace.device(self.device).num_sms

    @property
    def sm_unit(self) -> SmUnit:
        """What the device's multiprocessors are called."""
        return "CUs" if self.trace.on_rocm else "SMs"

    @property
    def steps(self) -> tuple[int, ...]:
        """Numbers of the profiler steps that launched work, ascending; of a step, its own."""
        if self.step is not None:
            return (self.step,)
        return tuple(sorted(self.events.get_column("step").drop_nulls().unique().to_list()))

    @property
    def step_by(self) -> StepBy | None:
        """How the step was selected; None where none was."""
        return None if self.step is None else "launch" if self.window_ns is None else "window"

    @property
    def started(self) -> pl.DataFrame:
        """The events that start here, uncut: for what is told of an event as a whole (its delay, size, bandwidth)."""
        if self.window_ns is None or self.whole is None:
            return self.events
        return self.whole.events.filter(_starts_in(self.window_ns, self.whole))

    @property
    def around(self) -> Work:
        """Of a stretch of time, the work that it was cut from, for what reaches past its ends; any other is itself."""
        return self.whole if self.window_ns and self.whole else self

    def of_step(self, step: int, *, by: StepBy = "window") -> Work:
        """One ProfilerStep: its window with all that ran in it, or what it launched. See `step_windows`.

        Raises TraceError when there is no such step.
        """
        if step not in self.steps:
            found = ", ".join(map(str, self.steps)) or "none"
            raise TraceError(f"{self.trace.path}: no step {step}: steps in this file: {found}.")
        whole = self.whole or self
        if by == "launch":
            part = whole._part(whole.events.filter(pl.col("step") == step), None)
        else:
            windows = step_windows(whole.events).filter(pl.col("step") == step)
            part = whole.between(*windows.select("start_ns", "end_ns").row(0))
        return replace(part, step=step)

    def between(self, start_ns: int, end_ns: int) -> Work:
        """A stretch of the device's time (absolute ns), with all events in it, whichever part this is. What crosses an
        end of the stretch is cut there, so that stretches add up to the whole.
        """
        whole = self.whole or self
        start_ns, end_ns = max(start_ns, whole.start_ns), min(end_ns, whole.end_ns)
        crosses = (pl.col("start_ns") < start_ns) & (pl.col("end_ns") > start_ns) & pl.lit(start_ns < end_ns)
        inside = whole.events.filter(crosses | _starts_in((start_ns, end_ns), whole))
        events = inside.with_columns(
            pl.col("start_ns").clip(lower_bound=start_ns), pl.col("end_ns").clip(upper_bound=end_ns)
        )
        return whole._part(events, (start_ns, end_ns))

    def _part(self, events: pl.DataFrame, window_ns: tuple[int, int] | None) -> Work:
        return replace(
            self, events=events, window_ns=window_ns, whole=self,
            num_unlinked=_unlinked(events), num_overlapping=_overlapping(events),
        )  # fmt: skip


def _starts_in(window_ns: tuple[int, int], whole: Work) -> pl.Expr:
    """Which events start in a window; in the last one, those without a length that stand at its very end too."""
    start, end = window_ns
    at_the_end = (pl.col("start_ns") == end) & pl.lit(start < end == whole.end_ns)
    return pl.col("start_ns").is_between(start, end, closed="left") | at_the_end


def work_of(
    trace: Trace,
    *,
    rules: KernelRules | None = None,
    device: int | None = None,
    step: int | None = None,
    step_by: StepBy = "window",
) -> Work:
    """The work of one device of a trace: classed, linked to launches and phases, absurd durations clipped.

    device: needed when the trace's process drove several. step: only ProfilerStep N, its window or, by "launch", what
    it launched.
    Raises TraceError for a device or a step that is not in the trace, or when several devices need a choice.
    """
    if trace.plain is not None:
        ranks = works_of(trace, rules=rules)
        if len(ranks) > 1:
            raise TraceError(f"{trace.path}: holds {len(ranks)} ranks: works_of gives the work of each.")
        return ranks[0] if step is None else ranks[0].of_step(step, by=step_by)
    used = _devices(trace)
    if device is None and len(used) > 1:
        raise TraceError(f"{trace.path}: holds work of devices {', '.join(map(str, used))}: choose one of them.")
    if device is not None and device not in used:
        raise TraceError(f"{trace.path}: no work of device {device}; devices with work: {used or 'none'}.")
    work = _work_of_device(trace, used[0] if device is None else device, rules) if used else _work_of_host(trace, rules)
    return work if step is None else work.of_step(step, by=step_by)


def works_of(
    trace: Trace, *, rules: KernelRules | None = None, step: int | None = None, step_by: StepBy = "window"
) -> list[Work]:
    """The work of each device of a trace, or of each rank of a plain one; one without device events gives one Work, on
    the host's operators.

    step, step_by: as in `work_of`, of the devices that the step launched something on. Raises TraceError when that is
    none of them.
    """
    if trace.plain is not None:
        works = [_work_of_worker(part, rules) for part in workers_of(trace)]
    else:
        works = [work_of(trace, rules=rules, device=device) for device in _devices(trace) or (None,)]
    if step is None:
        return works
    chosen = [work for work in works if step in work.steps] or works[:1]  # the first tells which steps there are
    return [work.of_step(step, by=step_by) for work in chosen]


def _devices(trace: Trace) -> tuple[int, ...]:
    """Devices with work; device 0 where there is work and nothing tells its device."""
    used = trace.device_ids
    if len(used) > (DEVICES_OF_FEW_EVENTS if trace.events.height <= FEW_EVENTS else DEVICES):
        number = int(trace.events.select(on_device().sum()).item())
        if number < EVENTS_PER_DEVICE * len(used):
            raise TraceError(
                f"{trace.path}: {number:,} device events on {len(used):,} devices: no process drives so many, so what "
                "its events call a device is none, or it is put together of many ranks. Give the file of each rank."
            )
    return used or ((0,) if trace.events.select(on_device().any()).item() else ())


def _work_of_device(trace: Trace, device: int, rules: KernelRules | None) -> Work:
    first = _devices(trace)[0]  # which events belong to that do not tell their device
    events = trace.events.select("device", *_ASKED).with_row_index("row")
    rows = events.filter(on_device(), pl.col("device").fill_null(first) == device).drop("device")
    rows, num_outside = inside_window(rows, trace)
    rows = link_launches(trace.events, rows)
    rows = _classified(rows, rules or load_rules(), trace.events)
    rows = with_sizes_of_operators(rows, trace.events, _group_size(trace))
    phases = find_phases(trace.events)
    steps = find_steps(trace.events)
    rows = rows.with_columns(
        assign_phases(phases, rows, trace.events),
        step_at(rows.get_column("launch_ts_ns"), steps),
        *extent(),
        pl.max_horizontal("in_elems", "out_elems").alias("payload_elems"),
    )
    rows = rows.select(*WORK_SCHEMA, "correlation", "graph_id").sort("start_ns", "row")
    if not steps.is_empty():
        rows = rows.with_columns(_with_neighbours_step())
    rows, num_clipped = clipped(rows, trace)
    rows = rows.select(pl.col(name).cast(dtype) for name, dtype in WORK_SCHEMA.items())
    return Work(
        trace=trace,
        device=device,
        basis="device" if rows.height else "none",
        events=rows,
        phases=phases,
        num_unlinked=_unlinked(rows),
        num_clipped=num_clipped,
        num_out_of_window=num_outside,
        num_overlapping=_overlapping(rows),
    )


def _group_size(trace: Trace) -> int | None:
    """Ranks of each process group of the file; None where it lists none, or of several sizes."""
    size = trace.info.get(GROUP_SIZE, "")
    return int(size) if size.isdecimal() else None


def _unlinked(events: pl.DataFrame) -> int:
    return events.get_column("link").null_count()


def _overlapping(events: pl.DataFrame) -> int:
    previous_end = pl.col("end_ns").cum_max().shift(1).over("stream")
    return int(events.select((pl.col("start_ns") < previous_end).sum()).item())


def _with_neighbours_step() -> pl.Expr:
    """Step of the events that have a launch; of the others, that of the last event with a launch that started before.

    Of rows in order of start. Without it, kernels that nothing links would be missing from every step.
    """
    outside = pl.lit(-1, dtype=pl.Int64)
    known = pl.when(pl.col("link").is_not_null()).then(pl.coalesce("step", outside))
    step = known.forward_fill()
    return pl.when(step != outside).then(step).alias("step")


def _classified(rows: pl.DataFrame, rules: KernelRules, events: pl.DataFrame | None = None) -> pl.DataFrame:
    """Class by name; memory by category; what a simulated event's plan or NCCL's metadata says beats its name.

    events: the trace's, in which the host's records say more of device events.
    """
    names = rows.get_column("name").unique().cast(pl.String)
    classes = classify(names, rules).with_columns(pl.col("name").cast(pl.Categorical()))
    rows = rows.join(classes, on="name", how="left", maintain_order="left", suffix="_class")
    copied = pl.col("cat").is_in(("gpu_memcpy", "gpu_memset"))
    rows = rows.with_columns(
        pl.when(copied & (pl.col("kind") == "compute")).then(pl.lit("memory")).otherwise(pl.col("kind")).alias("kind"),
        pl.when(copied & pl.col("rule").is_null()).then(pl.lit("memcpy")).otherwise(pl.col("family")).alias("family"),
    )
    if events is not None:  # a record speaks for kernels that may communicate, not for a copy or GEMM in its midst
        eligible = (pl.col("cat") == "kernel") & ((pl.col("kind") == "communication") | pl.col("rule").is_null())
        rows = with_host_metadata(rows.with_columns(eligible.alias("eligible")), events)
    if rows.get_column("op_kind").null_count() < rows.height:
        rows = _as_planned(rows)
    return _with_collective(rows, rules, events)


def _with_collective(rows: pl.DataFrame, rules: KernelRules, events: pl.DataFrame | None) -> pl.DataFrame:
    """`collective`: NCCL's metadata, else the innermost range at the launch, else the name."""
    recorded = rows.get_column("collective").cast(pl.String)
    known = {name: class_of_metadata(name) for name in recorded.drop_nulls().unique()}
    said = recorded.replace_strict(known, default=None, return_dtype=pl.String)
    said = said.set(rows.get_column("kind") == "fused", None).alias("said")  # half of it is no communication
    ranged = pl.Series("ranged", [None], dtype=pl.String).new_from_index(0, rows.height)
    moves = (pl.col("kind") == "communication") & (pl.col("role") == "data") & (pl.col("family") != HOST_FAMILY)
    if events is not None and rows.select(moves.any()).item():
        ranged = collective_of_range(rows, events, rules)
    summary = pl.col("said").is_not_null()
    rows = rows.with_columns(said, ranged).with_columns(
        pl.coalesce("said", pl.when(moves).then("ranged")).alias("by_record"),
        pl.when(summary).then(pl.lit("communication")).otherwise(pl.col("kind")).alias("kind"),
        pl.when(summary & (pl.col("kind") != "communication"))
        .then(pl.lit("collective"))
        .otherwise(pl.col("family"))
        .alias("family"),
    )
    return rows.with_columns(
        pl.coalesce("by_record", "collective_class").alias("collective"),
        pl.when(pl.col("by_record") == "barrier")  # torch.distributed.barrier is an all-reduce of nothing
        .then(pl.lit("barrier"))
        .when(summary)
        .then(pl.coalesce("role", pl.lit("data")))
        .otherwise(pl.col("role"))
        .alias("role"),
    )


def _as_planned(rows: pl.DataFrame) -> pl.DataFrame:
    """Simulated events have the class that their plan gives them; a rule that says otherwise was misled by a name."""
    kind = pl.col("op_kind").cast(pl.String)
    misled = kind.is_in(KINDS) & (kind != pl.col("kind"))
    plain = {
        "kind": kind,
        "family": pl.lit("simulated"),
        "collective_class": pl.lit(None, dtype=pl.String),
        "role": pl.when(kind == "communication").then(pl.lit("data")),
        "persistent": kind != "memory",
        "rule": pl.lit("plan"),
    }
    return rows.with_columns(
        pl.when(misled).then(value).otherwise(pl.col(column)).alias(column) for column, value in plain.items()
    )


def _work_of_host(trace: Trace, rules: KernelRules | None) -> Work:
    """Host operators in place of device events, for a run on CPUs: each thread is a stream, top-level operators are
    compute, collectives communication."""
    events = trace.events.with_row_index("row")
    ops = events.filter(
        pl.col("cat").is_in(("cpu_op", "user_annotation")), pl.col("ts_ns").is_between(-FARTHEST_NS, FARTHEST_NS)
    )
    ops = _classified(ops, rules or load_rules()).with_columns(
        *extent(),
        pl.concat_str(pl.col("pid", "tid").cast(pl.String), separator="/").rank("dense").cast(pl.Int64).alias("stream"),
    )
    ops = with_sizes_of_ranges(ops, _group_size(trace))
    is_communication = pl.col("kind") == "communication"
    phases = find_phases(trace.events)
    steps = find_steps(trace.events)
    compute = ops.filter(pl.col("cat") == "cpu_op", ~is_communication, pl.col("name") != "record_param_comms")
    compute = _top_level(compute).with_columns(
        pl.lit("compute").alias("kind"),
        pl.when(pl.col("rule").is_null()).then(pl.lit("host operator")).otherwise(pl.col("family")).alias("family"),
        pl.lit("host operator").alias("rule"),
    )
    rows = pl.concat([compute, one_each(ops.filter(is_communication))], how="diagonal_relaxed").with_columns(
        pl.coalesce("launch_ts_ns", "start_ns").alias("launch_ts_ns"),
        pl.coalesce("launch_pid", "pid").alias("launch_pid"),
        pl.coalesce("launch_tid", "tid").alias("launch_tid"),
        pl.lit("host").alias("link"),
        pl.when(kind="communication").then(pl.max_horizontal("in_elems", "out_elems")).alias("payload_elems"),
    )
    rows = rows.with_columns(step_at(rows.get_column("launch_ts_ns"), steps))
    rows = rows.with_columns(assign_phases(phases, rows, trace.events)).sort("start_ns", "row")
    return Work(
        trace=trace,
        device=None,
        basis="host" if rows.height else "none",
        events=rows.select(pl.col(name).cast(dtype) for name, dtype in WORK_SCHEMA.items()),
        phases=phases,
    )


def workers_of(trace: Trace) -> Iterator[Trace]:
    """A plain trace's ranks, a trace each: its events in order, at the times at which they are taken to have run."""
    assert trace.plain is not None, trace
    rows = trace.plain.rows
    for number, worker in enumerate(trace.plain.workers):
        own = (rows.get_column("worker") == number).fill_null(False)
        mine = rows.filter(own).with_columns(pl.lit(0, dtype=pl.Int32).alias("worker"))
        events = trace.events.filter(own).with_columns(pl.col("ts_ns") + mine.get_column("shift_ns"))
        summary = mine.filter(pl.col("shift_ns") != 0).drop_nulls("step").select("step", "shift_ns").unique()
        plain = replace(
            trace.plain,
            workers=(worker,),
            rows=mine.with_columns(pl.lit(0, dtype=pl.Int64).alias("shift_ns")),
            step_shifts={**trace.plain.step_shifts, **dict(summary.iter_rows())},
        )
        yield replace(trace, events=events, rank=worker.rank, plain=plain)


def _work_of_worker(trace: Trace, rules: KernelRules | None) -> Work:
    """The ranges of one rank of a plain trace: a thread is a stream, a range a phase; its name tells its class.

    Nothing launches them: launches are null, and each event is known to be of the step that it states.
    """
    assert trace.plain is not None, trace
    events = trace.events.select("name", "ts_ns", "dur_ns", "pid", "tid", "dtype", "src_rank", "dst_rank")
    rows = trace.plain.rows.hstack(events).with_row_index("row").with_columns(*extent())
    rows = _with_own_rules(rows, rules).sort("start_ns", "row")
    occurrence = pl.int_range(pl.len(), dtype=pl.Int32).over("phase", "step").alias("index")
    phases = rows.select(
        pl.int_range(pl.len(), dtype=pl.Int32).alias("number"), occurrence, pl.col("chunk").alias("layer"),
        "phase", "step", "micro_batch", "pid", "tid", host_start_ns="start_ns", host_end_ns="end_ns",
    ).rename({"phase": "name", "number": "phase"})  # fmt: skip
    rows = rows.with_columns(
        pl.int_range(pl.len(), dtype=pl.Int32).alias("phase"),
        pl.lit("range").alias("link"),
        pl.lit(False).alias("persistent"),
    )
    rows = cut_around(rows).sort("start_ns", "row")
    absent = {c: pl.lit(None, dtype=t).alias(c) for c, t in WORK_SCHEMA.items() if c not in rows.columns}
    rows = rows.with_columns(absent.values()).select(pl.col(name).cast(dtype) for name, dtype in WORK_SCHEMA.items())
    return Work(
        trace=trace,
        device=None,
        basis="ranges" if rows.height else "none",
        events=rows,
        phases=phases.select(pl.col(name).cast(dtype) for name, dtype in PHASE_SCHEMA.items()),
        num_overlapping=_overlapping(rows),
    )


def _with_own_rules(rows: pl.DataFrame, rules: KernelRules | None) -> pl.DataFrame:
    """What a rule of the user's own says of a range's name, in place of what weftrace took it for."""
    own = tuple(rule for rule in rules.rules if rule.file != str(BUILT_IN)) if rules else ()
    if not own:
        return rows
    summary = classify(rows.get_column("name").cast(pl.String), KernelRules(rules=own))
    known = summary.get_column("rule").is_not_null()
    columns = ("kind", "family", "collective", "role", "rule")
    return rows.with_columns(rows.get_column(c).zip_with(~known, summary.get_column(c)).alias(c) for c in columns)


def _top_level(ops: pl.DataFrame) -> pl.DataFrame:
    """Operators that no other operator of their thread contains."""
    ops = ops.sort("stream", "start_ns", "end_ns", descending=[False, False, True], maintain_order=True)
    covered_until = pl.col("end_ns").cum_max().shift(1).over("stream")
    return ops.filter(covered_until.is_null() | (pl.col("start_ns") >= covered_until))


def as_work(source: Trace | Work, *, rules: KernelRules | None = None) -> Work:
    """A Work as it is; the work of a Trace's only device."""
    return source if isinstance(source, Work) else work_of(source, rules=rules)
