"""What does a file say of how its run was made: device, dtypes, shapes, versions, settings? Small texts by name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping

import msgspec
import polars as pl

from weftrace.trace.model import CONFIGURED, Trace, is_launch
from weftrace.trace.work import Work
from weftrace.units import counted, percent, size

#: Names of facts that rules of `verdicts` ask for; the others are versions and settings.
DEVICE, VENDOR, SMS, MEMORY = "device", "vendor", "multiprocessors", "device memory"
KERNEL_DTYPES, OPERATOR_DTYPES, COLLECTIVE_DTYPES = "dtypes of kernels", "dtypes of operators", "dtypes of collectives"
SHAPES, DIGEST = "shapes", "digest of shapes"
EXTRAS, DAMAGE, BACKEND, MACHINE = "recorded", "damage", "backend", "machine"
OVERLAPS = "kernels that begin before the last one of their stream has ended"
#: A setting of the run, or a version of what it ran on, begins with one of these.
SETTING, VERSION = "setting: ", "version: "

_MOST_SHAPES = 40  # calls that are kept, longest first
_MOST_TEXT = 160  # characters of each text
# What a profiler was asked to record beside kernels, as Kineto tells it; each slows the host.
_EXTRAS = {"record_shapes": "shapes", "with_stack": "stacks", "profile_memory": "memory", "with_flops": "FLOPs",
           "with_modules": "modules"}  # fmt: skip
# What a file says of itself alone: no setting of the run.
_OF_THE_FILE = re.compile(
    r"(?i)^weftrace|^(trace_?name|user_?name|host_?name|host|plan|source|displayTimeUnit|baseTimeNanoseconds)$"
    r"|(_id|_ns|time|path|date)$"
)
_OF_THE_RECORDING = {f"capture.{name}" for name in ("host", "overhead", "schedule", "stretches", "problems", "steps",
                                                    "dropped_steps", "cut_short", "with")}  # fmt: skip
_CAPTURED_VERSIONS = {f"capture.{name}" for name in ("torch", "cuda", "hip", "nccl", "python", "weftrace")}
# Narrow ones first: a kernel of bfloat16 often has float, its accumulator, in its name.
_DTYPES = {
    "fp4": "fp4|e2m1|nvf4|mxf4",
    "fp8": "fp8|e4m3|e5m2|float8",
    "bf16": "bf16|bfloat16|_bbs_",
    "fp16": "fp16|half|f16|hgemm|_hhs_",
    "int8": r"int8|imma|\bi8",
    "tf32": "tf32|xf32|s1688gemm",
    "fp64": "double|dgemm|f64|fp64",
    "fp32": "float|sgemm|f32|fp32",
}


def facts_of(work: Work, operator_rows: pl.Series | None = None) -> dict[str, str]:
    """All that a file tells of how its run was made, on this device; what it does not tell is absent.

    operator_rows: of each event the row of the operator that launched it, null without one (`operator_rows`). shapes
    are the calls that took most device time, a line each, longest first; their digest is of all calls, whatever they
    took. dtypes of kernels: those that names tell, with their share of the time of kernels whose names tell any.
    """
    return {name: _short(value) if name != SHAPES else value for name, value in _facts(work, operator_rows) if value}


def _facts(work: Work, operator_rows: pl.Series | None) -> Iterator[tuple[str, str]]:
    trace = work.trace
    if work.device is not None:
        device = trace.device(work.device)
        yield DEVICE, device.name
        yield SMS, str(device.num_sms or "")
        yield MEMORY, size(device.memory_bytes) if device.memory_bytes else ""
    yield VENDOR, _vendor(trace)
    yield BACKEND, trace.backend or ""
    yield KERNEL_DTYPES, _shares_of_time(work, _dtype_of_name(work))
    yield COLLECTIVE_DTYPES, ", ".join(sorted(work.events.get_column("dtype").drop_nulls().unique().cast(pl.String)))
    yield from _of_operators(work, operator_rows)
    yield EXTRAS, _extras(trace)
    yield DAMAGE, damage_of(trace)
    yield OVERLAPS, percent(work.num_overlapping / work.events.height) if work.num_overlapping else ""
    yield MACHINE, trace.info.get("capture.host", trace.info.get("hostname", ""))
    yield from _versions(trace.info)
    yield from _settings(trace.info)


def _short(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 1] + "…"


# --- dtypes and shapes ----------------------------------------------------------------------------------------------


def _dtype_of_name(work: Work) -> pl.Series:
    names = work.events.get_column("name").unique().cast(pl.String)
    is_computing = set(work.events.filter(pl.col("kind").is_in(("compute", "fused"))).get_column("name").unique())
    found = pl.coalesce(
        *(pl.when(pl.col("name").str.contains(f"(?i){rule}")).then(pl.lit(word)) for word, rule in _DTYPES.items())
    )
    table = names.to_frame("name").filter(pl.col("name").is_in(is_computing))
    table = table.select(pl.col("name").cast(work.events.schema["name"]), found.alias("dtype"))
    return work.events.select("name").join(table, on="name", how="left", maintain_order="left").get_column("dtype")


def _shares_of_time(work: Work, labels: pl.Series) -> str:
    """ "bf16 83 %, fp32 12 %": what takes 1 % or more of the time of all that has a label."""
    total = (
        work.events.select((pl.col("end_ns") - pl.col("start_ns")).alias("ns"), labels.alias("label"))
        .drop_nulls()
        .group_by("label")
        .agg(pl.col("ns").sum())
        .with_columns(pl.col("ns").truediv(pl.col("ns").sum().clip(1)).mul(100).round().cast(pl.Int64).alias("percent"))
        .filter(pl.col("percent") > 0)
        .sort("ns", "label", descending=[True, False])
    )
    return ", ".join(f"{label} {percent} %" for label, percent in total.select("label", "percent").iter_rows())


def _of_operators(work: Work, operator_rows: pl.Series | None) -> Iterator[tuple[str, str]]:
    rows = work.events.get_column("row") if work.basis == "host" else operator_rows
    if rows is None:
        return
    columns = ("name", "input_shapes", "input_types")
    calls = work.trace.events.select(columns)[rows.cast(pl.UInt32).fill_null(0)].with_columns(
        (work.events.get_column("end_ns") - work.events.get_column("start_ns")).alias("ns"), is_known=rows.is_not_null()
    )
    every = (
        calls.filter("is_known", pl.col("input_shapes").is_not_null()).group_by(columns).agg(pl.col("ns").sum())
    ).with_columns(pl.col(columns).cast(pl.String))
    if every.is_empty():
        return
    text = pl.format("{} {}", "name", "input_shapes").alias("call")
    by_call = every.group_by(text).agg(pl.col("ns").sum()).sort("ns", "call", descending=[True, False])
    yield SHAPES, "\n".join(_short(call) for call in by_call.get_column("call").head(_MOST_SHAPES))
    lines = "\n".join(sorted(by_call.get_column("call")))
    digest = hashlib.blake2b(lines.encode(), digest_size=4).hexdigest()
    yield DIGEST, f"{digest}, of {counted(by_call.height, 'call')} that differ"
    dtype = pl.Series([_first_dtype(types) for types in every.get_column("input_types")], dtype=pl.String)
    of = every.with_columns(dtype.alias("dtype")).drop_nulls("dtype").group_by("dtype").agg(pl.col("ns").sum())
    whole = max(1, int(of.get_column("ns").sum()))
    ranked = of.sort("ns", "dtype", descending=[True, False]).iter_rows()
    yield (
        OPERATOR_DTYPES,
        ", ".join(f"{word} {percent} %" for word, ns in ranked if (percent := round(100 * ns / whole))),
    )


def _first_dtype(types: str | None) -> str | None:
    """That of an operator's first tensor of numbers: `["long int","c10::BFloat16"]` is bf16."""
    try:
        summary = msgspec.json.decode(types or "[]")
    except msgspec.DecodeError:
        return None
    for each in summary if isinstance(summary, list) else ():
        if isinstance(each, str) and each not in ("Scalar", "ScalarList", "TensorList"):
            for word, rule in _DTYPES.items():
                if re.search(rule, each, re.IGNORECASE):
                    return word
    return None


# --- what the file says in words ------------------------------------------------------------------------------------


def _vendor(trace: Trace) -> str:
    """Whose device it is, as its name tells, else the names of the calls that drove it."""
    names = {device.name.split(" ")[0] for device in trace.devices} & {"AMD", "NVIDIA", "Intel"}
    if names or trace.simulated:  # a simulated call is called as CUDA's
        return min(names, default="")
    called = trace.events.filter(is_launch()).get_column("name").unique().cast(pl.String)
    for vendor, start in (("AMD", "hip"), ("NVIDIA", "cu"), ("Intel", "ur")):
        if called.str.starts_with(start).any():
            return vendor
    return ""


def _extras(trace: Trace) -> str:
    """ "with shapes, stacks", "without extras"; of a file that does not say, nothing."""
    if (summary := trace.info.get("capture.with")) is not None:
        return f"with {summary}" if summary else "without extras"
    on = [word for name, word in _EXTRAS.items() if trace.info.get(name, "0").lower() in ("1", "true")]
    if on:
        return f"with {', '.join(on)}"
    return "without extras" if "schemaVersion" in trace.info and not trace.simulated else ""


def damage_of(trace: Trace) -> str:
    """What the file lost; of a whole one, nothing."""
    quality = trace.quality
    summary = [f"cut short ({quality.truncated})"] if quality.truncated else []
    if cut := trace.info.get("capture.cut_short"):
        summary.append(f"cut short in step {cut} by an exception")
    if quality.num_dropped:
        summary.append(f"{counted(quality.num_dropped, 'event')} dropped")
    return ", ".join(summary)


def _versions(info: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in sorted(info.items()):
        if name in _CAPTURED_VERSIONS:
            yield f"{VERSION}{_of_what(name.removeprefix('capture.'))}", value
        elif (match := re.fullmatch(r"(?i)(.+?)[_ ]?version", name)) and name != "schemaVersion":
            yield f"{VERSION}{_of_what(match[1])}", _version(match[1].lower(), value)


def _of_what(name: str) -> str:
    """ "CUDA runtime" of cuda_runtime."""
    words = name.replace("_", " ").split()
    return " ".join(
        word.upper() if word.lower() in ("cuda", "hip", "nccl", "rccl", "cupti") else word for word in words
    )


def _version(of: str, value: str) -> str:
    """CUDA and HIP tell their versions as one number: 12040 is 12.4, 60443483 is 6.4.43483."""
    if not value.isdigit():
        return value
    number = int(value)
    if of.startswith("cuda") and number >= 1000:
        return f"{number // 1000}.{number % 1000 // 10}"
    if of.startswith("hip") and number >= 10_000_000:
        return f"{number // 10_000_000}.{number // 100_000 % 100}.{number % 100_000}"
    return value


def _settings(info: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Settings of the run: weftrace's configuration, and what its program added to the file."""
    for name, value in sorted(info.items()):
        if (
            name in _EXTRAS
            or name in _CAPTURED_VERSIONS
            or name in _OF_THE_RECORDING
            or name.lower().endswith("version")
        ):
            continue
        if name.startswith(CONFIGURED) or not _OF_THE_FILE.search(name):
            yield f"{SETTING}{name}", value
