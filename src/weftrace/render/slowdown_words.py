"""What the numbers of a job's slowdown mean: the report of a job and the command of stragglers say them alike."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

#: key -> (term, what it means).
SLOWDOWN_TERMS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "slowdown": (
            "Slowdown S",
            "A step of the job, replayed with measured durations / the same with every operation at its peers' pace: "
            "each type of computation at the mean of all its instances, each type of transfer at the median, what "
            "hosts need at the lower median of the ranks. 1 is none. From ByteDance's what-if study of stragglers.",
        ),
        "slowdown_replay": (
            "Replay of a job",
            "What its ranks recorded as a plan (who runs what in which order, and waits for whom), run again with "
            "other durations. S and its parts are trusted where the replay with measured durations is within 3 % of "
            "what was measured, and S is not below 0.99.",
        ),
        "slowdown_lost": (
            "Lost GPU hours",
            "(1 − 1/S) of the time of all ranks in the recorded steps: what S = 1 would have saved.",
        ),
        "slowdown_worst": (
            "M_w",
            "The part of the slowdown that goes when the slowest 3 % of the ranks, one at least, are at their peers' "
            "pace. Near 100 %: few ranks explain it; near 0: it lies elsewhere (stages, lengths, transfers).",
        ),
        "slowdown_cause": (
            "Cause of a slowdown",
            "What makes the job slower, whose it is, and what a step would lose by repairing it alone. Spread: single "
            "operations that differ without a pattern.",
        ),
        "slowdown_rank": (
            "S_w of a rank",
            "A step with all operations but this rank's at their peers' pace / one with all at that pace. Less 1: what "
            "the rank alone adds.",
        ),
        "slowdown_stage": (
            "S_s of a stage",
            "A step with all operations but this stage's at their peers' pace / one with all at that pace. Below 1: "
            "the stage computes for less time than the others.",
        ),
        "slowdown_type": (
            "S_t of a type of operation",
            "A step with all operations but those of this type at their peers' pace / one with all at that pace.",
        ),
    }
)
