"""What do waves hide? A fused kernel sends, multiplies and sends back a few experts at a time.

DeepGEMM's MegaMoE (DeepSeek-V4 report) cuts a layer's experts into waves: while one wave multiplies, tokens of the
next arrive and answers of the one before leave. Dispatch and combine share the link, n waves are alike:

    link      D1 D2 C1 D3 C2 ... Dn C(n-1) Cn
    compute      G1 G2 G3 ...      Gn

While a wave's D + C is no longer than its G, the link waits for computation, and only the first dispatch and the last
combine are seen:

    serial = D + G + C          waves = G + (D + C) / n          speed-up = serial / waves < 1 + (D + C) / G

**When is all hidden?** A row is 6 h I FLOPs (three products h x I), and moves 3 h bytes (FP8 there, BF16 back), so
D + C <= G means

    C / B <= 6 h I / 3 h = 2 I FLOP/B          6,144 for DeepSeek-V4-Pro (I = 3,072), 4,096 for V4-Flash (I = 2,048)

C: FLOP/s that the products reach, B: bytes/s of the link. At that point the speed-up is largest, 2 n / (n + 1): 1.92,
which the report gives as theory, at n = 24; for which shape it is meant there, we do not know.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def largest_flops_per_byte(intermediate_size: int, bytes_per_element: float = 3.0) -> float:
    """C / B up to which waves hide all communication. bytes_per_element: of hidden, there and back together."""
    return 6 * intermediate_size / bytes_per_element


def waves_time(dispatch: float | Floats, compute: float | Floats, combine: float | Floats, num_waves: int) -> Floats:
    """Time of `num_waves` equal waves, in the unit of the times given, each of the whole layer: numbers or arrays."""
    each_dispatch, each_compute, each_combine = (np.asarray(part) / num_waves for part in (dispatch, compute, combine))
    link = computed = np.zeros(())
    for wave in range(num_waves + 1):
        before = computed  # the end of the wave before, whose answers leave after this wave's tokens have come
        if wave < num_waves:
            link = link + each_dispatch
            computed = np.maximum(computed, link) + each_compute
        if wave:
            link = np.maximum(link, before) + each_combine
    return link


def waves_speed_up(dispatch: float, compute: float, combine: float, num_waves: int) -> float:
    """How many times as fast as dispatch, compute and combine one after another."""
    return float((dispatch + compute + combine) / waves_time(dispatch, compute, combine, num_waves))
