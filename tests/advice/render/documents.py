"""Documents of the wing, small enough to check with a pencil: a step of 10 ms, replayed in 9.9."""

from __future__ import annotations

from typing import Any

MS = 1_000_000
REPLAY: dict[str, Any] = {
    "span_ns": 10 * MS, "replayed_ns": 9_900_000, "error": -0.01, "is_trustworthy": True, "doubts": [],
    "worst_phase": "mlp(F) 1", "worst_phase_ns": -120_000, "late_starts": 4, "late_ns": 400_000,
    "unexplained_starts": 1, "unexplained_ns": 100_000,
}  # fmt: skip
DOUBTED: dict[str, Any] = {
    **REPLAY, "replayed_ns": 9_200_000, "error": -0.08, "is_trustworthy": False, "doubts": ["its span is −8.0 % off"],
}  # fmt: skip
EXACT: dict[str, Any] = {"is_trusted": True, "answer": "exact", "reasons": [], "is_first": False}
OFF = {**EXACT, "is_trusted": False, "reasons": DOUBTED["doubts"]}
INTERVAL = {**EXACT, "answer": "interval", "reasons": ["1 of 8 ranks is in this plan"]}
MEASURED = {"basis": "measured", "num_pairs": 24, "share": 0.8, "factor": 1.12, "source": ""}
NONE = {"basis": "none", "num_pairs": 0, "share": 0.0, "factor": 1.0, "source": ""}
KEPT: dict[str, Any] = {
    "gap_ns": 2_000, "launch_latency_ns": 5_000, "wait_latency_ns": 1_500, "graph_latency_ns": 0, "drain_ns": 18_000,
    "quiet_latency_ns": 0, "num_pinned": 1,
}  # fmt: skip
WAITS: list[dict[str, Any]] = [
    {"source": "launch", "count": 1200, "confidence": 1.0, "votes_for": None, "votes_against": None},
    {"source": "voted", "count": 12, "confidence": 0.78, "votes_for": 44, "votes_against": 4},
    {"source": "sm", "count": 2, "confidence": 0.8, "votes_for": 8, "votes_against": 0},
]


def parts(**times_ns: int) -> list[dict[str, Any]]:
    """Rows of a table whose times add up to the span."""
    whole = sum(times_ns.values())
    return [{"name": name, "time_ns": ns, "share": ns / whole} for name, ns in times_ns.items()]


CLASSES = parts(compute=6_000_000, communication=3_000_000, **{"SM wait": 500_000, "idle": 400_000})
KERNELS = [
    {
        "name": "void cutlass::device_kernel<fp8::GemmKernel<128, 128, 64>>(Params)",
        "time_ns": 6_000_000,
        "share": 0.606,
    },
    {"name": "evil\x1b[31m[bold]name", "time_ns": 3_000_000, "share": 0.303},
    *parts(**{f"kernel {at}": 90_000 for at in range(10)}),
]
PATH: dict[str, Any] = {
    "schema": "weftrace.critical_path/1", "weftrace": "0.1.0", "source": "train.json.gz", "device_name": "NVIDIA H800",
    "ranks": [0, 1], "num_ops": 3_000, "step": None, "origin_ns": 0,
    "headline": "Computation decides 61 % of the span: 6.0 of 9.9 ms on the critical path, most of it mlp(F).",
    "trust": EXACT, "contention": NONE,
    "replay": REPLAY, "kept": KEPT, "waits": WAITS, "span_ns": 9_900_000, "before_ns": 0,
    "absent_ns": 0, "transfer_most_ns": 0,
    "by_class": CLASSES, "by_phase": parts(**{"mlp(F)": 6_900_000, "dispatch(F)": 3_000_000}),
    "by_family": parts(gemm=6_900_000, deepep=3_000_000), "by_kernel": KERNELS,
    "by_cause": parts(**{"stream order": 8_900_000, "voted wait": 1_000_000}),
    "by_rank": parts(**{"1": 7_000_000, "0": 2_900_000}),
    "steps": [
        {"step": 3, "path_ns": 5_000_000, "rank": 1, "rank_ns": 4_500_000, "what": "dispatch(F)", "time_ns": 3_000_000},
        {"step": 4, "path_ns": 4_900_000, "rank": 0, "rank_ns": 4_900_000, "what": "mlp(F)", "time_ns": 2_000_000},
    ],
    "weakest": {
        "name": "void mlp::kernel(int)", "on_name": "dispatch<8>", "source": "voted", "votes_for": 3,
        "votes_against": 1, "confidence": 0.6,
    },
    "waterfall": [
        {"name": "compute", "time_ns": 6_000_000, "share": 0.6, "alone_ns": 2_500_000, "least_ns": 2_500_000,
         "most_ns": 2_500_000},
        {"name": "communication", "time_ns": 3_000_000, "share": 0.3, "alone_ns": 1_000_000, "least_ns": 1_000_000,
         "most_ns": 1_000_000},
        {"name": "SM wait", "time_ns": 500_000, "share": 0.05, "alone_ns": 600_000, "least_ns": 600_000,
         "most_ns": 600_000},
        {"name": "idle", "time_ns": 400_000, "share": 0.04, "alone_ns": 400_000, "least_ns": 400_000,
         "most_ns": 400_000},
        {"name": "replay error", "time_ns": 100_000, "share": 0.01, "alone_ns": None, "least_ns": None,
         "most_ns": None},
    ],
    "slack": [{"phase": "mlp(F)", "num_ops": 80, "on_path": 60, "least_ns": 0, "median_ns": 20_000}],
    "parts": {"op": [0]}, "notes": ["left out: rank2.json: cut off before its end"],
}  # fmt: skip
WHAT_IF: dict[str, Any] = {
    "schema": "weftrace.what_if/1", "weftrace": "0.1.0", "source": "train.json.gz", "device_name": "NVIDIA H800",
    "ranks": [0], "changes": ["communication ×0.5"], "headline": "communication ×0.5: 9.0 ms instead of 9.2 ms.",
    "trust": OFF, "contention": MEASURED,
    "replay": DOUBTED, "kept": KEPT, "waits": WAITS, "replayed_ns": 9_200_000, "after_ns": 9_000_000,
    "low_ns": 9_000_000, "high_ns": 9_000_000,
    "saved_ns": 200_000, "change": -0.0217, "is_within_error": True, "bottleneck": "compute",
    "before": parts(compute=6_200_000, communication=3_000_000),
    "after": parts(compute=8_800_000, idle=200_000),
    "before_phases": parts(**{"mlp(F)": 9_200_000}), "after_phases": parts(**{"mlp(F)": 9_000_000}),
    "weakest": None, "limits": ["×0.5 is beyond what the trace shows."], "notes": [],
}  # fmt: skip
SENSITIVITY: dict[str, Any] = {
    "schema": "weftrace.sensitivity/1", "weftrace": "0.1.0", "source": "train.json.gz", "device_name": "NVIDIA H800",
    "ranks": [0], "headline": "1 % faster: compute saves most.", "by": 0.01, "kept": KEPT,
    "trust": INTERVAL, "contention": MEASURED, "replay": REPLAY,
    "waits": WAITS, "replayed_ns": 9_900_000,
    "rows": [
        {"kind": "class", "selector": "compute", "time_ns": 7 * MS, "critical_ns": 6 * MS, "saved_ns": 60_000,
         "share": 0.00606, "least_ns": 10_000, "most_ns": 60_000},
        {"kind": "class", "selector": "communication", "time_ns": 8 * MS, "critical_ns": 3 * MS, "saved_ns": 0,
         "share": 0.0, "least_ns": 0, "most_ns": 90_000},
        {"kind": "phase", "selector": "phase:mlp(F)", "time_ns": 7 * MS, "critical_ns": 6 * MS, "saved_ns": 60_000,
         "share": 0.00606, "least_ns": 10_000, "most_ns": 60_000},
    ],
    "curves": [
        {"selector": "communication", "sentence": "communication: flat up to ×1.", "knee": 1.0,
         "points": [{"factor": 0.5, "span_ns": 9_900_000, "change": 0.0, "low_ns": 9_000_000, "high_ns": 9_900_000},
                    {"factor": 2.0, "span_ns": 14_850_000, "change": 0.5, "low_ns": 14_850_000,
                     "high_ns": 14_850_000}]},
    ],
    "notes": [],
}  # fmt: skip
CHECKS: dict[str, Any] = {
    "schema": "weftrace.replay_checks/1", "weftrace": "0.1.0",
    "files": [
        {"name": "in/good.json.gz", "reason": None, "num_ops": 3_000, "num_events": 1_200, "waits": WAITS, "kept": KEPT,
         "replay": REPLAY},
        {"name": "in/off.json", "reason": None, "num_ops": 300, "num_events": 100, "waits": WAITS[:1], "kept": KEPT,
         "replay": DOUBTED},
        {"name": "in/host.json", "reason": "no work on a device is recorded.", "num_ops": 0, "num_events": 0,
         "waits": [], "kept": None, "replay": None},
    ],
}  # fmt: skip
