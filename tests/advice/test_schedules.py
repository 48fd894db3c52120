"""Another pipeline schedule for a measured run: pipelines simulated with known costs, read back and swapped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.fuzz import few
from tests.tracefile import GEMM, TraceFile
from weftrace.advice.jobs import infer_job
from weftrace.advice.swaps.chunks import pipeline_actions
from weftrace.advice.swaps.schedules import swap_schedule
from weftrace.errors import AdviceError, TraceError
from weftrace.pipeline import Costs, generate, simulate
from weftrace.pipeline.as_plan import plan_of
from weftrace.plan import Inferred, Op, Plan, simulate_ranks
from weftrace.units import US

COSTS = Costs(forward_ns=100 * US, input_ns=110 * US, weight_ns=90 * US, overlapped_ns=260 * US, activation_bytes=1)


def measured(name: str, costs: Costs = COSTS, *, num_ranks: int = 4, num_micro_batches: int = 8) -> Inferred:
    """Traces of all ranks of a schedule, run with these costs, and inferred."""
    schedule = generate(name, num_ranks=num_ranks, num_micro_batches=num_micro_batches)
    return infer_job(simulate_ranks(plan_of(schedule, costs)).values())


@pytest.mark.parametrize("name", few(["1f1b", "zb1p", "interleaved", "dualpipe"], 2))
def test_the_measured_order_is_read_back(name: str) -> None:
    schedule = generate(name, num_ranks=4, num_micro_batches=8)
    actions = pipeline_actions(measured(name))
    assert actions.height == len(schedule)
    columns = ["rank", "kind", "stage", "micro_batch", "back_stage", "back_micro_batch"]
    assert actions.select(columns).rows() == schedule.actions.select(columns).rows()


@pytest.mark.parametrize(
    ("was", "then"), few([("1f1b", "dualpipe"), ("dualpipe", "zb1p"), ("1f1b", "zbv"), ("zb1p", "1f1b")], 2)
)
def test_another_schedule_takes_what_it_takes_by_the_same_costs(was: str, then: str) -> None:
    costs = COSTS if was != "1f1b" else Costs(forward_ns=100 * US, input_ns=200 * US, weight_ns=0, activation_bytes=1)
    swap = swap_schedule(measured(was, costs), then, weight_share=0.45)
    assert swap.error == pytest.approx(0, abs=0.01)
    other = generate(then, num_ranks=4, num_micro_batches=8)
    parts = other.num_stages // 4
    if was == "1f1b":
        costs = replace(costs, input_ns=110 * US, weight_ns=90 * US, backward_ns=200 * US)
    assert swap.after_ns == pytest.approx(simulate(other, costs.split(parts)).makespan_ns, rel=0.01)


def test_what_was_measured_and_assumed_is_said() -> None:
    run = measured("1f1b", Costs(forward_ns=100 * US, input_ns=200 * US, weight_ns=0))
    swap = swap_schedule(run, "dualpipe", weight_share=0.45)
    assert swap.measured_schedule == "1F1B" and swap.schedule == "DualPipe"
    assert (swap.num_ranks, swap.num_stages, swap.num_micro_batches) == (4, 4, 8)
    assert any("nothing overlapped was measured" in note for note in swap.notes)
    assert "assumed: W is 0.45 of a full backward, because no action separates it" in swap.notes
    assert any(
        "each stage is on 2 ranks then: that takes memory for 2 times the weights" in note for note in swap.notes
    )
    assert not any("times the weights" in note for note in swap_schedule(measured("dualpipe"), "1f1b").notes)
    assert swap.sentence.startswith("DualPipe instead of 1F1B: ")


def test_how_much_of_a_backward_is_w_is_asked_where_only_a_schedule_that_splits_it_needs_it() -> None:
    run = measured("1f1b", Costs(forward_ns=100 * US, input_ns=200 * US, weight_ns=0))
    for share in (None, 1.5):
        with pytest.raises(TraceError, match=r"the share of W in it is unknown; give the share.*--weight-share"):
            swap_schedule(run, "zb1p", weight_share=share)
    assert not any("W is" in note for note in swap_schedule(run, "gpipe").notes)
    halves, none = (swap_schedule(run, "zb1p", weight_share=share).after_ns for share in (0.5, 0.0))
    assert halves < none  # weight gradients fill the bubble


def test_messages_latency_is_measured_where_they_were_waited_for() -> None:
    costs = Costs(forward_ns=100 * US, input_ns=200 * US, weight_ns=0, latency_ns=30 * US)
    swap = swap_schedule(measured("1f1b", costs), "gpipe")
    assert swap.error == pytest.approx(0, abs=0.01)
    other = generate("gpipe", num_ranks=4, num_micro_batches=8)
    assert swap.after_ns == pytest.approx(simulate(other, costs).makespan_ns, rel=0.01)


#  us  0         100        200        300       400
#  r0  [0F0      ]          .          [0B0     ]       each range holds stage0(F), which launches the work, as
#  r1            [1F0       |1B0       ]                weftrace's runtime writes them
NESTED = (((0, "0F0", "stage0(F)"), (300, "0B0", "stage0(B)")), ((100, "1F0", "stage1(F)"), (200, "1B0", "stage1(B)")))


def test_chunks_inside_ranges_of_actions_are_those_actions(tmp_path: Path) -> None:
    traces = []
    for rank, ranges in enumerate(NESTED):
        file = TraceFile(rank=rank, world_size=2)
        for start, action, chunk in ranges:
            file.host(action, start, 20).host(chunk, start + 2, 16)
            file.kernel(GEMM, start + 10, 40, launch=start + 5).kernel(GEMM, start + 50, 50, launch=start + 8)
        (tmp_path / str(rank)).mkdir()
        traces.append(file.trace(tmp_path / str(rank)))
    swap = swap_schedule(infer_job(traces), "gpipe")
    assert (swap.measured_ns, swap.simulated_ns) == (390 * US, 380 * US)  # 90 each, 10 between ranks
    assert pipeline_actions(infer_job(traces)).select("rank", "kind", "stage", "micro_batch").rows() == [
        (0, "F", 0, 0), (0, "B", 0, 0), (1, "F", 1, 0), (1, "B", 1, 0)
    ]  # fmt: skip


def test_phases_that_are_no_pipeline_are_refused_by_name() -> None:
    trace = simulate_ranks(Plan.of([Op(name="attn", duration_ns=US, phase="attn(F)")], name="layers"))[0]
    with pytest.raises(AdviceError, match=r"the phases here are attn\(F\)"):
        swap_schedule(infer_job([trace]), "dualpipe")


def test_stages_without_a_trace_are_named() -> None:
    traces = simulate_ranks(plan_of(generate("1f1b", num_ranks=4, num_micro_batches=8), COSTS))
    with pytest.raises(AdviceError, match=r"no forward \(F\) phase of stage 0, 1, 2 is here"):
        swap_schedule(infer_job([traces[3]]), "dualpipe")


def test_of_several_pipelines_one_is_to_be_chosen() -> None:
    traces = simulate_ranks(plan_of(generate("1f1b", num_ranks=2, num_micro_batches=2), COSTS))
    twice = [*traces.values(), *(replace(trace, rank=rank + 2) for rank, trace in traces.items())]
    with pytest.raises(AdviceError, match="choose the ranks of one"):
        swap_schedule(infer_job(twice), "gpipe")


def test_a_schedule_that_does_not_exist_or_fit_is_refused() -> None:
    run = measured("1f1b")
    with pytest.raises(AdviceError, match="dualpip"):
        swap_schedule(run, "dualpip")
