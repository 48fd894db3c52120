"""Report documents for tests of what draws them: complete, small, and simple enough to check with a pencil.

Two layers of 10 ms, drawn in µs; computation on stream 7, communication on stream 20:

    stream 7   attn(F) 0-2000  mlp(B) 2000-5000  mlp(F) 5000-7000     (waits)      attn(W) 8000-10000
    stream 20  combine(B) 500-1800   dispatch(F) 2000-4800     combine(F) 6500-8000

then 200 µs of a copy, 100 µs of nothing, and a kernel of 200 µs that belongs to no phase. By hand, in µs: span 20,500;
compute 2 x 9,000 + 200 = 18,200; communication 2 x (1,300 + 2,800 + 1,500) = 11,200, of which 7000-8000 of each layer
is exposed: 2,000, hidden 9,200 (82.1 %); exposed memory 200; idle 100. The first 300 µs of each communication phase
only notify: 6 x 300 = 1,800.

The numbers are counted on a bitmap of 100 µs, with no code of weftrace's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

CELL_NS = 100_000
NOTIFY_NS = 300_000
LAYER_NS = 10_000_000
NUM_SMS = 132

Document = Any  # a ReportDocument, or a part of one; made by hand, and changed by tests


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A phase (or a kernel in none) as one stretch on a stream. Times in ns from the start."""

    name: str
    kind: str
    start_ns: int
    end_ns: int
    index: int = 0
    stream: int = 7
    sms: int = 112

    @property
    def in_phase(self) -> bool:
        return "(" in self.name

    def cells(self) -> range:
        return range(self.start_ns // CELL_NS, self.end_ns // CELL_NS)


_LAYER = (
    ("combine(B)", "communication", 500, 1_800),
    ("attn(F)", "compute", 0, 2_000),
    ("dispatch(F)", "communication", 2_000, 4_800),
    ("mlp(B)", "compute", 2_000, 5_000),
    ("mlp(F)", "compute", 5_000, 7_000),
    ("combine(F)", "communication", 6_500, 8_000),
    ("attn(W)", "compute", 8_000, 10_000),
)


def layers(number: int = 2) -> list[Event]:
    """So many layers and what comes after them."""
    events = []
    for layer in range(number):
        zero = layer * LAYER_NS
        for name, kind, start_us, end_us in _LAYER:
            stream, sms = (7, 112) if kind == "compute" else (20, 20)
            start_ns, end_ns = zero + start_us * 1000, zero + end_us * 1000
            events.append(
                Event(name=name, kind=kind, start_ns=start_ns, end_ns=end_ns, index=layer, stream=stream, sms=sms)
            )
    zero = number * LAYER_NS
    copy = Event(name="Memcpy HtoD", kind="memory", start_ns=zero, end_ns=zero + 200_000)
    last = Event(name="loss_kernel", kind="compute", start_ns=zero + 300_000, end_ns=zero + 500_000)
    return [*events, copy, last]


def document(*ranks: Document, **changes: Any) -> Document:
    """A document of these ranks, by default of one; `changes` replace its members."""
    ranks = ranks or (rank(),)
    hidden = ranks[0]["hidden_fraction"]
    return {
        "schema": "weftrace.report/1",
        "weftrace": "0.1.0",
        "source": "train.json.gz",
        "headline": "Computation fills most of the span."
        if hidden is None
        else f"{100 * hidden:.1f} % of communication is hidden behind computation, and the largest loss is another.",
        "world_size": 64,
        "num_ranks": len(ranks),
        "failures": [],
        "clocks": [],
        "lateness": None,
        "slow_work": None,
        "notes": [],
        "ranks": list(ranks),
        **changes,
    }


def job(number: int = 4) -> Document:
    """A job whose rank r ends r x 0.4 ms later than rank 0 for want of work; rank 1 lost events, two files failed."""
    ranks = [rank(number=r, extra_idle_ns=400_000 * r) for r in range(number)]
    ranks[1]["quality"] |= {"verdict": "usable", "dropped": 3, "notes": ["3 events dropped: negative duration"]}
    return document(
        *ranks,
        source="traces",
        failures=[
            {"path": "rank8.json.gz", "error": "not a trace: no traceEvents"},
            {"path": "rank9.json.gz", "error": "the gzip stream ends early at byte 1,048,576"},
        ],
        clocks=[
            {
                "rank": r,
                "offset_ns": 12_000 * r,
                "spread_ns": 500,
                "num_matched": 6,
                "applied": False,
                "drift_ppm": 0.0,
                "uncertainty_ns": 500,
            }
            for r in range(number)
        ],
    )


def many_layers(number: int = 40) -> Document:
    """More layers than the lane picture has rows."""
    return document(rank(layers(number)))


def no_communication() -> Document:
    """One GPU: phases, and nothing to hide."""
    return document(rank([event for event in layers() if event.kind != "communication"]))


def cpu_only() -> Document:
    """A file without device work: host operators stand in, on threads; no SMs, no launches."""
    one = rank(device=False)
    one |= {"basis": "host", "device": None, "device_name": "", "num_sms": None, "unnamed": [], "unnamed_share": 0.0}
    for phase in one["phases"]:
        phase["sms"] = None
    one["launch"] |= {"num_linked": 0, "host_blocked": []}
    one["quality"] |= {
        "verdict": "doubtful",
        "notes": ["no device events in this file: host operators replace them, each thread as a stream"],
    }
    return document(one)


def nothing() -> Document:
    """A file in which nothing can be accounted for."""
    one = rank([])
    one |= {"basis": "none", "device": None, "device_name": "", "num_sms": None}
    one["quality"] |= {"verdict": "doubtful", "notes": ["no device events and no host operators"]}
    return document(one, headline="This trace holds no device work and no host operators.")


def partial() -> Document:
    """A simulated rank of which much was lost, and the file is cut short: the worst case of the quality frame."""
    one = rank()
    one["simulated"] = True
    one["quality"] |= {
        "verdict": "doubtful",
        "dropped": 1_204,
        "repaired": 2,
        "clipped": 1,
        "out_of_window": 7,
        "truncated": "unexpected end after event 9,120",
        "notes": [
            "the file is incomplete: unexpected end after event 9,120; what it still held is shown",
            "1,204 events dropped: no duration; first: {'ph': 'X'}",
        ],
    }
    return document(one)


def no_phases(number: int = 2_000) -> Document:
    """Runs of kernel families, most far narrower than a column, as in a trace without annotations."""
    families = ("gemm", "norm", "elementwise")
    one = no_communication()["ranks"][0]
    runs = [
        {
            "name": families[n % 3],
            "index": n // 3,
            "start_ns": n * 10_000,
            "end_ns": n * 10_000 + (9_000, 2_000, 5_000)[n % 3],
            "busy_ns": (9_000, 2_000, 5_000)[n % 3],
            "sms": None,
            "direction": None,
            "phase": None,
            "layer": None,
            "micro_batch": None,
        }
        for n in range(number)
    ]
    one["lanes"][0] |= {"boxes": runs, "sms": 132, "sms_exact": False}
    one["lanes"][1] |= {"boxes": []}
    fill_lanes(one)
    one |= {"phases": [], "phase_means": []}
    one["overlap_matrix"] = {"communication": [], "compute": [], "ns": [], "hidden_ns": [], "exposed_ns": []}
    return document(one)


def fill_lanes(one: Document) -> None:
    """Make each lane, and the device, busy just where its boxes are: for tests that change boxes."""
    for lane in one["lanes"]:
        lane["busy"] = _covered(lane["boxes"])
    one["busy"] = _covered([box for lane in one["lanes"] for box in lane["boxes"]])


def _covered(boxes: list[Document]) -> list[list[int]]:
    found: list[list[int]] = []
    for start, end in sorted((box["start_ns"], box["end_ns"]) for box in boxes):
        if found and start <= found[-1][1]:
            found[-1][1] = max(found[-1][1], end)
        else:
            found.append([start, end])
    return [[start, end, end - start] for start, end in found]


def bands(number: int) -> Document:
    """So many bands in turn like the compute and the communication lane, each with a name of its own; only the boxes of
    the odd ones have directions."""
    one = rank()
    lanes = one["lanes"]
    one["lanes"] = [{**lanes[n % 2], "lane": f"rank {n}, stream 7", "sms": 100 + n} for n in range(number)]
    for lane in one["lanes"][::2]:
        lane["boxes"] = [{**box, "direction": None} for box in lane["boxes"]]
    return document(one)


HOSTILE = "[red]x[/red]\x1b[31m</script><img onerror=1>\u202e\ud800:smile:"


def hostile() -> Document:
    """Every name that a file can choose, chosen badly."""
    made = document(source=HOSTILE, headline=HOSTILE, failures=[{"path": HOSTILE, "error": HOSTILE}])
    one = made["ranks"][0]
    one |= {"path": HOSTILE, "device_name": HOSTILE, "rank": None}
    for key in ("kernels", "unnamed", "phases", "phase_means", "families", "collectives"):
        for row in one[key]:
            for name in ("name", "family", "collective", "kind"):
                if name in row and not (name == "kind" and key == "kernels"):
                    row[name] = HOSTILE
    for lane in one["lanes"]:
        for box in lane["boxes"]:
            box["name"] = HOSTILE
    matrix = one["overlap_matrix"]
    matrix |= {"communication": [HOSTILE] * len(matrix["communication"]), "compute": [HOSTILE] * len(matrix["compute"])}
    one["launch"]["host_blocked"] = [{"name": HOSTILE, "total_ns": 1, "num_events": 1}]
    one["quality"] |= {"verdict": "doubtful", "notes": [HOSTILE], "truncated": HOSTILE, "skipped": {HOSTILE: 1}}
    return made


# ---- one rank


def rank(
    events: Iterable[Event] | None = None, *, number: int = 0, extra_idle_ns: int = 0, device: bool = True
) -> Document:
    """A rank with everything that the schema names, counted from its events. extra_idle_ns: before the last event."""
    done = list(layers() if events is None else events)
    if extra_idle_ns:
        last = done[-1]
        shifted = Event(
            name=last.name,
            kind=last.kind,
            start_ns=last.start_ns + extra_idle_ns,
            end_ns=last.end_ns + extra_idle_ns,
        )
        done = [*done[:-1], shifted]
    compute, communication, memory = (
        _cells(event for event in done if event.kind == kind) for kind in ("compute", "communication", "memory")
    )
    busy = compute | communication | memory
    span_ns = max((event.end_ns for event in done), default=0)
    idle_ns = span_ns - _ns(busy)
    phases = [_phase(event, compute) for event in done if event.in_phase]
    barrier_ns = NOTIFY_NS * sum(event.kind == "communication" for event in done)
    serial_ns = sum(event.end_ns - event.start_ns for event in done)
    return {
        "rank": number,
        "name": "",
        "device": number % 8,
        "device_name": "NVIDIA H800",
        "num_sms": NUM_SMS,
        "sm_unit": "SMs",
        "path": f"rank{number}.json.gz",
        "basis": "device",
        "step": None,
        "step_by": None,
        "simulated": False,
        "apart": None,
        "start_ns": 1_740_461_679_471_346_000,
        "span_ns": span_ns,
        "busy_ns": _ns(busy),
        "idle_ns": idle_ns,
        "compute_ns": _ns(compute),
        "fused_ns": 0,
        "communication_ns": _ns(communication),
        "hidden_communication_ns": _ns(communication & compute),
        "exposed_communication_ns": _ns(communication - compute),
        "hidden_fraction": _ns(communication & compute) / _ns(communication) if communication else None,
        "memory_ns": _ns(memory),
        "exposed_memory_ns": _ns(memory - compute - communication),
        "serial_ns": serial_ns,
        "overlap_speedup": serial_ns / _ns(busy) if busy else None,
        "data_ns": _ns(communication) - barrier_ns,
        "barrier_ns": barrier_ns,
        "streams": [
            {
                "stream": stream,
                "busy_ns": _ns(_cells(event for event in done if event.stream == stream)),
                "num_events": sum(event.stream == stream for event in done),
                "kind": "compute" if stream == 7 else "communication",
            }
            for stream in sorted({event.stream for event in done})
        ],
        "families": [
            {
                "kind": kind,
                "family": family,
                "num_events": sum(event.kind == kind for event in done),
                "total_ns": _total(done, kind),
                "busy_ns": _total(done, kind),
            }
            for kind, family in (("compute", "gemm"), ("communication", "deepep"), ("memory", "memcpy_h2d"))
            if _total(done, kind)
        ],
        "collectives": _collectives(phases),
        "phases": phases,
        "num_phases": len(phases),
        "phase_means": _phase_means(phases),
        "overlap_matrix": _matrix([event for event in done if event.in_phase], compute),
        "busy": _triples(busy),
        "lanes": [_lane(done, kind, device=device) for kind in ("compute", "communication")],
        "shift_ns": 0,
        "waits": [],
        "exposed": _triples(communication - compute),
        "num_exposed": len(_stretches(communication - compute)),
        "kernels": _kernels(done, device=device),
        "operators": [],
        "num_without_operator": 0,
        "without_operator_ns": 0,
        "unnamed": [{"name": "loss_kernel", "num_events": 1, "total_ns": 200_000}],
        "unnamed_share": 200_000 / _ns(compute) if compute else 0.0,
        "idle_causes": {
            "threshold_ns": 30_000,
            "host_wait_ns": 0,
            "dependency_wait_ns": idle_ns,
            "kernel_gap_ns": 0,
            "unknown_ns": 0,
            "by_stream": [
                {
                    "stream": 7,
                    "idle_ns": 2_000_000 + idle_ns,
                    "host_wait_ns": 400_000,
                    "dependency_wait_ns": 1_600_000 + idle_ns,
                    "kernel_gap_ns": 0,
                    "unknown_ns": 0,
                },
            ]
            * bool(done),
        },
        "idle_account": _idle_account(idle_ns),
        "launch": {
            "num_linked": len(done),
            "delay_p50_ns": 1_500_000,
            "delay_p99_ns": 2_400_000,
            "delay_max_ns": 2_500_000,
            "queue_max": 9,
            "queue_mean": 4.25,
            "host_blocked": [{"name": "cudaDeviceSynchronize", "total_ns": 1_730_000, "num_events": 2}] * bool(done),
            "host_stalls": [],
        },
        "headroom": {
            "ideal_ns": max(_ns(compute), _ns(communication)),
            "headroom_ns": span_ns - max(_ns(compute), _ns(communication)),
            "bound_by": "compute",
            "longest_chain_ns": 16_000_000,
            "assumption": "durations stay as measured; the chain knows the order on each stream only",
        },
        "steps": _steps(done, compute, communication, memory, span_ns),
        "outside_steps": [],
        "quality": {
            "verdict": "good",
            "dropped": 0,
            "repaired": 0,
            "clipped": 0,
            "unlinked": 0,
            "unnamed_share": 0.011,
            "overlapping": 0,
            "out_of_window": 0,
            "skipped": {"flow": 32, "python_function": 1385},
            "truncated": None,
            "unused": {},
            "notes": [],
        },
    }


def _idle_account(idle_ns: int) -> Document:
    """Half of it in the loader, a quarter unrecorded, the rest launch latency."""
    half, quarter = idle_ns // 2, idle_ns // 4
    rest = idle_ns - half - quarter
    parts = {"host_ns": half, "call_ns": 0, "launch_latency_ns": rest, "turnaround_ns": 0, "held_ns": 0}
    loader, frame = "enumerate(DataLoader)#__next__", "data/pictures.py(7): resize"
    causes = [("data_loading", half, frame, loader), ("launch_latency", rest, "", ""), ("unrecorded", quarter, "", "")]
    nodes = [(-1, "train_step", "annotation"), (0, loader, "operator"), (1, frame, "frame")]
    return {
        "idle_ns": idle_ns,
        **parts,
        "unrecorded_ns": quarter,
        "unknown_ns": 0,
        "with_stacks": True,
        "causes": [
            {
                "cause": cause, "ns": ns, "share": ns / idle_ns, "num_gaps": 3, "num_main": 1, "main_ns": ns,
                "num_steps": 2, "name": name, "kind": "frame" if name else "", "name_ns": ns if name else 0,
                "within": within, "child": "", "child_ns": 0,
            }
            for cause, ns, name, within in causes
            if ns
        ],
        "operators": [],
        "host": [
            {"id": at, "parent": parent, "name": name, "kind": kind, "ns": half}
            for at, (parent, name, kind) in enumerate(nodes)
            if half
        ],
        "separated": [{"before": "copy_kernel", "after": "gemm", "num_gaps": 3, "ns": idle_ns, "host_ns": half}]
        * bool(idle_ns),
        "latency_ns": {"cudaLaunchKernel": rest},
    }  # fmt: skip


def _cells(events: Iterable[Event]) -> set[int]:
    return {cell for event in events for cell in event.cells()}


def _ns(cells: set[int]) -> int:
    return len(cells) * CELL_NS


def _total(events: Iterable[Event], kind: str) -> int:
    return sum(event.end_ns - event.start_ns for event in events if event.kind == kind)


def _stretches(cells: set[int]) -> list[list[int]]:
    starts = sorted(cell for cell in cells if cell - 1 not in cells)
    ends = sorted(cell + 1 for cell in cells if cell + 1 not in cells)
    return [[start * CELL_NS, end * CELL_NS] for start, end in zip(starts, ends, strict=True)]


def _triples(cells: set[int]) -> list[list[int]]:
    return [[start, end, end - start] for start, end in _stretches(cells)]


def _phase(event: Event, compute: set[int]) -> Document:
    mine = set(event.cells())
    moving = event.kind == "communication"
    length = event.end_ns - event.start_ns
    return {
        "name": event.name,
        "index": event.index,
        "step": None,
        "layer": None,
        "micro_batch": None,
        "lane": event.kind,
        "start_ns": event.start_ns,
        "end_ns": event.end_ns,
        "busy_ns": length,
        "compute_ns": 0 if moving else length,
        "communication_ns": length if moving else 0,
        "data_ns": length - NOTIFY_NS if moving else 0,
        "hidden_ns": _ns(mine & compute) if moving else 0,
        "exposed_ns": _ns(mine - compute) if moving else 0,
        "sms": event.sms,
        "stream": event.stream,
        "num_events": 1,
    }


def _phase_means(phases: list[Document]) -> list[Document]:
    means = []
    for name in dict.fromkeys(phase["name"] for phase in phases):
        group = [phase for phase in phases if phase["name"] == name]
        mean = {
            f"mean_{key}_ns": sum(phase[f"{key}_ns"] for phase in group) // len(group)
            for key in ("busy", "data", "hidden", "exposed")
        }
        means.append({"name": name, "lane": group[0]["lane"], "count": len(group), **mean})
    return means


def _collectives(phases: list[Document]) -> list[Document]:
    made = []
    for collective in ("dispatch", "combine"):
        group = [phase for phase in phases if phase["name"].startswith(collective)]
        if group:
            sums = {
                key: sum(phase[key] for phase in group) for key in ("busy_ns", "hidden_ns", "exposed_ns", "data_ns")
            }
            barrier_ns = sums["busy_ns"] - sums["data_ns"]
            # Some payload over the time that moves it; the bus factor of all-to-all over 64 ranks is 63/64.
            payload = {"payload_bytes": 1 << 28, "algbw_GBps": 48.0, "busbw_GBps": 47.25}
            made.append(
                {"collective": collective, "num_events": len(group), **sums, "barrier_ns": barrier_ns, **payload}
            )
    return made


def _matrix(events: list[Event], compute: set[int]) -> Document:
    rows = list(dict.fromkeys(event.name for event in events if event.kind == "communication"))
    columns = list(dict.fromkeys(event.name for event in events if event.kind == "compute"))
    cells = {name: _cells(event for event in events if event.name == name) for name in (*rows, *columns)}
    return {
        "communication": rows,
        "compute": [*columns, "(no phase)"],
        "ns": [[*(_ns(cells[row] & cells[column]) for column in columns), 0] for row in rows],
        "hidden_ns": [_ns(cells[row] & compute) for row in rows],
        "exposed_ns": [_ns(cells[row] - compute) for row in rows],
    }


def _lane(events: list[Event], kind: str, *, device: bool) -> Document:
    mine = [event for event in events if event.kind == kind]
    phases = [event for event in events if event.in_phase]
    sms = {"compute": 112, "communication": 20}[kind] if device and mine else None
    return {
        "lane": kind,
        "sms": sms,
        "sms_exact": True,
        "sm_unit": "SMs",
        "busy_ns": _ns(_cells(mine)),
        "busy": _triples(_cells(mine)),
        "streams": sorted({event.stream for event in mine}),
        "boxes": [
            {
                "name": event.name,
                "index": event.index,
                "start_ns": event.start_ns,
                "end_ns": event.end_ns,
                "busy_ns": event.end_ns - event.start_ns,
                "sms": event.sms if device else None,
                "direction": event.name[-2] if event.in_phase else None,
                "phase": phases.index(event) if event.in_phase else None,
                "layer": None,
                "micro_batch": None,
            }
            for event in sorted(mine, key=lambda event: event.start_ns)
        ],
    }


_KERNEL_NAMES = {
    "compute": (
        "void deep_gemm::fp8_gemm_kernel<(unsigned int)7168, (unsigned int)2048, 128, 128, deep_gemm::GemmType::Normal>"
        "(__nv_bfloat16*, float*, int*, unsigned int, CUtensorMap, CUtensorMap, CUtensorMap)",
        "gemm_fp8",
    ),
    "communication": ("void deep_ep::internode::dispatch<false, 8, true, 8>(int4*, float*, long*)", "deepep"),
    "memory": ("Memcpy HtoD (Pageable -> Device)", "memcpy_h2d"),
}


def _kernels(events: list[Event], *, device: bool) -> list[Document]:
    made = []
    whole = sum(event.end_ns - event.start_ns for event in events)
    for kind, (name, family) in _KERNEL_NAMES.items():
        lengths = sorted(event.end_ns - event.start_ns for event in events if event.kind == kind and event.in_phase)
        lengths = lengths or sorted(event.end_ns - event.start_ns for event in events if event.kind == kind)
        if lengths:
            made.append(
                {
                    "name": name,
                    "kind": kind,
                    "family": family,
                    "num_events": len(lengths),
                    "total_ns": sum(lengths),
                    "mean_ns": sum(lengths) // len(lengths),
                    "p50_ns": lengths[len(lengths) // 2],
                    "p99_ns": lengths[-1],
                    "min_ns": lengths[0],
                    "max_ns": lengths[-1],
                    "share": sum(lengths) / whole,
                    "sms": {"compute": 112, "communication": 20}.get(kind) if device else None,
                    "sms_exact": kind == "communication",
                }
            )
    return sorted(made, key=lambda kernel: -kernel["total_ns"])


def _steps(
    events: list[Event], compute: set[int], communication: set[int], memory: set[int], span_ns: int
) -> list[Document]:
    """Layer 0 as step 0, and the rest as step 1."""
    made = []
    for step, (start, end) in enumerate(((0, LAYER_NS), (LAYER_NS, span_ns))):
        window = set(range(start // CELL_NS, end // CELL_NS))
        c, k, m = compute & window, communication & window, memory & window
        made.append(
            {
                "step": step,
                "start_ns": start,
                "span_ns": end - start,
                "compute_ns": _ns(c),
                "exposed_communication_ns": _ns(k - c),
                "exposed_memory_ns": _ns(m - c - k),
                "idle_ns": end - start - _ns(c | k | m),
                "hidden_fraction": _ns(k & c) / _ns(k) if k else None,
                "from_other_steps_ns": 0,
                "ran_ahead_ns": 0,
                "spilled_ns": 0,
            }
        )
    return made if events else []
