"""Which pairs does a tensor mask let through? Its values say so; they are read where that is free, on the CPU.

On a GPU a look at them would stop the program until the GPU is done, and on the meta device there are none. There the
pairs are an upper bound, and say so. A kernel that takes a mask computes every pair, whatever the mask says: model
FLOPs are of the pairs that it lets through, executed FLOPs of all.
"""

from __future__ import annotations

from typing import Any

from weftrace.costs.cost import Status
from weftrace.costs.formulas.pairs import Pairs
from weftrace.costs.registry import Call

MASKED = -1e4
"""A bias this low is a mask, whatever number a program writes for minus infinity (-1e4, -1e9, the lowest of the dtype):
exp of it is 0 in every dtype."""

UNREAD = "all pairs: the mask's values were not read"
_READ = "pairs that the mask's values let through; the kernel computes all"


def masked_pairs(call: Call, mask: Any, batch: int, heads: int, num_q: int, num_k: int, *, most: int) -> Pairs:
    """Pairs summed over batch and heads. mask: of booleans, True may look, or added to the scores, of a shape that
    broadcasts to (batch, heads, num_q, num_k). most: pairs of one head that another rule, a causal one, lets through.
    """
    every = batch * heads * num_q * num_k
    through = call.num_above(mask, MASKED, (batch, heads, num_q, num_k))
    seen = heads * most if through is None else min(through, heads * most)
    status, note = (Status.UPPER_BOUND, UNREAD) if through is None else (Status.EXACT, _READ)
    return Pairs(seen=seen, every=every, queries=batch * heads * num_q, skips=False, status=status, note=note)
