"""Gates: each figure is what its definition says, a limit is met or not to the nanosecond, and mistakes are told."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import weftrace as wt
from tests.comparison.written import Step, run
from weftrace.comparison.diffs import Diff
from weftrace.comparison.gates import FIGURES, judged, parse_gate
from weftrace.comparison.render.words import FIGURE_TERMS
from weftrace.errors import ComparisonError

# A step, in µs: idle 35, gemms 3 x 100, attention 200, of the all-reduce's 100 the first 20 beside it: 615 in all.
BEFORE = Step()


@pytest.fixture(scope="module")
def slower(tmp_path_factory: pytest.TempPathFactory) -> Diff:
    """Gemms take 130, the all-reduce is hidden for 60 of its 100, and a kernel of 10 µs is new."""
    folder = tmp_path_factory.mktemp("gates")
    after = Step(gemms_us=(130, 130, 130), hidden_us=60, extra={"void mine::extra(float*)": 10.0})
    return wt.diff(run(folder, [BEFORE] * 4, name="before"), run(folder, [after] * 4, name="after"))


@pytest.mark.parametrize(
    ("figure", "before", "after"),
    [
        ("span", 615_000, 675_000),
        ("compute", 500_000, 600_000),
        ("exposed", 80_000, 40_000),
        ("exposed:data", 80_000, 40_000),
        ("communication", 100_000, 100_000),
        ("hidden", 0.2, 0.6),
        ("memory", 0, 0),
        ("idle", 35_000, 35_000),
        ("idle:host_wait", 35_000, 35_000),
        ("launches", 5, 6),
        ("family:gemm", 300_000, 390_000),
        ("kernel:flash_fwd", 200_000, 200_000),
        ("kernel:mine::.*", 0, 10_000),
        ("rank:0", 615_000, 675_000),
    ],
)
def test_a_figure_is_what_its_definition_says(slower: Diff, figure: str, before: float, after: float) -> None:
    (row,) = judged(slower, [parse_gate(f"{figure}=1000%", "above")])
    assert row["before"] == pytest.approx(before)
    assert row["after"] == pytest.approx(after)


@pytest.mark.parametrize(
    ("gate", "direction", "is_met"),
    [
        ("family:gemm=30%", "above", True),  # exactly at the limit
        ("family:gemm=29.999%", "above", False),
        ("family:gemm=90us", "above", True),
        ("family:gemm=89.999us", "above", False),
        ("span=10%", "above", True),
        ("exposed=0%", "above", True),  # it fell
        ("exposed=50%", "below", True),
        ("exposed=49%", "below", False),
        ("exposed=39us", "below", False),
        ("hidden=40%", "above", True),  # points, not a part of the 20 %
        ("hidden=39%", "above", False),
        ("hidden=2%", "below", True),
        ("launches=1", "above", True),
        ("launches=0", "above", False),
        ("launches=20%", "above", True),
        ("kernel:mine=500%", "above", False),  # new: no percent of 0 allows it
        ("kernel:mine=10us", "above", True),
        ("memory=0%", "above", True),  # 0 in both
    ],
)
def test_a_gate_is_met_up_to_its_limit(slower: Diff, gate: str, direction: str, is_met: bool) -> None:
    (row,) = judged(slower, [parse_gate(gate, direction)])  # type: ignore[arg-type]
    assert row["is_met"] is is_met, row["sentence"]


def test_a_failing_gate_is_told_in_a_line(slower: Diff) -> None:
    asked = [("family:gemm=5%", "above"), ("kernel:mine=5%", "above"), ("exposed=5us", "below"), ("hidden=5%", "above")]
    rows = judged(slower, [parse_gate(text, direction) for text, direction in asked])  # type: ignore[arg-type]
    assert [row["sentence"] for row in rows] == [
        "family:gemm: 300 µs → 390 µs, +30.0 %; it may rise by 5 %",
        "kernel:mine: 0 ns → 10.0 µs, new, which no percentage of 0 allows; it may rise by 5 %",
        "exposed: 80.0 µs → 40.0 µs, −40.0 µs; it may fall by 5.00 µs",
        "hidden: 20.0 % → 60.0 %, +40.0 points; it may rise by 5 points",
    ]


def test_a_share_of_nothing_on_one_side_is_not_met_and_says_so(tmp_path: Path) -> None:
    alone = run(tmp_path, [replace(BEFORE, all_reduce_us=0, hidden_us=0)] * 3, name="alone")
    both = run(tmp_path, [BEFORE] * 3, name="both")
    gate = parse_gate("hidden=1%", "below")
    (row,) = judged(wt.diff(both, alone), [gate])
    assert row["before"] == pytest.approx(0.2)
    assert (row["after"], row["is_met"]) == (None, False)
    assert row["sentence"] == "hidden: 20.0 % → undefined: a share of nothing; nothing can be said of its change"
    assert judged(wt.diff(alone, alone), [gate])[0]["is_met"] is True


def test_what_is_within_the_noise_is_said_and_passes_where_asked(tmp_path: Path) -> None:
    jitter = [Step(gemms_us=(100 + 2 * (at % 3), 100, 100)) for at in range(9)]
    found = wt.diff(run(tmp_path, jitter, name="a"), run(tmp_path, [*jitter[1:], jitter[0], jitter[2]], name="b"))
    gate = parse_gate("compute=0%", "above")
    (row,) = judged(found, [gate])
    (lenient,) = judged(found, [gate], beyond_noise=True)
    if not row["is_met"]:  # how large noise is, `comparison.noise` says
        assert lenient["is_met"] is row["is_noise"]
        assert ("within the noise" in row["sentence"]) == bool(row["is_noise"])


def test_one_step_tells_nothing_of_noise_and_the_gate_says_so(tmp_path: Path) -> None:
    found = wt.diff(run(tmp_path, [BEFORE], name="a"), run(tmp_path, [Step(attention_us=220)], name="b"))
    (row,) = judged(found, [parse_gate("span=1%", "above")], beyond_noise=True)
    assert (row["is_met"], row["is_noise"]) == (False, None)
    assert row["sentence"].endswith("; noise is not known: one step")


def test_runs_that_are_not_comparable_are_not_judged(tmp_path: Path) -> None:
    one, other = (run(tmp_path, [BEFORE] * 3, name=f"r{rank}", rank=rank, world_size=2) for rank in (0, 1))
    (row,) = judged(wt.diff(one, other), [parse_gate("span=1%", "above")])
    assert (row["is_met"], row["before"], row["after"]) == (None, None, None)
    assert row["sentence"] == "span: not judged, the runs are not comparable"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("expsoed=5%", "there is no figure 'expsoed'. Did you mean exposed?"),
        ("exposed", "'exposed' is no gate: write NAME=LIMIT, such as exposed=5% or idle=300us"),
        ("exposed=", "'' is not a limit"),
        ("exposed=-5%", "'-5%' is not a limit"),
        ("exposed=5", "'5' is not a limit for a time: write 5% or 300us"),
        ("launches=5us", "'5us' is not a limit for a number: write 5% or 10"),
        ("hidden=5us", "'5us' is not a limit for a share: write 2%, which is two points"),
        ("family:=5%", "family: names nothing; write family:NAME"),
        ("kernel:(=5%", "'(' is no regular expression"),
        ("rank:x=5%", "rank:x: 'x' is no rank"),
        ("span:x=5%", "span takes no name behind a colon"),
    ],
)
def test_a_gate_that_means_nothing_is_refused_before_anything_is_read(text: str, said: str) -> None:
    with pytest.raises(ComparisonError, match=re.escape(said)) as summary:
        parse_gate(text, "above")
    assert summary.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("family:gem=5%", "family:gem: not found in either run. Did you mean family:gemm?"),
        ("operator:nothing=5%", "operator:nothing: not found in either run."),
        ("kernel:nothing_like_it=5%", "kernel:nothing_like_it: it fits no kernel of either run."),
        ("rank:7=5%", "rank:7: not in both runs, which have rank 0."),
        ("idle:host=5%", "idle:host: not found in either run. Did you mean idle:host_wait"),
        ("lateness=5%", "lateness: needs a job of several ranks"),
    ],
)
def test_a_name_that_no_run_has_is_refused_with_the_nearest(slower: Diff, text: str, said: str) -> None:
    with pytest.raises(ComparisonError, match=re.escape(said)):
        judged(slower, [parse_gate(text, "above")])


@pytest.mark.parametrize("figure", ["idle:dependency_wait", "idle:unknown", "exposed:barrier"])
def test_a_cause_or_role_that_neither_run_has_is_0(slower: Diff, figure: str) -> None:
    """A run that no longer waits passes the gate that holds it to that."""
    (row,) = judged(slower, [parse_gate(f"{figure}=5%", "above")])
    assert (row["before"], row["after"], row["is_met"]) == (0, 0, True)


def test_every_figure_is_defined_in_words() -> None:
    assert list(FIGURE_TERMS) == [figure.form for figure in FIGURES]


def test_a_kernel_is_named_as_either_run_spells_it(tmp_path: Path) -> None:
    """Names that differ in template arguments alone are taken for one."""
    spelled = [f"void mine::scale<{size}>(float*)" for size in (128, 256)]
    runs = [
        run(tmp_path, [Step(extra={name: us})] * 3, name=str(us))
        for name, us in zip(spelled, (10.0, 12.0), strict=True)
    ]
    found = wt.diff(*runs)
    for asked in ("kernel:scale<128>", "kernel:scale<256>", "kernel:mine::scale"):
        (row,) = judged(found, [parse_gate(f"{asked}=10%", "above")])
        assert (row["before"], row["after"], row["is_met"]) == (10_000, 12_000, False), row["sentence"]


def test_figures_of_parts_are_the_rows_of_the_table(slower: Diff) -> None:
    names = {"compute": "compute", "exposed": "exposed communication", "memory": "exposed memory", "idle": "idle"}
    rows = judged(slower, [parse_gate(f"{name}=0%", "above") for name in names])
    parts = {part: [0, 0] for part in names.values()} | {
        part: [before, after]
        for part, before, after in slower.by("part").select("part", "before_ns", "after_ns").rows()
    }
    assert [[row["before"], row["after"]] for row in rows] == list(parts.values())
