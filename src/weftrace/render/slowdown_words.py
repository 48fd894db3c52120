"""What the numbers of a job's slowdown mean: the report of a job and the command of stragglers say them alike."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

#: key -> (term, what it means).
SLOWDOWN_TERMS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "slowdown": (
            "Slowdown S",
            "A step of the job, replayed with measured durations / the same step with every "
            "operation at the pace of its peers. That pace is the mean for each type of computation, the "
            "median for each type of transfer, and the lower median of the ranks for the time of hosts. S = "
            "1 means no slowdown. The method is from ByteDance's what-if study of stragglers.",
        ),
        "slowdown_replay": (
            "Replay of a job",
            "The recorded run as a plan (which rank runs which operation in which order, and what it "
            "waits for), simulated again with other durations. S and its parts are trusted if the replay "
            "with measured durations is within 3 % of the measured time and S is at least 0.99.",
        ),
        "slowdown_lost": (
            "Lost GPU hours",
            "(1 − 1/S) of the time of all ranks in the recorded steps. S = 1 would have saved this time.",
        ),
        "slowdown_worst": (
            "M_w",
            "The share of the slowdown that disappears if the slowest 3 % of the ranks (at least "
            "one) run at the pace of their peers. Near 100 %: few ranks explain it. Near 0: the cause is "
            "elsewhere (stages, sequence lengths, transfers).",
        ),
        "slowdown_cause": (
            "Cause of a slowdown",
            "What makes the job slower, which rank or stage it belongs to, and how much shorter a "
            "step would be if only this were repaired. Spread: single operations that differ without a "
            "pattern.",
        ),
        "slowdown_rank": (
            "S_w of a rank",
            "A step in which only this rank keeps its own durations / a step with all operations at "
            "the pace of their peers. S_w − 1 is what the rank alone adds.",
        ),
        "slowdown_stage": (
            "S_s of a stage",
            "A step in which only this stage keeps its own durations / a step with all operations at "
            "the pace of their peers. Below 1: the stage computes for less time than the others.",
        ),
        "slowdown_type": (
            "S_t of a type of operation",
            "A step in which only this type keeps its own durations / a step with all operations at "
            "the pace of their peers.",
        ),
    }
)
