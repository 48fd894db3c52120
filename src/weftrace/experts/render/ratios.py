"""How long is each GPU busy, as a multiple of the mean? What figures and terminal draw of a placement document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def gpu_ratios(document: Mapping[str, Any], load_LG: Sequence[Sequence[float]]) -> list[list[float]]:
    """[L][G] GPU time / mean GPU time of the layer; 1 throughout a layer of zeros."""
    cluster = document["cluster"]
    speeds = cluster["speed_of_gpu"]
    out = {*cluster["dead"], *cluster["draining"]}
    speed = sum(value for gpu, value in enumerate(speeds) if gpu not in out)
    rows = []
    for loads, gpu_loads in zip(document["loads"], load_LG, strict=True):
        mean = sum(loads) / speed
        rows.append([load / own / mean if mean > 0 else 1.0 for load, own in zip(gpu_loads, speeds, strict=True)])
    return rows
