"""What the terminal, Markdown, the page and the docs say alike of comparisons, and what the terms mean."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

#: Form of a figure, as `gates.FIGURES` has it -> what it is, of a step, mean over ranks.
FIGURE_TERMS: Mapping[str, str] = MappingProxyType(
    {
        "span": "The step's length: median over the steps that count. All others are means over them.",
        "compute": "Time in which compute kernels ran, fused ones among them.",
        "exposed": "Communication time with no computation beside it; of a job, less what ranks waited for a late one.",
        "exposed:ROLE": "The same of one role: exposed:data of kernels that move data, exposed:barrier of those that "
        "only wait.",
        "lateness": "Of a job: time in which ranks waited, exposed, for the one that began a collective last.",
        "memory": "Copies and sets with neither computation nor communication beside them.",
        "idle": "Time in which nothing ran on the device.",
        "idle:CAUSE": "The same of one cause: host_wait, dependency_wait, kernel_gap or unknown.",
        "communication": "Time in which communication ran, hidden or not.",
        "hidden": "The share of communication time that is hidden behind computation. Its limit is in points: with "
        "--fail-below hidden=2% 60 % may fall to 58 %.",
        "launches": "Kernels, copies and sets that start on the device. Its limit is a number or a percentage.",
        "family:NAME": "Durations of the kernels of one family, hidden or not: family:gemm.",
        "kernel:REGEX": "Durations of the kernels whose name the regular expression fits: kernel:flash_.*bwd.",
        "operator:NAME": "Durations of what an operator launched itself: operator:aten::mm.",
        "phase:NAME": "Durations of what a phase (a host annotation) launched: phase:attn(F).",
        "rank:N": "The length of the steps of one rank: median over the steps that count.",
    }
)
