"""What rules about kernels share: which kernels are of what sort, what a rule's place is, and their times by change."""

from __future__ import annotations

import polars as pl
from numpy.typing import ArrayLike

from weftrace.advice.findings.evidence import Evidence
from weftrace.advice.op_times import OpTimes, op_times
from weftrace.analysis.efficiency.precision import kernel_precision
from weftrace.analysis.findings import Where
from weftrace.analysis.waiting.host_paths import FRAME, KINDS
from weftrace.analysis.waiting.naming import may_name
from weftrace.trace.containment import open_at_launch

#: Families of products of matrices, without convolutions.
GEMMS = ("gemm", "gemm_fp8", "gemm_fp4", "gemm_grouped")
#: Families of copies within the device.
COPIES = ("copy", "memcpy_d2d")
#: Made by a compiler, which has fused what it could.
COMPILED = r"^triton_|(?i)inductor"
_OPTIMIZER = r"^Optimizer\.|(?i)_foreach_|_fused_(?:adam|sgd|adagrad)|multi_tensor"
_MOST_EVENTS, _MOST_NAMES = 20, 3


def total_ns(kernels: pl.DataFrame) -> int:
    """Sum of their durations."""
    return int(kernels.get_column("dur_ns").sum())


def device_kernels(evidence: Evidence) -> pl.DataFrame:
    """Kernels that compute, and copies within the device, in order of start; with `operator_name` and `sizes`, those of
    the operator's tensors as the trace has them."""
    return evidence.once(_device_kernels)


def _device_kernels(evidence: Evidence) -> pl.DataFrame:
    kernels = evidence.kernels.filter((pl.col("kind") == "compute") | pl.col("family").is_in(COPIES))
    operator = kernels.get_column("operator").cast(pl.UInt32)
    told = evidence.trace.events.select(
        pl.col(name).gather(operator).cast(pl.String).alias(alias)
        for name, alias in (("name", "operator_name"), ("input_shapes", "sizes"))
    )
    return kernels.with_columns(pl.col("family").cast(pl.String), pl.col("name").cast(pl.String)).hstack(told)


def with_precision(kernels: pl.DataFrame) -> pl.DataFrame:
    """With `computes_in`, `tensor_cores` and `architecture`, as their names tell; null where they do not."""
    told = kernel_precision(kernels.get_column("name"))
    return kernels.with_columns(told.select("tensor_cores", "architecture", computes_in="dtype"))


def of_optimizer(evidence: Evidence, kernels: pl.DataFrame) -> pl.Series:
    """Whether each kernel is of an optimizer's step, which has a rule of its own."""
    ranges = evidence.trace.events.select("cat", "name", "pid", "tid", "ts_ns", "dur_ns")
    names = ranges.get_column("name").unique()
    steps = names.filter(names.cast(pl.String).str.contains(r"^Optimizer\.(?:step|zero_grad)"))
    inside = open_at_launch(ranges, kernels, pl.col("name").is_in(steps.implode())).is_not_null()
    by_name = pl.col("operator_name").str.contains(_OPTIMIZER).fill_null(False) | (pl.col("family") == "optimizer")
    return inside | kernels.select(by_name).to_series()


def place(evidence: Evidence, kernels: pl.DataFrame, *, operator: str = "") -> Where:
    """Where some kernels are; there is at least one."""
    longest = kernels.sort("dur_ns", descending=True, maintain_order=True).head(_MOST_EVENTS)
    times = kernels.group_by("name").agg(pl.col("dur_ns").sum()).sort("dur_ns", "name", descending=[True, False])
    return Where(
        ranks=() if evidence.trace.rank is None else (evidence.trace.rank,),
        device=evidence.work.device,
        code=_code(evidence, longest),
        operator=operator,
        kernels=tuple(times.get_column("name").head(_MOST_NAMES)),
        path=evidence.trace.path,
        events=tuple(longest.get_column("row")),
        start_ns=int(longest.get_column("start_ns")[0]),
        end_ns=int(longest.get_column("end_ns")[0]),
    )


def taking(
    evidence: Evidence, label: str, kernels: pl.DataFrame, duration_ns: ArrayLike, *, frees_launches: bool = False
) -> OpTimes:
    """The change that some kernels take other times. label: equal ones are taken for the same change."""
    rank = evidence.trace.rank
    label = label if rank is None or (evidence.trace.world_size or 1) < 2 else f"{label}, rank {rank}"
    rows = kernels.get_column("at").to_numpy()
    return op_times(label, evidence.work, rows, duration_ns, frees_launches=frees_launches)


def _code(evidence: Evidence, kernels: pl.DataFrame) -> str:
    """The innermost function, of a model in a library too, that launched most of some kernels; empty where none is."""
    frames = evidence.trace.frames
    if frames is None or frames.is_empty():
        return ""
    names, kind = frames.get_column("name").unique().cast(pl.String), KINDS.index(FRAME)
    own = [name for name in names if may_name(name, kind) and not name.startswith("nn.Module: ")]
    around = open_at_launch(frames, kernels, pl.col("name").cast(pl.String).is_in(own))
    lines = frames.get_column("name").gather(around.cast(pl.UInt32)).cast(pl.String).alias("line")
    told = kernels.select("dur_ns").with_columns(lines).drop_nulls().group_by("line").agg(pl.col("dur_ns").sum())
    return "" if told.is_empty() else str(told.sort("dur_ns", "line", descending=[True, False]).get_column("line")[0])
