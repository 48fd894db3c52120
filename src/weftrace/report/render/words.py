"""A trace's report in words: what each number means. The terminal and the page say them alike."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from weftrace.render.slowdown_words import SLOWDOWN_TERMS
from weftrace.report.render.idle_words import IDLE_TERMS

#: key -> (term, what it means). |X| is the length of the union of the intervals of X over all streams of one rank;
#: X & Y is the overlap, X - Y the rest.
TERMS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "span": (
            "Span",
            "Last end minus first start of anything that ran on the device; of a profiler step, its window. span = "
            "compute + exposed communication + exposed memory + idle, exactly.",
        ),
        "step": (
            "Step",
            "A window of the device's time: from the first device event that the step launched to "
            "the first one that the next step launched. A copy that runs ahead, while kernels from before "
            "the step still run, does not start a window. Everything that runs in the window counts, cut at "
            "its ends. Together with the time before the first step and after the last, every column adds "
            "up to the value of the whole trace.",
        ),
        "from_other_steps": (
            "Launched by other steps",
            "Time in a step's window during which work ran that was launched in another step, or outside of all steps.",
        ),
        "ran_ahead": (
            "Ran ahead",
            "Time before a step's window during which work ran that the step launched: batches copied in advance.",
        ),
        "spilled": (
            "Ran in later steps",
            "Time after a step's window during which work ran that the step launched.",
        ),
        "compute": (
            "Compute",
            "Time during which at least one compute kernel ran: the union of all compute kernels over all streams, so"
            " two at once count once.",
        ),
        "fused": (
            "Fused",
            "Time of kernels that compute and communicate in one (DeepGEMM's mega_moe, flux, ag_gemm, gemm_rs …). They "
            "hold the SMs, so their time counts with compute. Their communication cannot be "
            "separated, so it is neither hidden nor exposed.",
        ),
        "communication": (
            "Communication",
            "Time during which at least one communication kernel ran (NCCL, RCCL, DeepEP …), as a union over streams.",
        ),
        "hidden": (
            "Hidden communication",
            "|communication & compute| / |communication|: the part of communication time during which some compute "
            "kernel ran too. It adds no exposed time, but holds SMs and bandwidth. Undefined without communication.",
        ),
        "exposed": (
            "Exposed communication",
            "|communication − compute|: time during which communication ran and no compute kernel did. The GPU waits "
            "for the network.",
        ),
        "exposed_memory": (
            "Exposed memory",
            "|memory − compute − communication|: copies and fills during which nothing else ran.",
        ),
        "memory": (
            "Memory",
            "Time during which a memcpy or memset ran, as a union over streams.",
        ),
        "idle": (
            "Idle",
            "Span minus the union of everything that ran on the device: nothing ran at all.",
        ),
        "busy": (
            "Busy",
            "Union of the device events of the rank, the stream or the phase in question. Two at once count once.",
        ),
        "overlap_speedup": (
            "Overlap speed-up",
            "Sum of all durations divided by the time during which anything ran. 1.00× means nothing overlapped; "
            "2.00× that on average two things ran at once.",
        ),
        "headroom": (
            "Headroom",
            "Span minus the ideal step. The ideal step is max(|compute|, |communication|, longest dependent chain): "
            "what would remain if all overlapped perfectly and nothing was idle. It is an upper "
            "bound on what overlap alone can save, with every kernel as long as it is. It is no bound if "
            "communication is the longest of the three, because collectives also contain their waiting for "
            "other ranks.",
        ),
        "chain": (
            "Longest dependent chain",
            "The longest path through the device events. Each event runs after its predecessor on "
            "its stream and after the waits between streams that the trace records. No overlap makes a step "
            "shorter than this.",
        ),
        "serial": (
            "Serial sum",
            "Sum of the durations of all device events: how long they would take one after the other.",
        ),
        "data_barrier": (
            "Data and barrier",
            "Data: communication kernels that move data. Barrier: kernels that only notify or wait "
            "(DeepEP's notify kernels; NCCL has none). Barrier time is waiting for other ranks; no bytes "
            "move.",
        ),
        "phase": (
            "Phase",
            "A range that the program named (record_function, NVTX), projected on the device: the "
            "device events that were launched in it. The innermost range wins.",
        ),
        "lane": (
            "Lane",
            "Compute or communication: the phases of one kind, in the order in which the device ran them.",
        ),
        "sms": (
            "SMs",
            "Streaming multiprocessors (on AMD compute units, CUs) a kernel holds: min(blocks, SMs of the device) for "
            "kernels that keep one block on each SM. “≤” marks an upper bound.",
        ),
        "overlap_matrix": (
            "Overlap matrix",
            "Row: a communication phase. Column: a compute phase. Cell: how long both ran at once. "
            "Hidden and exposed split the row's whole communication time.",
        ),
        "share": (
            "Share",
            "The sum of its durations divided by the sum of the durations of all device events, which may run at once.",
        ),
        "p99": (
            "p50, p99",
            "Half of the calls (p50), or 99 % of them (p99), took at most this long.",
        ),
        **IDLE_TERMS,
        "launch_delay": (
            "Launch delay",
            "Start on the device minus start of the launch call on the host. Long delays are good, "
            "because the host runs ahead.",
        ),
        "queue": (
            "Queue length",
            "Launches made minus device events started, at a moment. 0 means the device waits for the host.",
        ),
        "host_silent": (
            "Host silent",
            "A millisecond or more of a phase in which the host recorded neither an operator nor a "
            "call. It computes in Python, or it polls, as DeepEP's dispatch does to learn how many tokens "
            "it receives.",
        ),
        "host_blocked": (
            "Host blocked",
            "Host calls that wait for the device (synchronisations). The host cannot run ahead while it is in them.",
        ),
        "algbw": (
            "algbw, busbw",
            "Payload bytes / duration. busbw multiplies by the collective's factor: all-reduce 2(n−1)/n; all-gather, "
            "reduce-scatter, all-to-all (n−1)/n; others 1.",
        ),
        "whole_busbw": (
            "Bandwidth of the whole",
            "busbw at the median duration of a collective on all ranks. The duration includes "
            "waiting for the last rank, so this is what the job got, not what the links can carry.",
        ),
        "transfer_busbw": (
            "Bandwidth of the transfer",
            "busbw at the median of own end − last start of the group, which is the time in which "
            "all ranks took part. “≥” marks a lower bound: the time used as the transfer may include "
            "waiting. Best and least are the values of the shortest and the longest transfer.",
        ),
        "transfer_basis": (
            "What is used as the transfer",
            "All ranks: own end − last start. Ranks present: the same, but some ranks of the group "
            "have no file. Fastest rank: the shortest duration of a rank in each collective, as the clocks "
            "disagree by more than a tenth of it. Shortest event: the shortest duration on all "
            "ranks, because nothing could be matched. Whole: only the whole duration is known, waiting "
            "included.",
        ),
        "quality": (
            "Data quality",
            "Events that were dropped, repaired or clipped, or could not be linked to their launch, "
            "and kernels that no rule names. A number from part of the data should look like one.",
        ),
        "unnamed": (
            "Unnamed kernels",
            "Kernels that no rule names. They count as compute; their share of compute time is shown, so that you can"
            " judge the rest.",
        ),
        "module_time": (
            "Time by module",
            "Own: sum of the durations of the device events that were launched while the module was "
            "the innermost open one on the launching thread. Total: own time plus that of all modules in "
            "it. Work that a backward operator launched belongs to the module that called its forward "
            "operator. The own times of all modules and of the work outside add up to the serial sum.",
        ),
        "function_time": (
            "Time by function",
            "The same by Python function, without the functions of torch, triton and Python's own "
            "library. The line is the one at which the function begins.",
        ),
        "module_flops": (
            "FLOPs of a module",
            "Matrix FLOPs that the model needs in the operators launched in this module or for its "
            "backward. It is a lower bound: only operators with FLOPs that follow from their shapes count. "
            "FLOP/s: over the time in which any work of the module ran.",
        ),
        "module_idle": (
            "Idle in a module",
            "Idle time of the device while the module was open on the thread that launched the work "
            "after the gap. The idle times of all modules and of the time outside add up to idle. Idle "
            "before a module: the gaps that its own events ended.",
        ),
        "efficiency": (
            "Efficiency",
            "FLOPs and bytes of each operator call, from the shapes in the trace and the formulas of "
            "weftrace flops, and the time in which the call's device events ran. A device event belongs to "
            "the outermost operator with a formula that was open when it was launched.",
        ),
        "rated_flops": (
            "FLOPs known",
            "Device time of operator calls with matrix FLOPs that follow from their shapes: matrix "
            "products, convolutions, attention.",
        ),
        "rated_bytes": (
            "Bytes alone",
            "Device time of operator calls without matrix FLOPs. They are measured by the bytes that "
            "they read and write.",
        ),
        "no_shapes": (
            "No shapes",
            "Device time of operators that were recorded without shapes, or with work that does not "
            "follow from the shapes.",
        ),
        "no_operator": (
            "No operator",
            "Device time that was launched outside every recorded operator: graph replays, launches "
            "between operators or before the recording.",
        ),
        "trace_mfu": (
            "MFU and HFU, at least",
            "Time that the needed (MFU) or the executed (HFU) matrix FLOPs of all rated calls take at the chip's dense "
            "peak for their dtypes, over the span. Calls without known FLOPs add nothing, so both are lower bounds.",
        ),
        "peak_share": (
            "Part of the peak",
            "Time that the executed matrix FLOPs take at the chip's dense peak for their dtype / the calls' time.",
        ),
        "roofline_share": (
            "Part of the roofline",
            "Shortest possible time of the calls / their measured time. The shortest possible time "
            "is the longer of two: that of their arithmetic at the peak, and that of their bytes (each "
            "input and output once) at the memory's bandwidth.",
        ),
        "clock": (
            "Clock offset",
            "How far this rank's clock is ahead of the first rank's, estimated from the ends of matched collectives.",
        ),
        "job_span": (
            "Mean span",
            "The mean of the spans of the ranks that count. Ranks that failed or are in no sum do not count.",
        ),
        "job_idle": (
            "Idle over ranks",
            "Sum of the idle times of the ranks that count / sum of their spans. The headline gives the same share.",
        ),
        "job_exposed": (
            "Exposed over ranks",
            "Sum of the exposed communication of the ranks that count / sum of their spans. The "
            "headline gives the same share.",
        ),
        **SLOWDOWN_TERMS,
        "waiting": (
            "Waiting for others",
            "In a collective that was matched across ranks: last start of any rank − own start. The "
            "rest, own end − last start, is transferring.",
        ),
        "transfer": (
            "Transferring",
            "In a collective that was matched across ranks: own end − last start of any rank.",
        ),
        "caused": (
            "Lateness caused",
            "Sum of own start − second last start, over the collectives that this rank entered last.",
        ),
        "suffered": (
            "Lateness suffered",
            "Sum of a rank's waiting for others within its matched collectives.",
        ),
        "origin": (
            "Waiting that it caused",
            "Waiting of all ranks that this rank caused. Where it was late because it had waited "
            "itself, that part counts for the rank that it waited for.",
        ),
        "peers": (
            "Compute of peers",
            "How long a rank computes in a step / the lower median of its peers. Peers are the ranks "
            "of its stage if stages are known, otherwise all ranks. Bold if it is 1.1 or more in two thirds "
            "of the steps and the other ranks are close to each other.",
        ),
    }
)

#: Time by module: what stands beside its heading, by where modules are known from.
CODE_NOTES: Mapping[str, str] = MappingProxyType(
    {
        "frames": "launched in it, or for its backward",
        "hierarchy": "read from the operators of TorchScript",
        "ranges": "read from ranges that are named like modules",
        "stacks": "read from the operators of an old file",
        "nothing": "",
    }
)
OUTSIDE_CODE = "(outside)"
GRAPH_NOTE = "Outside all modules, {} ran in graphs (CUDA, HIP): a replay belongs to none of the modules."
NO_MODULES = (
    "This file has no modules. Record them with torch.profiler's with_stack=True (with_modules=True "
    "alone is for TorchScript)."
)
NONE_LAUNCHED = "The file has {}, but none of them launched the device work shown here."
NO_FUNCTIONS = "This file has no Python frames. Record them with torch.profiler's with_stack=True."
