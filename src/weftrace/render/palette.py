"""The colours of weftrace's pictures: one meaning, one colour, in the terminal, in figures and in the HTML report."""

from __future__ import annotations

from collections.abc import Sequence

from weftrace.alphabet import DRAWN

#: Parts of a span, and classes of device work.
COMPUTE = "#46587a"
COMMUNICATION = "#8a5cd6"
EXPOSED = "#d92d3a"
MEMORY = "#1499a8"
FUSED = "#b0418f"
IDLE = "#b4bbc5"
#: Communication that waits for a rank which came later.
WAITING = "#e8590c"

#: Load of a GPU: below the mean, at it, above it; and placements before, after and at best.
UNDER = "#2f74c8"
LEVEL = "#e2e6eb"
OVER = "#e2631e"
BEFORE = "#a9782f"
AFTER = "#3f8f68"

#: Weights that a GPU receives, and that it sends.
RECEIVED = "#b8a53a"
SENT = "#d88aa8"

#: The row of a replay that is cheaper than the recommended one, and copies of an expert with several.
COPIED = "#1499a8"

#: Text on a light ground (a direction's colour), and on a dark one (a class's colour).
INK = "#000000"
PAPER = "#ffffff"

#: Directions of a phase: those of `weftrace.alphabet.DRAWN`.
FORWARD = "#f3a43b"
BACKWARD = "#2c8f63"
WEIGHT = "#3f7fe0"
#: An input gradient, where pictures tell it from a full backward: those of pipeline schedules.
INPUT = "#45d0d6"

DIRECTION_COLOURS = dict(zip(DRAWN, (FORWARD, BACKWARD, WEIGHT), strict=True))
#: Micro-batches that take turns, by their number: where phases have no direction, boxes are coloured by them.
BATCH_COLOURS = {"0": "#6fb5d6", "1": "#b0563f", "2": "#d88aa8", "3": "#b8a53a"}
#: What a box's colour tells, before its lane's: a direction, or a micro-batch; and the ink on it.
ROLE_COLOURS = {**DIRECTION_COLOURS, **BATCH_COLOURS}
ROLE_INKS = {role: PAPER if role == "1" else INK for role in ROLE_COLOURS}
KIND_COLOURS = {"compute": COMPUTE, "communication": COMMUNICATION, "memory": MEMORY, "fused": FUSED}

#: Bands of a lane picture that are no class of work, in turn: ranks, streams, stages.
BANDS = (COMPUTE, "#7a5a46", "#46706b", "#6b4a72", "#5b6f3f", "#8a4f5d")

#: Parts of idle time, as `idle_account` of a report names them (without `_ns`).
IDLE_PART_COLOURS = {
    "host": "#c98a3c",
    "call": "#e3c26f",
    "launch_latency": "#8fb0a3",
    "turnaround": "#b7b5a4",
    "held": "#7d8fb3",
    "unrecorded": "#b0307a",
    "unknown": "#8a8a8a",
}


def ink_on(ground: str) -> str:
    """Black or white, whichever reads better on a colour, as in the pages' `theme.js`: always a contrast of 4.5."""
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in (c / 255 for c in channels(ground))]
    return INK if sum(k * c for k, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True)) > 0.1791 else PAPER


def mixed(colour: str, ground: str, share: float) -> str:
    """A colour of which a share is the ground's."""
    parts = (int(a + (b - a) * share + 0.5) for a, b in zip(channels(colour), channels(ground), strict=True))
    return "#" + "".join(f"{part:02x}" for part in parts)


def channels(colour: str) -> tuple[int, ...]:
    """Red, green and blue of "#rrggbb", 0 to 255."""
    return tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5))


def lane_colours(names: Sequence[str]) -> list[str]:
    """The colour of each band's boxes that have no direction: its class's, also of "compute 1", else one of `BANDS` in
    turn."""
    classes = {name: KIND_COLOURS.get(name.split(" ")[0]) for name in names}
    others = [name for name, colour in classes.items() if colour is None]
    turn = {name: BANDS[number % len(BANDS)] for number, name in enumerate(others)}
    return [classes[name] or turn[name] for name in names]
