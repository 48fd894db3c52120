"""Pipeline schedules as values: made, checked, simulated, compared, drawn, and run on torch.distributed.

    schedule = wt.pipeline.generate("dualpipe", num_stages=8, num_micro_batches=20)
    wt.pipeline.check(schedule)                            # every chunk once, in an order that can run
    print(wt.pipeline.to_text(schedule))
    run = wt.pipeline.simulate(schedule, wt.pipeline.Costs.units(FB=3))
    wt.show(run)                                           # the picture; run.bubble_ns, run.ranks, run.actions
    wt.pipeline.compare(run.costs, num_devices=8, num_micro_batches=32).ranked[0]    # which is best, by its costs

`weftrace.pipeline.runtime` runs a schedule, and is the only part that needs torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weftrace.lazy import lazily

if TYPE_CHECKING:
    from weftrace.pipeline.as_plan import plan_of as plan_of
    from weftrace.pipeline.choices.document import recommendation_report as recommendation_report
    from weftrace.pipeline.choices.recommendation import Recommendation as Recommendation
    from weftrace.pipeline.choices.recommendation import recommend as recommend
    from weftrace.pipeline.comparing.comparison import Candidate as Candidate
    from weftrace.pipeline.comparing.comparison import Comparison as Comparison
    from weftrace.pipeline.comparing.comparison import candidates as candidates
    from weftrace.pipeline.comparing.comparison import compare as compare
    from weftrace.pipeline.comparing.document import comparison_of as comparison_of
    from weftrace.pipeline.costs import Costs as Costs
    from weftrace.pipeline.costs_document import read_costs as read_costs
    from weftrace.pipeline.exports.deepspeed import to_deepspeed as to_deepspeed
    from weftrace.pipeline.exports.megatron import to_megatron as to_megatron
    from weftrace.pipeline.exports.torchtitan import to_torchtitan as to_torchtitan
    from weftrace.pipeline.exports.values import Export as Export
    from weftrace.pipeline.generators.families import FAMILIES as FAMILIES
    from weftrace.pipeline.generators.families import Family as Family
    from weftrace.pipeline.generators.families import family_of as family_of
    from weftrace.pipeline.generators.families import generate as generate
    from weftrace.pipeline.laws.by_schedule import Claim as Claim
    from weftrace.pipeline.laws.by_schedule import Law as Law
    from weftrace.pipeline.laws.by_schedule import laws_of as laws_of
    from weftrace.pipeline.measured.run_costs import costs_of_run as costs_of_run
    from weftrace.pipeline.measured.runs import MeasuredRun as MeasuredRun
    from weftrace.pipeline.measured.runs import run_of as run_of
    from weftrace.pipeline.measured.sourced_costs import SourcedCosts as SourcedCosts
    from weftrace.pipeline.measured.sourced_costs import costs_of_trace as costs_of_trace
    from weftrace.pipeline.notation import differences as differences
    from weftrace.pipeline.notation import from_text as from_text
    from weftrace.pipeline.notation import from_torch_csv as from_torch_csv
    from weftrace.pipeline.notation import read_schedule as read_schedule
    from weftrace.pipeline.notation import to_text as to_text
    from weftrace.pipeline.notation import to_torch_csv as to_torch_csv
    from weftrace.pipeline.passes.fitting import fit_order as fit_order
    from weftrace.pipeline.passes.merging import merge_neighbours as merge_neighbours
    from weftrace.pipeline.passes.middle_switch import switch_middle as switch_middle
    from weftrace.pipeline.passes.offloading import offload_activations as offload_activations
    from weftrace.pipeline.passes.splitting import split_backward as split_backward
    from weftrace.pipeline.passes.weight_placement import most_held as most_held
    from weftrace.pipeline.passes.weight_placement import place_weights as place_weights
    from weftrace.pipeline.passes.without_backward import forward_only as forward_only
    from weftrace.pipeline.plan_vs_measured.document import slip_report as slip_report
    from weftrace.pipeline.plan_vs_measured.planned_and_measured import Slip as Slip
    from weftrace.pipeline.plan_vs_measured.planned_and_measured import slip as slip
    from weftrace.pipeline.render.page import render_schedules_html as render_schedules_html
    from weftrace.pipeline.render.scene import svg_of as svg_of
    from weftrace.pipeline.rules import check as check
    from weftrace.pipeline.schedule import ACTION_SCHEMA as ACTION_SCHEMA
    from weftrace.pipeline.schedule import Action as Action
    from weftrace.pipeline.schedule import Schedule as Schedule
    from weftrace.pipeline.simulation import Simulation as Simulation
    from weftrace.pipeline.simulation import simulate as simulate
    from weftrace.pipeline.steps.predicted import Run as Run
    from weftrace.pipeline.steps.predicted import predicted_step as predicted_step
    from weftrace.pipeline.steps.whole_step import WholeStep as WholeStep
    from weftrace.pipeline.steps.whole_step import whole_step as whole_step

if not TYPE_CHECKING:  # a checker would take `__getattr__` to mean that every name exists
    __getattr__, __dir__, __all__ = lazily(__name__)
