"""What a verdict says of two runs: each reason by a pair of files that differ in it alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.tracefile import ALL_REDUCE, GEMM, TraceFile, collective
from weftrace.comparison import Run, Verdict, run_of
from weftrace.comparison.sides import Side, sides_of
from weftrace.comparison.steady_steps import SteadySteps
from weftrace.comparison.verdicts import verdict_of
from weftrace.plan import Op, Plan, simulate
from weftrace.trace import Trace

HALF_GEMM = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn"
SHAPES = "[[512,768],[768,3072]]"


def written(
    *,
    kernels: Iterable[str] = (GEMM, GEMM),
    shapes: str = SHAPES,
    steps: int = 3,
    facts: dict[str, Any] | None = None,
    device: dict[str, Any] | None = None,
    sends: str = "BFloat16",
    **of: Any,
) -> TraceFile:
    """Steps of kernels of 100 µs, each launched by an operator of these shapes."""
    file = TraceFile(**of)
    file.facts |= {"cuda_runtime_version": 12040, "record_shapes": 1} | (facts or {})
    file.facts["deviceProperties"][0] |= device or {}
    at = 1000.0
    for step in range(max(1, steps)):
        start = at
        for kernel in kernels:
            us = 100 + step % 2
            file.host("aten::mm", at, 8, cat="cpu_op", **{"Input Dims": shapes, "Input type": '["c10::BFloat16"]'})
            file.kernel(kernel, at + 10, us, launch=at + 2)
            at += us + 10
        summary = {**collective("allreduce"), "dtype": sends}
        file.kernel(ALL_REDUCE, at - 20, 20, launch=start + 3, stream=20, **summary)
        if steps:
            file.host(f"ProfilerStep#{step + 5}", start - 1, at - start)
    return file


@pytest.fixture(scope="module")
def default(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run as it is written by default."""
    return run_of(written().trace(tmp_path_factory.mktemp("default")))


@pytest.fixture
def judged(tmp_path: Path, default: Run) -> Callable[..., Verdict]:
    """The verdict of a run before and one after; {} is `default`."""

    def judge(before: dict[str, Any], after: dict[str, Any]) -> Verdict:
        sides = []
        for name, how in (("before", before), ("after", after)):
            (tmp_path / name).mkdir(exist_ok=True)
            sides.append(run_of(written(**how).trace(tmp_path / name)) if how else default)
        return verdict_of(*sides_of(*sides))

    return judge


@pytest.mark.parametrize(
    ("after", "sentence"),
    [
        ({"rank": 1}, "different ranks do different work: rank 0 before, rank 1 after"),
        ({"world_size": 2}, "the worlds differ: 1 rank before, 2 ranks after"),
        (
            {"device": {"name": "AMD Instinct MI300X", "numSms": 304}},
            "the devices differ: NVIDIA H800 of 132 multiprocessors before, "
            "AMD Instinct MI300X of 304 multiprocessors after",
        ),
        (
            {"steps": 0},
            "a step is compared with a whole recording: 2 of 3 steps before, no steps, the whole recording after",
        ),
    ],
)
def test_no_cause_is_told_where_too_much_differs(
    judged: Callable[..., Verdict], after: dict[str, Any], sentence: str
) -> None:
    verdict = judged({}, after)
    assert verdict.word == "not comparable"
    assert verdict.reasons[0] == sentence


@pytest.mark.parametrize(
    ("after", "sentences"),
    [
        (
            {"shapes": "[[1024,768],[768,3072]]"},
            [f"the shapes differ: aten::mm of {SHAPES} before, of [[1024,768],[768,3072]] after"],
        ),
        ({"kernels": (HALF_GEMM,) * 2}, ["the dtypes of kernels differ: bf16 100 % before, fp16 100 % after"]),
        ({"facts": {"cuda_runtime_version": 12080}}, ["the version of CUDA runtime differs: 12.4 before, 12.8 after"]),
        (
            {"facts": {"distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 1, "nccl_version": "2.20.5"}}},
            [],  # the other does not tell
        ),
        ({"facts": {"batch_size": "64"}}, ["batch_size differs: not recorded before, 64 after"]),
        ({"facts": {"weftrace": {"profile.ep": 64}}}, ["profile.ep differs: not recorded before, 64 after"]),
        (
            {"facts": {"with_stack": 1}},
            [
                "they were recorded otherwise, and recording slows the host: with shapes before, "
                "with shapes, stacks after"
            ],
        ),
        ({"device": {"totalGlobalMem": 1 << 35}}, ["the device memories differ: 64.0 GiB before, 32.0 GiB after"]),
        ({"device": {"totalGlobalMem": (1 << 36) + (1 << 28)}}, []),  # drivers set a little aside
        (
            {"kernels": (GEMM,) * 4},
            [
                "a step launches another number of kernels and copies: 3 before, 5 after; they were fused or split, "
                "or the work is another"
            ],
        ),
        ({"facts": {"traceName": "/home/x.json", "trace_id": "B4", "username": "x"}}, []),
        ({"steps": 5}, []),  # steps are compared, not recordings
        ({"rank": None}, []),
        (
            {"facts": {"distributedInfo": {"backend": "gloo", "rank": 0, "world_size": 1}}},
            ["the communication libraries differ: nccl before, gloo after"],
        ),
        (
            {"sends": "Float8_e4m3fn"},
            ["the dtypes of collectives differ: BFloat16 before, Float8_e4m3fn after"],
        ),
    ],
)
def test_what_may_be_the_cause_is_a_reason_with_both_values(
    judged: Callable[..., Verdict], after: dict[str, Any], sentences: list[str]
) -> None:
    verdict = judged({}, after)
    assert (verdict.word, list(verdict.reasons)) == ("comparable, but" if sentences else "comparable", sentences)
    assert judged(after, {}).word == verdict.word


def test_a_file_and_itself_are_comparable_however_damaged(tmp_path: Path) -> None:
    path = written(steps=0, kernels=[GEMM] * 8).write(tmp_path / "rank0.json")
    path.write_text(path.read_text()[:-20])
    assert run_of(path).ranks[0].facts["damage"].startswith("cut short (")
    assert verdict_of(*sides_of(run_of(path), run_of(path))).word == "comparable"
    whole = written(steps=0, kernels=[GEMM] * 8).write(tmp_path / "whole.json")
    reason, *_ = verdict_of(*sides_of(run_of(whole), run_of(path))).reasons
    assert reason.startswith("the files are not alike whole: whole before, cut short (") and reason.endswith(" after")


def test_a_file_that_was_cut_short_in_its_only_step_is_no_faster_run(tmp_path: Path) -> None:
    """A gate of its length would be met."""
    whole = run_of(written(steps=0, kernels=[GEMM] * 8).write(tmp_path / "whole.json"))
    text = (tmp_path / "whole.json").read_text()
    (tmp_path / "cut.json").write_text(text[: text.index(GEMM, text.index(GEMM, text.index(GEMM) + 1) + 1)])
    cut = run_of(tmp_path / "cut.json")
    for sides, name in (((whole, cut), "after"), ((cut, whole), "before")):
        verdict = verdict_of(*sides_of(*sides))
        assert verdict.word == "not comparable"
        assert f"the run {name} is cut short: it holds 2 kernels and copies of a step, the other 9" in verdict.reasons
        damage = next(summary for summary in verdict.facts if summary[0] == "damage")
        assert damage[1 if name == "after" else 2] == "whole"


def _of_ranks(run: Run, ranks: Iterable[int], **changes: Any) -> Run:
    return replace(run, ranks=tuple(replace(run.ranks[0], rank=rank, world_size=8, **changes) for rank in ranks))


def test_of_many_ranks_a_reason_is_told_once(tmp_path: Path) -> None:
    run = run_of(written().trace(tmp_path))
    before, after = _of_ranks(run, range(8)), _of_ranks(run, range(7))
    facts = run.ranks[0].facts | {"version: NCCL": "2.20"}
    before = replace(before, ranks=tuple(replace(rank, facts=facts) for rank in before.ranks))
    newer = [facts | {"version: NCCL": "2.21"} if rank.rank in (1, 2, 3) else facts for rank in after.ranks]
    after = replace(after, ranks=tuple(replace(r, facts=of) for r, of in zip(after.ranks, newer, strict=True)))
    verdict = verdict_of(*sides_of(before, after))
    assert verdict.word == "comparable, but"
    assert verdict.reasons == (
        "the ranks differ: ranks 0–7 before, ranks 0–6 after; 7 in both, and what these waited for others counts as "
        "communication",
        "the version of NCCL differs: 2.20 before, 2.21 after (on 3 of 7 ranks)",
    )
    assert ("NCCL", "2.20", "2.20 (and 1 other)") in verdict.facts
    assert ("ranks", "ranks 0–7", "ranks 0–6") in verdict.facts


def test_runs_without_a_rank_in_common_are_refused(tmp_path: Path) -> None:
    run = run_of(written().trace(tmp_path))
    nothing = run.ranks[0].shares.clear().with_columns(pl.lit(0).alias("at"))
    one, other = (
        Side(run=_of_ranks(run, ranks), ranks=(), steady=SteadySteps(steps=()), shares=nothing)
        for ranks in ((0, 1, 2), (4, 6))
    )
    verdict = verdict_of(one, other)
    assert verdict.word == "not comparable"
    assert verdict.reasons == ("no rank is in both: ranks 0–2 before, ranks 4, 6 after",)


def test_times_of_a_host_are_not_those_of_a_device(tmp_path: Path) -> None:
    run = run_of(written().trace(tmp_path))
    host = replace(run, ranks=(replace(run.ranks[0], basis="host"),))
    verdict = verdict_of(*sides_of(run, host))
    assert verdict.word == "not comparable"
    assert verdict.reasons == ("what is timed differs: kernels of a device before, operators of the host after",)


def _simulated(durations_ns: Iterable[int]) -> Trace:
    return simulate(
        Plan.of([Op(name="gemm", duration_ns=ns, step=step) for step, ns in enumerate(durations_ns)], name="steps")
    )


def test_a_simulated_run_may_be_held_against_a_measured_one(tmp_path: Path) -> None:
    verdict = verdict_of(*sides_of(run_of(written().trace(tmp_path)), run_of(_simulated([100_000] * 3))))
    assert verdict.word == "comparable, but"
    assert verdict.reasons[0] == "the sources differ: measured before, simulated after"


def test_steps_that_grow_in_one_run_alone_are_told() -> None:
    flat = run_of(_simulated([1_000_000 + 1_000 * (step % 2) for step in range(10)]))
    grown = run_of(_simulated([1_000_000 + 20_000 * step for step in range(10)]))
    (reason,) = verdict_of(*sides_of(flat, grown)).reasons
    assert reason == "steps of a run drift, from its first half to its second: by 0.0 % before, +9.6 % after"
    assert verdict_of(*sides_of(grown, grown)).word == "comparable"


def test_facts_stay_small_where_a_run_has_many_shapes(tmp_path: Path) -> None:
    file = TraceFile()
    for at in range(500):
        file.host("aten::mm", at * 100, 8, cat="cpu_op", **{"Input Dims": f"[[{at},768]]"})
        file.kernel(GEMM, at * 100 + 10, 20, launch=at * 100 + 2)
    facts = run_of(file.trace(tmp_path)).ranks[0].facts
    assert len(facts["shapes"].split("\n")) == 40
    assert facts["digest of shapes"].endswith("of 500 calls that differ")
    assert sum(map(len, facts.values())) < 8_000


@pytest.mark.parametrize("which", ["names", "shapes"])
def test_chance_order_of_calls_that_take_alike_is_no_difference(tmp_path: Path, which: str) -> None:
    """Calls change places in the list of the longest from run to run."""
    rng = np.random.default_rng(0)
    runs = []
    for name in ("before", "after"):
        (tmp_path / name).mkdir()
        file = TraceFile()
        for at in range(60):
            file.host(f"aten::op{at}" if which == "names" else "aten::mm", at * 100, 8, cat="cpu_op",
                      **{"Input Dims": f"[[{at % 30},768]]"})  # fmt: skip
            file.kernel(GEMM, at * 100 + 10, 20 + rng.random(), launch=at * 100 + 2)
        runs.append(run_of(file.trace(tmp_path / name)))
    assert verdict_of(*sides_of(*runs)).word == "comparable"


def test_what_a_verdict_tells_of_versions_dtypes_and_steps(judged: Callable[..., Verdict]) -> None:
    facts = {
        name: (before, after)
        for name, before, after in judged({}, {"facts": {"hip_runtime_version": "60443483"}}).facts
    }
    assert facts["steps compared"] == ("2 of 3 steps",) * 2
    assert facts["HIP runtime"] == ("not recorded", "6.4.43483")
    assert facts["dtypes of operators"] == ("bf16 100 %", "bf16 100 %")
    assert facts["device"] == ("NVIDIA H800",) * 2
    assert facts["shapes of aten::mm"] == (SHAPES,) * 2
    assert facts["launches a step"] == ("3", "3")


def test_nccls_version_is_read_from_beside_the_rank(judged: Callable[..., Verdict]) -> None:
    world = {"backend": "nccl", "rank": 0, "world_size": 1}
    of = [{"facts": {"distributedInfo": world | {"nccl_version": version}}} for version in ("2.20.5", "2.21")]
    assert judged(*of).reasons == ("the version of NCCL differs: 2.20.5 before, 2.21 after",)


def test_a_bare_number_in_a_name_may_count_runs(tmp_path: Path) -> None:
    """trace_1.json and trace_2.json: the one before and after a change as often as two ranks."""
    paths = [written(rank=None).write(tmp_path / name) for name in ("trace_1.json", "trace_2.json", "rank3.json")]
    verdict = verdict_of(*sides_of(run_of(paths[0]), run_of(paths[1])))
    assert verdict.word == "comparable, but"
    assert verdict.reasons == ("they may be of different ranks: 1 before, 2 after, as numbers in their names say",)
    (renamed := paths[0].with_name("rank2.json")).write_text(paths[0].read_text())
    assert verdict_of(*sides_of(run_of(renamed), run_of(paths[2]))).word == "not comparable"


def test_recordings_without_steps_that_hold_more_of_them_are_told(judged: Callable[..., Verdict]) -> None:
    (reason,) = judged({"steps": 0, "kernels": (GEMM,) * 10}, {"steps": 0, "kernels": (GEMM,) * 11}).reasons
    assert reason.startswith("the recording holds another number of kernels and copies: 11 before, 12 after")


@pytest.mark.parametrize("name", ["tracelens-h100-bert-small.json.gz", "tracelens-mi300-bert-small.json.gz"])
def test_what_a_recorded_trace_tells_of_itself(shared_data: Path, name: str) -> None:
    (rank,) = run_of(shared_data / name).ranks
    of_both = {
        "dtypes of kernels": "bf16 100 %",
        "dtypes of operators": "bf16 100 %",
        "digest of shapes": "0744692d, of 16 calls that differ",
        "recorded": "with shapes, stacks, memory, FLOPs, modules",
    }
    own = {
        "tracelens-h100-bert-small.json.gz": {"device": "NVIDIA H100 80GB HBM3", "version: CUDA runtime": "12.4"},
        "tracelens-mi300-bert-small.json.gz": {"vendor": "AMD", "version: HIP runtime": "6.4.43483"},
    }
    assert rank.facts.items() >= (of_both | own[name]).items()


def test_the_two_ranks_of_a_recorded_job_are_no_before_and_after(shared_data: Path) -> None:
    before, after = (run_of(shared_data / "hta-two-ranks" / f"sampled_rank-{rank}.json.gz") for rank in (0, 1))
    verdict = verdict_of(*sides_of(before, after))
    assert verdict.word == "not comparable"
    assert verdict.reasons[0] == "different ranks do different work: rank 0 before, rank 1 after"
    of_itself = verdict_of(*sides_of(after, after))
    assert (of_itself.word, of_itself.reasons) == ("comparable", ())
