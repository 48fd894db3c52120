"""A training job that was never run: 1F1B on dp x pp ranks, its times worked out op by op, as plain Chrome events.

What is planted is known exactly: how long each rank computes, and when each transfer begins and ends. A transfer begins
when both sides are there; a rank records it from then on (`transfers_only`, as a profiler that cuts waiting away does),
or from when it came itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Cost = Callable[[int, int, int, int], float]  # (dp, pp, step, micro-batch) -> us of a forward


@dataclass(frozen=True)
class Op:
    """What one rank recorded: times in microseconds from the job's zero."""

    dp: int
    pp: int
    step: int
    name: str
    start: float
    end: float
    micro_batch: int | None = None
    seq: int = 0


def even(dp: int, pp: int, step: int, micro_batch: int) -> float:
    return 1000.0


def slow(dp: int, pp: int, factor: float) -> Cost:
    """One worker computes `factor` times as long as all others."""
    return lambda d, p, step, mb: 1000.0 * (factor if (d, p) == (dp, pp) else 1.0)


def slow_stage(pp: int, factor: float) -> Cost:
    return lambda d, p, step, mb: 1000.0 * (factor if p == pp else 1.0)


def simulate(dp: int = 2, pp: int = 4, *, num_micro_batches: int = 6, steps: tuple[int, ...] = (3, 4, 5),
             cost: Cost = even, transfers_only: bool = True, transfer_us: float = 20.0) -> list[Op]:  # fmt: skip
    """Every op of every step, one step after another; a backward takes twice the time of its forward."""
    ops: list[Op] = []
    zero = 0.0
    for step in steps:
        done = [0.0] * 0
        for d in range(dp):
            ops += _one_pipeline(d, pp, step, num_micro_batches, cost, transfers_only, transfer_us, zero)
        mine = [op for op in ops if op.step == step]
        end = {(d, p): max(op.end for op in mine if (op.dp, op.pp) == (d, p)) for d in range(dp) for p in range(pp)}
        for p in range(pp):
            last = max(end[d, p] for d in range(dp))
            for d in range(dp):
                start = last if transfers_only else end[d, p]
                ops.append(Op(d, p, step, "grads-reduce-scatter", start, last + 5 * transfer_us))
        done = [op.end for op in ops if op.step == step]
        clip = max(done)
        for d in range(dp):
            for p in range(pp):
                ops.append(Op(d, p, step, "optimizer", clip, clip + 300.0))
        zero = clip + 300.0
    return ops


def _order(p: int, pp: int, num_micro_batches: int) -> list[tuple[str, int]]:
    """1F1B of one stage: warm-up, one forward and one backward in turn, cool-down."""
    warm = min(pp - 1 - p, num_micro_batches)
    order = [("F", mb) for mb in range(warm)]
    for mb in range(num_micro_batches - warm):
        order += [("F", warm + mb), ("B", mb)]
    return order + [("B", mb) for mb in range(num_micro_batches - warm, num_micro_batches)]


def _one_pipeline(d: int, pp: int, step: int, num_mb: int, cost: Cost, cut: bool, transfer: float,
                  zero: float) -> list[Op]:  # fmt: skip
    orders = {p: _order(p, pp, num_mb) for p in range(pp)}
    free = dict.fromkeys(range(pp), zero)  # when the rank is done with what it did last
    ended: dict[tuple[str, int, int], float] = {}  # (kind, mb, stage) -> when
    ops: list[Op] = []
    names = {"F": "forward", "B": "backward"}
    seqs: dict[tuple[int, str], int] = {}

    def put(p: int, name: str, start: float, end: float, mb: int) -> None:
        seqs[p, name] = seqs.get((p, name), -1) + 1
        ops.append(Op(d, p, step, name, start, end, mb, seqs[p, name]))

    while any(orders.values()):
        for p in range(pp):
            while orders[p]:
                kind, mb = orders[p][0]
                source = p - 1 if kind == "F" else p + 1
                at = free[p]
                if 0 <= source < pp:
                    if (kind, mb, source) not in ended:
                        break
                    ready = ended[kind, mb, source]
                    begin = max(at, ready)
                    put(source, f"{names[kind]}-send", begin if cut else ready, begin + transfer, mb)
                    put(p, f"{names[kind]}-recv", begin if cut else at, begin + transfer, mb)
                    at = begin + transfer
                length = cost(d, p, step, mb) * (2 if kind == "B" else 1)
                put(p, f"{names[kind]}-compute", at, at + length, mb)
                free[p] = ended[kind, mb, p] = at + length
                orders[p].pop(0)
    return ops


_CLASSES = ("compute", "pp-comm", "tp-comm", "dp-comm", "misc")


def _class(name: str) -> int:
    return 1 if name.endswith(("send", "recv")) else 3 if "reduce" in name or "gather" in name else 0


def artefact(ops: list[Op], *, zero_us: float = 1.7e15, restart: bool = False) -> list[dict[str, Any]]:
    """A bare list of events: name and category are the kind of op, a process is a data-parallel rank, a thread is a
    class of ops of one rank, and the metadata names them. restart: each step begins at 0 again."""
    num_stages = 1 + max(op.pp for op in ops)
    num_replicas = 1 + max(op.dp for op in ops)
    first = {step: min(op.start for op in ops if op.step == step) for step in {op.step for op in ops}}
    events: list[dict[str, Any]] = []
    for op in ops:
        rank = op.pp * num_replicas + op.dp
        start = op.start - (first[op.step] if restart else 0.0)
        compute = op.name.endswith("compute")
        args = {"step": op.step, "model_chunk": 0 if compute else None, "mb_id": op.micro_batch if compute else None,
                "seq_id": op.seq}  # fmt: skip
        events.append({"name": op.name, "cat": op.name, "pid": op.dp, "tid": rank * 5 + _class(op.name),
                       "ts": (0.0 if restart else zero_us) + start, "dur": op.end - op.start, "ph": "X",
                       "args": args})  # fmt: skip
    for d in range(num_replicas):
        for p in range(num_stages):
            for i, word in enumerate(_CLASSES):
                events.append({"name": "thread_name", "pid": d, "tid": (p * num_replicas + d) * 5 + i, "ph": "M",
                               "args": {"name": f"PP rank {p}, TP rank 0, {word}"}})  # fmt: skip
        events.append({"name": "process_name", "pid": d, "ph": "M", "args": {"name": f"DP rank [{d}]"}})
    return events


def converted(ops: list[Op], *, of: Callable[[Op], bool] = lambda op: True) -> dict[str, Any]:
    """The same by another hand: a process is a rank, the arguments tell all, names are short, no metadata."""
    short = {"forward-compute": "F", "backward-compute": "B"}
    events = []
    num_replicas = 1 + max(op.dp for op in ops)
    for op in filter(of, ops):
        name = f"{short[op.name]}{op.micro_batch}" if op.name in short else op.name.replace("-", "_")
        args = {"iteration": op.step, "stage": op.pp, "dp_rank": op.dp, "rank": op.pp * num_replicas + op.dp}
        if op.micro_batch is not None:
            args["microbatch_id"] = op.micro_batch
        events.append({"ph": "X", "name": name, "cat": "comm" if _class(op.name) else "compute",
                       "pid": args["rank"], "tid": _class(op.name), "ts": op.start, "dur": op.end - op.start,
                       "args": args})  # fmt: skip
    return {"traceEvents": events}


def write(path: Path, document: Any) -> Path:
    path.write_text(json.dumps(document))
    return path
