"""FLOPs joined to a trace: which event is of which phase, rates by pencil, and a real run of torch's profiler."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import polars as pl
import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, record_function, schedule
from torch.profiler import profile as torch_profile

from tests.flops.small_reports import TINY
from weftrace.cli.main import program
from weftrace.errors import WeftraceError
from weftrace.facts import hardware
from weftrace.files.schemas import schemas
from weftrace.flops import FlopsReport, Phase, profile
from weftrace.flops.document import flops_document
from weftrace.flops.join.join import TraceJoin, join
from weftrace.flops.join.phases import TRACE_PHASES, phase_codes
from weftrace.trace import Trace, open_trace
from weftrace.trace.model import is_launch, on_device
from weftrace.trace.work import work_of

ENGINE = "autograd::engine::evaluate_function: MmBackward0"
BARE = replace(TINY, ops=tuple(op for op in TINY.ops if op.op != "mylib.loss.default"))
H200 = {"name": "NVIDIA H200", "id": 0, "numSms": 132, "totalGlobalMem": 1}


def opened(path: Path) -> Trace:
    trace = open_trace(path)
    assert isinstance(trace, Trace)
    return trace


def device_trace(folder: Path, *, steps: bool = True, device: str = "NVIDIA H200", calls: int = 1) -> Trace:
    """One step on a GPU, in µs from 100. Launches on thread 1, but for the backward's on thread 2:

        host 1  aten::mm 100-102, aten::mm 102-104, Optimizer.step#SGD.step 150-160
        host 2  evaluate_function 110-120 with aten::mm 111-112, aten::mm 112-113 and aten::mm 113-114
        device  110-120 and 120-130 (forward), 135-165 (backward), 165-170 (optimizer)

    so forward moves the step on by 20, backward by 35 (5 of them idle), the optimizer by 5; the span is 60.
    """
    host: list[dict[str, Any]] = []

    def add(cat: str, name: str, tid: int, ts: float, dur: float, **args: Any) -> None:
        host.append({"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args})

    if steps:
        add("user_annotation", "ProfilerStep#7", 1, 95, 100)
    for at in (100, 102):
        add("cpu_op", "aten::mm", 1, at, 2)
    add("cpu_op", ENGINE, 2, 110, 10)
    for at in range(3 * calls):
        add("cpu_op", "aten::mm", 2, 111 + at, 1)
    add("user_annotation", "Optimizer.step#SGD.step", 1, 150, 10)
    work = [(1, 100.5, 110, 10), (1, 102.5, 120, 10), (2, 111.5, 135, 30), (1, 151, 165, 5)]
    for number, (tid, launch, start, dur) in enumerate(work, 1):
        add("cuda_runtime", "cudaLaunchKernel", tid, launch, 0.2, correlation=number)
        args = {"device": 0, "stream": 7, "correlation": number}
        kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": start, "dur": dur, "args": args}
        host.append(kernel)
    path = folder / "trace.json"
    path.write_text(
        json.dumps({"schemaVersion": 1, "deviceProperties": [{**H200, "name": device}], "traceEvents": host})
    )
    return opened(path)


def of(joined: TraceJoin, phase: Phase) -> Any:
    return next(part for part in joined.phases if part.phase is phase)


def test_rates_by_pencil(tmp_path: Path) -> None:
    joined = join(replace(BARE, device="cuda: NVIDIA H200"), device_trace(tmp_path))
    assert (joined.steps, joined.span_ns, joined.hardware, joined.notes) == (1, 60_000, "H200 SXM", ())
    assert [(p.phase.value, p.elapsed_ns, p.busy_ns, p.num_events) for p in joined.phases] == [
        ("forward", 20_000, 20_000, 2),
        ("backward", 35_000, 30_000, 1),
        ("optimizer", 5_000, 5_000, 1),
    ]
    forward = of(joined, Phase.FORWARD)
    peak = hardware("h200").peak("fp32")
    assert forward.tally.flops == 288 and forward.flops_per_s == pytest.approx(288 / 20e-6)
    assert forward.mfu == pytest.approx(288 / 20e-6 / peak, rel=1e-12)
    assert joined.mfu == pytest.approx(672 / 60e-6 / peak, rel=1e-12)
    assert joined.flops_per_s == pytest.approx(672 / 60e-6)
    assert of(joined, Phase.OPTIMIZER).mfu is None  # no matrix work
    assert joined.segments.rows() == [
        ("forward", 110_000, 130_000), ("backward", 130_000, 165_000), ("optimizer", 165_000, 170_000),
    ]  # fmt: skip


def test_the_traces_own_shapes_are_held_against_the_report(tmp_path: Path) -> None:
    device_trace(tmp_path)
    document = json.loads((tmp_path / "trace.json").read_text())
    shaped = {"Input Dims": [[2, 12], [12, 6]], "Input type": ["float", "float"]}  # 288 FLOP, as the report's forward
    first = next(event for event in document["traceEvents"] if event["name"] == "aten::mm")
    first["args"] = shaped
    (tmp_path / "trace.json").write_text(json.dumps(document))
    joined = join(BARE, opened(tmp_path / "trace.json"))
    assert (of(joined, Phase.FORWARD).traced_flops, of(joined, Phase.BACKWARD).traced_flops) == (288, 0)
    assert joined.traced_flops == 288 and joined.rated_share == pytest.approx(10 / 55)
    assert joined.notes == (
        "The trace's own shapes give 288 FLOP executed, 42.9 % of the report's (forward 100.0 %, backward 0.0 %), "
        "with known FLOPs for 18.2 % of device time.",
    )


def test_a_steps_flops_are_joined_to_what_it_launched_in_whichever_window_it_ran(tmp_path: Path) -> None:
    trace = device_trace(tmp_path)
    document = json.loads((tmp_path / "trace.json").read_text())
    document["traceEvents"] += [
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#8", "pid": 1, "tid": 1, "ts": 195, "dur": 10},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 196, "dur": 0.2,
         "args": {"correlation": 9}},
        {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 20, "ts": 150, "dur": 90,
         "args": {"device": 0, "stream": 20, "correlation": 9}},
    ]  # fmt: skip
    (tmp_path / "trace.json").write_text(json.dumps(document))
    overlapped = opened(tmp_path / "trace.json")
    joined, alone = join(BARE, work_of(overlapped, step=7)), join(BARE, work_of(trace, step=7))
    assert [(p.phase, p.elapsed_ns, p.num_events) for p in joined.phases] == [
        (p.phase, p.elapsed_ns, p.num_events) for p in alone.phases
    ]
    assert joined.span_ns == alone.span_ns == 60_000
    assert join(BARE, work_of(overlapped, step=7, step_by="launch")).span_ns == 60_000


def test_utilizations_of_phases_weighted_by_time_are_the_steps(tmp_path: Path) -> None:
    joined = join(BARE, device_trace(tmp_path))
    assert sum(p.elapsed_ns for p in joined.phases) + joined.no_phase_ns == joined.span_ns
    assert sum((p.mfu or 0) * p.elapsed_ns for p in joined.phases) == pytest.approx((joined.mfu or 0) * joined.span_ns)


def test_what_does_not_agree_is_said(tmp_path: Path) -> None:
    gpu = replace(BARE, device="cuda: NVIDIA H100 80GB HBM3", rank=0)
    assert "trace was taken on NVIDIA H200" in join(gpu, device_trace(tmp_path)).notes[0]
    twice = join(BARE, device_trace(tmp_path, calls=2))
    assert any("aten::mm 8 for 5" in note for note in twice.notes)
    unmarked = join(BARE, device_trace(tmp_path, steps=False))
    assert unmarked.steps == 1 and "marks no steps; by its matrix operators it holds 1" in unmarked.notes[0]
    strange = join(BARE, device_trace(tmp_path, device="Abacus 3"))
    assert strange.mfu is None and any("No peak rates are known for Abacus 3" in note for note in strange.notes)
    with pytest.raises(WeftraceError, match="abacus"):
        join(BARE, device_trace(tmp_path), "abacus")


def test_phases_at_the_same_time_and_phases_that_are_missing(tmp_path: Path) -> None:
    trace = device_trace(tmp_path)
    row = pl.col("ts_ns") == 135_000
    moved = trace.events.with_columns(pl.when(row).then(115_000).otherwise("ts_ns").alias("ts_ns"))
    summary = join(BARE, replace(trace, events=moved))  # backward from 115 to 145 µs, forward until 130
    assert any("Phases ran at the same time for 15.0 µs" in note for note in summary.notes)
    alone = join(BARE, replace(trace, events=trace.events.filter(~row)))
    assert any("FLOPs of the backward, the trace no event of it" in note for note in alone.notes)


def test_an_event_without_a_launch_has_no_phase(tmp_path: Path) -> None:
    trace = device_trace(tmp_path, steps=False)
    events = trace.events.filter(on_device() | ~is_launch())
    joined = join(BARE, replace(trace, events=events))
    assert joined.num_no_phase == 4 and joined.no_phase_ns == joined.span_ns == 60_000


# ---- a real run on the CPU


class Tiny(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.act, self.fc2 = nn.Linear(4, 8, bias=False), nn.ReLU(), nn.Linear(8, 2, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with record_function("fc1"):
            hidden = self.fc1(x)
        return self.fc2(self.act(hidden))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[FlopsReport, Path, Path]:
    """A report of one step; a trace of two marked steps; a trace of three that are not marked."""
    folder = tmp_path_factory.mktemp("run")
    model, x = Tiny(), torch.randn(3, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    with profile(model) as counted:
        step()
    marked, unmarked = folder / "marked.json", folder / "unmarked.json"
    plan = schedule(wait=0, warmup=1, active=2, repeat=1)
    on_ready = lambda p: p.export_chrome_trace(str(marked))  # noqa: E731
    with torch_profile(activities=[ProfilerActivity.CPU], schedule=plan, on_trace_ready=on_ready) as traced:
        for _ in range(3):
            step()
            traced.step()
    with torch_profile(activities=[ProfilerActivity.CPU]) as traced:
        for _ in range(3):
            step()
    traced.export_chrome_trace(str(unmarked))
    return counted.report(), marked, unmarked


def test_a_real_trace(run: tuple[FlopsReport, Path, Path]) -> None:
    report, marked, unmarked = run
    for path, steps in ((marked, 2), (unmarked, 3)):
        joined = join(report, opened(path), "a100")
        assert joined.steps == steps and joined.basis == "host"
        # forward 192 + 96; backward the two weight gradients and fc2's input gradient: x needs none
        assert of(joined, Phase.FORWARD).tally.flops == steps * 288
        assert of(joined, Phase.BACKWARD).tally.flops == steps * 384
        assert [part.phase for part in joined.phases] == list(TRACE_PHASES)
        assert all(part.num_events and part.busy_ns <= part.elapsed_ns for part in joined.phases)
        assert sum(p.elapsed_ns for p in joined.phases) + joined.no_phase_ns == joined.span_ns
        assert "no device events" in joined.notes[-1]
        assert not any("do not agree" in note for note in joined.notes)
    assert any("(estimated)" in note for note in join(report, opened(unmarked)).notes)


def test_operators_of_the_real_trace_are_where_they_belong(run: tuple[FlopsReport, Path, Path]) -> None:
    work = work_of(opened(run[1]))
    codes = phase_codes(work).tolist()
    names = work.events.get_column("name").cast(str).to_list()
    by_name = {(name, str(TRACE_PHASES[code])) for name, code in zip(names, codes, strict=True)}
    assert ("aten::linear", "forward") in by_name and ("aten::linear", "backward") not in by_name
    assert all(phase == "backward" for name, phase in by_name if name.startswith("autograd::engine"))
    assert {phase for name, phase in by_name if name.startswith("aten::_foreach")} <= {"optimizer"}


def test_ranges_named_by_a_modules_path(run: tuple[FlopsReport, Path, Path]) -> None:
    joined = join(run[0], opened(run[1]), "a100")
    (found,) = joined.ranges
    assert found.path == "fc1" and found.tally.flops == 2 * 192 and 0 < found.busy_ns < joined.span_ns
    assert found.mfu == pytest.approx(2 * 192 / 19.5e12 / (found.busy_ns * 1e-9))


def test_weftrace_report_prints_mfu_by_phase(run: tuple[FlopsReport, Path, Path], tmp_path: Path) -> None:

    from typer.testing import CliRunner

    report, marked, _ = run
    flops, out = tmp_path / "flops.json", tmp_path / "report.json"
    flops.write_text(json.dumps(flops_document(report)))
    options = ["report", str(marked), "--flops", str(flops), "--hardware", "a100", "-o", str(out)]
    summary = CliRunner().invoke(program(), options)
    assert summary.exit_code == 0, summary.output
    assert "FLOPs by phase" in summary.output and "2 steps" in summary.output
    document = json.loads(out.read_text())
    schema = next(each for each in schemas() if each.schema == "weftrace.report/1").json_schema()
    jsonschema.Draft202012Validator(schema).validate(document)
    phases = {part["phase"]: part for part in document["ranks"][0]["flops"]["phases"]}
    assert phases["forward"]["flops"] == 2 * 288 and phases["backward"]["mfu"] > 0
    alone = CliRunner().invoke(program(), ["report", str(marked), "--hardware", "a100"])
    assert alone.exit_code == 0  # its peaks count for efficiency
