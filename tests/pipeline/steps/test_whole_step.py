"""A whole step from one chunk, against the step that DeepSeek published."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from weftrace.errors import ScheduleError
from weftrace.facts import hardware, model_config
from weftrace.pipeline import Action, Costs, Schedule, simulate
from weftrace.pipeline.generators.dualpipe import dualpipe
from weftrace.pipeline.measured.phase_costs import costs_of_phases
from weftrace.pipeline.steps.bubble_slip import bubble_slip
from weftrace.pipeline.steps.published import published_step, published_steps
from weftrace.pipeline.steps.token_flops import flops_per_token
from weftrace.pipeline.steps.whole_step import WholeStep, rate_of, whole_step
from weftrace.trace import read
from weftrace.units import S

(PUBLISHED,) = published_steps()


def published_shape(costs: Costs) -> WholeStep:
    return whole_step(
        simulate(dualpipe(16, 120), costs),
        num_ranks=2048,
        tokens_per_micro_batch=4096,
        optimizer_ns=290_000_000,
        flops=flops_per_token(model_config("deepseek-v3"), 4096),
        peak_flops_per_s=hardware("H800").peak("bf16"),
    )


def test_two_ranks_by_pencil() -> None:
    # rank 0  F0 F0 .. .. B0 B0      F = 10, B = 20, nothing sent
    # rank 1     F1 B1 F1 B1         0: F 0-10, F 10-20, B 40-60, B 70-90; 1: F 10-20, B 20-40, F 40-50, B 50-70
    order = [(0, "F", 0), (0, "F", 1), (0, "B", 0), (0, "B", 1), (1, "F", 0), (1, "B", 0), (1, "F", 1), (1, "B", 1)]
    actions = [Action(rank=r, kind=k, stage=r, micro_batch=m) for r, k, m in order]  # type: ignore[arg-type]
    schedule = Schedule.of(actions, name="by hand", rank_of=[[0, 1]], num_micro_batches=2)
    times = simulate(schedule, Costs(forward_ns=10, input_ns=12, weight_ns=8))
    step = whole_step(times, num_ranks=8, tokens_per_micro_batch=100, optimizer_ns=5)
    assert [(part.name, part.time_ns, part.fewest, part.most) for part in step.parts] == [
        ("1F", 20, 2, 2), ("bubble", 30, None, None), ("1B", 40, 2, 2), ("optimizer", 5, None, None),
    ]  # fmt: skip
    assert step.step_ns == 95 and step.num_pipelines == 4 and step.tokens == 2 * 4 * 100
    assert step.tokens_per_s == pytest.approx(800 / 95e-9)
    assert step.flops_per_s("causal") is None and step.mfu("full") is None


def test_ranks_that_are_no_whole_pipelines_and_a_span_are_refused() -> None:
    schedule, costs = dualpipe(4, 8), Costs.units()
    with pytest.raises(ScheduleError, match="10 ranks cannot be a whole number of pipelines of 4"):
        whole_step(simulate(schedule, costs), num_ranks=10, tokens_per_micro_batch=1)
    with pytest.raises(ScheduleError, match="barrier"):
        whole_step(simulate(schedule, costs, "span"), num_ranks=8, tokens_per_micro_batch=1)


def test_op_counts_of_the_published_step_are_exact() -> None:
    actions = dualpipe(16, 120).actions
    counts = {(kind, rank): len(own) for (kind, rank), own in actions.group_by("kind", "rank")}
    of = {kind: [counts[kind, rank] for rank in range(16)] for kind in ("F", "B", "I", "W", "F&B")}
    assert {kind: (min(each), max(each)) for kind, each in of.items()} == {
        "F": (17, 23), "B": (8, 9), "I": (8, 15), "W": (8, 15), "F&B": (97, 103),
    }  # fmt: skip
    assert of["I"] == of["W"]
    step = published_shape(Costs.units())
    assert [(part.name, part.fewest, part.most) for part in step.parts] == [
        ("1F", 17, 23), ("bubble", None, None), ("1B", 17, 23), ("1W", 8, 15), ("1F1B", 97, 103),
        ("optimizer", None, None),
    ]  # fmt: skip


def test_the_parts_of_deepseeks_chunk_beside_the_published_ones(shared_data: Path) -> None:
    step = published_shape(costs_of_phases(read(shared_data / "deepseek-v3-train.json.gz")).costs())
    assert sum(part.time_ns for part in step.parts) == step.step_ns
    overlapped = step.part("1F1B").time_ns
    assert overlapped / S == pytest.approx(12.95, abs=0.005)
    assert overlapped / PUBLISHED.parts_ns["1F1B"] - 1 == pytest.approx(-0.072, abs=0.001)
    # Serial upper bounds: what runs alone is predicted longer than it was.
    assert step.part("1F").time_ns > PUBLISHED.parts_ns["1F"]


def test_rates_of_the_published_step_follow_from_flops_count() -> None:
    step = published_shape(Costs.units())
    assert step.tokens == 15_360 * 4_096
    assert step.tokens / PUBLISHED.step_ns * S * 86_400 / 1e9 == pytest.approx(272.80, abs=0.005)
    for attention, tflops, mfu in (("full", 432.47, 0.43728), ("causal", 385.15, 0.38943)):
        rate = rate_of(step, PUBLISHED.step_ns, attention)  # type: ignore[arg-type]
        assert rate / 1e12 == pytest.approx(tflops, abs=0.005)
        assert step.peak_flops_per_s and rate / step.peak_flops_per_s == pytest.approx(mfu, abs=0.000005)
        assert int(rate / 1e12) == PUBLISHED.flops_per_s[attention] / 1e12
        assert round(rate / step.peak_flops_per_s, 4) == PUBLISHED.mfu[attention]


def test_the_published_bubble_is_slip_beyond_what_the_schedule_makes() -> None:
    summary = bubble_slip(dualpipe(16, 120), PUBLISHED)
    assert 0.79 * S < summary.law_ns < summary.law_most_ns < 0.93 * S
    assert summary.law_ns + summary.slip_ns == summary.published_ns == 2.06 * S
    # Either cause alone makes the published bubble, and a little less of it does not.
    schedule, costs = dualpipe(16, 120), summary.costs
    assert costs is not None

    def idle_ns(**change: object) -> float:
        return float(simulate(schedule, replace(costs, **change)).ranks["idle_ns"].mean())  # type: ignore[arg-type]

    assert (
        idle_ns(latency_ns=summary.alone_latency_ns - 1)
        < summary.published_ns
        <= idle_ns(latency_ns=summary.alone_latency_ns)
    )
    assert summary.alone_slower is not None and 0.05 < summary.alone_slower < 0.15


def test_published_parts_add_up() -> None:
    assert abs(sum(PUBLISHED.parts_ns.values()) - PUBLISHED.step_ns) < 0.03 * S
    assert published_step("dualpipe", 16, 120, 2048) == PUBLISHED
    assert published_step("1f1b", 16, 120, 2048) is None
