"""Where experts live: from expert loads to a placement, with proof of how good it is."""

from weftrace.experts.certificate import Certificate, certify
from weftrace.experts.choice import Choice, PolicyCost
from weftrace.experts.cluster import Cluster, make_cluster
from weftrace.experts.document import placement_document, placement_of, read_placement
from weftrace.experts.loads import as_loads
from weftrace.experts.moves.break_even import BreakEven, break_even
from weftrace.experts.moves.moves import Moves, moves_between
from weftrace.experts.moves.relabel import relabel
from weftrace.experts.moves.replan import Replan, replan
from weftrace.experts.placement import Placement, make_placement
from weftrace.experts.recorded.estimators import Estimator, make_estimator
from weftrace.experts.recorded.generator import generate_loads
from weftrace.experts.recorded.read import LoadHistory, as_history, read_loads, windows_of
from weftrace.experts.recorded.save_loads import save_loads
from weftrace.experts.recorded.synthetic import synthetic_loads
from weftrace.experts.replays.document import replay_document
from weftrace.experts.replays.recommend import Recommendation, recommend
from weftrace.experts.replays.replay import Replay, replay
from weftrace.experts.solvers.balance import balance
from weftrace.experts.solvers.deepseek import rebalance_experts
from weftrace.experts.solvers.resplit import resplit
from weftrace.experts.solvers.slot_budget import share_slots_among_layers
from weftrace.experts.traffic.dispatch_table import RealisedShares, dispatch_table, realised
from weftrace.experts.traffic.policy_cost import CostModel

__all__ = [
    "BreakEven",
    "Certificate",
    "Choice",
    "Cluster",
    "CostModel",
    "Estimator",
    "LoadHistory",
    "Moves",
    "Placement",
    "PolicyCost",
    "RealisedShares",
    "Recommendation",
    "Replan",
    "Replay",
    "as_history",
    "as_loads",
    "balance",
    "break_even",
    "certify",
    "dispatch_table",
    "generate_loads",
    "make_cluster",
    "make_estimator",
    "make_placement",
    "moves_between",
    "placement_document",
    "placement_of",
    "read_loads",
    "read_placement",
    "realised",
    "rebalance_experts",
    "recommend",
    "relabel",
    "replan",
    "replay",
    "replay_document",
    "resplit",
    "save_loads",
    "share_slots_among_layers",
    "synthetic_loads",
    "windows_of",
]
