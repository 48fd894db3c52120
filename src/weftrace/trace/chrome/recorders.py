"""Which other tool wrote a file, by its name or its first bytes, and what helps whoever has it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath

_RECORD = "Record the same steps with torch.profiler and give what its export_chrome_trace writes"
_ON_ROCM = f"{_RECORD}; that works on ROCm too."
_NSYS2JSON = f"https://github.com/chenyu-jiang/nsys2json (-t kernel) makes a trace of it. Better: {_RECORD.lower()}."


@dataclass(frozen=True, slots=True)
class Recorder:
    """A kind of file. what, several: one, and more of them. helps: sentences, in which {path} stands for the file.

    names: pattern of names, "" where the content alone tells. head: pattern of the first bytes, b"" where the name
    alone tells. Both are from such files, or from the sources or the documents of the tool.
    """

    what: str
    several: str
    helps: str
    names: str = ""
    head: bytes = b""

    def wrote(self, path: str, start: bytes) -> bool:
        """Whether a file of this name that begins so is of this kind; start is b"" where it is not known."""
        if self.names and re.search(self.names, PurePath(path).name, re.IGNORECASE):
            return True
        return bool(self.head and re.match(self.head, start, re.DOTALL))


RECORDERS = (
    Recorder(
        "a report of Nsight Systems (nsys)", "reports of Nsight Systems (nsys)",
        f"nsys export --type sqlite {{path}} makes a database of it, and {_NSYS2JSON}", r"\.(nsys-rep|qdrep)$",
    ),
    Recorder(
        "an SQLite export of Nsight Systems (nsys)", "SQLite exports of Nsight Systems (nsys)", _NSYS2JSON,
        head=rb"SQLite format 3\0.*(CUPTI_ACTIVITY_KIND|TARGET_INFO_|NVTX_EVENTS)",
    ),
    Recorder(
        "a report of Nsight Compute (ncu), which measures kernels one by one", "reports of Nsight Compute (ncu)",
        f"{_RECORD}.", r"\.ncu-rep$", rb"NVR\0",
    ),
    Recorder(
        "a database of rocprofv3 (rocpd)", "databases of rocprofv3 (rocpd)", _ON_ROCM,
        head=rb"SQLite format 3\0.*rocpd_",
    ),
    Recorder("JSON of rocprofv3", "JSON files of rocprofv3", _ON_ROCM, head=rb'\s*\{\s*"rocprofiler-sdk-tool"'),
    Recorder(
        "a table of rocprof", "tables of rocprof", _ON_ROCM,
        head=rb'"?(Kind"?,"?Agent_Id|Domain"?,"?Function|Index"?,"?KernelName|Name"?,"?Calls"?,"?TotalDuration)',
    ),
    Recorder(
        "a table of nsys stats", "tables of nsys stats", f"{_RECORD}.",
        head=rb'\s*(\*\* [^\n]{0,80}\((cuda|nvtx|osrt)_|"?(Start \(ns\)|Time ?\(%\))"?(,|\s+"?Total Time))',
    ),
    Recorder(
        "a trace of Perfetto in protobuf, as rocprofv3 writes it too", "traces of Perfetto in protobuf",
        f"https://ui.perfetto.dev draws it. {_ON_ROCM}",
        r"\.(pftrace|perfetto-trace)(\.gz)?$", rb"\n[^\s{\[].{0,62}[\x00-\x08]",
    ),
    Recorder(
        "an event file of TensorBoard", "event files of TensorBoard",
        "What torch.profiler recorded lies in other files, which end in .pt.trace.json or .pt.trace.json.gz: give "
        "their folder.",
        r"(^|\.)tfevents\.", rb".{23}brain\.Event:",
    ),
    Recorder(
        "a profile of TensorFlow or JAX (XPlane)", "profiles of TensorFlow or JAX (XPlane)",
        f"weftrace reads traces of torch.profiler. {_RECORD}.", r"\.xplane\.pb$",
    ),
    Recorder(
        "a snapshot of torch's memory allocator", "snapshots of torch's memory allocator",
        "Show it with: weftrace memory {path}", head=rb"\x80[\x02-\x05].{0,64}(segments|device_traces)",
    ),
    Recorder(
        "a profile of speedscope, as py-spy writes it", "profiles of speedscope",
        f"{_RECORD}; with_stack=True adds the Python functions.",
        r"\.speedscope(\.json)?$", rb"\s*\{.{0,200}www\.speedscope\.app",
    ),
    Recorder(
        "the configuration of a Hugging Face model", "configurations of Hugging Face models",
        "Count what the model costs with: weftrace flops {path} --input 1x4096",
        head=rb'\s*\{.{0,4000}"(model_type|architectures)"\s*:',
    ),
    Recorder("a record of Linux perf", "records of Linux perf", f"{_RECORD}.", r"^perf\.data(\.old)?$", rb"PERFILE2"),
    Recorder(
        "a profile of Python's cProfile", "profiles of Python's cProfile",
        f"{_RECORD}; with_stack=True adds the Python functions.", r"\.(prof|pstats)$", rb"[{\xfb]\xa9\x03",
    ),
    Recorder(
        "an execution trace of PyTorch (Chakra), which has operators and no times on the device",
        "execution traces of PyTorch (Chakra)", "Give the trace that torch.profiler wrote of the same run.",
        head=rb'\s*\{\s*"schema"\s*:\s*"[\d.]+[^"]*".{0,2000}"nodes"\s*:\s*\[',
    ),
)  # fmt: skip
#: Names of processes in the JSON of rocprof 1, which is a Chrome trace: its device would be taken for a rank.
_ROCPROF_1 = frozenset(("CPU HIP API", "CPU HSA API"))

#: Names of processes in traces of XLA, which names no kind of event.
_OF_XLA = re.compile(r"/(device|host):[A-Z]")


def recorder_of(path: str, start: bytes = b"") -> Recorder | None:
    """Which tool's file it is, by its name and its first bytes; None where they say nothing."""
    return next((recorder for recorder in RECORDERS if recorder.wrote(path, start)), None)


def rocprof_1(process_names: Iterable[str]) -> str:
    """What a Chrome trace of rocprof 1 is, and what helps; "" of any other."""
    return "" if _ROCPROF_1.isdisjoint(process_names) else f"is JSON of rocprof, not of torch.profiler. {_ON_ROCM}"


def jax(process_names: Iterable[str]) -> str:
    """What a Chrome trace of JAX or TensorFlow is, and what helps; "" of any other."""
    if not any(map(_OF_XLA.match, process_names)):
        return ""
    return f"looks like a trace of JAX or TensorFlow; weftrace reads those of torch.profiler. {_RECORD}."


def told_of_files(heads: Iterable[tuple[str, bytes]]) -> str:
    """What most of the files are that other tools wrote, by their names and first bytes; "" where there is none."""
    found = [(recorder, path) for path, start in heads if (recorder := recorder_of(path, start)) is not None]
    if not found:
        return ""
    (most, number), *_ = Counter(recorder for recorder, _ in found).most_common(1)
    path = next(path for recorder, path in found if recorder == most)
    return f"It holds {most.what if number == 1 else f'{number:,} {most.several}'}. {most.helps.format(path=path)}"
