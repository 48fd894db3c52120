"""Compare weftrace with its targets and print a table: `python -m benchmarks [read|ranks|modules|...]`.

A missed target is a result, not an error: the exit status is 1 only where something could not be measured because it
broke.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.inputs import recorded_folder
from benchmarks.measure import ROOT, Run, TaskFailed, best, run
from benchmarks.tasks import chromium

MB = 1e6
NUM_STACK_BYTES = 200_000_000
NUM_OPERATORS = 100_000
BUSY_LOAD = 0.7
TASKS_IN_TURN = ("both", "compared")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One line of the table. met: None where there is no target, or nothing was measured (`note` says why)."""

    question: str
    weftrace: str
    other: str
    ratio: float | None = None
    target: str = ""
    met: bool | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """hta, deepspeed: the Pythons of the environments that hold HolisticTraceAnalysis and DeepSpeed.

    num_runs: of each fast task.
    """

    hta: str
    deepspeed: str
    num_runs: int
    num_hta_runs: int


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def did(done: Run) -> str:
    """What a run of a reader found, so that nobody has to believe that it did the work."""
    return "{num_events:,} events, read in {read_s:.2f} s; {breakdown}; {overlap}".format(**done.facts)


def read(inputs: dict[str, Any], options: Options) -> Iterator[Result]:
    """Reading one big file, its breakdown and its overlap: against another tool, and against decompression alone."""
    say(f"weftrace reads {inputs['big_bytes'] / MB:.0f} MB (runs: {options.num_runs}) ...")
    weftrace = best(["benchmarks.tasks", "account", inputs["big"]], options.num_runs)
    say(f"  {did(weftrace)}")
    question = "read, breakdown, overlap"
    if Path(options.hta).exists():
        say("HolisticTraceAnalysis reads it ...")
        hta = best(["benchmarks.tasks", "hta", inputs["big"]], options.num_hta_runs, python=options.hta)
        say(
            f"  {hta.facts['num_events']:,} events, {hta.facts['read_s']:.2f} s of it reading; {hta.facts['breakdown']}"
        )
        for name, mine, theirs in (
            ("imports excluded", weftrace.inside_s, hta.inside_s),
            ("whole process", weftrace.whole_s, hta.whole_s),
        ):
            yield Result(
                question=f"{question}: {name}",
                weftrace=f"{mine:.2f} s",
                other=f"HTA {theirs:.2f} s",
                ratio=theirs / mine,
                target=">= 10x faster",
                met=theirs / mine >= 10,
            )
        yield Result(
            question=f"{question}: peak memory",
            weftrace=f"{weftrace.peak_bytes / MB:.0f} MB",
            other=f"HTA {hta.peak_bytes / MB:.0f} MB",
            ratio=weftrace.peak_bytes / hta.peak_bytes,
            target="<= 0.25x",
            met=weftrace.peak_bytes / hta.peak_bytes <= 0.25,
        )
    else:
        yield Result(
            question=question,
            weftrace=f"{weftrace.inside_s:.2f} s, {weftrace.peak_bytes / MB:.0f} MB",
            other="HTA",
            target=">= 10x faster, <= 0.25x memory",
            note=f"not compared: no {options.hta}; `make bench` installs it",
        )
    for how, name in (("python", "Python's gzip"), ("isal", "isal")):
        limit = best(["benchmarks.tasks", "gunzip", inputs["big"], how], options.num_runs)
        yield Result(
            question=f"distance to decompression by {name}",
            weftrace=f"{weftrace.inside_s:.2f} s",
            other=f"{limit.inside_s:.2f} s",
            ratio=weftrace.inside_s / limit.inside_s,
        )


def cores(inputs: dict[str, Any], options: Options) -> Iterator[Result]:
    """One large file by one process and by two, in turns; its report; how far reading is from decompression alone."""
    size = f"{inputs['large_bytes'] / MB:,.0f} MB"
    num_runs = max(1, options.num_runs // 2)
    say(f"weftrace reads {size} with 1 and with 2 workers in turns (runs: {num_runs} each) ...")
    runs = [[run(["benchmarks.tasks", "reading", inputs["large"], str(n)]) for n in (1, 2)] for _ in range(num_runs)]
    one, two = (min((pair[n] for pair in runs), key=lambda done: done.inside_s) for n in (0, 1))
    spent = "{own_s:.2f} s of its own processor time, {helpers_s:.2f} s of its helper's".format(**two.facts)
    say(f"  1 worker: {one.facts['own_s']:.2f} s of processor time; 2 workers: {spent}")
    ratio = one.inside_s / two.inside_s
    yield Result(
        question=f"read {size}: 2 workers against 1",
        weftrace=f"{two.inside_s:.2f} s",
        other=f"1 worker {one.inside_s:.2f} s",
        ratio=ratio,
        target=">= 1.6x faster",
        met=ratio >= 1.6,
    )
    busiest = max(two.facts["own_s"], two.facts["helpers_s"])
    yield Result(
        question="the same by processor time, the busier process of the two",
        weftrace=f"{busiest:.2f} s",
        other=f"1 worker {one.facts['own_s']:.2f} s",
        ratio=one.facts["own_s"] / busiest,
    )
    yield Result(
        question=f"read {size}: peak memory, processes added up",
        weftrace=f"{two.facts['sum_bytes'] / MB:.0f} MB",
        other=f"1 worker {one.facts['sum_bytes'] / MB:.0f} MB",
    )
    for workers in (1, 2):
        done = run(["benchmarks.tasks", "report", inputs["large"], str(workers)])
        yield Result(
            question=f"report {size}, {workers} worker{'s' * (workers > 1)}: peak memory of the process that reports",
            weftrace=f"{done.peak_bytes / MB:.0f} MB in {done.inside_s:.1f} s",
            other="",
            target="< 700 MB",
            met=done.peak_bytes < 700 * MB,
        )
    say("weftrace and isal read each recorded trace in turns ...")
    recorded = sorted(str(path) for path in recorded_folder().glob("**/*.json.gz"))
    if recorded:
        near = run(["benchmarks.tasks", "near", os.pathsep.join(recorded), str(4 * options.num_runs)])
        for name, summary in near.facts["files"].items():
            yield Result(
                question=f"{name}, {summary['num_bytes'] / MB:.2f} MB: distance to decompression by isal",
                weftrace=f"{summary['weftrace'] * 1e3:.1f} ms",
                other=f"{summary['isal'] * 1e3:.1f} ms",
                ratio=summary["weftrace"] / summary["isal"],
            )


def ranks(inputs: dict[str, Any], options: Options) -> Iterator[Result]:
    """A folder of ranks, reported by two processes and by one."""
    num_runs = max(1, options.num_runs // 2)
    say(f"weftrace reports on {inputs['num_ranks']} ranks with 1 and with 2 workers (runs: {num_runs} each) ...")
    one, two = (best(["benchmarks.tasks", "ranks", inputs["ranks"], str(n)], num_runs) for n in (1, 2))
    ratio = one.inside_s / two.inside_s
    yield Result(
        question=f"{two.facts['num_ranks']} ranks: 2 workers against 1",
        weftrace=f"{two.inside_s:.2f} s",
        other=f"1 worker {one.inside_s:.2f} s",
        ratio=ratio,
        target=">= 1.7x faster",
        met=ratio >= 1.7,
    )


def cluster(inputs: dict[str, Any], options: Options) -> Iterator[Result]:
    """A folder of ranks, reported by Ray and Dask clusters of this machine: two workers against one, and against two
    processes without a cluster, whose start is in their time.
    """
    num_runs = max(1, options.num_runs // 2)
    local = best(["benchmarks.tasks", "ranks", inputs["ranks"], "2"], num_runs)
    for kind in ("ray", "dask"):
        if importlib.util.find_spec(kind) is None:
            yield Result(
                question=f"{kind}: 2 workers against 1", weftrace="", other="", note="not measured: not installed"
            )
            continue
        say(f"{kind} reports on {inputs['num_ranks']} ranks with 1 and with 2 workers (runs: {num_runs} each) ...")
        one, two = (best(["benchmarks.tasks", "cluster", inputs["ranks"], kind, str(n)], num_runs) for n in (1, 2))
        ratio = one.inside_s / two.inside_s
        yield Result(
            question=f"{two.facts['num_ranks']} ranks on {kind}: 2 workers against 1",
            weftrace=f"{two.inside_s:.2f} s",
            other=f"1 worker {one.inside_s:.2f} s; 2 processes {local.inside_s:.2f} s",
            ratio=ratio,
            target=">= 1.7x faster",
            met=ratio >= 1.7,
        )


def modules(inputs: dict[str, Any], options: Options) -> Iterator[Result]:
    """Time by module and by function of a large file with stacks: what it takes in memory."""
    say(f"weftrace tells time by module of {NUM_STACK_BYTES / MB:.0f} MB with stacks ...")
    done = best(["benchmarks.tasks", "modules", str(NUM_STACK_BYTES), str(Path(inputs["big"]).parent)], 1)
    yield Result(
        question=f"{done.facts['num_bytes'] / MB:.0f} MB with stacks, time by module and line: peak memory",
        weftrace=f"{done.peak_bytes / MB:.0f} MB in {done.inside_s:.1f} s",
        other="",
        target="< 1,000 MB",
        met=done.peak_bytes < 1_000 * MB,
    )


def waits(inputs: dict[str, Any], options: Options) -> Iterator[Result]:
    """Why the device waited, of a large file with stacks, beside reading it."""
    say(f"weftrace accounts for idle time of {NUM_STACK_BYTES / MB:.0f} MB with stacks ...")
    done = best(["benchmarks.tasks", "waits", str(NUM_STACK_BYTES), str(Path(inputs["big"]).parent)], 1)
    kernels, read_s = done.facts["num_kernels"], done.facts["read_s"]
    yield Result(
        question=f"idle time of {kernels:,} kernels with {done.facts['num_frames']:,} frames, by cause",
        weftrace=f"{done.inside_s:.2f} s",
        other=f"reading it: {read_s:.2f} s",
        ratio=done.inside_s / read_s,
        target="< 0.5 s for 200,000 kernels",
        met=done.inside_s < 0.5 * kernels / 200_000,
    )


def efficiency(inputs: dict[str, Any], options: Options) -> Iterator[Result]:
    """FLOP/s and bytes/s of each shape of a file with shapes, beside the report's other analyses of it."""
    say(f"weftrace rates {NUM_OPERATORS:,} operators with shapes ...")
    done = best(["benchmarks.tasks", "efficiency", str(NUM_OPERATORS), str(Path(inputs["big"]).parent)], 1)
    yield Result(
        question=f"efficiency of {NUM_OPERATORS:,} operators, {done.facts['num_shapes']:,} shapes: processor time",
        weftrace=f"{done.inside_s:.2f} s",
        other=f"the report's other analyses: {done.facts['others_s']:.2f} s",
        ratio=done.inside_s / done.facts["others_s"],
        target="< 1 s",
        met=done.inside_s < 1,
    )


def advice(inputs: dict[str, Any], options: Options) -> Iterator[Result]:
    """What to do about a large file's run, with the gains replayed, beside the report's analyses of it."""
    say(f"weftrace advises on {inputs['big_events']:,} events ...")
    done = best(["benchmarks.tasks", "advice", inputs["big"]], 1)
    kernels = done.facts["num_kernels"]
    yield Result(
        question=f"advice on {kernels:,} kernels, {done.facts['num_findings']} findings: processor time",
        weftrace=f"{done.inside_s:.2f} s, {done.peak_bytes / MB:.0f} MB",
        other=f"the report's analyses: {done.facts['others_s']:.2f} s",
        ratio=done.inside_s / done.facts["others_s"],
        target="< 3 s for 200,000 kernels",
        met=done.inside_s < 3 * kernels / 200_000,
    )


def stragglers(inputs: dict[str, Any], options: Options) -> Iterator[Result]:
    """The report of a large job of plain timelines, S and its causes included: its time, memory, document and page."""
    made = run(["benchmarks.jobs", "made"]).facts
    size = f"{made['num_ranks']} workers x {made['num_steps']} steps, {made['num_ranges']:,} ranges"
    say(f"weftrace reports on a job of {size} ...")
    done = run(["benchmarks.jobs", "report", made["path"]])
    say(f"  {done.facts['headline']}")
    yield Result(
        question=f"report of a job of {size}, with page and JSON",
        weftrace=f"{done.inside_s:.1f} s",
        other="{processor_s:.1f} s of processor time".format(**done.facts),
        target="< 20 s",
        met=done.inside_s < 20,
    )
    for name, num_bytes, most in (
        ("peak memory", done.peak_bytes, 2_000),
        ("JSON", done.facts["json_bytes"], 10),
        ("page", done.facts["page_bytes"], 5),
    ):
        yield Result(
            question=f"the same: {name}",
            weftrace=f"{num_bytes / MB:,.1f} MB",
            other="",
            target=f"< {most:,} MB",
            met=num_bytes < most * MB,
        )


def page(inputs: dict[str, Any], options: Options) -> Iterator[Result]:
    """The page of a large trace: its size, and how soon it shows something."""
    output = str(Path(inputs["page"]).with_name("page.html"))
    say(f"weftrace writes the page of {inputs['page_events']:,} events ...")
    written = run(["benchmarks.tasks", "html", inputs["page"], output])
    num_bytes = written.facts["num_bytes"]
    question = f"page of {inputs['page_events']:,} events"
    yield Result(
        question=f"{question}: size",
        weftrace=f"{num_bytes / MB:.1f} MB",
        other=f"made in {written.inside_s:.1f} s",
        target="< 15 MB",
        met=num_bytes < 15 * MB,
    )
    if not chromium():
        yield Result(
            question=f"{question}: first paint",
            weftrace="",
            other="",
            target="< 3 s",
            note="not measured: no Chromium; install it, or set WEFTRACE_CHROMIUM to its path",
        )
        return
    say("Chromium opens it ...")
    shown = best(["benchmarks.tasks", "paint", output], max(1, options.num_runs // 2))
    yield Result(
        question=f"{question}: first paint",
        weftrace=f"{shown.inside_s:.2f} s",
        other=f"Chromium {shown.facts['chromium'].split('.')[0]}",
        target="< 3 s",
        met=shown.inside_s < 3,
    )


def job_page(inputs: dict[str, Any], options: Options) -> Iterator[Result]:
    """The page and the JSON of a job of 16 ranks with 10,000 layers each, and of 64 ranks x 100,000 events."""
    for num_ranks, num_events, most_page, most_json in ((16, 64_000, 5, 25), (64, 100_000, 10, 30)):
        made = run(["benchmarks.jobs", "layers", str(num_ranks), str(num_events)]).facts
        question = f"job of {num_ranks} ranks x {num_events:,} events"
        say(f"weftrace writes the page and the JSON of a {question} ...")
        with tempfile.TemporaryDirectory() as folder:
            done = run(["benchmarks.jobs", "report", made["path"], folder])
            shown = best(["benchmarks.tasks", "paint", str(Path(folder) / "job.html")], 3) if chromium() else None
        for name, most in (("page", most_page), ("json", most_json)):
            num_bytes = done.facts[f"{name}_bytes"]
            yield Result(
                question=f"{question}: {name}",
                weftrace=f"{num_bytes / MB:.1f} MB",
                other=f"both made in {done.inside_s:.1f} s, {done.peak_bytes / MB:.0f} MB of memory",
                target=f"< {most} MB",
                met=num_bytes < most * MB,
            )
        if shown is not None:
            yield Result(
                question=f"{question}: first paint",
                weftrace=f"{shown.inside_s:.2f} s",
                other=f"Chromium {shown.facts['chromium'].split('.')[0]}",
                target="< 1.5 s",
                met=shown.inside_s < 1.5,
            )


def experts(inputs: dict[str, Any], options: Options) -> Iterator[Result]:
    """The balancer of experts against the published algorithm in Python: 256 experts in 288 slots of 32 GPUs.

    Global (any expert on any GPU, as DeepSeek decodes) and hierarchical (8 groups on 4 nodes, as it prefills).
    """
    for policy, groups, nodes in (("global", 1, 1), ("hierarchical", 8, 4)):
        for num_layers, least in ((58, 200), (1000, 500)):
            say(f"the balancers place {num_layers} layers of experts, {policy} ...")
            numbers = (str(num_layers), "256", "288", str(groups), str(nodes), "32", str(options.num_runs))
            raced = run(["benchmarks.experts", "race", *numbers])
            best_ms = raced.facts["best_ms"]
            say(f"  milliseconds: {best_ms}")
            say(
                "  weftrace's first call: {first_call_ms:.0f} ms; torch.sort is {sort_ms:.2f} ms of a later one".format(
                    **raced.facts
                )
            )
            for contestant, others in (
                ("rebalance_experts", ("tensors", "lists", "arrays")),
                ("solve_deepseek", ("tensors", "arrays")),
            ):
                for other in others:
                    ratio = best_ms[other] / best_ms[contestant]
                    is_target = other == "tensors"
                    yield Result(
                        question=f"place {num_layers} layers, {policy}: {contestant}",
                        weftrace=f"{best_ms[contestant]:.2f} ms",
                        other=f"{OTHER_BALANCERS[other]} {best_ms[other]:.0f} ms",
                        ratio=ratio,
                        target=f">= {least}x faster" if is_target else "",
                        met=ratio >= least if is_target else None,
                    )
    say("balance searches for better ...")
    found = run(["benchmarks.experts", "balanced", "58", "256", "288", "8", "4", "32", str(options.num_runs)])
    yield Result(
        question=f"place 58 layers: balance ({found.facts['policy']})",
        weftrace=f"{found.inside_s * 1e3:.0f} ms",
        other=f"balancedness {found.facts['balancedness']:.4f}, published {found.facts['published']:.4f}",
    )


OTHER_BALANCERS = {
    "tensors": "as published, tensors",
    "lists": "the same in lists",
    "arrays": "per layer in NumPy, as vLLM",
}


def flops(inputs: dict[str, Any], options: Options) -> Iterator[Result]:
    """The FLOPs profiler: its cost beside the plain program and beside others, in time and in memory."""
    names = ("pass-through", "counting", "timing", "once", "FlopCounterMode", "torch.profiler")
    for which, limit, turns in (
        ("tiny", None, options.num_runs),  # where Python's call of each operator is most of the time: no target
        ("small", 3.0, options.num_runs),
        ("large", 1.1, max(2, options.num_runs // 2)),
    ):
        say(f"plain program, weftrace and others run a model of {which} operators in turns ({turns}) ...")
        found = run(["benchmarks.flops", "overhead", which, str(turns), *names]).facts
        if Path(options.deepspeed).exists():
            task = ["benchmarks.flops", "overhead", which, str(turns), "DeepSpeed"]
            theirs = run(task, python=options.deepspeed).facts
            for part in ("forward", "both"):
                found[part]["ratios"] |= theirs[part]["ratios"]
        for part, title in (("forward", "forward"), ("both", "forward and backward")):
            ratios = found[part]["ratios"]
            others = [
                name for name in ("pass-through", "FlopCounterMode", "torch.profiler", "DeepSpeed") if name in ratios
            ]
            beside = ", ".join(f"{name} {ratios[name]:.2f}x" for name in others)
            counters = ", ".join(
                f"{name} {ratios[name]:.2f}x" for name in others if name in ("FlopCounterMode", "DeepSpeed")
            )
            say(f"  {title}, plain {found[part]['plain_ms']:.2f} ms: {beside}")
            for name, what in (
                ("counting", "counted"),
                ("timing", "timed"),
                ("once", "profiled once, with its report"),
            ):
                most = None if name == "once" else limit
                yield Result(
                    question=f"{which} operators, {title}: {what}",
                    weftrace=f"{found[part]['plain_ms'] * ratios[name]:.2f} ms",
                    other=f"plain {found[part]['plain_ms']:.2f} ms" + (f"; {counters}" if name == "counting" else ""),
                    ratio=ratios[name],
                    target="" if most is None else f"<= {most:g}x",
                    met=None if most is None else ratios[name] <= most,
                )
    say("each in a process of its own: peak memory ...")
    peaks = {name: best(["benchmarks.flops", "memory", name], 3).peak_bytes for name in ("plain", "counting", "timing")}
    for name in ("counting", "timing"):
        ratio = peaks[name] / peaks["plain"]
        yield Result(
            question=f"peak memory, forward and backward: {name}",
            weftrace=f"{peaks[name] / MB:.0f} MB",
            other=f"plain {peaks['plain'] / MB:.0f} MB",
            ratio=ratio,
            target="<= 1.01x",
            met=ratio <= 1.01,
        )
    made = run(["benchmarks.flops", "report", str(options.num_runs)])
    yield Result(
        question=f"report and document of {made.facts['num_modules']} modules",
        weftrace=f"{made.inside_s * 1e3:.0f} ms",
        other=f"{made.facts['num_rows']} rows; report alone {made.facts['report_s'] * 1e3:.0f} ms",
        target="<= 50 ms",
        met=made.inside_s <= 0.05,
    )
    say("Llama-3-70B on a meta device ...")
    ours, theirs_run = (best(["benchmarks.flops", "meta", name], 3) for name in ("weftrace", "FlopCounterMode"))
    yield Result(
        question="Llama-3-70B, 8192 tokens, forward and backward on meta",
        weftrace=f"{ours.inside_s:.2f} s, {ours.peak_bytes / MB:.0f} MB, {ours.facts['flops'] / 1e15:.3f} PFLOP",
        other="FlopCounterMode {:.2f} s, {:.0f} MB, {:.3f} PFLOP".format(
            theirs_run.inside_s, theirs_run.peak_bytes / MB, theirs_run.facts["flops"] / 1e15
        ),
        ratio=ours.inside_s / theirs_run.inside_s,
        target="<= 3 s, <= 1 GB",
        met=ours.inside_s <= 3 and ours.peak_bytes <= 1000 * MB,
    )


def plan(inputs: dict[str, Any], options: Options) -> Iterator[Result]:
    """Plans of schedules.py: built, timed, traced. Wall time counts, processor time stands beside it."""
    runs = str(options.num_runs)
    yield from pipelines(options.num_runs)
    yield from expert_layers(runs)
    say("weftrace replays 200,000 kernels with their launches ...")
    done = run(["benchmarks.plan", "replay", "200000", runs])
    say(
        "  the first time {first_inside_s:.2f} s; critical path of {num_steps:,} steps {path_s:.2f} s".format(
            **done.facts
        )
    )
    others = "{num_ops:,} ops, {num_waits:,} waits".format(**done.facts)
    yield within("200,000 kernels and their launches: built and timed, warm", done, 1, other=others)
    say("weftrace compiles its engine ...")
    with tempfile.TemporaryDirectory() as folder:
        compiled = run(["benchmarks.plan", "first", "20000", folder])
        loaded = best(["benchmarks.plan", "first", "20000", folder], options.num_runs)
    yield within("the engine compiled, once", compiled)
    yield within("the engine loaded as compiled before", loaded, 2)


def pipelines(num_runs: int) -> Iterator[Result]:
    """A small pipeline with its traces, and one of a whole cluster with its memory."""
    say("weftrace runs a pipeline of 16 ranks x 256 micro-batches ...")
    done = run(["benchmarks.plan", "small", "16", "256", str(num_runs)])
    say(
        "  {num_ops:,} ops, {num_events:,} events in traces; the first time {first_inside_s:.2f} s".format(**done.facts)
    )
    traced = within("16 ranks x 256 micro-batches of F, I, W: built, timed and traced", done, 0.3)
    yield against_networkx(traced, done, done.facts["timed_s"])

    say("weftrace runs a pipeline of 1,024 ranks x 4,096 micro-batches ...")
    done = best(["benchmarks.plan", "large", "1024", "4096"], max(1, num_runs // 2))
    stages = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in done.facts["stages_s"].items())
    say(f"  {done.facts['num_points']:,} points of memory")
    question = f"1,024 ranks x 4,096 micro-batches, {done.facts['num_ops'] / MB:.1f} million ops, memory curves"
    yield within(question, done, 10, other=stages)
    yield Result(
        question="the same: peak memory",
        weftrace=f"{done.peak_bytes / MB:,.0f} MB",
        other="",
        target="< 2,000 MB",
        met=done.peak_bytes < 2_000 * MB,
    )


def pipeline(inputs: dict[str, Any], options: Options) -> Iterator[Result]:
    """ZB1P generated, simulated, its memory followed: of few ranks, and of a whole cluster."""
    say("weftrace generates and simulates ZB1P of 16 ranks x 256 micro-batches ...")
    done = run(["benchmarks.pipeline", "small", "16", "256", str(options.num_runs)])
    facts = "  {num_actions:,} actions, {num_points:,} points of memory; the first time {first_inside_s:.2f} s"
    say(facts.format(**done.facts))
    question = "ZB1P, 16 ranks x 256 micro-batches: generated, simulated, memory curves"
    yield against_networkx(within(question, done, 0.3), done, done.inside_s, "all of it")

    say("weftrace generates and simulates ZB1P of 1,024 ranks x 4,096 micro-batches ...")
    done = best(["benchmarks.pipeline", "large", "1024", "4096"], max(1, options.num_runs // 2))
    stages = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in done.facts["stages_s"].items())
    say("  {num_points:,} points of memory, {bubble:.1%} of the step is bubble".format(**done.facts))
    question = f"the same, 1,024 x 4,096, {done.facts['num_actions'] / MB:.1f} million actions"
    yield within(question, done, 10, other=stages)
    yield Result(
        question="the same: peak memory",
        weftrace=f"{done.peak_bytes / MB:,.0f} MB",
        other="",
        target="< 2,000 MB",
        met=done.peak_bytes < 2_000 * MB,
    )


def profiles(inputs: dict[str, Any], options: Options) -> Iterator[Result]:
    """Simulated profiles: one of all layers of a model on 64 ranks, a sweep, and every batch of a range."""
    for kind in ("train", "prefill"):
        say(f"weftrace simulates {kind}: 61 layers on 64 ranks, random routing, joint barriers ...")
        done = run(["benchmarks.profiles", "whole", kind, "61", "64", str(options.num_runs)])
        say(
            "  {layer_us:,.0f} us a layer, {num_meets} meets; the first time {first_inside_s:.2f} s".format(
                **done.facts
            )
        )
        question = f"{kind}, 61 layers x 64 ranks, {done.facts['num_ops']:,} ops: drawn, priced, timed, bottleneck"
        yield against_networkx(within(question, done, 2), done, done.inside_s, "all of it")
    done = run(["benchmarks.profiles", "sweep"])
    yield within(f"a sweep of {done.facts['num_rows']} settings of prefill", done, 20)
    done = run(["benchmarks.profiles", "pays", "8", "512"])
    summary = within(f"which of 4 lists pay, each of {done.facts['num_batches']} batches", done)
    each_s = done.facts["one_by_one_s"]
    yield replace(summary, other=f"a profile a batch {each_s:.1f} s (every 32nd made)", ratio=each_s / done.inside_s)


def inference(inputs: dict[str, Any], options: Options) -> Iterator[Result]:
    """The plan of a run of 200,000 kernels, inferred from its trace in memory and replayed."""
    say("weftrace infers and replays 200,000 kernels with their launches ...")
    done = run(["benchmarks.inference", "whole", "2000", str(options.num_runs)])
    facts = "  {num_events:,} events, {num_ops:,} ops; waits: {waits}; span off by {error:.2%}; the first time "
    say((facts + "{first_inside_s:.2f} s").format(**done.facts))
    done.facts["networkx_s"] = run(["benchmarks.inference", "path", "2000"]).facts["networkx_s"]
    question = "the plan of 200,000 kernels and their launches: classed, inferred, replayed"
    yield against_networkx(within(question, done, 10), done, done.inside_s, "all of it")
    yield Result(
        question="the same: peak memory, the trace included",
        weftrace=f"{done.peak_bytes / MB:,.0f} MB",
        other="",
        target="< 1,000 MB",
        met=done.peak_bytes < 1_000 * MB,
    )


def comparison(inputs: dict[str, Any], options: Options) -> Iterator[Result]:
    """Two files of 100 MB compared, against reading both alone, in turns; its memory against that of reading one."""
    with tempfile.TemporaryDirectory() as folder:
        files = run(["benchmarks.comparison", "made", folder]).facts
        pair = [files["before"], files["after"]]
        size = "{:.0f} and {:.0f} MB".format(*(num / MB for num in files["num_bytes"]))
        say(f"weftrace reads and compares {size} (runs: {options.num_runs}, in turns) ...")
        runs = [
            [run(["benchmarks.comparison", task, *pair]) for task in TASKS_IN_TURN] for _ in range(options.num_runs)
        ]
        paged = run(["benchmarks.comparison", "page", *pair, folder])
    both, compared = (min((turn[n] for turn in runs), key=lambda done: done.inside_s) for n in (0, 1))
    say("  {headline} ({num_rows:,} rows)".format(**compared.facts))
    ratio = compared.inside_s / both.inside_s
    yield Result(
        question=f"two traces of {size} compared",
        weftrace=f"{compared.inside_s:.2f} s",
        other=f"reading both {both.inside_s:.2f} s",
        ratio=ratio,
        target="< 1.3x",
        met=ratio < 1.3,
    )
    yield Result(
        question="the same: peak memory",
        weftrace=f"{compared.peak_bytes / MB:,.0f} MB",
        other=f"reading both {both.peak_bytes / MB:,.0f} MB",
        ratio=compared.peak_bytes / both.peak_bytes,
    )
    yield Result(
        question=f"the same, with its page of {paged.facts['num_bytes'] / MB:.1f} MB",
        weftrace=f"{paged.inside_s:.2f} s, {paged.peak_bytes / MB:,.0f} MB",
        other=f"reading both {both.inside_s:.2f} s",
        ratio=paged.inside_s / both.inside_s,
    )


def questions(inputs: dict[str, Any], options: Options) -> Iterator[Result]:
    """Questions to a file of 100 MB against reading it, in turns; and the memory of eight ranks against that of one."""
    with tempfile.TemporaryDirectory() as folder:
        made = run(["benchmarks.questions", "made", folder]).facts
        size = f"{made['num_bytes'] / MB:.0f} MB"
        say(f"weftrace reads {size} and answers questions to it (runs: {options.num_runs}, in turns) ...")
        tasks = [["reading"], *(["asked", name] for name in ("of events", "of classes", "of everything"))]
        turns = [
            [run(["benchmarks.questions", task[0], made["path"], *task[1:]]) for task in tasks]
            for _ in range(options.num_runs)
        ]
        say("weftrace asks 1 and 8 ranks, read one after another ...")
        one, eight = (run(["benchmarks.questions", "job", made["ranks"], number]) for number in ("1", "8"))
    reading, *asked = (min((turn[n] for turn in turns), key=lambda done: done.inside_s) for n in range(len(tasks)))
    for task, done in zip(tasks[1:], asked, strict=True):
        ratio = done.inside_s / reading.inside_s
        yield Result(
            question=f"a question {task[1]}, {size}",
            weftrace=f"{done.inside_s:.2f} s",
            other=f"reading alone {reading.inside_s:.2f} s",
            ratio=ratio,
            target="< 1.5x",
            met=ratio < 1.5,
        )
    ratio = eight.peak_bytes / one.peak_bytes
    yield Result(
        question=f"a question to 8 ranks of {size} by one process: peak memory",
        weftrace=f"{eight.peak_bytes / MB:,.0f} MB",
        other=f"to 1 rank {one.peak_bytes / MB:,.0f} MB",
        ratio=ratio,
        target="< 1.2x",
        met=ratio < 1.2,
    )


def expert_layers(runs: str) -> Iterator[Result]:
    """A model of experts whose ranks wait for each other at every dispatch and combine, once and in a sweep."""
    say("weftrace runs 61 layers of experts on 64 ranks, with random routing and joint barriers ...")
    done = run(["benchmarks.plan", "experts", "61", "64", runs])
    question = f"61 layers x 64 ranks, {done.facts['num_ops']:,} ops with barriers: generated and timed"
    yield against_networkx(within(question, done, 2), done, done.inside_s)
    done = run(["benchmarks.plan", "sweep", "61", "64", "50"])
    spans = "makespans {least_ms:.1f} to {most_ms:.1f} ms".format(**done.facts)
    yield within("50 such, each with its critical path", done, 20, other=spans)


def within(question: str, done: Run, most_s: float | None = None, *, other: str = "") -> Result:
    """A run of a plan's task that should take less than some seconds, by the wall; its processor time stands beside."""
    return Result(
        question=question,
        weftrace=f"{done.inside_s:.3f} s (processor {done.facts['cpu_s']:.3f} s)",
        other=other,
        target="" if most_s is None else f"< {most_s:g} s",
        met=None if most_s is None else done.inside_s < most_s,
    )


def against_networkx(result: Result, done: Run, timed_s: float, what: str = "timetable") -> Result:
    """The result beside networkx's search for the longest path, which finds the makespan alone, of a graph made before.

    timed_s: what weftrace took for `what`, a timetable from the plan's frames on or more than that.
    """
    theirs_s = done.facts["networkx_s"]
    if theirs_s is None:
        return replace(result, note="not compared: networkx is not installed")
    beside = f"{what} {timed_s:.3f} s, networkx's longest path {theirs_s:.2f} s"
    return replace(result, other=beside, ratio=theirs_s / timed_s)


BENCHMARKS: dict[str, Callable[[dict[str, Any], Options], Iterator[Result]]] = {
    "read": read,
    "cores": cores,
    "ranks": ranks,
    "cluster": cluster,
    "modules": modules,
    "waits": waits,
    "efficiency": efficiency,
    "advice": advice,
    "stragglers": stragglers,
    "page": page,
    "job-page": job_page,
    "experts": experts,
    "flops": flops,
    "plan": plan,
    "pipeline": pipeline,
    "profiles": profiles,
    "inference": inference,
    "comparison": comparison,
    "questions": questions,
}


def table(results: list[Result]) -> str:
    """The results as text, one line each."""
    verdict = {True: "met", False: "not met", None: ""}
    rows = [("", "weftrace", "against", "ratio", "target", "")]
    for r in results:
        ratio = "" if r.ratio is None else f"{r.ratio:.2f}x" if r.ratio < 10 else f"{r.ratio:.1f}x"
        rows.append((r.question, r.weftrace, r.other, ratio, r.target, r.note or verdict[r.met]))
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def machine() -> dict[str, str | int | float]:
    """What a reader has to know of the machine to read the numbers. load: processes that ran as we began."""
    cpu = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        models = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        cpu = models[0] if models else cpu
    return {
        "weftrace": importlib.metadata.version("weftrace"),
        "python": platform.python_version(),
        "system": platform.system(),
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "load": round(os.getloadavg()[0], 1),
    }


def heading(facts: dict[str, Any], inputs: dict[str, Any]) -> list[str]:
    """On what, and with what, the numbers were taken."""
    stand_in = "" if inputs["recorded"] else " (simulated: the recorded trace is not here, set WEFTRACE_DATA)"
    busy = [f"The machine was busy with other things (load {facts['load']}): run this again when it is idle."]
    packed = Path(inputs["big"]).stat().st_size
    return [
        "weftrace {weftrace}, Python {python}, {system}, {cores} cores, {cpu}".format(**facts),
        f"{inputs['source']}{stand_in} repeated {inputs['num_repeats']} times: {inputs['big_bytes'] / MB:.0f} MB of "
        f"JSON ({packed / MB:.0f} MB compressed) with {inputs['big_events']:,} complete events",
        *(busy if facts["load"] > BUSY_LOAD else []),
    ]


def as_json(facts: dict[str, Any], inputs: dict[str, Any], results: list[Result], broken: dict[str, str]) -> str:
    """Everything that was measured, for a program to read. broken: benchmark -> what it said when it broke."""
    document = {
        "schema": "weftrace.bench/1",
        "machine": facts,
        "inputs": inputs,
        "results": [asdict(result) for result in results],
        "broken": broken,
    }
    return json.dumps(document, indent=1)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "which",
        nargs="*",
        metavar="|".join(BENCHMARKS),
        help="which ones to run (default: all)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results as JSON; - is stdout")
    parser.add_argument("--hta", default=str(ROOT / ".venv-hta/bin/python"), help="Python with HolisticTraceAnalysis")
    parser.add_argument(
        "--deepspeed",
        default=str(ROOT / ".venv-deepspeed/bin/python"),
        help="Python with DeepSpeed; left out if not there",
    )
    parser.add_argument("--runs", type=int, default=5, help="runs of each fast task, the best counts (default: 5)")
    parser.add_argument("--hta-runs", type=int, default=1, help="runs of HolisticTraceAnalysis (default: 1)")
    arguments = parser.parse_args()
    unknown = set(arguments.which) - set(BENCHMARKS)
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    options = Options(
        hta=arguments.hta, deepspeed=arguments.deepspeed, num_runs=arguments.runs, num_hta_runs=arguments.hta_runs
    )

    facts = machine()
    say("making the input files (kept in benchmarks/.cache) ...")
    try:
        inputs = run(["benchmarks.inputs"]).facts
    except TaskFailed as error:
        say(f"the input files could not be made: {error}")
        return 1
    results: list[Result] = []
    broken: dict[str, str] = {}
    for name in arguments.which or BENCHMARKS:
        try:
            results += BENCHMARKS[name](inputs, options)
        except TaskFailed as error:
            broken[name] = str(error)
            say(f"{name} broke: {error}")

    if arguments.json == Path("-"):
        print(as_json(facts, inputs, results, broken))
        return 1 if broken else 0
    print("\n".join([*heading(facts, inputs), "", table(results), *(f"{name} broke, see above" for name in broken)]))
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(as_json(facts, inputs, results, broken) + "\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
