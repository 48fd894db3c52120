"""The documents about experts in words: what the pages and the terminal say alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

#: The rows of every replay that no service runs: its floor and its ceiling.
_BOUNDS = {"once": "planned once, on the first window", "oracle": "an oracle that knows each window"}


def placement_headline(document: Mapping[str, Any]) -> str:
    """The placement in a sentence: how balanced, from where, and how far from what is possible."""
    loads = document["gpu_load"]
    after = mean_of(loads["after"]["balancedness"])
    text = f"Balancedness {balance_text(after)}"
    if loads["before"] is not None:
        before = mean_of(loads["before"]["balancedness"])
        text += f", {'up' if after >= before else 'down'} from {balance_text(before)}"
    certificate = document["certificate"]
    if certificate is None:
        return f"{text}."
    if all(certificate["is_optimal"]):
        return f"{text}: proved the best possible."
    return f"{text}, of at most {balance_text(certificate['bound_balancedness'])} under the same rules."


def replay_headline(document: Mapping[str, Any]) -> str:
    """What the replay recommends in a sentence, with its number."""
    row = document["rows"][document["recommendation"]["row"]]
    gain = document["recommendation"]["gain_points"]
    against = f"{abs(gain):.1f} points {'over' if gain >= 0 else 'under'} the baseline"
    return f"{row_words(row)}: balancedness {balance_text(row['balancedness'])}, {against}."


def row_words(row: Mapping[str, Any]) -> str:
    """A row of a replay in words: "balance on mean of 8, every 4 windows"."""
    if row["solver"] in _BOUNDS:
        return _BOUNDS[row["solver"]]
    text = str(row["solver"])
    if row["estimator"]:
        window = "" if row["window"] is None else f" of {row['window']}"
        text += f" on {row['estimator']}{window}"
    if row["interval"] is not None:
        text += ", every window" if row["interval"] == 1 else f", every {row['interval']} windows"
    return text


def mean_of(values: Sequence[float]) -> float:
    """The mean; 1 for no values, as a placement without a layer is balanced."""
    return math.fsum(values) / len(values) if len(values) else 1.0


def balance_text(value: float) -> str:
    """0.9957, with as many digits as keep what is not perfect from looking perfect."""
    digits = 4
    while digits < 7 and value < 1 - 1e-9 and f"{value:.{digits}f}".startswith("1"):
        digits += 1
    return f"{value:.{4 if value >= 1 - 1e-9 else digits}f}"


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
