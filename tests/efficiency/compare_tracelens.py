"""Do weftrace and TraceLens count the same FLOPs and the same time of the same operators and shapes?

    python -m tests.efficiency.compare_tracelens GEMM.csv [TRACE]

GEMM.csv: a sheet of TraceLens's report as CSV (GEMM, CONV_fwd, CONV_bwd, SDPA_fwd; those that its repository holds of
its own test traces will do). TRACE: the trace that it is of; without one the formulas alone are compared, on the calls
that the sheet describes. Prints a line per row of the sheet. FLOPs and bytes of a call and the time of all have
to agree within 0.1 %, or differ by what one of these reasons explains:

- bias: TraceLens adds M N for the sum with the bias, which weftrace counts as vector FLOPs.
- causal: TraceLens takes S^2 / 2 pairs, weftrace the S (S + 1) / 2 that there are.
- mask: TraceLens counts the gradients of input and weight of every convolution, weftrace those that were asked for.
- sums: of attention weftrace has the sums of the softmax too, which are written for the backward.
- once: of a convolution's backward TraceLens reads the output's gradient for each of the two, weftrace once.
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
MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """A row of TraceLens: dims and values of one call, FLOPs and bytes of one, time and number of all."""

    operator: str
    dims: list[Any]
    values: list[str]
    call: RecordedCall
    flops: float
    moved_bytes: float
    total_us: float
    num_calls: int

    @property
    def key(self) -> tuple[str, tuple[tuple[int, ...], ...]]:
        return family(self.operator), matrices(self.dims)


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """The same of weftrace. total_ns: None where only the formula was asked."""

    flops: float
    moved_bytes: float
    num_calls: int
    total_ns: int | None


def main(sheet: Path, trace: Path | None) -> int:
    theirs = list(rows_of(sheet))
    ours = from_trace(trace) if trace else {row.key: formula(row) for row in theirs}
    num_left = 0
    for row in theirs:
        own = ours.get(row.key)
        flops, moved, time = verdict = compare(row, own, theirs)
        num_left += any("?" in each for each in verdict)
        counted = (f"{own.flops / 1e9:.6g}", f"{own.moved_bytes / MIB:.6g}") if own else "--"
        print(f"{row.operator} {row.dims}, {row.num_calls} calls: GFLOP {row.flops / 1e9:.6g} {counted[0]} {flops},"
              f" MiB {row.moved_bytes / MIB:.6g} {counted[1]} {moved}, {time}")  # fmt: skip
    print(f"{len(theirs)} rows, {num_left} with a difference that nothing explains")
    return num_left > 0


def compare(row: Sheet, own: Own | None, theirs: list[Sheet]) -> tuple[str, str, str]:
    """(of FLOPs, of bytes, of time): "equal", a reason, or "?" and what differs."""
    if own is None:
        twins = [other for other in theirs if other is not row and _near(other.total_us, row.total_us)]
        return ("outer", "outer", "same time") if twins else ("? no such row", "", "")
    flops = "equal" if _near(own.flops, row.flops) else reason(row, own.flops) or "?"
    moved = "equal" if _near(own.moved_bytes, row.moved_bytes) else reason_of_bytes(row, own.moved_bytes) or "?"
    if own.total_ns is None:
        return flops, moved, "no time"
    if own.num_calls != row.num_calls:
        return flops, moved, f"? {own.num_calls} calls"
    return flops, moved, "same time" if _near(own.total_ns / 1e3, row.total_us) else f"? {own.total_ns / 1e3:,.3f} us"


def reason(row: Sheet, flops: float) -> str:
    """Which known difference of convention turns TraceLens's FLOPs of a call into these; "" where none does."""
    kind, tensors = row.key
    if kind == "product" and row.operator.endswith("addmm") and _near(row.flops - _outputs(tensors), flops):
        return "bias"
    if kind == "attention" and "True" in row.values[3:]:
        length = tensors[0][-2] if "scaled_dot" in row.operator else tensors[0][-3]
        if _near(row.flops * (length + 1) / length, flops):
            return "causal"
    if kind == "convolution backward" and _one_gradient(row) and _near(row.flops / 2, flops):
        return "mask"
    return ""


def reason_of_bytes(row: Sheet, moved: float) -> str:
    """Which known difference turns TraceLens's bytes of a call into these; "" where none does."""
    kind, tensors = row.key
    if kind == "attention" and 0 < moved - row.moved_bytes <= 4 * prod(tensors[0][:-1]) + 64:
        return "sums"
    if kind == "convolution backward":
        gradient = prod(tensors[0]) * round(row.moved_bytes / 2 / sum(map(prod, tensors)))
        if _one_gradient(row) and _near(row.moved_bytes / 2, moved):
            return "mask"
        if _near(row.moved_bytes - gradient, moved):
            return "once"
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
                        flops=float(row["GFLOPS_first"]) * 1e9,
                        moved_bytes=float(row["Data Moved (MB)_first"]) * MIB,
                        total_us=float(row["Kernel Time (µs)_sum"]), num_calls=int(row["name_count"]))  # fmt: skip


def formula(row: Sheet) -> Own:
    cost = cost_of(row.call)
    flops, moved = (cost.flops, cost.moved_bytes) if cost else (0, 0)
    return Own(flops=flops, moved_bytes=moved, num_calls=row.num_calls, total_ns=None)


def from_trace(path: Path) -> dict[Any, Own]:
    found: dict[Any, Own] = {}
    for row in efficiency_of(read_chrome(path)).shapes.iter_rows(named=True):
        sizes = [[int(size) for size in text.split("x") if size] for text in row["shapes"].strip("[]").split("] [")]
        key = family(row["operator"]), matrices(sizes)
        before = found.get(key, Own(flops=0, moved_bytes=0, num_calls=0, total_ns=0))
        calls = before.num_calls + row["num_calls"]
        flops = (before.flops * before.num_calls + row["flops"]) / calls
        moved = (before.moved_bytes * before.num_calls + row["read_bytes"] + row["written_bytes"]) / calls
        total_ns = (before.total_ns or 0) + row["total_ns"]
        found[key] = Own(flops=flops, moved_bytes=moved, num_calls=calls, total_ns=total_ns)
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


def _one_gradient(row: Sheet) -> bool:
    """Whether the mask of a convolution's backward asks for one of (input, weight) alone; the bias comes last."""
    return row.values[-1].strip("[]").split(", ")[:2].count("True") == 1


def _outputs(tensors: tuple[tuple[int, ...], ...]) -> int:
    return prod(tensors[-2][:-1]) * tensors[-1][-1]


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= WITHIN * max(abs(one), abs(other))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None))
