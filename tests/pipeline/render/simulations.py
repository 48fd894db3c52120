"""Small simulated schedules for the tests of pictures."""

from __future__ import annotations

from tests.pipeline.passes.orders import one_f_one_b
from weftrace.pipeline.costs import Costs
from weftrace.pipeline.generators.dualpipe import dualpipe, dualpipe_v
from weftrace.pipeline.simulation import Simulation, simulate

UNITS = Costs.units()
#: Costs that are no units: messages take time, chunks differ, activations have a size.
MEASURED = Costs(
    forward_ns=97_400_000, input_ns=111_600_000, weight_ns=29_800_000, overlapped_ns=129_012_345, latency_ns=2_000_001,
    message_bytes=1 << 24, bytes_per_s=5e10, activation_bytes=1 << 30, source="a profile",
)  # fmt: skip


def f1b(num_stages: int = 4, num_micro_batches: int = 8, costs: Costs = UNITS) -> Simulation:
    """1F1B."""
    schedule = one_f_one_b(num_stages, num_micro_batches)
    return simulate(schedule.with_actions(schedule.actions, name="1F1B"), costs)


def dual(num_stages: int = 8, num_micro_batches: int = 20, costs: Costs = UNITS) -> Simulation:
    """DualPipe, two directions."""
    return simulate(dualpipe(num_stages, num_micro_batches), costs)


def vee(num_ranks: int = 4, num_micro_batches: int = 12, costs: Costs = MEASURED) -> Simulation:
    """DualPipeV, two chunks a rank, by measured costs."""
    return simulate(dualpipe_v(num_ranks, num_micro_batches), costs)
