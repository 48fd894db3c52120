"""The colours of weft's pictures: one meaning, one colour, in the terminal, in figures and in the HTML report."""

from __future__ import annotations

#: Parts of a span, and classes of device work.
COMPUTE = "#4878b0"
COMMUNICATION = "#5fa8a4"
EXPOSED = "#d64545"
MEMORY = "#9b72b5"
IDLE = "#b4b4b4"

#: Text on a light ground (a direction's colour), and on a dark one (a class's colour).
INK = "#141414"
PAPER = "#ffffff"

#: Directions of a phase.
FORWARD = "#f0a04b"
BACKWARD = "#6fb36a"
WEIGHT = "#6ba3d9"

DIRECTION_COLOURS = {"F": FORWARD, "B": BACKWARD, "W": WEIGHT}
KIND_COLOURS = {"compute": COMPUTE, "communication": COMMUNICATION, "memory": MEMORY}

#: Causes of idle time, as `idle_causes` of a report names them (without `_ns`).
IDLE_CAUSE_COLOURS = {
    "host_wait": "#c98a3c",
    "dependency_wait": "#7d8fb3",
    "kernel_gap": "#c9c9c9",
    "unknown": "#8a8a8a",
}
