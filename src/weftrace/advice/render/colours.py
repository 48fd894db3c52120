"""Which colour a class of the critical path has, in figures and on pages: those of device work are everybody's."""

from __future__ import annotations

from weftrace.render import palette

#: Class -> colour of figures. In the order in which bars and legends list them.
CLASS_COLOURS = {
    "compute": palette.COMPUTE, "communication": palette.COMMUNICATION, "fused": palette.FUSED,
    "memory": palette.MEMORY, "launch": "#d9b27c", "host": "#8d6e47", "dependency": "#b8a53a",
    "SM wait": palette.WAITING, "idle": palette.IDLE, "unrecorded": palette.IDLE_PART_COLOURS["unrecorded"],
}  # fmt: skip
#: Class -> role of a page's style sheet.
CLASS_ROLES = {
    "compute": "compute", "communication": "communication", "fused": "fused", "memory": "memory", "launch": "launch",
    "host": "hue2", "dependency": "hue6", "SM wait": "waiting", "idle": "idle",
    "unrecorded": "unrecorded",
}  # fmt: skip
#: What is measured and not replayed.
ERROR_COLOUR = palette.LEVEL
