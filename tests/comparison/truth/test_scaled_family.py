"""One family of kernels takes 1.3 times as long in a written copy of a recorded trace: it is named, with the change."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.comparison.truth.copies import read, slower, write
from tests.fuzz import few
from weftrace.comparison import Diff, Run, diff, run_of
from weftrace.comparison.explanations import headline
from weftrace.moe.requested import profile_of
from weftrace.moe.requests import Request
from weftrace.plan import simulate
from weftrace.trace import Trace, open_trace, work_of

FILES = {
    "deepseek-v3-train.json.gz": ("gemm_fp8", "gemm_grouped", "attention", "norm"),
    "tracelens-h100-bert-small.json.gz": ("gemm", "attention"),
    "tracelens-mi300-bert-small.json.gz": ("gemm", "attention"),
    "tracelens-vllm-decode-graph.json.gz": ("gemm_grouped", "attention", "norm"),
}
SCALED = [(file, family) for file, families in FILES.items() for family in families]
FIRST = [(file, families[0]) for file, families in FILES.items()]

#: Kernels of this family run on two streams side by side, and what follows both is later by both: idle time is new.
BESIDE_EACH_OTHER = ("deepseek-v3-train.json.gz", "gemm_fp8")


@cache
def before(path: Path) -> tuple[dict[str, Any], dict[str, str], Run]:
    """A file as it is, the family of each kernel, and its run."""
    trace = open_trace(path)
    assert isinstance(trace, Trace)
    names = work_of(trace).events.select(pl.col("name", "family").cast(pl.String)).unique()
    return read(path), dict(names.iter_rows()), run_of(trace)


def scaled(path: Path, family: str, moves: str, folder: Path) -> Diff:
    document, families, run = before(path)
    copy = slower(document, lambda name: families.get(name) == family, 1.3, moves=moves)
    return diff(run, write(copy, folder / "copy.json"))


@pytest.mark.parametrize("file", FILES)
def test_a_copy_without_a_change_is_the_same(file: str, shared_data: Path, tmp_path: Path) -> None:
    document, _, run = before(shared_data / file)
    found = diff(run, write(document, tmp_path / "copy.json"))
    assert found.change_ns == found.remainder_ns == 0
    assert found.changes.select(pl.col("^.*change_ns$|^by_.*$").abs().sum()).row(0) == (0,) * 5


@pytest.mark.parametrize(
    ("file", "family", "moves"), few([*((*each, "device") for each in SCALED), *((*each, "all") for each in FIRST)], 8)
)
def test_it_is_named_with_nearly_all_of_the_change(
    file: str, family: str, moves: str, shared_data: Path, tmp_path: Path
) -> None:
    """Whether the host is later too or not: then causes of idle time change, and none of its length."""
    found = scaled(shared_data / file, family, moves, tmp_path)
    first = found.by("family").row(0, named=True)
    assert first["family"] == family
    assert first["change_ns"] >= (0.9 if (file, family) == BESIDE_EACH_OTHER else 0.95) * found.change_ns
    compute = found.by("part", "family").filter(pl.col("part") == "compute").row(0, named=True)
    assert (compute["family"], compute["by_duration_ns"]) == (family, pytest.approx(compute["change_ns"], rel=0.01))
    assert f": {family.replace('_', '-')} kernels +" in headline(found)
    assert "they take 1.30 times as long" in headline(found)


@pytest.mark.parametrize(("file", "family"), FIRST)
def test_where_nothing_moves_it_is_named_and_what_makes_up_for_it(
    file: str, family: str, shared_data: Path, tmp_path: Path
) -> None:
    """Its kernels now run into the next ones, or into idle time: the step is as long as it was but for its end."""
    found = scaled(shared_data / file, family, "nothing", tmp_path)
    row = found.by("part", "family").filter(pl.col("part") == "compute").row(0, named=True)
    assert row["family"] == family
    assert row["after_raw_ns"] / row["before_raw_ns"] == pytest.approx(1.3, abs=0.002)
    assert row["by_overlap_ns"] <= 0
    assert f"{family.replace('_', '-')} kernels +" in headline(found)
    assert "against it" in headline(found)


@pytest.mark.parametrize(("kind", "name", "family"), [
    ("train", "flash::flash_fwd_kernel<core>", "attention"),
    ("train", "combine", "combine"),
    ("prefill", "deep_gemm::m_grouped_fp8_gemm_kernel<w13>", "gemm_grouped"),
    ("decode", "combine", "combine"),
])  # fmt: skip
def test_an_op_of_a_simulated_profile_is_named_by_its_family(kind: Any, name: str, family: str) -> None:
    """The layers of a profile without overlap, where an op has nothing beside it that hides it."""
    plan = profile_of(Request(kind=kind, layers=2, overlap="none")).plan
    times = pl.when(pl.col("name").cast(pl.String) == name).then(1.3).otherwise(1.0)
    found = diff(simulate(plan), simulate(plan.with_ops(duration_ns=pl.col("duration_ns") * times)))
    first = found.by("family").row(0, named=True)
    assert (first["family"], first["change_ns"]) == (family, pytest.approx(found.change_ns, rel=0.05))
    assert first["by_duration_ns"] == pytest.approx(first["change_ns"], rel=0.01)
    assert f"{family.replace('_', '-')}" in headline(found).partition(": ")[2]


def test_kernels_that_run_into_the_next_of_their_stream_are_told(shared_data: Path, tmp_path: Path) -> None:
    """No device does that to so many: the times of a copy were changed, and no later start with them."""
    found = scaled(shared_data / "tracelens-vllm-decode-graph.json.gz", "gemm_grouped", "nothing", tmp_path)
    assert found.verdict.word == "comparable, but"
    assert found.verdict.reasons == (
        "kernels that begin before the last one of their stream has ended (a stream usually runs one at a time): "
        "none before, 36.9 % after",
    )  # fmt: skip
