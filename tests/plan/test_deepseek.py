"""DeepSeek-V3's training layer pair: the published order, edges, span and totals."""

from __future__ import annotations

import gzip
import json
from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from weftrace.errors import PlanError
from weftrace.plan import Plan, critical_path, deepseek_training_layers, longest_chain, simulate, timetable
from weftrace.plan.deepseek import RECIPE
from weftrace.plan.recipe import load_recipe
from weftrace.trace.model import on_device

PUBLISHED_SPAN_NS = 129_012_000
COMPUTE = ["attn(F)", "mlp(B)", "mlp(W)", "mlp(F)", "attn(B)", "attn(W)"]
COMMUNICATION = ["combine(B)", "dispatch(F)", "dispatch(B)", "combine(F)"]
SAME_LAYER = [
    ("attn(F)", "dispatch(F)"),
    ("dispatch(F)", "mlp(F)"),
    ("mlp(F)", "combine(F)"),
    ("combine(B)", "mlp(B)"),
    ("mlp(B)", "dispatch(B)"),
    ("dispatch(B)", "attn(B)"),
    ("mlp(B)", "mlp(W)"),
    ("attn(B)", "attn(W)"),
]
NEXT_LAYER = [("combine(F)", "attn(F)"), ("attn(B)", "combine(B)")]


def _phase_spans(num_layers: int = 4) -> dict[tuple[str, int], tuple[int, int]]:
    plan = deepseek_training_layers(num_layers)
    times = timetable(plan)
    spans: dict[tuple[str, int], tuple[int, int]] = {}
    for op, start, end in zip(plan.listed(), times.start_ns.tolist(), times.end_ns.tolist(), strict=True):
        assert op.phase is not None and op.layer is not None
        first, last = spans.get((op.phase, op.layer), (start, end))
        spans[op.phase, op.layer] = (min(first, start), max(last, end))
    return spans


def test_span_is_within_2_percent_of_the_published_profile() -> None:
    device = simulate(deepseek_training_layers()).events.filter(on_device())
    span_ns = max((device["ts_ns"] + device["dur_ns"]).to_list()) - min(device["ts_ns"].to_list())
    assert load_recipe(RECIPE).measured_span_ns == PUBLISHED_SPAN_NS
    assert span_ns == 127_389_500  # -1.26 %: docs/plan.md says why it is short
    assert abs(span_ns / PUBLISHED_SPAN_NS - 1) < 0.02


def test_lanes_have_the_published_order() -> None:
    spans = _phase_spans()
    for lane in (COMPUTE, COMMUNICATION):
        boxes = sorted((start, name) for (name, _), (start, _) in spans.items() if name in lane)
        assert [name for _, name in boxes] == lane * 4
        ends = sorted(spans[key] for key in spans if key[0] in lane)
        assert all(a[1] <= b[0] for a, b in pairwise(ends))  # boxes of a lane do not overlap


def test_edges_are_kept() -> None:
    spans = _phase_spans()
    for layer in range(4):
        for before, after in SAME_LAYER:
            assert spans[before, layer][1] <= spans[after, layer][0]
        for before, after in NEXT_LAYER:
            assert layer == 0 or spans[before, layer - 1][1] <= spans[after, layer][0]


def test_streams_and_sms() -> None:
    plan = deepseek_training_layers(1)
    assert {(op.resource.stream, op.num_sms) for op in plan.listed()} == {(7, 112), (23, 112), (27, 20), (27, None)}
    assert (plan.num_sms, plan.world_size, plan.device_name) == (132, 64, "NVIDIA H800")
    side = [op for op in plan.listed() if op.resource.stream == 23]
    assert [op.phase for op in side] == ["mlp(W)"]


def test_totals_are_the_published_ones() -> None:
    """Communication 113,440 us, of it 32,988 us waiting; streams 118,193 / 11,355 / 114,521; serial sum 244,069."""
    ops = deepseek_training_layers().listed()
    communication = [op for op in ops if op.kind == "communication"]
    assert sum(op.duration_ns for op in communication) == 113_440_000
    assert sum(op.duration_ns for op in communication if op.name.startswith("notify")) == pytest.approx(
        32_988_000, abs=1e3
    )
    for stream, busy_us in ((7, 118_193), (23, 11_355), (27, 114_521)):
        assert sum(op.duration_ns for op in ops if op.resource.stream == stream) == pytest.approx(
            busy_us * 1e3, abs=2e4
        )
    assert sum(op.duration_ns for op in ops) == pytest.approx(244_069_000, abs=2e4)


def test_phase_alone_is_busy_for_its_busy_time() -> None:
    """The parts of a phase, mlp(W)'s on two streams included, fit together to the measured union."""
    plan = deepseek_training_layers(1)
    for phase in load_recipe(RECIPE).phases:
        ops = tuple(op for op in plan.listed() if op.phase == phase.name)
        inside = {op.id for op in ops}
        alone = Plan.of((replace(op, after=tuple(a for a in op.after if a in inside)) for op in ops), name=phase.name)
        assert timetable(alone).makespan_ns == phase.busy_ns, phase.name


def test_simulated_beside_published() -> None:
    """The table of docs/plan.md, in microseconds, by a bitmap of the simulated trace at 250 ns."""
    trace = simulate(deepseek_training_layers())
    origin_ns, tick_ns = int(trace.info["origin_ns"]), 250
    compute = np.zeros(PUBLISHED_SPAN_NS // tick_ns, dtype=bool)
    communication = compute.copy()
    for name, ts, dur in trace.events.filter(on_device()).select("name", "ts_ns", "dur_ns").rows():
        lane = compute if "::compute::" in name else communication
        lane[round((ts - origin_ns) / tick_ns) : round((ts + dur - origin_ns) / tick_ns)] = True
    both = compute & communication
    lengths_us = [mask.sum() * tick_ns / 1e3 for mask in (compute, communication, both, compute | communication)]
    assert lengths_us == pytest.approx([124_308, 113_440, 110_566, 127_182], abs=1)
    assert both.sum() / communication.sum() == pytest.approx(0.975, abs=5e-4)  # published: 0.963


def test_longest_chain_and_critical_path() -> None:
    plan = deepseek_training_layers()
    # the backward chain: 4 x (combine(B) mlp(B) dispatch(B) attn(B)), then the last attn(W)
    chain = longest_chain(plan).path.filter(pl.col("kind") == "compute", pl.col("name") != "cast_to_fp8")
    assert chain["phase"].to_list() == ["mlp(B)", "attn(B)"] * 4 + ["attn(W)"]
    phases = critical_path(timetable(plan))["phase"].to_list()
    assert phases[0] == "combine(B)"  # the first mlp(B) waits for it; from there on the compute lane is never idle
    assert set(phases[3:]) <= set(COMPUTE)


def test_other_costs() -> None:
    free = deepseek_training_layers(1, {"combine(B)": 0, "dispatch(F)": 3_345_000})
    assert sum(op.duration_ns for op in free.listed() if op.phase == "combine(B)") == 0
    assert sum(op.duration_ns for op in free.listed() if op.phase == "dispatch(F)") == pytest.approx(3_345_000, abs=2)
    assert timetable(free).makespan_ns < timetable(deepseek_training_layers(1)).makespan_ns
    assert "dispatch(F) set to 3,345,000 ns" in free.notes


@pytest.mark.parametrize(
    ("num_layers", "costs", "expected"),
    [
        (0, None, "num_layers is 0"),
        (1, {"dispach(F)": 5}, "no phase 'dispach(F)'"),
        (1, {"dispatch(F)": -5}, "'dispatch(F)' is -5"),
    ],
)
def test_wrong_arguments(num_layers: int, costs: dict[str, int] | None, expected: str) -> None:
    with pytest.raises(PlanError) as caught:
        deepseek_training_layers(num_layers, costs)
    assert expected in str(caught.value)


def test_every_time_of_the_recipe_is_the_profile_s(shared_data: Path) -> None:
    """By a route of its own: plain JSON, launches found inside annotations, means over the four layers."""
    durations = _profile_durations(shared_data / "deepseek-v3-train.json.gz")
    for phase in load_recipe(RECIPE).phases:
        for part in phase.parts:
            if phase.name == "mlp(W)":
                continue
            mean_us = sum(d for layer in range(4) for d in durations[phase.name, layer, _piece(part.name)]) / 4
            assert part.duration_ns == mean_us * 1e3, (phase.name, part.name)
            counts = [len(durations[phase.name, layer, _piece(part.name)]) for layer in range(4)]
            assert part.num_kernels == max(counts), (phase.name, part.name)
        assert phase.busy_ns == sum(durations[phase.name, layer, "union"][0] for layer in range(4)) / 4 * 1e3
    (weights,) = (phase for phase in load_recipe(RECIPE).phases if phase.name == "mlp(W)")
    parts = {part.name: part for part in weights.parts}
    for stream, names in ((7, ("head", "body", "tail")), (23, ("side",))):
        mean_us = sum(d for layer in range(4) for d in durations["mlp(W)", layer, f"stream {stream}"]) / 4
        assert sum(parts[name].duration_ns for name in names) == mean_us * 1e3
        assert sum(parts[name].num_kernels for name in names) == len(durations["mlp(W)", 0, f"stream {stream}"])
    assert parts["tail"].duration_ns == sum(durations["mlp(W)", i, "stream 7"][-1] for i in range(4)) / 4 * 1e3
    assert parts["head"].duration_ns == weights.busy_ns - parts["side"].duration_ns - parts["tail"].duration_ns


def test_where_the_missing_1622_us_are(shared_data: Path) -> None:
    """The same plan with each layer's own times instead of means, as docs/plan.md says."""
    durations = _profile_durations(shared_data / "deepseek-v3-train.json.gz")
    plan = deepseek_training_layers()
    mean_ns = {phase.name: phase.busy_ns for phase in load_recipe(RECIPE).phases}

    def span_us(piece: str, gap_ns: int) -> float:
        """Each phase of each layer as long as the profile's, its parts scaled alike."""
        ops = tuple(
            replace(op, duration_ns=round(op.duration_ns * durations[name, layer, piece][0] * 1e3 / mean_ns[name]))
            for op in plan.listed()
            if (name := op.phase) is not None and (layer := op.layer) is not None
        )
        return timetable(Plan.of(ops, name=piece, gap_ns=gap_ns)).makespan_ns / 1e3

    spans_us = [timetable(plan).makespan_ns / 1e3, span_us("union", plan.gap_ns), span_us("stretch", 0), 129_012.0]
    assert [round(b - a) for a, b in pairwise(spans_us)] == [331, 399, 893]


def _piece(part: str) -> str:
    return part if part in ("cast", "notify", "data") else "all"


def _profile_durations(profile: Path) -> dict[tuple[str, int, str], list[int]]:
    """(phase, layer, piece) -> durations in us, in device order.

    Two pieces hold one number: "union" the length of the events' union, "stretch" last end - first start.
    """
    events: list[dict[str, Any]] = json.loads(gzip.decompress(profile.read_bytes()))["traceEvents"]
    ranges = sorted(
        (e["ts"], e["ts"] + e["dur"], e["name"])
        for e in events
        if e.get("cat") == "user_annotation" and "(" in e["name"]
    )
    launch = {e["args"]["correlation"]: e["ts"] for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver")}
    seen: Counter[str] = Counter()
    layer_of = []
    for _, _, name in ranges:
        layer_of.append(seen[name])
        seen[name] += 1
    found: dict[tuple[str, int, str], list[int]] = defaultdict(list)
    reached: dict[tuple[str, int], int] = defaultdict(int)
    first_start: dict[tuple[str, int], int] = {}
    device = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    for event in sorted(device, key=lambda e: (e["ts"], e["dur"])):
        at = bisect_right(ranges, launch[event["args"]["correlation"]], key=lambda r: r[0]) - 1
        name, layer, start, dur = ranges[at][2], layer_of[at], event["ts"], event["dur"]
        kernel = event["name"]
        if "per_token_cast_to_fp8_with_channels" in kernel and name == "combine(B)":
            piece = "cast"
        else:
            piece = "notify" if "notify" in kernel or "get_dispatch_layout" in kernel else "data"
        for key in {piece, "all", f"stream {event['args']['stream']}"}:
            found[name, layer, key].append(dur)
        first = first_start.setdefault((name, layer), start)
        union = found.setdefault((name, layer, "union"), [0])
        union[0] += max(0, start + dur - max(start, reached[name, layer]))
        reached[name, layer] = max(reached[name, layer], start + dur)
        found[name, layer, "stretch"] = [reached[name, layer] - first]
    return found
