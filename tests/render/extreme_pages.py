"""Each page with what strains its layout: long names, many ranks, large numbers; and a walk that finds what is cut."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.advice.runs import strained as strained_run
from tests.experts.render import documents as experts
from tests.flops.small_reports import TINY, huge
from tests.moe.render import documents as profile_documents
from tests.moe.render import profiles
from tests.pipeline.render import simulations as pipelines
from tests.report.job_documents import late_job, replayed
from tests.tracefile import ALL_REDUCE, DISPATCH, GEMM, NOTIFY, TraceFile
from weftrace.advice import advise
from weftrace.advice.changes import parse_change
from weftrace.advice.document import critical_path_report
from weftrace.advice.outputs import STRAGGLERS
from weftrace.advice.render.page import (
    render_advice_html,
    render_path_html,
    render_sensitivity_html,
    render_what_if_html,
)
from weftrace.advice.whatif_document import what_if_report, worth_of
from weftrace.advice.whatifs import what_if
from weftrace.comparison import diff
from weftrace.comparison.document import diff_report
from weftrace.comparison.render.page import render_diff_html
from weftrace.flops.render.page import render_flops_html
from weftrace.moe import simulated
from weftrace.moe.render.page import render_profile_html
from weftrace.moe.render.pages import render_pays_html, render_sweep_html, render_validation_html
from weftrace.pipeline import Costs, compare
from weftrace.pipeline.render.comparison_page import render_comparison_html
from weftrace.pipeline.render.page import render_schedules_html
from weftrace.report import Report, analyze, render_html
from weftrace.report.render.critical import path_blocks
from weftrace.report.render.lanes_page import render_lanes_html

LONG = (
    "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, int>, "
    + "cutlass::epilogue::collective::Sm90TmaWarpSpecialized<4, 2, 16, true, false>, " * 4
    + "void>>(Params)"
)
NUM_RANKS = 64


def slow_job() -> Any:
    """64 ranks in 40 steps, whose replay knows 1,000, with long names and with large numbers."""
    job = replayed(late_job(64, steps=40))
    slowdown = job["slowdown"]
    (first, *_) = slowdown["workers"]
    more = [{**first, "rank": 64 + at, "name": f"DP {at} PP 7 TP 3 CP 1 of a host with a long name, {at}",
             "slowdown": 1 + at / 40, "compute_ratio": 123.45, "is_bound": True,
             "saved_ns": None} for at in range(936)]  # fmt: skip
    slowdown["workers"] += more
    slowdown["types"][0] |= {"type": LONG, "time_ns": 123_456_789_012}
    slowdown["stages"] = [
        {"stage": at, "slowdown": 1.5 - at / 16, "ratio": 12.25, "saved_ns": 123_456_789} for at in range(16)
    ]
    slowdown["causes"][0] |= {"ranks": list(range(1, 40)), "saved_each_ns": [123_456_789] * 39}
    slowdown |= {
        "is_trusted": False,
        "error": -0.1234,
        "absent": "936 of 1,936 ranks have no file here",
        "num_worst": 58,
    }
    return job


#: Kernels as serving engines have them: 120 characters and more without a blank, which begin alike; and a step's name.
TILED = [
    f"Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT{rows}x{rows}x64_MI16x16x1_SN_LDSB1_AFC1_AFEM1_AFEM1_ASEM1_CLR1_CADS0"
    "_DTVA0_DTVB0_EPS0_FDSI0_GRPM1_GRVWA8_GRVWB8_GSU0" for rows in (64, 128, 256)
] + [
    f"void at::native::elementwise_kernel<128,4,at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<float,"
    f"float,float,at::native::binary_internal::{name}Functor<float>>>>(int,at::native::gpu_kernel_impl_nocast)"
    for name in ("Mul", "Div")
]  # fmt: skip
STEP = "execute_8192_context_9(sq8155sk8430sqsq7_ran_generation_37(sq37sk55086sqsq37sqsk55086)"


def serving(folder: Path, slower: float = 1.0) -> Path:
    """Four steps of an engine that serves requests, on three streams whose numbers begin alike, as its trace's file."""
    file = TraceFile(rank=0)
    for step in range(4):
        zero = 20_000.0 * step
        file.host(f"{STEP}_{step % 2}", zero, 5_000)
        for at, name in enumerate(TILED * 3):
            begin = zero + 600 * at * slower
            file.host(f"aten::an_operator_of_a_model_{name[:40]}", zero + 100 + 50 * at, 40, cat="cpu_op")
            file.kernel(name, begin + 6_000, 560 * slower, launch=zero + 110 + 50 * at, stream=1000 + at % 3, blocks=64)
    path = folder / f"a_trace_of_an_engine_with_a_long_name_{slower}.json"
    path.write_text(json.dumps({**file.facts, "traceEvents": file.events}))
    return path


def lanes(folder: Path) -> str:
    document = analyze(serving(folder)).document
    return render_lanes_html(document["ranks"][0], document["headline"])


def served(folder: Path) -> str:
    report = analyze(serving(folder))
    return render_html(report.document, report.timelines, path_blocks(report))


_STRAINED: dict[bool, Report] = {}


def strained(folder: Path, *, modules: bool = False) -> Report:
    """One report for all tests of a process: see `_strained`."""
    if modules not in _STRAINED:
        _STRAINED[modules] = _strained(folder, modules)
    return _STRAINED[modules]


def _strained(folder: Path, modules: bool) -> Report:
    """Three steps of more than a minute each, on six streams, with kernels of every class and names of every length.
    modules: also time by module and by line, of frames as deep as a model's."""
    file = TraceFile(rank=0, world_size=NUM_RANKS)
    names = (GEMM, LONG, DISPATCH, NOTIFY, ALL_REDUCE, "Memcpy DtoH (Device -> Pinned)", "triton_poi_fused_gelu_7")
    for step in range(3):
        zero = 70_000_123.456 * step
        file.host(f"ProfilerStep#{1_000_000 + step}", zero, 70_000_000)
        for layer in range(12):
            start = zero + 5_600_000.789 * layer
            file.host(f"forward of the transformer's block number {layer} (attention, then experts)", start, 5_500_000)
            for at, name in enumerate(names):
                cat = "gpu_memcpy" if name.startswith("Memcpy") else "kernel"
                begin = start + 700_000.111 * at
                file.host(f"aten::an_operator_with_a_long_name_{at}", begin, 300, cat="cpu_op")
                if modules:
                    for depth, word in enumerate(("Transformer", "ModuleList", f"Block_{layer}", f"Part{at}_{layer}")):
                        frame = f"nn.Module: {word}_of_a_model_with_long_names"
                        file.host(frame, begin + depth, 290 - 2 * depth, cat="python_function")
                file.kernel(name, begin + 10_000, 690_000.123 + 31_000.001 * at, launch=begin + 10,
                            stream=7 + 4 * (at % 6), blocks=132, cat=cat)  # fmt: skip
        file.host("cudaDeviceSynchronize", zero + 60_000_000, 9_000_000.5, cat="cuda_runtime")
    if not modules:
        return analyze(file.trace(folder))
    path = folder / "framed.json"
    path.write_text(json.dumps({**file.facts, "traceEvents": file.events}))
    return analyze(path, by=("module", "line"))


def modules(folder: Path) -> str:
    """Sixty modules with long names, of which each took more than a minute, and the functions that called them."""
    file = TraceFile(rank=0)
    frame = {"cat": "python_function"}
    name = "a_package_with_a_long_name/models/modeling_of_a_mixture_of_experts.py"
    file.host(f"{name}(12): train_the_model_for_many_steps", 0, 90_000_000, **frame)
    for at in range(60):
        start = 1_000_000.123 * at
        file.host(f"nn.Module: MixtureOfExpertsDecoderLayerNumber{at % 9}_{at}", start, 900_000, **frame)
        file.host(f"{name}({at + 100}): forward_{at}", start + 10, 880_000, **frame)
        file.kernel(GEMM, 200_000_000 + 70_000_000.456 * at, 68_765_432.109, launch=start + 20)
    path = folder / "modules.json"
    path.write_text(json.dumps({**file.facts, "traceEvents": file.events}))
    report = analyze(path, by=("module", "line"))
    return render_html(report.document, report.timelines)


def one_rank(folder: Path) -> str:
    report = strained(folder, modules=True)
    return render_html(report.document, report.timelines, path_blocks(report))


def many_ranks(folder: Path) -> str:
    """As many ranks, each with its own number and times; files that failed, offsets of clocks, remarks."""
    report = strained(folder)
    one: Any = report.document["ranks"][0]
    ranks = [
        {**one, "rank": rank, "path": f"/data/runs/a-folder-with-a-long-name/rank{rank}.json.gz",
         "start_ns": one["start_ns"] + 1_000 * rank, "idle_ns": one["idle_ns"] + 123_456_789 * rank,
         "span_ns": one["span_ns"] + 123_456_789 * rank}
        for rank in range(NUM_RANKS)
    ]  # fmt: skip
    document: Any = report.document | {
        "ranks": ranks,
        "num_ranks": NUM_RANKS,
        "world_size": NUM_RANKS,
        "failures": [{"path": "/data/runs/rank64.json.gz", "error": "the gzip stream ends early at byte 1,048,576"}],
        "clocks": [
            {"rank": rank, "offset_ns": 12_345_678 * rank, "spread_ns": 500, "num_matched": 1234}
            for rank in range(NUM_RANKS)
        ],
        "notes": ["rank 64 is left out: its file ends early"],
    }
    return render_html(document, report.timelines)


def schedules(_: Path) -> str:
    """A pipeline of 24 ranks that takes hours and holds terabytes, one of unequal chunks, and one of no time."""
    hours = replace(pipelines.MEASURED, forward_ns=3_612_345_678_901, activation_bytes=123_456_789_012)
    return render_schedules_html([pipelines.dual(24, 48, hours), pipelines.vee(), pipelines.f1b(3, 4)])


def comparison(_: Path) -> str:
    """Hours that nobody would compare, a cap that few keep, and schedules that are impossible."""
    hours = Costs(forward_ns=36 * 10**14, input_ns=10**15, weight_ns=1, overlapped_ns=4 * 10**15)
    return render_comparison_html(compare(hours, num_stages=12, num_micro_batches=7, memory_cap=5))


def profile(_: Path) -> str:
    """Layers of minutes on 64 ranks, operations with names of every length."""
    made = profiles.made("decode", num_layers=3, num_ranks=64)
    renamed = [replace(each, phase=f"{each.phase} of a layer with a long name") for each in made.overlap.operations]
    prices = {
        name: tuple(replace(each, duration_ns=each.mean_ns * 123_456.789, basis=f"assumed: {LONG}") for each in pieces)
        for name, pieces in made.prices.items()
    }
    overlap = replace(made.overlap, operations=tuple(renamed), title=LONG)
    slow = simulated(made.setting, overlap, prices, level=f"calibrated on {LONG}", num_ranks=64)
    return render_profile_html(slow)


def profile_sweep(_: Path) -> str:
    """Names of combinations as long as files, and hundreds of impossible ones."""
    found = profile_documents.swept_words()
    rows = [replace(row, values={"overlap": f"/data/lists/{LONG[:90]}{at}.toml"}) for at, row in enumerate(found.rows)]
    rows += [replace(rows[0], values={"overlap": f"{LONG[:60]}{at}"}, summary=None, reason=LONG) for at in range(40)]
    axes = {"overlap": tuple(row.values["overlap"] for row in rows)}
    return render_sweep_html(replace(found, rows=tuple(rows), axes=axes))


def validation(_: Path) -> str:
    """Minutes against nanoseconds, phases with long names, and twenty notes."""
    found = profile_documents.validated()
    long = replace(
        found.phases[0].measured, median_ns=123_456_789_012, low_ns=1, high_ns=987_654_321_098, num_samples=10**7
    )
    rows = tuple(replace(row, measured=long, phase=f"{row.phase} {LONG[:70]}") for row in found.phases)
    return render_validation_html(replace(found, phases=rows, notes=(LONG,) * 20))


def critical_path(folder: Path) -> str:
    """Minutes on many streams and threads, kernels with long names."""
    inferred = strained_run(folder, LONG)
    return render_path_html(critical_path_report(inferred), worth_of(inferred))


def answer(folder: Path) -> str:
    """Two changes of such a run."""
    inferred = strained_run(folder, LONG)
    changes = [parse_change("compute=2"), parse_change("memory=0")]
    return render_what_if_html(what_if_report(what_if(inferred, changes), inferred))


def two_runs(folder: Path) -> str:
    return render_diff_html(diff_report(diff(serving(folder), serving(folder, 1.2))))


def late_ranks(_: Path) -> str:
    assert STRAGGLERS.load and STRAGGLERS.page
    return STRAGGLERS.page(
        STRAGGLERS.load({"schema": STRAGGLERS.schema, **replayed(late_job(64, steps=40))["slowdown"]}, what="saved")
    )


#: Name -> the page, written with the help of an empty folder.
PAGES: dict[str, Callable[[Path], str]] = {
    "one rank": one_rank,
    "modules": modules,
    "many ranks": many_ranks,
    "late rank": lambda folder: render_html(slow_job(), []),
    "flops": lambda folder: render_flops_html(huge(300), "h100"),
    "flops, tiny": lambda folder: render_flops_html(TINY, "h100"),
    "placement": lambda folder: experts.page(experts.large_placement(61, 256, 320, 64, 8, moved=0.2)),
    "placement, small": lambda folder: experts.page(experts.placement()),
    "replay": lambda folder: experts.page(experts.large_replay(200)),
    "schedules": schedules,
    "comparison": comparison,
    "profile": profile,
    "sweep of profiles": profile_sweep,
    "pays": lambda folder: render_pays_html(profile_documents.paying()),
    "validation": validation,
    "critical path": critical_path,
    "what if": answer,
    "what one class is worth": lambda folder: render_sensitivity_html(worth_of(strained_run(folder, LONG))),
    "advice": lambda folder: render_advice_html(advise(serving(folder))),
    "late ranks": late_ranks,
    "two runs": two_runs,
    "lanes": lanes,
    "serving": served,
}
