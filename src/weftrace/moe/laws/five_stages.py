"""How long is a layer of decoding in five stages? The law behind DeepSeek's decode profile.

Transfers hold no SM, so both micro-batches compute on one stream; while one's tokens travel, the other computes. In
issue order, of micro-batches 0 and 1 (-> the transfer that starts there, <- the one that must have ended):

    issue D0 ->  SHARED0 ATTN-0(1)  <- receive D0  MLP0  issue C0 ->  ATTN-1(1)  <- receive C0
    issue D1 ->  SHARED1 ATTN-0(0)  <- receive D1  MLP1  issue C1 ->  ATTN-1(0)  <- receive C1

Between an issue and its receive lies one transfer, or what is computed meanwhile, the longer of the two; the rest is
one after another. Both lines are alike, hence

    layer = 2 [max(dispatch, SHARED + ATTN-0) + MLP + max(combine, ATTN-1)] + 4 (issue + receive)

It is exact for the operation list: a test holds it against the simulated plan.
"""

from __future__ import annotations


def five_stage_layer(
    *,
    dispatch: float,
    combine: float,
    attn_0: float,
    attn_1: float,
    shared: float,
    mlp: float,
    issue: float = 0.0,
    receive: float = 0.0,
) -> float:
    """Time of a layer of two micro-batches, in the unit of the times given, each of one micro-batch.

    dispatch, combine: from the end of the kernel that issues it until the one that receives it may start. issue,
    receive: of these short kernels.
    """
    half = max(dispatch, shared + attn_0) + mlp + max(combine, attn_1)
    return 2 * half + 4 * (issue + receive)


def exposed(*, dispatch: float, combine: float, attn_0: float, attn_1: float, shared: float) -> float:
    """Of that, time in which nothing computes: what transfers take longer than the computation beside them."""
    return 2 * (max(0.0, dispatch - shared - attn_0) + max(0.0, combine - attn_1))
