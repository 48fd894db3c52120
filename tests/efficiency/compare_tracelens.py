"""Do weftrace and TraceLens count the same FLOPs and the same time of the same operators and shapes?

    python -m tests.efficiency.compare_tracelens GEMM.csv [TRACE]

GEMM.csv: a sheet of TraceLens's report as CSV (GEMM, CONV_fwd, CONV_bwd, SDPA_fwd; those that its repository holds of
its own test traces will do). TRACE: the trace that it is of; without one the formulas alone are compared, on the calls
that the sheet describes. Prints a line per row of the sheet. FLOPs of a call and the time of all have to agree within
0.1 %, or differ by what one of these reasons explains:

- bias: TraceLens adds M N for the sum with the bias, which weftrace counts as vector FLOPs.
- causal: TraceLens takes S^2 / 2 pairs, weftrace the S (S + 1) / 2 that there are.
- mask: TraceLens counts the gradients of input and weight of every convolution, weftrace those that were asked for.
- outer: the same kernels under the name of another operator of the sheet, which holds this one or is held by it.

Exits with status 1 where a difference is left.
"""

from __future__ import annotations

import ast
import csv
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from weftrace.analysis.efficiency import efficiency_of
from weftrace.costs.recorded import RecordedCall, cost_of
from weftrace.trace import read_chrome

WITHIN = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """A row of TraceLens: dims and values of one call, FLOPs of one, time and number of all."""

    operator: str
    dims: list[Any]
    values: list[str]
    call: RecordedCall
    flops: float
    total_us: float
    num_calls: int

    @property
    def key(self) -> tuple[str, tuple[tuple[int, ...], ...]]:
        return family(self.operator), matrices(self.dims)


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """The same of weftrace. total_ns: None where only the formula was asked."""

    flops: float
    num_calls: int
    total_ns: int | None


def main(sheet: Path, trace: Path | None) -> int:
    theirs = list(rows_of(sheet))
    ours = from_trace(trace) if trace else {row.key: formula(row) for row in theirs}
    num_left = 0
    for row in theirs:
        own = ours.get(row.key)
        flops, time = compare(row, own, theirs)
        num_left += "?" in flops + time
        counted = f"{own.flops / 1e9:.6g}" if own else "-"
        print(f"{row.operator} {row.dims}: {row.num_calls} calls, GFLOP {row.flops / 1e9:.6g} {counted} {flops} {time}")
    print(f"{len(theirs)} rows, {num_left} with a difference that nothing explains")
    return num_left > 0


def compare(row: Sheet, own: Own | None, theirs: list[Sheet]) -> tuple[str, str]:
    """(of FLOPs, of time): "equal", a reason, or "?" and what differs."""
    if own is None:
        twins = [other for other in theirs if other is not row and _near(other.total_us, row.total_us)]
        return ("outer", "") if twins else ("? no such row", "")
    flops = "equal" if _near(own.flops, row.flops) else reason(row, own.flops) or "? FLOPs"
    if own.total_ns is None:
        return flops, ""
    if own.num_calls != row.num_calls:
        return flops, f"? {own.num_calls} calls"
    return flops, "same time" if _near(own.total_ns / 1e3, row.total_us) else f"? {own.total_ns / 1e3:,.3f} us"


def reason(row: Sheet, flops: float) -> str:
    """Which known difference of convention turns TraceLens's FLOPs of a call into these; "" where none does."""
    kind, tensors = row.key
    if kind == "product" and row.operator.endswith("addmm") and _near(row.flops - _outputs(tensors), flops):
        return "bias"
    if kind == "attention" and "True" in row.values[3:]:
        length = tensors[0][-2] if "scaled_dot" in row.operator else tensors[0][-3]
        if _near(row.flops * (length + 1) / length, flops):
            return "causal"
    if kind == "convolution backward" and row.values[-1].count("True") < 3 and _near(row.flops / 2, flops):
        return "mask"
    return ""


def rows_of(sheet: Path) -> Iterator[Sheet]:
    with sheet.open(newline="") as file:
        for row in csv.DictReader(file):
            dims, types, strides, values = (
                ast.literal_eval(row[f"{name}_first"])
                for name in ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
            )
            texts = [json.dumps(value) for value in (dims, types, strides, values)]
            yield Sheet(operator=row["name"], dims=dims, values=values, call=RecordedCall(row["name"], *texts),
                        flops=float(row["GFLOPS_first"]) * 1e9, total_us=float(row["Kernel Time (µs)_sum"]),
                        num_calls=int(row["name_count"]))  # fmt: skip


def formula(row: Sheet) -> Own:
    cost = cost_of(row.call)
    return Own(flops=cost.flops if cost else 0, num_calls=row.num_calls, total_ns=None)


def from_trace(path: Path) -> dict[Any, Own]:
    found: dict[Any, Own] = {}
    for row in efficiency_of(read_chrome(path)).shapes.iter_rows(named=True):
        sizes = [[int(size) for size in text.split("x") if size] for text in row["shapes"].strip("[]").split("] [")]
        key = family(row["operator"]), matrices(sizes)
        before = found.get(key, Own(flops=0, num_calls=0, total_ns=0))
        calls = before.num_calls + row["num_calls"]
        flops = (before.flops * before.num_calls + row["flops"]) / calls
        found[key] = Own(flops=flops, num_calls=calls, total_ns=before.total_ns + row["total_ns"])
    return found


def family(operator: str) -> str:
    """Operators that do the same thing, whatever holds whatever: aten::convolution, aten::cudnn_convolution."""
    name = operator.rpartition("::")[2]
    if "attention" in name:
        return "attention"
    if "conv" in name:
        return "convolution backward" if "backward" in name else "convolution"
    return "product" if name.endswith("mm") else name


def matrices(dims: list[Any]) -> tuple[tuple[int, ...], ...]:
    """Sizes of the tensors of two dimensions or more: a bias and scalars stand where they like."""
    return tuple(tuple(size) for size in dims if len(size) > 1 and not isinstance(size[0], list))


def _outputs(tensors: tuple[tuple[int, ...], ...]) -> int:
    return prod(tensors[-2][:-1]) * tensors[-1][-1]


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= WITHIN * max(abs(one), abs(other))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None))
