"""Recorded traces beside each other, and beside copies of theirs in which only names differ."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl

from weftrace.comparison.alignment.movers import movers_of
from weftrace.comparison.diffs import diff
from weftrace.trace import Trace, open_trace


def renamed(trace: Trace, rename: Callable[[str], str]) -> Trace:
    names = trace.events.get_column("name")
    table = {name: rename(name) for name in names.cast(pl.String).unique()}
    return replace(trace, events=trace.events.with_columns(names.cast(pl.String).replace(table).cast(names.dtype)))


def read(path: Path) -> Trace:
    trace = open_trace(path)
    assert isinstance(trace, Trace)
    return trace


def other_numbers(name: str) -> str:
    """64 -> 67 wherever a number stands alone among template arguments; that of an OpaqueType is a type."""
    return re.sub(
        r"(?<!OpaqueType<)(?<=[<,])( ?)(\d{1,5})(?=u?l?[,>])", lambda found: f"{found[1]}{int(found[2]) + 3}", name
    )


def test_a_trace_whose_templates_have_other_numbers_has_no_change_and_no_kernel_of_its_own(shared_data: Path) -> None:
    trace = read(shared_data / "deepseek-v3-train.json.gz")
    copy = renamed(trace, other_numbers)
    found = diff(trace, copy)
    assert not found.change_ns
    assert found.changes.select(pl.col("change_ns", "by_kernel_ns").abs().sum()).row(0) == (0, 0)
    assert set(found.changes["status"]) == {"both"}
    matched = found.alignment.kernels
    assert {partners.rule for partners in matched} == {"template numbers"}
    assert sum(len(partners.before) for partners in matched) == sum(len(partners.after) for partners in matched) > 40
    alike = {frozenset(map(other_numbers, partners.before)) == frozenset(partners.after) for partners in matched}
    assert alike == {True}


def test_a_trace_that_was_compiled_anew_has_no_change(shared_data: Path) -> None:
    trace = read(shared_data / "tracelens-vllm-decode-graph.json.gz")
    copy = renamed(trace, lambda name: re.sub(r"^(triton_\w+_)(\d+)$", lambda n: f"{n[1]}{int(n[2]) + 1}", name))
    found = diff(trace, copy)
    assert found.changes.select(pl.col("change_ns", "by_kernel_ns").abs().sum()).row(0) == (0, 0)
    assert {partners.rule for partners in found.alignment.kernels} == {"compile number"}


def test_two_vendors_kernels_of_an_operator_replace_each_other_and_torchs_own_are_the_same(shared_data: Path) -> None:
    found = diff(shared_data / "tracelens-h100-bert-small.json.gz", shared_data / "tracelens-mi300-bert-small.json.gz")
    kernels = movers_of(found, "kernel").filter(pl.col("part") == "compute")
    replaced = kernels.filter(pl.col("status") == "replaced").sort("before_ns", descending=True)
    assert replaced.select("kind", "family", "before_ns", "after_ns", "before_num", "after_num").rows() == [
        ("compute", "gemm", 197598, 174130, 26, 26), ("compute", "attention", 37408, 113656, 4, 4)
    ]  # fmt: skip
    gemm = replaced.row(0, named=True)
    assert all("gemm" in name for name in gemm["before_names"])
    assert all(name.startswith("Cijk_") for name in gemm["after_names"])
    rest = kernels.filter(pl.col("status") != "replaced")
    assert set(rest["status"]) == {"both"}
    assert set(rest["matched_by"]) == {"name", "template numbers"}
    for level in ("family", "kernel", "operator", "phase"):
        assert movers_of(found, level)["change_ns"].sum() == found.changes["change_ns"].sum()
