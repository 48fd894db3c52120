"""Where experts live: from expert loads to a placement, with proof of how good it is.

    history = wt.experts.read_loads("recorded/")           # what a service counted; generate_loads makes some
    loads = history.total()                                # float64 [layers, experts]
    placement = wt.balance(loads, 288, 32, 4, 8)           # slots, GPUs, nodes, groups of experts
    placement.certificate.gap                              # how far from the best possible, at most
    report = wt.experts.placement_report(placement, loads) # what it does to loads: to show, save and draw
    wt.replan(placement, later, max_moves=0.06)            # follow the loads, moving little
    wt.replay(history, num_slots=288, num_gpus=32)         # which estimator, interval and solver to use

Each part may import those after it: cli; kinds; render; build; document; replays; moves; solvers; traffic; proof;
packing; placement and recorded; constraints; problem; slots; certificate; cluster; loads; arrays; compiled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weftrace.lazy import lazily

if TYPE_CHECKING:
    from weftrace.experts.build import placement_report as placement_report
    from weftrace.experts.build import slot_table as slot_table
    from weftrace.experts.certificate import Certificate as Certificate
    from weftrace.experts.cluster import Cluster as Cluster
    from weftrace.experts.cluster import make_cluster as make_cluster
    from weftrace.experts.document import PlacementReport as PlacementReport
    from weftrace.experts.document import placement_of as placement_of
    from weftrace.experts.document import read_placement as read_placement
    from weftrace.experts.loads import as_loads as as_loads
    from weftrace.experts.moves.break_even import BreakEven as BreakEven
    from weftrace.experts.moves.break_even import break_even as break_even
    from weftrace.experts.moves.moves import Moves as Moves
    from weftrace.experts.moves.moves import moves_between as moves_between
    from weftrace.experts.moves.relabel import relabel as relabel
    from weftrace.experts.moves.replan import Replan as Replan
    from weftrace.experts.moves.replan import replan as replan
    from weftrace.experts.placement import Choice as Choice
    from weftrace.experts.placement import Placement as Placement
    from weftrace.experts.placement import PolicyCost as PolicyCost
    from weftrace.experts.placement import make_placement as make_placement
    from weftrace.experts.proof.certify import certify as certify
    from weftrace.experts.recorded.estimators import Estimator as Estimator
    from weftrace.experts.recorded.estimators import make_estimator as make_estimator
    from weftrace.experts.recorded.generator import generate_loads as generate_loads
    from weftrace.experts.recorded.generator import synthetic_loads as synthetic_loads
    from weftrace.experts.recorded.read import LoadHistory as LoadHistory
    from weftrace.experts.recorded.read import as_history as as_history
    from weftrace.experts.recorded.read import read_loads as read_loads
    from weftrace.experts.recorded.read import save_loads as save_loads
    from weftrace.experts.recorded.read import windows_of as windows_of
    from weftrace.experts.replays.document import ReplayReport as ReplayReport
    from weftrace.experts.replays.document import replay_report as replay_report
    from weftrace.experts.replays.recommend import Recommendation as Recommendation
    from weftrace.experts.replays.recommend import recommend as recommend
    from weftrace.experts.replays.replay import Replay as Replay
    from weftrace.experts.replays.replay import replay as replay
    from weftrace.experts.solvers.balance import balance as balance
    from weftrace.experts.solvers.deepseek import rebalance_experts as rebalance_experts
    from weftrace.experts.solvers.resplit import resplit as resplit
    from weftrace.experts.solvers.slot_budget import share_slots_among_layers as share_slots_among_layers
    from weftrace.experts.traffic.dispatch_table import RealisedShares as RealisedShares
    from weftrace.experts.traffic.dispatch_table import dispatch_table as dispatch_table
    from weftrace.experts.traffic.dispatch_table import realised as realised
    from weftrace.experts.traffic.policy_cost import CostModel as CostModel

if not TYPE_CHECKING:  # a checker would take `__getattr__` to mean that every name exists
    __getattr__, __dir__, __all__ = lazily(__name__)
