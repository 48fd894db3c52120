"""Why a policy was chosen: what each would cost, side by side."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyCost:
    """What one policy would cost, by a model of the links and the experts' GEMMs: an estimate, never a measurement.

    policy: "global", "hierarchical" or "semi-hierarchical".
    balancedness: mean over layers of mean / maximum GPU time.
    compute_us, dispatch_us, combine_us: of an average layer and micro-batch; nothing hides anything.
    remote_nodes: distinct nodes other than its own that a token visits, on average.
    total_us: the sum of the three times, by which policies are compared.
    """

    policy: str
    balancedness: float
    compute_us: float
    dispatch_us: float
    combine_us: float
    remote_nodes: float
    total_us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The policies that were possible, cheapest first, and a sentence that says why the first was taken.

    assumptions: what the model took for granted (model shape, hardware, tokens), one "name: value" each.
    ruled_out: (policy, why it was not possible), one pair each.
    """

    costs: tuple[PolicyCost, ...]
    reason: str
    assumptions: tuple[str, ...] = ()
    ruled_out: tuple[tuple[str, str], ...] = ()
