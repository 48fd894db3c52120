"""HTML of the documents about experts: a placement (`weft.placement/1`), a replay (`weft.replay/1`), each one page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from weft.report.page import render_page

STYLES = ("page.css", "experts.css")

#: Significant digits of the loads and shares that a page holds; the document has them all.
DIGITS = 6

_MOVE_COLUMNS = ("round", "layer", "expert", "slot", "from_slot")


def render_placement_html(document: Mapping[str, Any]) -> str:
    """One self-contained page for a placement document (`weft.placement/1`), as text.

    Raises ValueError where the document holds a NaN or an infinity, which JSON cannot.
    """
    return render_page(
        "experts_placement.html",
        entry="experts_placement",
        styles=STYLES,
        blocks=[("weft-placement", placement_block(document))],
        title=document["source"] or "placement",
        headline=placement_headline(document),
        version=document["weft"],
    )


def render_replay_html(document: Mapping[str, Any]) -> str:
    """One self-contained page for a replay document (`weft.replay/1`), as text.

    Raises ValueError where the document holds a NaN or an infinity, which JSON cannot.
    """
    return render_page(
        "experts_replay.html",
        entry="experts_replay",
        styles=STYLES,
        blocks=[("weft-replay", document)],
        title=document["source"] or "replay",
        headline=replay_headline(document),
        version=document["weft"],
    )


def placement_block(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document as the page holds it: loads and shares of `DIGITS` digits, the list of moves as columns.

    A slot names its GPU, so the moves are told without the GPUs: {"round": [...], "layer": [...], "expert": [...],
    "slot": [...], "from_slot": [...]}.
    """
    moves = document["moves"]
    if moves is not None:
        columns = {name: [move[name] for move in moves["list"]] for name in _MOVE_COLUMNS}
        moves = {**moves, "list": columns}
    gpu_load = {
        which: None if told is None else {**told, "load": _short(told["load"])}
        for which, told in document["gpu_load"].items()
    }
    short = {name: _short(document[name]) for name in ("share_of_slot", "loads")}
    return {**document, **short, "gpu_load": gpu_load, "moves": moves}


def placement_headline(document: Mapping[str, Any]) -> str:
    """The placement in a sentence: how balanced, from where, and how far from what is possible."""
    loads = document["gpu_load"]
    after = _mean(loads["after"]["balancedness"])
    text = f"Balancedness {_balance(after)}"
    if loads["before"] is not None:
        before = _mean(loads["before"]["balancedness"])
        text += f", {'up' if after >= before else 'down'} from {_balance(before)}"
    certificate = document["certificate"]
    if certificate is None:
        return f"{text}."
    if all(certificate["is_optimal"]):
        return f"{text}: proved the best possible."
    return f"{text}, of at most {_balance(certificate['bound_balancedness'])} under the same rules."


def replay_headline(document: Mapping[str, Any]) -> str:
    """What the replay recommends in a sentence, with its number."""
    row = document["rows"][document["recommendation"]["row"]]
    gain = document["recommendation"]["gain_points"]
    against = f"{abs(gain):.1f} points {'over' if gain >= 0 else 'under'} the baseline"
    return f"{row_words(row)}: balancedness {_balance(row['balancedness'])}, {against}."


def row_words(row: Mapping[str, Any]) -> str:
    """A row of a replay in words: "balance on mean of 8, every 4 windows"."""
    text = str(row["solver"])
    if row["estimator"]:
        window = "" if row["window"] is None else f" of {row['window']}"
        text += f" on {row['estimator']}{window}"
    if row["interval"] is not None:
        text += ", every window" if row["interval"] == 1 else f", every {row['interval']} windows"
    return text


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _balance(value: float) -> str:
    """0.9957, with as many digits as keep what is not perfect from looking perfect."""
    digits = 4
    while digits < 7 and value < 1 - 1e-9 and f"{value:.{digits}f}".startswith("1"):
        digits += 1
    return f"{value:.{4 if value >= 1 - 1e-9 else digits}f}"


def _short(value: Any) -> Any:
    """The value with every float inside it cut to `DIGITS` significant digits."""
    if isinstance(value, float):
        short = float(f"{value:.{DIGITS}g}")
        return int(short) if short.is_integer() and abs(short) < 1e15 else short
    if isinstance(value, Mapping):
        return {key: _short(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_short(inner) for inner in value]
    return value
