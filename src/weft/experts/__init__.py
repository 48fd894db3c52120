"""Where experts live: from expert loads to a placement, with proof of how good it is."""

from weft.experts.balance import balance
from weft.experts.break_even import BreakEven, break_even
from weft.experts.certificate import Certificate, certify
from weft.experts.choice import Choice, PolicyCost
from weft.experts.cluster import Cluster, make_cluster
from weft.experts.deepseek import rebalance_experts
from weft.experts.dispatch_table import RealisedShares, dispatch_table, realised
from weft.experts.document import placement_document, placement_of, read_placement
from weft.experts.estimators import Estimator, make_estimator
from weft.experts.generator import generate_loads
from weft.experts.loads import as_loads
from weft.experts.moves import Moves, moves_between
from weft.experts.placement import Placement, make_placement
from weft.experts.policy_cost import CostModel
from weft.experts.recommend import Recommendation, recommend
from weft.experts.recorded import LoadHistory, as_history, read_loads, windows_of
from weft.experts.relabel import relabel
from weft.experts.replan import Replan, replan
from weft.experts.replay import Replay, replay
from weft.experts.replay_document import replay_document
from weft.experts.resplit import resplit
from weft.experts.save_loads import save_loads
from weft.experts.slot_budget import share_slots_among_layers
from weft.experts.synthetic import synthetic_loads

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
