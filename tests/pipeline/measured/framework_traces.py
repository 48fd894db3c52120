"""Traces of a simulated step on devices, with the names that each framework gives: what was simulated must be read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.tracefile import GEMM, TraceFile
from weftrace.pipeline import Action, Simulation
from weftrace.pipeline.dependencies import messages_between_ranks

RECEIVE = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
EPOCH_US = 1_000_000
SCHEDULES = "megatron/core/pipeline_parallel/schedules.py"
P2P = "megatron/core/pipeline_parallel/p2p_communication.py"
ENGINE = "/opt/venv/lib/python3.12/site-packages/deepspeed/runtime/pipe/engine.py"
STAGE = "torch/distributed/pipelining/stage.py"

#: (name of an action's range, its category), by framework.
Naming = Callable[[Action], tuple[str, str]]


def _torch(action: Action) -> str:
    if action.kind != "F&B":
        return f"PP:{action}"
    forward, backward = str(action).split("&")
    return f"PP:({forward};{backward})OVERLAP_F_B"


def _either(action: Action, forward: str, backward: str) -> str:
    return forward if action.kind == "F" else backward


NAMES: dict[str, Naming] = {
    "weftrace": lambda action: (str(action), "user_annotation"),
    "torch": lambda action: (_torch(action), "user_annotation"),
    "torch, GPipe": lambda a: (f"{_either(a, 'Forward', 'Backward')} {a.micro_batch}", "user_annotation"),
    "torch, stacks": lambda a: (f"{STAGE}(911): {_either(a, 'forward', 'backward')}_one_chunk", "python_function"),
    "Megatron-LM": lambda a: (f"{SCHEDULES}(417): {_either(a, 'forward_step', 'backward_step')}", "python_function"),
    "Megatron-LM, NVTX": lambda a: (
        f"megatron.core.pipeline_parallel.schedules.{_either(a, 'forward_step', 'backward_step')}", "user_annotation"
    ),
    "DeepSpeed": lambda a: (f"{ENGINE}(740): {_either(a, '_exec_forward_pass', '_exec_backward_pass')}",
                            "python_function"),
    "DeepSpeed, instructions": lambda a: (
        f"{_either(a, 'ForwardPass', 'BackwardPass')}(buffer_id={a.micro_batch % 4})", "user_annotation"
    ),
}  # fmt: skip


def write_devices(
    folder: Path,
    steps: Sequence[Simulation],
    naming: Naming,
    *,
    ranks: Sequence[int] | None = None,
    numbers: Sequence[int] | None = None,
    messages: bool = True,
    profiler_steps: bool = True,
    gap: float = 0,
    first: int = 0,
) -> Path:
    """A trace of each rank: its host runs far ahead of the device, so that only the device tells times.

    ranks: those whose trace is written. numbers: of each, as the job has them. messages: whether receives have kernels.
    gap: us of each action in which its rank only waits for its host. first: the first step that is recorded.
    """
    folder.mkdir(parents=True, exist_ok=True)
    schedule = steps[0].schedule
    actions = schedule.listed()
    for rank in range(schedule.num_ranks) if ranks is None else ranks:
        job = range(schedule.num_ranks) if numbers is None else numbers
        file = TraceFile(rank=job[rank], world_size=64)
        group: dict[str, Any] = {
            "Collective name": "send",
            "Process Group Ranks": str(list(job)),
            "Group size": len(job),
        }
        lengths = [round(step.makespan_ns / 1000) + 10_000 for step in steps]
        for number, step in list(enumerate(steps))[first:]:
            origin = EPOCH_US + sum(lengths[:number])
            host = origin
            start, end = (step.actions[name].to_numpy() / 1000 for name in ("start_ns", "end_ns"))
            mine = [row for row, action in enumerate(actions) if action.rank == rank]
            if profiler_steps:
                file.host(f"ProfilerStep#{number}", host, end.max() + 5_000)
            inputs = _arrivals(step) if messages else {}
            device = origin + 5_000
            free = 0.0
            for row in mine:
                name, category = naming(actions[row])
                came = inputs.get(row)
                if came is not None and came > free:
                    file.host("PP:9RECV_F0", host, 2)
                    file.kernel(RECEIVE, device + free, came - free, stream=20, launch=host + 1, **group)
                file.host(name, host + 3, 20, cat=category, tid=1)
                if category == "python_function":
                    file.host("pretrain_gpt.py(61): forward_step", host + 4, 18, cat=category, tid=1)
                length = (end[row] - start[row] - gap) / 2
                for half in range(2):
                    at = device + start[row] + gap + half * length
                    file.kernel(GEMM, at, length, launch=host + 6 + half, launch_tid=1 + half)
                free = end[row]
                host += 30
        file.write(folder / f"rank{job[rank]}.json")
    return folder


def _arrivals(step: Simulation) -> dict[int, float]:
    """When the last message that each action needs was there, in us."""
    between = messages_between_ranks(step.schedule)
    arrived = step.messages["arrived_ns"].to_numpy()[between.place] / 1000
    found: dict[int, float] = {}
    for op, time in zip(between.op.tolist(), np.asarray(arrived).tolist(), strict=True):
        found[op] = max(found.get(op, 0.0), time)
    return found
