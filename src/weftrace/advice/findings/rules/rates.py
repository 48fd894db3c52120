"""Collectives below what their link can do: rules 21, 22 and 35."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import polars as pl

from weftrace.advice.changes import Change
from weftrace.advice.critical_paths import CriticalPath
from weftrace.advice.findings.evidence import Evidence, JobEvidence
from weftrace.advice.findings.found import Found, Missing
from weftrace.advice.findings.rule_texts import rule_text
from weftrace.advice.findings.rules.exposed import communication_of, exposed_of, shorter
from weftrace.advice.findings.rules.hosts import Hosts, hosts_of
from weftrace.advice.findings.rules.places import where_of
from weftrace.advice.message_times import messages_of
from weftrace.analysis.collective_peaks import bound_of, chip_of
from weftrace.analysis.findings import Number
from weftrace.analysis.meetings import meetings_of
from weftrace.analysis.transfer_bandwidth import Bandwidth, bandwidth_of
from weftrace.errors import AdviceError
from weftrace.facts import Hardware
from weftrace.plan.inference.values import Inferred
from weftrace.units import S, duration, percent, size

_BUCKET = 25 << 20  # bytes, as DDP's
_REACHED = 0.8  # of a link's peak: what large messages reach
_FEWEST = 4  # of one size in a step
_EARLY = 0.3  # of a step: gradients are not reduced as early
_MOSTLY = 0.5  # exposed
_SEND = "send_recv"
_LARGE = 1 << 20  # bytes: smaller ones tell no rate


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rated:
    """Communication of a device or of a job, with what is known of its rates."""

    inferred: Inferred
    path: CriticalPath
    span_ns: int
    num_steps: int
    bandwidth: Bandwidth | None
    are_transfers: bool
    hosts: Hosts = field(default_factory=Hosts)

    @property
    def chip(self) -> Hardware | None:
        """The accelerator that the files name."""
        works = [work for work in self.inferred.works if work.device is not None]
        devices = [(work.trace.device(work.device), work.num_sms) for work in works if work.device is not None]
        return chip_of((device.name, num_sms, device.memory_bytes) for device, num_sms in devices)

    def rows(self) -> pl.DataFrame:
        """Of each kind and size: busbw, peak and bound; without those of which nothing is known."""
        if self.bandwidth is None:
            return pl.DataFrame()
        rows = self.hosts.bounded(self.bandwidth.rows, self.chip)
        rows = rows.with_columns(rate=pl.coalesce("busbw_GBps", "whole_busbw_GBps"))
        return rows.filter(pl.col("peak_GBps") > 0, pl.col("collective") != _SEND).drop_nulls("rate")

    def exposed(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Exposed communication of these kinds and sizes, with rate, peak_GBps, payload_bytes."""
        kinds = rows.group_by("collective", "payload_bytes").agg(pl.col("rate").max(), pl.col("peak_GBps").max())
        exposed = exposed_of(self.path, self.inferred).filter(~pl.col("is_barrier"))
        return exposed.join(kinds, left_on=("collective", "bytes"), right_on=("collective", "payload_bytes"))


def _of_device(evidence: Evidence) -> _Rated:
    arrivals = [evidence.analysis.arrivals]
    return _Rated(
        inferred=evidence.inferred, path=evidence.path, span_ns=evidence.span_ns, num_steps=max(1, evidence.num_steps),
        bandwidth=bandwidth_of(arrivals, meetings_of(arrivals), evidence.hardware),
        are_transfers=(evidence.trace.world_size or 1) < 2,
    )  # fmt: skip


def _of_job(job: JobEvidence) -> Iterator[_Rated]:
    if job.inferred is not None and job.path is not None:
        yield _Rated(
            inferred=job.inferred, path=job.path, span_ns=job.span_ns, num_steps=max(1, job.num_steps),
            bandwidth=job.analysis.bandwidth, are_transfers=True,
            hosts=hosts_of(job.inferred.works, job.analysis.clocks),
        )  # fmt: skip


def small_collectives(evidence: Evidence) -> Iterator[Found | Missing]:
    """21: many collectives so short that latency is most of their time."""
    yield from _small(_of_device(evidence))


def small_collectives_of_job(job: JobEvidence) -> Iterator[Found | Missing]:
    for rated in _of_job(job):
        yield from _small(rated)


def slow_collectives_of_job(job: JobEvidence) -> Iterator[Found | Missing]:
    """22: large messages, all members there, and far from what the link can do."""
    for rated in _of_job(job):
        yield from _slow(rated)


def tensor_parallel_across_nodes(evidence: Evidence) -> Iterator[Found | Missing]:
    """35: sums in every layer, forward too, between nodes."""
    yield from _across_nodes(_of_device(evidence))


def tensor_parallel_across_nodes_of_job(job: JobEvidence) -> Iterator[Found | Missing]:
    for rated in _of_job(job):
        yield from _across_nodes(rated)


def _small(rated: _Rated) -> Iterator[Found | Missing]:
    limits, large = rule_text("small-collectives").thresholds, rule_text("slow-collectives").thresholds["least_bytes"]
    rows = rated.rows()
    if rows.is_empty():
        yield Missing(what="no collective has a size, a group and a link that is known")
        return
    per_step = rows.get_column("num_events") / (rated.num_steps * len(rated.inferred.works))
    few = rows.filter(
        pl.col("payload_bytes") < large, pl.col("rate") < limits["most_bandwidth_share"] * pl.col("peak_GBps"),
        per_step >= _FEWEST,
    )  # fmt: skip
    mine = rated.exposed(few)
    mine = mine.join(_waited_for(rated.inferred, mine), on="op", how="anti")
    if mine.is_empty():
        return
    at_peak = pl.col("duration_ns") * pl.col("rate") / (_REACHED * pl.col("peak_GBps"))
    joins = (_BUCKET / pl.col("bytes")).floor().clip(lower_bound=1)
    latency = (pl.col("duration_ns") - at_peak).clip(lower_bound=0)
    mine = mine.with_columns(then_ns=at_peak + latency / joins)
    saved = pl.min_horizontal("exposed_ns", pl.col("duration_ns") - pl.col("then_ns"))
    cost = int(mine.select(saved.sum()).item())
    if cost < limits["least_share"] * rated.span_ns:
        return
    top = (
        mine.group_by("collective", "bytes")
        .agg(pl.len(), pl.col("exposed_ns").sum(), pl.col("rate").first(), pl.col("peak_GBps").first())
        .sort("exposed_ns", descending=True)
    )
    first = top.row(0, named=True)
    every = _all_of(rated.inferred, few)
    joined = every.join(_waited_for(rated.inferred, every), on="op", how="anti")
    joined = joined.with_columns(then_ns=at_peak + latency / joins)
    number = joined.filter(collective=first["collective"]).height // (rated.num_steps * len(rated.inferred.works))
    if number < _FEWEST:
        return
    most: tuple[Change, ...] = (shorter("collectives in buckets of 25 MiB", rated.inferred, joined),)
    least = most
    with suppress(AdviceError):  # too few sizes for a line, or some stay alone
        if joined.height == every.height:
            least = (messages_of("collectives joined to 25 MiB", rated.inferred, target_bytes=_BUCKET),)
    yield Found(
        sentence=f"{number:,} {first['collective']} per step of about {size(first['bytes'])} reach "
        f"{percent(first['rate'] / first['peak_GBps'])} of the link's bandwidth: their latency costs {duration(cost)} "
        f"({percent(cost / rated.span_ns)} of the time).",
        cost_ns=cost,
        evidence=(
            Number(name="lost to latency", value=cost, unit="ns"),
            Number(name="collectives per step", value=number, unit="count"),
            Number(name="bytes of one", value=first["bytes"], unit="bytes"),
            Number(name="of the link's bandwidth", value=first["rate"] / first["peak_GBps"], unit="share"),
        ),
        where=where_of(rated.inferred.works, mine, by="exposed_ns"),
        least=least,
        most=most,
        confidence="high" if rated.are_transfers else "low",
        reason="" if rated.are_transfers else "part of their time may be waiting for ranks that have no file here",
    )


def _waited_for(inferred: Inferred, ops: pl.DataFrame) -> pl.DataFrame:
    """Those of the ops that other work of the device waits for, by the plan or in their stream, before the next
    collective of their kind begins: they cannot become one message. ops: op."""
    own = inferred.plan.ops.select("rank", "stream").with_row_index("op")
    own = own.hstack(inferred.measured.select("what", begun_ns="start_ns"))
    after = own.select(on="op", op=pl.col("op").shift(-1).over("rank", "stream")).drop_nulls()
    after = pl.concat([after, inferred.plan.waits.select("on", "op")])
    works = own.filter(pl.col("what").is_in(("compute", "fused", "memory"))).select("op", waits_ns="begun_ns")
    waiter = after.join(works, on="op").group_by("on").agg(pl.col("waits_ns").min())
    every = communication_of(inferred).join(own.select("op", "begun_ns"), on="op").sort("at", "begun_ns")
    every = every.with_columns(next_ns=pl.col("begun_ns").shift(-1).over("at", "collective"))
    found = every.join(waiter, left_on="op", right_on="on").filter(pl.col("waits_ns") < pl.col("next_ns"))
    return ops.select("op").join(found, on="op", how="semi")


def _all_of(inferred: Inferred, rows: pl.DataFrame) -> pl.DataFrame:
    kinds = rows.group_by("collective", "payload_bytes").agg(pl.col("rate").max(), pl.col("peak_GBps").max())
    every = communication_of(inferred).filter(~pl.col("is_barrier"))
    return every.join(kinds, left_on=("collective", "bytes"), right_on=("collective", "payload_bytes"))


def _slow(rated: _Rated) -> Iterator[Found | Missing]:
    limits = rule_text("slow-collectives").thresholds
    rows = rated.rows()
    if rows.is_empty():
        yield Missing(what="no collective has a size, a group and a link that is known")
        return
    rows, is_assumed = _by_the_slower(rated, rows)
    slow = rows.filter(
        pl.col("payload_bytes") >= limits["least_bytes"], pl.col("basis") == "all ranks",
        pl.col("rate") < limits["most_bandwidth_share"] * pl.col("peak_GBps"),
    )  # fmt: skip
    mine = rated.exposed(slow)
    if mine.is_empty():
        return
    faster = pl.col("rate") / pl.col("peak_GBps")
    cost = int(mine.select((pl.col("exposed_ns") * (1 - faster / _REACHED)).sum()).item())
    if cost < limits["least_share"] * rated.span_ns:
        return
    first = slow.sort("total_ns", descending=True).row(0, named=True)
    every, took = _all_of(rated.inferred, slow), pl.col("duration_ns")
    reason = f"ranks are assigned to hosts {rated.hosts.how}" if rated.hosts.of else ""
    if is_assumed:
        reason = "no file names its host: each rank is assumed to run on a node of its own"
    yield Found(
        sentence=f"{first['collective']} of {size(first['payload_bytes'])} moves {first['rate']:,.0f} GB/s, "
        f"{percent(first['rate'] / first['peak_GBps'])} of the peak of the {first['bound']}: "
        f"this costs {duration(cost)} ({percent(cost / rated.span_ns)} of the time).",
        cost_ns=cost,
        evidence=(
            Number(name="lost to the slow transfer", value=cost, unit="ns"),
            Number(name="bandwidth of the transfer", value=first["rate"] * S, unit="bytes/s"),
            Number(name=f"peak of the {first['bound']}", value=first["peak_GBps"] * S, unit="bytes/s"),
        ),
        where=where_of(rated.inferred.works, mine, by="exposed_ns"),
        least=(_at_rate("these collectives at 70 % of the link", rated.inferred, every, took * faster / 0.7),),
        most=(_at_rate("these collectives at the link's peak", rated.inferred, every, took * faster),),
        confidence="medium" if is_assumed or first["bound"] == "network" else "high",
        reason=reason,
    )


def _by_the_slower(rated: _Rated, rows: pl.DataFrame) -> tuple[pl.DataFrame, bool]:
    """Rows whose peak is the network's of ranks on a node each, where nothing tells that any share one: neither names,
    nor that data passes faster than the network could; and whether that is so."""
    chip, large = rated.chip, rows.filter(pl.col("payload_bytes") >= _LARGE)
    if rated.hosts.of or chip is None or large.is_empty():
        return rows, False
    alone = [bound_of(kind, size or 2, 1, chip) for kind, size in rows.select("collective", "group_size").iter_rows()]
    apart = rows.with_columns(pl.DataFrame(alone, {"bound": pl.String(), "peak_GBps": pl.Float64()}, orient="row"))
    best = apart.select((pl.coalesce("best_busbw_GBps", "rate") / pl.col("peak_GBps")).max()).item()
    return (rows, False) if best > 1 else (apart, True)


def _at_rate(label: str, inferred: Inferred, ops: pl.DataFrame, then_ns: pl.Expr) -> Change:
    return shorter(label, inferred, ops.with_columns(then_ns=then_ns))


def _across_nodes(rated: _Rated) -> Iterator[Found | Missing]:
    limits = rule_text("tensor-parallel-across-nodes").thresholds
    rows = rated.rows()
    if rows.is_empty():
        yield Missing(what="no collective has a size, a group and a link that is known")
        return
    far = rows.filter(pl.col("bound") == "network", pl.col("collective") == "all_reduce")
    every = _all_of(rated.inferred, far)
    if every.is_empty():
        return
    first_of_step = communication_of(rated.inferred).group_by("at", "step").agg(
        pl.col("start_ns").min().alias("first"), pl.col("end_ns").max().alias("last")
    )  # fmt: skip
    begun = every.join(first_of_step, on=("at", "step"), nulls_equal=True)
    early = (pl.col("start_ns") - pl.col("first")) <= _EARLY * (pl.col("last") - pl.col("first"))
    per_step = pl.len() / (rated.num_steps * len(rated.inferred.works))
    layers = begun.group_by("collective", "bytes", "group").agg(early.sum().alias("early"), per_step.alias("per_step"))
    layers = layers.filter(pl.col("per_step") >= _FEWEST, pl.col("early") >= 0.1 * pl.col("per_step"))
    every = every.join(layers, on=("collective", "bytes", "group"), how="semi", nulls_equal=True)
    mine = rated.exposed(far).join(every.select("op"), on="op", how="semi")
    exposed = int(mine.get_column("exposed_ns").sum())
    if exposed < limits["least_share"] * rated.span_ns or exposed < _MOSTLY * int(mine.get_column("duration_ns").sum()):
        return
    link = None if rated.chip is None else rated.chip.link_bytes_per_s / S
    top = mine.sort("exposed_ns", descending=True).row(0, named=True)
    changes: tuple[Change, ...] = ()
    if link is not None:
        then = pl.col("duration_ns") * pl.col("rate") / (_REACHED * link)
        changes = (_at_rate("these collectives inside a node", rated.inferred, every, then),)
    yield Found(
        sentence=f"Sums in every layer ({top['collective']} of {size(top['bytes'])}, {top['group_size']} ranks) cross "
        f"nodes at {top['rate']:,.0f} GB/s: {duration(exposed)} of them are exposed "
        f"({percent(exposed / rated.span_ns)} of the time).",
        cost_ns=exposed,
        evidence=(
            Number(name="exposed on the critical path", value=exposed, unit="ns"),
            Number(name="bandwidth of the transfer", value=top["rate"] * S, unit="bytes/s"),
            *((Number(name="peak of the link in a node", value=link * S, unit="bytes/s"),) if link else ()),
        ),
        where=where_of(rated.inferred.works, mine, by="exposed_ns"),
        least=changes,
        not_told="" if changes else "the bandwidth inside a node is not known",
        confidence="high" if rated.hosts.of else "medium",
        reason="" if rated.hosts.of else "ranks are taken to be numbered node by node",
    )
