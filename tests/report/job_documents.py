"""Documents of jobs with a late rank, small enough for a pencil: what the page of many ranks is tested on.

Each step takes 10 ms. All ranks compute from 0; all but the late one come to the step's all-reduce at 6 ms, the late
one at 9 ms, in every step but the first, in which all come at 6 ms. The all-reduce transfers for 1 ms from the last
start; nothing runs for the rest of the step. In ms, drawn for a step with the late rank, and for the first one:

    rank 0   compute 0-6  all_reduce 6-10 (waits 6-9)      compute 0-6  all_reduce 6-7   idle 7-10
    late     compute 0-9  all_reduce 9-10                  compute 0-6  all_reduce 6-7   idle 7-10

Rank r's file begins r x 0.1 ms after the job's zero, and everything in it is as much earlier by its own clock, so that
on the common one the ranks meet.
"""

from __future__ import annotations

from tests.report.documents import Document, Event, document, rank

MS = 1_000_000
STEP, ON_TIME, LATE, TRANSFER = 10 * MS, 6 * MS, 9 * MS, 1 * MS
SHIFT = MS // 10


def late_job(number: int = 4, *, late: int = 1, steps: int = 3) -> Document:
    """So many ranks and steps, and the rank that is late in all steps but the first."""
    names = [f"rank {r}" for r in range(number)]
    waited, num_late = LATE - ON_TIME, steps - 1
    ranks = [_rank(r, steps, is_late=r == late) for r in range(number)]
    of_ranks = [
        {
            "rank": r, "device": r % 8, "path": ranks[r]["path"], "name": names[r],
            "caused_ns": waited * num_late * (r == late), "origin_ns": waited * num_late * (number - 1) * (r == late),
            "suffered_ns": waited * num_late * (r != late), "exposed_ns": waited * num_late * (r != late),
            "transfer_ns": TRANSFER * steps,
            "num_last": num_late * (r == late) + (r == 0), "num_matched": steps,
        }
        for r in range(number)
    ]  # fmt: skip
    worst = [
        {
            "collective": "all_reduce", "group": "default_pg", "seq": step, "step": step,
            "start_ns": step * STEP + LATE, "last": late, "caused_ns": waited,
            "origin": late, "origin_ns": waited * (number - 1), "waiting_ns": waited * (number - 1),
            "transfer_ns": TRANSFER * number,
        }
        for step in range(1, steps)
    ]  # fmt: skip
    lateness = {
        "num_matched": steps,
        "num_unmatched": 0,
        "by": {"sequence": steps, "order": 0},
        "not_the_same": 0,
        "clocks_applied": True,
        "uncertainty_ns": 2_000,
        "late": late,
        "ranks": of_ranks,
        "pairs": [[r, late, waited * num_late, num_late] for r in range(number) if r != late],
        "pairs_left_ns": 0,
        "collectives": [
            {
                "collective": "all_reduce", "num": steps, "waiting_ns": waited * num_late * (number - 1),
                "transfer_ns": TRANSFER * number * steps, "last": late, "num_last": num_late, "origin": late,
                "origin_ns": waited * num_late * (number - 1),
            }
        ],
        "worst": worst,
        "steps": [
            {
                "step": step,
                "caused_ns": [waited * (r == late and step > 0) for r in range(number)],
                "origin_ns": [waited * (number - 1) * (r == late and step > 0) for r in range(number)],
                "suffered_ns": [waited * (r != late and step > 0) for r in range(number)],
            }
            for step in range(steps)
        ],
        "notes": [],
    }  # fmt: skip
    idle = sum(one["idle_ns"] for one in ranks) / sum(one["span_ns"] for one in ranks)
    clocks = [
        {
            "rank": r,
            "offset_ns": -SHIFT * r,
            "spread_ns": 2_000,
            "num_matched": steps,
            "applied": True,
            "drift_ppm": 0.0,
            "uncertainty_ns": 2_000,
        }
        for r in range(number)
    ]
    return document(
        *ranks,
        source="traces",
        headline=f"Over {number} ranks, the device idled {100 * idle:.1f} % of the time. Rank {late} came last.",
        world_size=number,
        lateness=lateness,
        clocks=clocks,
    )


def _rank(number: int, steps: int, *, is_late: bool) -> Document:
    """A rank of the drawing above; its clock counts from its own first event."""
    shift = SHIFT * number
    events, waits, of_steps = [], [], []
    for step in range(steps):
        zero, first = step * STEP - shift, 0 if step else shift
        arrives, end = (LATE if is_late and step else ON_TIME), (LATE if step else ON_TIME) + TRANSFER
        length = STEP if step < steps - 1 else end
        events.append(Event(name="matmul", kind="compute", start_ns=zero + first, end_ns=zero + arrives))
        events.append(
            Event(name="nccl", kind="communication", start_ns=zero + arrives, end_ns=zero + end, stream=20, sms=20)
        )
        if arrives < end - TRANSFER:
            waits.append([zero + arrives, zero + end - TRANSFER, end - TRANSFER - arrives])
        of_steps.append(
            {
                "step": step, "start_ns": zero + first, "span_ns": length - first, "compute_ns": arrives - first,
                "exposed_communication_ns": end - arrives, "exposed_memory_ns": 0, "idle_ns": length - end,
                "hidden_fraction": 0.0, "from_other_steps_ns": 0, "ran_ahead_ns": 0, "spilled_ns": 0,
            }
        )  # fmt: skip
    made = rank(events, number=number)
    return made | {"shift_ns": shift, "waits": waits, "steps": of_steps, "start_ns": made["start_ns"] + shift}


def replayed(job: Document, *, late: int = 1) -> Document:
    """The job with its replay, of made-up numbers: S = 10 ms / 8 ms, so a fifth of the time is lost.

    The late rank makes each step but the first 3 ms longer; the last rank makes the first one 0.5 ms longer.
    """
    ranks, steps = [rank["rank"] for rank in job["ranks"]], [row["step"] for row in job["lateness"]["steps"]]
    alone = {late: 1.25, ranks[-1]: 1.02}
    longer = [
        [3 * MS * (r == late and s > 0) + MS // 2 * (r == ranks[-1] and s == 0) for s in range(len(steps))]
        for r in ranks
    ]
    cause = {
        "kind": "slow compute", "ranks": [late], "stages": [], "saved_ns": 2 * MS, "share": 0.2, "alone_ns": 2 * MS,
        "saved_each_ns": [], "first_step": 1, "evidence": "gemm 1.50×",
        "sentence": f"Rank {late} computes 1.50× as long as its peers since step 1: 20.0 % of the job's time.",
    }  # fmt: skip
    spread = {**cause, "kind": "spread", "ranks": [], "saved_ns": MS // 10, "share": 0.01, "first_step": None,
              "sentence": "Single operations that differ without a pattern take 1.0 % of the job's time."}  # fmt: skip
    slowdown = {
        "headline": cause["sentence"], "num_ranks": len(ranks), "num_steps": len(steps), "measured_ns": 10 * MS,
        "replayed_ns": 10 * MS, "ideal_ns": 8 * MS, "slowdown": 1.25, "without_hosts": 1.25, "is_trusted": True,
        "error": 0.0, "lost_gpu_hours": 0.5, "worst_share": 0.9, "num_worst": max(1, round(0.03 * len(ranks))),
        "causes": [cause, spread],
        "workers": [
            {"rank": r, "name": f"rank {r}", "stage": None, "slowdown": alone.get(r, 1.0), "is_bound": r == ranks[-1],
             "compute_ratio": 1.5 if r == late else 1.0, "saved_ns": 2 * MS if r == late else None}
            for r in ranks
        ],
        "types": [{"type": "gemm", "pace": "compute", "slowdown": 1.24, "time_ns": 6 * MS},
                  {"type": "all_reduce", "pace": "transfer", "slowdown": 1.01, "time_ns": MS},
                  {"type": "copies", "pace": "host", "slowdown": 1.0, "time_ns": 0}],
        "stages": [],
        "steps": [{"step": s, "measured_ns": 10 * MS, "replayed_ns": 10 * MS, "ideal_ns": 8 * MS} for s in steps],
        "origin_ns": longer, "absent": "", "notes": [],
    }  # fmt: skip
    return job | {"slowdown": slowdown}
