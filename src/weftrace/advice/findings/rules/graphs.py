"""Do breaks of torch.compile's graph keep the device waiting? Rule 29."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from weftrace.advice.changes import Scale
from weftrace.advice.findings.evidence import Evidence
from weftrace.advice.findings.found import Found
from weftrace.advice.findings.rule_texts import rule_text
from weftrace.advice.findings.rules.host_idle import OWN, Mask, charged, of_step, place_of, time_of, where_of
from weftrace.analysis.findings import Number
from weftrace.trace.containment import open_at_launch

_REGION = r"^(Torch-Compiled Region|CompiledFunction)"
#: What the host does for a region: look for code that fits, prepare what it takes, run it.
_OF_REGIONS = r"^(Torch-Compiled Region|CompiledFunction|TorchDynamo Cache Lookup|Pregraph bytecode)"
#: So many regions a step are no pieces of one graph.
_FEW = 4


def graph_breaks(evidence: Evidence) -> Iterator[Found]:
    """29: the model is compiled in pieces, and the device waits for what the host does in and between them."""
    chosen, regions = in_regions(evidence)
    ns = time_of(evidence, chosen)
    if not ns:
        return
    per_step = regions / max(1, evidence.num_steps)
    a_step = " per step" * bool(evidence.num_steps)
    yield Found(
        sentence=f"The model runs as {round(per_step):,} compiled regions{a_step}, and the device waits"
        f" in and between them: {of_step(evidence, ns)}.",
        cost_ns=ns,
        evidence=(
            Number(name="idle time before kernels of compiled regions", value=ns, unit="ns"),
            Number(name="regions per step", value=per_step, unit="count"),
        ),
        where=where_of(evidence, chosen, place_of(evidence, chosen)),
        least=(Scale(selector=f"host:{_OF_REGIONS}", factor=0.5),),
        most=(Scale(selector=f"host:{_OF_REGIONS}", factor=0),),
        how="half to none of the host's time in compiled regions",
    )


def in_regions(evidence: Evidence) -> tuple[Mask, int]:
    """Idle time by the host's own work before kernels of compiled regions, and how many regions there are; none where
    the rule finds too little."""
    limits, none = rule_text("graph-breaks").thresholds, np.zeros(len(evidence.idle_pieces.length), np.bool_)
    names = evidence.trace.events.get_column("name").unique()
    named = names.filter(names.cast(pl.String).str.contains(_REGION))
    ranges = evidence.trace.events.select("name", "cat", "pid", "tid", "ts_ns", "dur_ns")
    kinds = named.cast(pl.String).str.extract(r"^Torch-Compiled Region: (\d+)").drop_nulls().n_unique()
    if kinds < limits["least_regions_per_layer"]:
        return none, 0
    regions = ranges.filter(
        pl.col("name").is_in(named.filter(named.cast(pl.String).str.starts_with("Torch")).implode())
    )
    if regions.height < _FEW * max(1, evidence.num_steps):
        return none, regions.height
    at = open_at_launch(ranges, evidence.work.events, pl.col("name").is_in(named.implode()))
    rows = evidence.work.events.get_column("row").filter(at.is_not_null()).to_numpy()
    ends = np.isin(evidence.idle_pieces.gaps.events.get_column("row").to_numpy(), rows)
    chosen: Mask = ends[evidence.idle_pieces.gap] & charged(evidence, OWN)
    return (chosen if evidence.share(time_of(evidence, chosen)) >= limits["least_share"] else none), regions.height
