"""Sides of a comparison written as rows, so that what each kernel does in which place is known; and random ones."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from hypothesis import strategies as st

from weftrace.comparison.diffs import Diff, diff
from weftrace.comparison.runs import LABELS, SHARE_SCHEMA, SUMS, RankRun, Run

# step, part, cause, family, kernel, operator, phase, num, raw_ns, own_ns
Row = tuple[int, str, str | None, str | None, str | None, str | None, str | None, int, int, int]


def work(kernel: str, operator: str | None, num: int, mean_ns: int, *, phase: str | None = "F", family: str = "gemm",
         step: int = 0) -> Row:  # fmt: skip
    return (step, "compute", None, family, kernel, operator, phase, num, num * mean_ns, num * mean_ns)


def gap(kernel: str | None, operator: str | None, num: int, mean_ns: int, *, phase: str | None = "F",
        cause: str = "host_wait") -> Row:  # fmt: skip
    return (0, "idle", cause, "gemm", kernel, operator, phase, num, num * mean_ns, num * mean_ns)


def run_of_rows(rows: Sequence[Row], num_steps: int = 1) -> Run:
    columns = ("step", "part", "cause", "family", "kernel", "operator", "phase", "num", "raw_ns", "own_ns")
    kind = pl.when(pl.col("part") == "exposed communication").then(pl.lit("communication")).otherwise(pl.lit("compute"))
    frame = pl.DataFrame(rows, schema={name: SHARE_SCHEMA[name] for name in columns}, orient="row")
    frame = frame.with_columns(kind.alias("kind"), pl.col("own_ns").alias("union_ns"))
    shares = frame.group_by("step", *LABELS, maintain_order=True).agg(pl.col(SUMS).sum())
    steps = pl.Series("step", range(num_steps), dtype=pl.Int64)
    windows = pl.DataFrame({"step": steps, "start_ns": steps, "end_ns": steps + 1})
    rank = RankRun(
        rank=0, device=0, world_size=1, path="rows", basis="device", simulated=False, span_ns=1,
        shares=shares.select(*SHARE_SCHEMA), windows=windows, arrivals=pl.DataFrame(),
    )  # fmt: skip
    return Run(source="rows", ranks=(rank,))


def diff_of(before: Sequence[Row], after: Sequence[Row], num_steps: int = 1) -> Diff:
    return diff(run_of_rows(before, num_steps), run_of_rows(after, num_steps))


NAMES = {
    "triton_poi_fused_add_1": "elementwise",
    "triton_poi_fused_add_2": "elementwise",
    "triton_poi_fused_add_3": "elementwise",
    "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NTT": "gemm",
    "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_NTT": "gemm",
    "void f<4, Add<float> >(int)": "elementwise",
    "void f<8, Add<float> >(int)": "elementwise",
    "void f<8, Add<half> >(int)": "elementwise",
    "attn_fwd": "attention",
    "attn_bwd": "attention",
}


@st.composite
def random_rows(draw: st.DrawFn, num_steps: int = 2) -> list[Row]:
    """Kernels in places of their own, with gaps before some."""
    rows: list[Row] = []
    for _ in range(draw(st.integers(0, 12))):
        kernel = draw(st.sampled_from(sorted(NAMES)))
        part, cause = draw(st.sampled_from((("compute", None), ("idle", "host_wait"), ("idle", "kernel_gap"))))
        num = draw(st.integers(0, 5))
        raw = draw(st.integers(0, 10_000))
        rows.append((
            draw(st.integers(0, num_steps - 1)), part, cause, NAMES[kernel], kernel,
            draw(st.sampled_from((None, "aten::mm", "triton_poi_fused_add_1", "triton_poi_fused_add_2"))),
            draw(st.sampled_from((None, "F", "B", "it 1", "it 2"))), num, raw, draw(st.integers(0, raw)),
        ))  # fmt: skip
    return rows
