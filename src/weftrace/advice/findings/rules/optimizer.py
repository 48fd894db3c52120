"""What a training does around its passes: the optimizer's step, and what DDP does beside them. Rules 17 and 36."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import polars as pl

from weftrace.advice.changes import Change, Scale
from weftrace.advice.findings.evidence import Evidence
from weftrace.advice.findings.found import Found
from weftrace.advice.findings.rule_texts import rule_text
from weftrace.advice.findings.rules.host import inside
from weftrace.advice.findings.rules.host_idle import (
    OWN,
    charged,
    of_step,
    pattern_of,
    place_of,
    place_where,
    searched_by_ddp,
    short,
    time_of,
    where_of,
)
from weftrace.advice.op_times import op_times
from weftrace.analysis.findings import Number
from weftrace.analysis.intervals import Array, covered, of_events
from weftrace.trace.containment import open_at_launch
from weftrace.trace.model import is_annotation
from weftrace.units import counted, percent

#: Ranges of an optimizer's step: of PyTorch, DeepSpeed, apex, Megatron and trainers, and as users name them.
_RANGES = r"(?i)^Optimizer\.step(#|$)|\b(optimizer|adamw?|lamb|sgd|muon)[ ._:-]+(inner[ ._-]+)?step\b|^\W*optimizer\W*$"
#: Kernels of an optimizer, where no such range is recorded.
_KERNELS = r"(?i)(multi_tensor|fused|distributed).*(adam|lamb|sgd|lion|adagrad)|adam_?w?_?(kernel|functor)"
#: Kernels that do all of a parameter's update in one pass.
_FUSED = r"(?i)fused_?(adam|sgd|adagrad|optimizer)|(adam|lamb|sgd|lion|adagrad)_?w?_?\w*(functor|math|stage|kernel)"
#: What a fused update reads and writes of each parameter, over what PyTorch's loops over lists of tensors do. Adam: 7
#: (gradient and, both ways, parameter and two moments) of 19, and of 21 with AdamW's decay; SGD with momentum: 5 of 8.
_FUSED_OVER_LISTS = (("adamw", 7 / 21), ("adam", 7 / 19), ("sgd", 5 / 8))
#: What a closure runs within the step of an optimizer that evaluates the model there, as LBFGS does.
_MODEL = r"(?i)^aten::(linear|conv|embedding|\w*attention|\w*loss)|^autograd::engine|backward"
#: Less of the cost is not worth a word.
_FEW = 0.1
_WHERE_FUSED = "Profile the host in this step: its kernels are fused, but what it does beside them takes long."
_WHERE_ON_HOST = "Keep the optimizer's state on the device, or overlap its step on the host with the backward."
#: DataParallel's forward, and what that does before and after the replicas' own.
_DATA_PARALLEL = r"\bDataParallel\.forward|torch/nn/parallel/data_parallel\.py"
_SHARED = r"^(Broadcast|Scatter|Gather|ReduceAddCoalesced)(Backward)?$"
_REPLICAS = r"(?i)broadcast|scatter|gather|replicate|parallel_apply"


# 17: the optimizer --------------------------------------------------------------------------------------------------


def optimizer_step(evidence: Evidence) -> Iterator[Found]:
    """17: the optimizer launches many kernels that each do a bit of the update, or the host decides in it."""
    limits = rule_text("optimizer-step").thresholds
    events, name, updates = _of_optimizer(evidence)
    if events.is_empty():
        yield from _on_the_host(evidence, limits["least_share"])
        return
    if _evaluates_model(evidence, events):
        return
    num_updates = max(1, evidence.num_steps or len(updates))
    idle = charged(evidence, ("optimizer",))
    idle_ns = time_of(evidence, idle)
    launches = events.select("launch_pid", "launch_tid", "launch_ts_ns").drop_nulls().n_unique() / num_updates
    if launches <= limits["least_kernels"] and evidence.share(idle_ns) < limits["least_share"]:
        return
    parts = events.filter(pl.col("kind") != "communication", ~pl.col("name").cast(pl.String).str.contains(_FUSED))
    others = of_events(evidence.work.events.with_row_index("at").join(parts.select("at"), on="at", how="anti"))
    start, end = parts.get_column("start_ns").to_numpy(), parts.get_column("end_ns").to_numpy()
    alone_ns = int((end - start - covered(others, start, end)).sum())
    ratio = next((ratio for kind, ratio in _FUSED_OVER_LISTS if kind in name.lower()), 1.0)
    saved_ns = round(alone_ns * (1 - ratio))
    cost_ns = idle_ns + saved_ns
    if evidence.share(cost_ns) < limits["least_share"]:
        return
    place = place_of(evidence, idle)
    is_fused = parts.is_empty()
    both = "idle time and needless memory traffic" if idle_ns else "needless memory traffic"
    most: tuple[Change, ...] = (Scale(selector=f"host:{pattern_of({name})}", factor=0),) if name else ()
    least: tuple[Change, ...] = (Scale(selector=f"host:{pattern_of({name})}", factor=0.5),) if name else ()
    if saved_ns:
        whose = "" if evidence.trace.rank is None else f" on rank {evidence.trace.rank}"
        fused = op_times(
            f"the optimizer's kernels fused{whose}, device {evidence.work.device}", evidence.work,
            parts.get_column("at").to_numpy(), (end - start) * ratio,
            notes=(f"a fused update takes {percent(ratio, 0)} of the kernels' time, by the bytes it moves",),
        )  # fmt: skip
        least, most = (*least, fused), (*most, fused)
    took = (pl.col("end_ns") - pl.col("start_ns")).sum().alias("ns")
    names = events.group_by("name").agg(took).sort("ns", "name", descending=[True, False]).get_column("name")
    yield Found(
        sentence=("The host is slow" if is_fused else f"Each step launches {counted(round(launches), 'kernel')}")
        + f" in {short(name) or 'the optimizer'}{' though its kernels are fused' if is_fused else ''}: "
        f"{of_step(evidence, cost_ns, both if saved_ns > _FEW * cost_ns else 'idle time')}.",
        cost_ns=cost_ns,
        evidence=(
            Number(name="idle time in which the host was in the optimizer", value=idle_ns, unit="ns"),
            Number(name="time of the optimizer's kernels", value=of_events(events).total_ns, unit="ns"),
            Number(name="launches per step", value=launches, unit="count"),
        ),
        where=replace(place_where(evidence, place, updates), kernels=tuple(names.head(3).cast(pl.String).to_list())),
        least=least,
        most=most,
        not_told="" if most else "no range shows what the host does in the optimizer",
        remedy=_WHERE_FUSED if is_fused else "",
        confidence="high" if name and not is_fused else "medium",
        reason="the optimizer is known by the names of its kernels alone" if not name
        else "nothing shows what the host does apart from its launches" if is_fused else "",
    )  # fmt: skip


def _on_the_host(evidence: Evidence, least_share: float) -> Iterator[Found]:
    """An optimizer that launches nothing, as one on the CPU does, while the device waits for it."""
    idle = charged(evidence, ("optimizer",))
    ns = time_of(evidence, idle)
    if not ns or evidence.share(ns) < least_share:
        return
    place = place_of(evidence, idle)
    yield Found(
        sentence=f"The device waits for the optimizer, which runs on the host: {of_step(evidence, ns)}.",
        cost_ns=ns,
        evidence=(Number(name="idle time in which the host was in the optimizer", value=ns, unit="ns"),),
        where=where_of(evidence, idle, place),
        saves_ns=(0, ns),
        how="all of this idle time",
        is_bound=True,
        remedy=_WHERE_ON_HOST,
        confidence="medium",
        reason="the same update takes time on the device, too",
    )


def _evaluates_model(evidence: Evidence, events: pl.DataFrame) -> bool:
    """Whether most of an optimizer's work is the model's, which it evaluates in its step."""
    ranges = evidence.trace.events
    names = ranges.get_column("name").unique()
    named = names.filter(names.cast(pl.String).str.contains(_MODEL)).implode()
    at = open_at_launch(ranges, events, (pl.col("cat") == "cpu_op") & pl.col("name").is_in(named))
    took = (events.get_column("end_ns") - events.get_column("start_ns")).to_numpy()
    return bool(2 * took[at.is_not_null().to_numpy()].sum() > took.sum())


def _of_optimizer(evidence: Evidence) -> tuple[pl.DataFrame, str, Array]:
    """Device work of the optimizer, with `at`; the name of the ranges that most of it was launched in, and the rows of
    these in the trace's events, the longest first. Without any its kernels, known by their names, the longest first."""
    work, ranges = evidence.work.events.with_row_index("at"), evidence.trace.events
    names = ranges.get_column("name").unique()
    named = names.filter(names.cast(pl.String).str.contains(_RANGES)).implode()
    at = open_at_launch(ranges, work, (is_annotation() | (pl.col("cat") == "cpu_op")) & pl.col("name").is_in(named))
    if not at.count():
        found = work.filter(pl.col("name").cast(pl.String).str.contains(_KERNELS))
        longest = found.sort(pl.col("start_ns") - pl.col("end_ns"), "row").get_column("row")
        return found, "", longest.to_numpy().astype(np.int64)
    launching = ranges.select("name", "dur_ns")[at.drop_nulls()].with_columns(row=at.drop_nulls())
    most = launching.get_column("name").cast(pl.String).mode().sort()[0]
    mine = launching.filter(pl.col("name") == most).unique("row").sort("dur_ns", "row", descending=[True, False])
    return work.filter(at.is_not_null()), str(most), mine.get_column("row").to_numpy().astype(np.int64)


# 36: DDP ------------------------------------------------------------------------------------------------------------


def ddp_overhead(evidence: Evidence) -> Iterator[Found]:
    """36: DDP sends buffers before each forward or searches for unused parameters, or DataParallel copies the model."""
    limits = rule_text("ddp-overhead").thresholds
    own, silent_too = charged(evidence, OWN), charged(evidence, (*OWN, "nothing_recorded"))
    sent_ns = _between_replicas(evidence)
    replicas = own & inside(evidence, _DATA_PARALLEL) & inside(evidence, _REPLICAS)
    for chosen, sending_ns, says, what in (
        (charged(evidence, ("buffer_broadcast",)), 0, "Buffers are sent by DDP before each forward", "buffers"),
        (silent_too & searched_by_ddp(evidence), 0,
         "Unused parameters are searched for by DDP after each forward", "unused"),
        (replicas, sent_ns, "The model is sent to each device by DataParallel in each step", "replicas"),
    ):  # fmt: skip
        ns = time_of(evidence, chosen) + sending_ns
        if not ns or evidence.share(ns) < limits["least_share"]:
            continue
        place = place_of(evidence, chosen)
        yield Found(
            sentence=f"{says}: {of_step(evidence, ns, 'the time' if sending_ns else 'idle time')}.",
            cost_ns=ns,
            evidence=(
                Number(name="idle time in it", value=ns - sending_ns, unit="ns"),
                Number(name="time in which the device does nothing else", value=sending_ns, unit="ns"),
            ),
            where=where_of(evidence, chosen, place),
            saves_ns=(ns, ns),
            how="the time in it",
            confidence="high",
            key=what,
        )


def _between_replicas(evidence: Evidence) -> int:
    """Time in which the device only sends, or adds up, what DataParallel's replicas share; 0 without any."""
    ranges = evidence.trace.events
    names = ranges.get_column("name").unique()
    text = names.cast(pl.String)
    if not text.str.contains(_DATA_PARALLEL).any():
        return 0
    named = names.filter(text.str.contains(_SHARED)).implode()
    at = open_at_launch(ranges, evidence.work.events, pl.col("name").is_in(named))
    sent = at.is_not_null()
    return (of_events(evidence.work.events.filter(sent)) - of_events(evidence.work.events.filter(~sent))).total_ns
