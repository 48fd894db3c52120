"""A training on CPUs, as ranges: what its threads did between communications, and the communications, with waiting.

torch.profiler records no device there, but operators of threads, and the ranges of a backend such as gloo. A thread
computes from one wait to the next, whatever Python did between operators. Autograd's sequence numbers tell forwards and
backwards apart. That is what a plain trace tells (`weftrace.trace.plain`), so it becomes one.

    operators   F F F      B B B       O O        a thread waits where none of its operators runs and a communication
    all_reduce               [=========]          ends, until that end
    ranges      [forward ][backward ]   [optimizer ]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.errors import TraceError
from weftrace.trace.model import Trace, events_frame, is_annotation
from weftrace.trace.phases import find_steps, step_at
from weftrace.trace.plain.values import PLAIN_SCHEMA, Plain, Worker
from weftrace.trace.work import Work, work_of, works_of
from weftrace.units import US

_Ints = NDArray[np.int64]
_LEAST_NS = 100 * US  # a wait that is shorter is none
_AT_ONCE_NS, _PART = 1_000 * US, 0.1  # by which, or which part of the hole, a thread goes on after what it waited for
_LATE_NS = 3_000 * US
_MOST_A_STEP = 100_000  # communications of a group
_BACKENDS = r"^(?:gloo|mpi|ucc):"  # that communicate on CPUs
_EVALUATES = r"^autograd::engine::evaluate_function"
_OPTIMIZER = r"^Optimizer\.(?:step|zero_grad)#"
_ACTION = r"^PP:(\d+)(?:(?:SEND|RECV)_)?([FBIW])(\d+)$"  # torch's pipeline runtime names what it runs
FORWARD, BACKWARD, OPTIMIZER, OTHER = "forward", "backward", "optimizer", "other"
_NOTE = "a run on CPUs: what a thread did from one communication to the next is a range"
_FAMILIES = {FORWARD: "forward", BACKWARD: "backward", OPTIMIZER: "optimizer"}


def ranges_of_host(trace: Trace) -> Work | None:
    """The work of a rank on CPUs as ranges; None of a device or a plain trace, or where no backend ran on CPUs.

    Computation: forward, backward, optimizer, and what comes before the first of them in a step. Sends and receives,
    and collectives that their thread waits for at once, stand beside it on its thread; other collectives on that of
    their backend. A send ends when it is posted: when it was through, no file tells.
    Raises `TraceError` where sends and receives tell no partner, so that nothing says what a thread waited for.
    """
    if trace.plain is not None or trace.device_ids:
        return None
    work = work_of(trace)
    runs_here = pl.col("name").cast(pl.String).str.contains(_BACKENDS)  # else the host only launches on a device
    if work.basis != "host" or not work.events.select(runs_here.any()).item():
        return None
    comms = _communications(work)
    is_pair = pl.col("collective").cast(pl.String) == "send_recv"
    alone = comms.filter(
        is_pair, pl.col("src_rank").is_null() & pl.col("dst_rank").is_null() | pl.lit(trace.rank is None)
    )
    if alone.height:
        raise TraceError(
            f"{trace.path}: {alone.height:,} sends and receives on the CPU name no partner, so the trace does "
            "not show what they waited for. Record with record_shapes=True; if ranks are in several groups, call "
            "the pipeline's pp."
        )
    steps = _steps(trace)
    rows: list[_Range] = []
    for (pid, tid), ops in _operators(work).group_by("pid", "tid", maintain_order=True):
        mine = comms.filter(
            (pl.col("launch_pid").cast(pl.String) == pid) & (pl.col("launch_tid").cast(pl.String) == tid)
        )
        rows += _of_thread(ops, mine, steps, f"{pid}/{tid}")
    done = {row.comm for row in rows if row.comm is not None}
    rows += [_apart(comm) for comm in comms.iter_rows(named=True) if comm["at"] not in done]
    return works_of(_as_plain(trace, rows, comms, steps))[0]


def is_of_host(work: Work) -> bool:
    """Whether a work is of `ranges_of_host`."""
    return work.trace.plain is not None and _NOTE in work.trace.plain.notes


def clock_of_host(work: Work) -> str | None:
    """What the clock of such a work's machine is called, where the file names it: its processes share one."""
    name = work.trace.info.get("host_name")
    return f"clock of {name}" if name and is_of_host(work) else None


def of_one_job(works: Sequence[Work]) -> list[Work]:
    """Works of `ranges_of_host` as those of one job.

    Each has its stage, where forwards are sent along chains of one length. What ranks waited for before any of them
    computed is cut off: they begin to record one by one.
    """
    stages = _stages(works)
    begins = [work.events.filter(pl.col("kind") == "compute").get_column("start_ns") for work in works]
    same = len({clock_of_host(work) for work in works} - {None}) == 1
    begin = min((each.to_list()[0] for each in begins if len(each)), default=0) if same else 0
    crosses = (pl.col("start_ns") < begin) & (pl.col("end_ns") > begin)
    found = []
    for work in works:
        start = pl.when(crosses).then(begin).otherwise("start_ns").alias("start_ns")
        work = replace(work, events=work.events.with_columns(start))
        found.append(_placed(work, stages[work.trace.rank]) if work.trace.rank in stages else work)
    return found


def _stages(works: Sequence[Work]) -> dict[int, tuple[tuple[str, int], ...]]:
    """Of each rank its places: the stage, and of several pipelines which; nothing where that is not known of all."""
    after: dict[int, int] = {}
    ranks = [work.trace.rank for work in works]
    for work, rank in zip(works, ranks, strict=True):
        sent = work.events.filter(pl.col("rule").cast(pl.String) == "forward_send")
        others = set(sent.get_column("dst_rank").drop_nulls().unique()) & set(ranks)
        if rank is not None and len(others) == 1:
            after[rank] = others.pop()
    heads = sorted(set(after) - set(after.values())) or sorted(after)[:1]  # of a ring, the lowest
    stages: dict[int, tuple[tuple[str, int], ...]] = {}
    lengths = set()
    for number, head in enumerate(heads):
        at, stage = head, 0
        replica = (("dp", number),) if len(heads) > 1 else ()
        while at not in stages:
            stages[at] = (*replica, ("pp", stage))
            at, stage = after.get(at, at), stage + 1
        lengths.add(stage)
    return stages if len(lengths) == 1 and set(stages) == set(ranks) else {}


def _placed(work: Work, places: tuple[tuple[str, int], ...]) -> Work:
    plain = work.trace.plain
    assert plain is not None
    worker = replace(plain.workers[0], places=places)
    return replace(work, trace=replace(work.trace, plain=replace(plain, workers=(worker,))))


# --- what the host recorded -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Range:
    """start_ns, end_ns: absolute. comm: the communication, by position."""

    name: str
    thread: str
    start_ns: int
    end_ns: int
    comm: int | None = None


def _communications(work: Work) -> pl.DataFrame:
    """Of the rank, each once, in order of start, with at, its position; posted_ns, when its operator was called; and
    call_ns, how long that took."""
    rows = work.events.filter(pl.col("kind") == "communication").sort("start_ns", "row")
    own = work.trace.events.select("pid", "tid", pl.col("dur_ns").alias("call_ns"))[rows.get_column("row")]
    return rows.hstack(own.cast({"pid": pl.String, "tid": pl.String})).with_columns(
        posted_ns=pl.coalesce("launch_ts_ns", "start_ns")
    ).with_row_index("at")  # fmt: skip


def _steps(trace: Trace) -> pl.DataFrame:
    """The profiler's steps; where there are none, from one optimizer's end to the next."""
    steps = find_steps(trace.events)
    if not steps.is_empty():
        return steps
    ends = trace.events.filter(is_annotation(), pl.col("name").cast(pl.String).str.contains(r"^Optimizer\.step#"))
    ends = ends.select((pl.col("ts_ns") + pl.col("dur_ns")).alias("host_end_ns")).sort("host_end_ns")
    first = trace.events.get_column("ts_ns").min()
    starts = pl.col("host_end_ns").shift(1).fill_null(pl.lit(first, pl.Int64))
    return ends.select(pl.int_range(pl.len()).alias("step"), starts.alias("host_start_ns"), "host_end_ns")


def _operators(work: Work) -> pl.DataFrame:
    """Operators that no other of their thread contains, and optimizers as one: pid, tid, start_ns, end_ns, label."""
    events = work.trace.events
    every = events.filter(pl.col("cat") == "cpu_op").select(
        pl.col("pid", "tid", "name").cast(pl.String), "ts_ns", "dur_ns", "sequence", "forward_thread"
    )  # fmt: skip
    top = work.events.filter(pl.col("kind") != "communication").select("row", "start_ns", "end_ns")
    top = top.hstack(events.select(pl.col("pid", "tid", "name").cast(pl.String))[top.get_column("row")])
    evaluates = pl.col("name").str.contains(_EVALUATES)
    numbers = every.filter(evaluates).get_column("sequence").drop_nulls().unique()
    makes = every.filter(
        ~evaluates, pl.col("forward_thread").fill_null(0) == 0, pl.col("sequence").is_in(numbers.implode())
    )
    makes = makes.sort("ts_ns").unique("sequence", keep="last")  # those before it only saw the number that was next
    made = makes.sort("ts_ns").join_asof(
        top.select("row", "pid", "tid", pl.col("start_ns").alias("ts_ns")).sort("ts_ns"), on="ts_ns", by=("pid", "tid"),
        check_sortedness=False,
    ).get_column("row")  # fmt: skip
    forward = pl.col("row").is_in(made.implode()) if len(numbers) else pl.lit(True)
    label = pl.when(evaluates).then(pl.lit(BACKWARD)).when(forward).then(pl.lit(FORWARD)).otherwise(pl.lit(OTHER))
    optimizers = events.filter(is_annotation(), pl.col("name").cast(pl.String).str.contains(_OPTIMIZER)).select(
        pl.col("pid", "tid").cast(pl.String), start_ns=pl.col("ts_ns"), end_ns=pl.col("ts_ns") + pl.col("dur_ns"),
        label=pl.lit(OPTIMIZER),
    )  # fmt: skip
    ops = pl.concat([top.select("pid", "tid", "start_ns", "end_ns", label=label), optimizers])
    ops = ops.sort("pid", "tid", "start_ns", "end_ns", descending=[False, False, False, True], maintain_order=True)
    reached = pl.col("end_ns").cum_max().shift(1).over("pid", "tid")
    return ops.filter((pl.col("start_ns") >= reached).fill_null(True))


# --- a thread ---------------------------------------------------------------------------------------------------------


def _of_thread(ops: pl.DataFrame, comms: pl.DataFrame, steps: pl.DataFrame, thread: str) -> Iterator[_Range]:
    """What a thread computed, between what it waited for; and that, where it stands on the thread."""
    start, end = (ops.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    called = comms.filter(pl.col("dst_rank").is_not_null()).select(
        "posted_ns", done_ns=pl.col("posted_ns") + pl.col("call_ns")
    )
    taken = list(called.iter_rows())  # by sends, and by waiting
    cuts = set(steps.get_column("host_start_ns").to_list())
    posts, labels = comms.get_column("posted_ns").sort().to_numpy(), ops.get_column("label").to_list()
    blocked: list[tuple[int, int]] = []  # until what was sent had been taken
    for comm in comms.sort("end_ns").iter_rows(named=True):
        posted, ended, sends = comm["posted_ns"], comm["end_ns"], comm["dst_rank"] is not None
        own = f"{comm['pid']}/{comm['tid']}" == thread
        before = int(np.searchsorted(start, posted, "left")) - 1
        inside = before >= 0 and end[before] > posted  # a bucket of gradients, in the midst of the backward
        if not inside:
            cuts.add(posted)
        if sends:
            yield _Range(name="", thread=thread, start_ns=posted, end_ns=posted + comm["call_ns"], comm=comm["at"])
        at = _following(start, end, posted, ended)
        hole = int(end[at - 1]) if at else posted
        following = int(start[at]) if at < len(start) else ended
        ended = min(ended, following)
        if hole >= ended:
            continue  # an operator ran as it ended
        waits = own or following - ended <= max(_AT_ONCE_NS, _PART * (following - hole))
        since = min(max(hole, max((until for _, until in taken if until <= ended), default=hole)), ended)
        if sends:
            goes_on = at < len(start) and labels[at - 1] == labels[at] != OTHER
            if not goes_on or np.searchsorted(posts, hole, "left") < np.searchsorted(posts, following, "right"):
                blocked.append((since, ended))  # else a busy machine stopped the thread amid a forward or a backward
        elif waits and (own or (not inside and posted >= hole)):
            yield _Range(name="", thread=thread, start_ns=since, end_ns=ended, comm=comm["at"])
            taken.append((since, ended))
        elif waits and ended - since >= _LEAST_NS:
            other = f"{comm['pid']}/{comm['tid']}"
            yield _Range(name="", thread=other, start_ns=comm["start_ns"], end_ns=ended, comm=comm["at"])
            taken.append((since, ended))
    taken += [each for each in blocked if each[1] - each[0] >= _LEAST_NS]
    yield from _computed(start, end, labels, sorted(taken), np.array(sorted(cuts), np.int64), steps, thread)


def _following(start: _Ints, end: _Ints, posted: int, ended: int) -> int:
    """The operator with which a thread went on after a communication: the next; or, since a backend's thread tells who
    waits before it writes down that it ended, that after the longest hole which ended up to `_LATE_NS` before."""
    at = int(np.searchsorted(start, ended, "left"))
    first = max(1, int(np.searchsorted(start, max(ended - _LATE_NS, posted), "left")))
    holes = [min(int(start[each]), ended) - max(int(end[each - 1]), posted) for each in range(first, at)]
    now = ended - int(end[at - 1]) if at else 0
    if not holes or max(holes) < max(_LEAST_NS, now):
        return at
    return first + int(np.argmax(holes))


def _computed(
    start: _Ints, end: _Ints, labels: Sequence[str], taken: Sequence[tuple[int, int]], cuts: _Ints,
    steps: pl.DataFrame, thread: str,
) -> Iterator[_Range]:  # fmt: skip
    """Runs of operators of one kind in each stretch that nothing else took, without a gap between them."""
    step_starts = set(steps.get_column("host_start_ns").to_list())
    begin = min([int(start[0]), *step_starts, *(from_ns for from_ns, _ in taken[:1])])
    finish = max([int(end[-1]), *steps.get_column("host_end_ns").to_list()])
    edges = [begin]
    for from_ns, to_ns in taken:
        edges += [max(from_ns, edges[-1]), max(to_ns, edges[-1])]
    edges.append(max(finish, edges[-1]))
    for low, high in zip(edges[::2], edges[1::2], strict=True):
        inner = cuts[(cuts > low) & (cuts < high)].tolist()
        for a, b in zip([low, *inner], [*inner, high], strict=True):
            first, last = np.searchsorted(start, a), np.searchsorted(start, b)
            known = [at for at in range(first, last) if labels[at] != OTHER]
            runs = [at for n, at in enumerate(known) if not n or labels[at] != labels[known[n - 1]]]
            names, begins = [labels[at] for at in runs], [int(start[at]) for at in runs]
            if not runs and (b - a < _AT_ONCE_NS or (first == last and b == finish)):
                continue  # between two waits, or after all
            if not runs:
                names, begins = [OTHER], [a]
            elif a in step_starts:
                names, begins = [f"before {names[0]}", *names], [a, *begins]
            else:
                begins[0] = a
            for name, since, until in zip(names, begins, [*begins[1:], b], strict=True):
                if until > since:
                    yield _Range(name=name, thread=thread, start_ns=since, end_ns=until)


def _apart(comm: dict[str, object]) -> _Range:
    start, end = comm["start_ns"], comm["end_ns"]
    assert isinstance(start, int) and isinstance(end, int) and isinstance(comm["at"], int)
    return _Range(name="", thread=f"{comm['pid']}/{comm['tid']}", start_ns=start, end_ns=end, comm=comm["at"])


# --- as a plain trace -------------------------------------------------------------------------------------------------


def _as_plain(trace: Trace, found: Sequence[_Range], comms: pl.DataFrame, steps: pl.DataFrame) -> Trace:
    """The ranges as the events of a plain trace."""
    rows = pl.DataFrame(
        [(r.name, r.thread, r.start_ns, r.end_ns, r.comm) for r in found],
        schema={
            "name": pl.String(),
            "thread": pl.String(),
            "start_ns": pl.Int64(),
            "end_ns": pl.Int64(),
            "at": pl.UInt32(),
        },
        orient="row",
    ).sort("start_ns", "end_ns", maintain_order=True)
    facts = (
        "posted_ns",
        "collective",
        "role",
        "group",
        "group_size",
        "group_ranks",
        "comm_seq",
        "src_rank",
        "dst_rank",
        "dtype",
    )
    rows = rows.join(comms.select("at", *facts), on="at", how="left", maintain_order="left")
    rows = rows.with_columns(
        step_at(rows.select(pl.coalesce("posted_ns", "start_ns")).to_series(), steps),
        pl.col("collective", "role", "group", "group_ranks").cast(pl.String),
    )
    rows = _with_actions(rows, trace)
    rows = _with_partners(rows, trace.rank)
    is_comm = pl.col("at").is_not_null()
    name = pl.when(is_comm).then(pl.coalesce("way", "collective", pl.lit("communication"))).otherwise("name")
    rows = rows.with_columns(name.alias("name"))
    computed = ~is_comm
    numbered = pl.int_range(pl.len()).over("name", "step")
    several = computed & pl.col("name").is_in([FORWARD, BACKWARD]) & (pl.len().over("name", "step") > 1)
    rows = rows.with_columns(pl.coalesce("micro_batch", pl.when(several).then(numbered)).alias("micro_batch"))
    family = pl.col("name").replace_strict(_FAMILIES, default=pl.lit(OTHER), return_dtype=pl.String)
    plain = rows.select(
        worker=pl.lit(0), stream=pl.col("thread").rank("dense").cast(pl.Int64) - 1, shift_ns=pl.lit(0), step="step",
        micro_batch="micro_batch", chunk="chunk", phase="name",
        kind=pl.when(is_comm).then(pl.lit("communication")).otherwise(pl.lit("compute")),
        family=pl.when(is_comm).then(pl.lit("collective")).otherwise(family), collective="collective", role="role",
        rule=pl.when(is_comm).then("way").when(pl.col("name").is_in([FORWARD, BACKWARD])).then("name"),
        group="group", group_size="group_size", comm_seq="comm_seq",
    )  # fmt: skip
    split = pl.col("thread").str.split_exact("/", 1)
    columns = {
        "name": rows.get_column("name"), "ts_ns": rows.get_column("start_ns"),
        "dur_ns": rows.get_column("end_ns") - rows.get_column("start_ns"), "dtype": rows.get_column("dtype"),
        "src_rank": rows.get_column("src_rank"), "dst_rank": rows.get_column("dst_rank"),
        "pid": rows.select(split.struct[0]).to_series(), "tid": rows.select(split.struct[1]).to_series(),
        "cat": pl.Series(["range"]).new_from_index(0, rows.height),
    }  # fmt: skip
    return replace(
        trace,
        events=events_frame(columns, rows.height),
        plain=Plain(
            workers=(Worker(rank=trace.rank, name="" if trace.rank is None else f"rank {trace.rank}"),),
            rows=plain.select(pl.col(column).cast(dtype) for column, dtype in PLAIN_SCHEMA.items()),
            notes=(_NOTE,),
        ),
    )


def _with_actions(rows: pl.DataFrame, trace: Trace) -> pl.DataFrame:
    """chunk, micro_batch and letter of the action of torch's pipeline runtime around a range; null elsewhere."""
    named = trace.events.filter(is_annotation()).select(
        pl.col("name").cast(pl.String).str.extract_groups(_ACTION).alias("of"),
        "ts_ns",
        until=pl.col("ts_ns") + pl.col("dur_ns"),
    ).filter(pl.col("of").struct["1"].is_not_null()).sort("ts_ns")  # fmt: skip
    named = named.select(
        "ts_ns", "until", chunk=pl.col("of").struct["1"].cast(pl.Int32), letter=pl.col("of").struct["2"],
        micro_batch=pl.col("of").struct["3"].cast(pl.Int32),
    )  # fmt: skip
    middle = (pl.col("start_ns") + pl.col("end_ns")) // 2
    keyed = rows.with_row_index("row").with_columns(when=pl.coalesce("posted_ns", middle)).sort("when")
    found = keyed.join_asof(named, left_on="when", right_on="ts_ns", strategy="backward", check_sortedness=False)
    inside = pl.col("when") < pl.col("until")
    return found.with_columns(
        pl.when(inside).then(column).alias(column) for column in ("chunk", "letter", "micro_batch")
    ).sort("row").drop("row", "when", "until")  # fmt: skip


def _with_partners(rows: pl.DataFrame, rank: int | None) -> pl.DataFrame:
    """way, group, group_size and comm_seq of sends and receives: the k-th of one rank to another in the step. Towards
    higher ranks goes a forward, where no action tells."""
    sends, other = pl.col("dst_rank").is_not_null(), pl.coalesce("dst_rank", "src_rank")
    is_pair = other.is_not_null() & pl.lit(rank is not None)
    own = pl.lit(rank, pl.Int32)
    up = pl.when(sends).then(other > own).otherwise(other < own)
    forward = pl.when(pl.col("letter").is_not_null()).then(pl.col("letter") == "F").otherwise(up)
    way = pl.concat_str(
        pl.when(forward).then(pl.lit("forward")).otherwise(pl.lit("backward")),
        pl.when(sends).then(pl.lit("_send")).otherwise(pl.lit("_recv")),
    )
    between = [pl.when(sends).then(a).otherwise(b) for a, b in ((own, other), (other, own))]
    pair = pl.concat_str(pl.lit("pair "), between[0], pl.lit(">"), between[1])
    rows = rows.with_columns(
        pl.when(is_pair).then(way).alias("way"), pl.when(is_pair).then(pair).otherwise("group").alias("group"),
        pl.when(is_pair).then(2).otherwise("group_size").alias("group_size"),
    )  # fmt: skip
    nth = pl.int_range(pl.len(), dtype=pl.Int64).over("group", "step")
    number = pl.when(pl.col("step").is_null()).then(nth).otherwise(_MOST_A_STEP * pl.col("step") + nth)
    return rows.sort(pl.coalesce("posted_ns", "start_ns"), maintain_order=True).with_columns(
        pl.when(is_pair).then(number).otherwise("comm_seq").alias("comm_seq")
    ).sort("start_ns", "end_ns", maintain_order=True)  # fmt: skip
