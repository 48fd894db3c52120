"""Small saved documents of each schema, made as the commands make them, in this process."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import weftrace as wt
from tests.advice.test_schedules import measured as pipeline_run
from tests.flops.small_reports import TINY
from tests.memory.recordings import training
from tests.memory.snapshots import snapshot
from tests.pipeline.measured.rank_traces import write_ranks
from tests.report.rated import rated_file
from weftrace.advice.swaps.schedules import swap_schedule
from weftrace.cli.main import main
from weftrace.experts import replay
from weftrace.facts import hardware
from weftrace.files.documents import read_document
from weftrace.flops.several.sweep import Sweep, point_of
from weftrace.pipeline import Costs, generate, recommend, simulate
from weftrace.plan import Op, Plan, Resource, Wait
from weftrace.samples.catalogue import write_sample

COSTS = Costs.units(W=0.5, FB=2, latency=0.1, message_bytes=8, bytes_per_s=1e9)
QUESTION = "select rank, kind, count(*) as number, sum(dur_ns) as ns from work group by rank, kind order by kind"


def saved_documents(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Schema -> documents; they, and what they are made of, are left in the folder."""
    inputs = _inputs(folder)
    for name, value in _values(folder).items():
        wt.save(value, folder / f"{name}.json")
    for name, arguments in _commands(inputs, folder).items():
        run(*arguments, "-q", "-o", folder / f"{name}.json")
    found: dict[str, list[dict[str, Any]]] = {}
    for document in map(read_document, sorted(folder.glob("*.json"))):
        found.setdefault(document["schema"], []).append(document)
    return found


def _inputs(folder: Path) -> dict[str, Path]:
    """Traces of two ranks, one of which serves where one is enough; expert loads; a pipeline's planned run."""
    ranks = folder / "ranks"
    ranks.mkdir()
    run("profile", "train", "--layers", 3, "--ranks", 2, "-q", "-o", ranks, "-o", folder / "profile.json")
    loads = folder / "loads.npz"
    np.savez(loads, loads=np.random.default_rng(0).integers(1, 100, (4, 2, 16)))
    simulation = simulate(generate("1f1b", num_ranks=2, num_micro_batches=3), COSTS)
    wt.save(simulation, folder / "pipeline.json")
    start, end = simulation.times.start_ns, simulation.times.end_ns
    num = len(simulation.schedule)
    dump = folder / "dump.pickle"
    dump.write_bytes(pickle.dumps(snapshot()))
    recording = training().write(folder / "recording.trace")
    steps = write_ranks(folder / "steps", simulation.schedule, [(start[:num], end[:num])])
    rated = rated_file().write(folder / "rated.trace")
    return {"rated": rated, "ranks": ranks, "rank": ranks / "rank-0.json.gz", "loads": loads, "steps": steps,
            "snapshot": dump, "recording": recording}  # fmt: skip


def _values(folder: Path) -> dict[str, Any]:
    chip = hardware("h100")
    point, assumed = point_of(TINY, {"batch": 1}, chip)
    ops = [
        Op(name="a", duration_ns=5, resource=Resource(stream=7), phase="mlp(F)", step=0),
        Op(name="b", duration_ns=3, resource=Resource(stream=8), kind="communication", after=(Wait(0, lag_ns=1),)),
    ]
    loads = np.load(folder / "loads.npz")["loads"]
    return {
        "replay": replay(loads, num_slots=24, num_gpus=4, num_nodes=2, intervals=(2,), windows=(2,),
                         num_resamples=10, workers=1),
        "plan": Plan.of(ops, name="two"),
        "sample": write_sample("train", str(folder / "train")),
        "costs": COSTS,
        "flops": TINY,
        "flops-sweep": Sweep(model="tiny", axes={"batch": (1,)}, hardware=chip.name, points=(point,),
                             assumptions=assumed, notes=("a note",)),
        "schedule-swap": swap_schedule(pipeline_run("1f1b"), "gpipe"),
        "recommendation": recommend(COSTS, num_devices=2, num_micro_batches=2, with_flips=False, search_seconds=600,
                                    search_moves=20),
    }  # fmt: skip


def _commands(inputs: Mapping[str, Path], folder: Path) -> dict[str, list[object]]:
    rank, ranks, loads = inputs["rank"], inputs["ranks"], inputs["loads"]
    place = ["--slots", 24, "--gpus", 4, "--nodes", 2]
    flops = folder / "flops.json"
    return {
        "report": ["report", ranks, "--workers", 1],
        "rated": ["report", inputs["rated"], "--by", "module"],
        "critical-path": ["critical-path", rank],
        "checks": ["critical-path", "--check", rank],
        "what-if": ["whatif", rank, "--scale", "communication=0.5"],
        "sensitivity": ["whatif", rank, "--sensitivity"],
        "slowdown": ["stragglers", ranks],
        "advice": ["advise", inputs["rated"]],
        "diff": ["diff", rank, rank],
        "memory": ["memory", inputs["recording"]],
        "snapshot": ["memory", inputs["snapshot"]],
        "query": ["query", rank, QUESTION],
        "sweep": ["profile", "decode", "--sweep", "overlap=none,two-batch", "--layers", 3],
        "pays": ["profile", "pays", "decode", "--batch", "8..10", "--overlap", "two-batch"],
        "calibration": ["profile", "calibrate", rank],
        "validation": ["profile", "validate", rank, rank],
        "flops-diff": ["flops", "diff", flops, flops],
        "placement": ["experts", "balance", loads, *place],
        "moved": ["experts", "balance", loads, *place, "--from", folder / "placement.json", "--last", 1],
        "comparison": ["pipeline", "compare", "--stages", 2, "--micro-batches", 4, "--schedule", "1f1b",
                       "--schedule", "zb1p"],
        "step": ["pipeline", "step", "--costs", folder / "costs.json", "--stages", 2, "--micro-batches", 4,
                 "--ranks", 4],
        "export": ["pipeline", "export", "interleaved", "--stages", 4, "--micro-batches", 4, "--to", "megatron"],
        "slip": ["pipeline", "slip", folder / "pipeline.json", inputs["steps"]],
    }  # fmt: skip


def run(*arguments: object) -> None:
    """`weftrace ARGUMENTS`, in this process."""
    with patch.object(sys, "argv", ["weftrace", *map(str, arguments)]):
        try:
            main()
        except SystemExit as ended:
            assert not ended.code, f"weftrace {' '.join(map(str, arguments))}"
