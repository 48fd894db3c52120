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
            "A window of the device's time: from the first device event that the step launched to the next step's; a "
            "copy that runs ahead, while kernels from before the step still run, begins none. All that runs in it "
            "counts, whoever launched it, cut at its ends. So with the time before the first step and after the last, "
            "every column adds up to the whole trace's.",
        ),
        "from_other_steps": (
            "Launched by other steps",
            "Time in a step's window during which work ran that was launched in another step, or outside of all.",
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
            "hold the SMs, so their time counts with compute. What of it is communication is not separable, and so it "
            "is neither hidden nor exposed.",
        ),
        "communication": (
            "Communication",
            "Time during which at least one communication kernel ran (NCCL, RCCL, DeepEP …), as a union over streams.",
        ),
        "hidden": (
            "Hidden communication",
            "|communication & compute| / |communication|: the part of communication time during which some compute "
            "kernel ran too. It adds no exposed time, but holds SMs and bandwidth. Undefined where there is no "
            "communication.",
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
            "Union of the device events asked about (of the rank, a stream, a phase). Two at once count once.",
        ),
        "overlap_speedup": (
            "Overlap speed-up",
            "Sum of all durations divided by the time during which anything ran. 1.00× means nothing overlapped; "
            "2.00× that on average two things ran at once.",
        ),
        "headroom": (
            "Headroom",
            "Span minus the ideal step. The ideal step is max(|compute|, |communication|, longest dependent chain): "
            "what would remain if all overlapped perfectly and nothing was idle. An upper bound on what can be saved "
            "by overlap alone, every kernel as long as it is; where communication is the longest of the three it is "
            "none, for collectives also hold their waiting for other ranks.",
        ),
        "chain": (
            "Longest dependent chain",
            "The longest path through the device events, each after its predecessor on its stream and after the waits"
            " between streams that the trace records. No overlap makes a step shorter than this.",
        ),
        "serial": (
            "Serial sum",
            "Sum of the durations of all device events: how long they would take one after the other.",
        ),
        "data_barrier": (
            "Data and barrier",
            "Communication kernels that move data against kernels that only notify or wait (DeepEP's notify kernels; "
            "NCCL has none). Barrier time is waiting for other ranks, not bytes.",
        ),
        "phase": (
            "Phase",
            "A range that the program named (record_function, NVTX), projected on the device: the device events whose"
            " launch lies in it. The innermost range wins.",
        ),
        "lane": (
            "Lane",
            "Compute or communication: its phases in the order in which the device ran them.",
        ),
        "sms": (
            "SMs",
            "Streaming multiprocessors (on AMD compute units, CUs) a kernel holds: min(blocks, SMs of the device) for "
            "kernels that keep one block on each SM. “≤” marks an upper bound.",
        ),
        "overlap_matrix": (
            "Overlap matrix",
            "Row: a communication phase. Column: a compute phase. Cell: how long both ran at once. Hidden and exposed"
            " are the row's whole communication time, split.",
        ),
        "share": (
            "Share",
            "The sum of its durations divided by that of all device events, which may run at once.",
        ),
        "p99": (
            "p50, p99",
            "Half, and 99 %, of the calls took at most this long.",
        ),
        **IDLE_TERMS,
        "launch_delay": (
            "Launch delay",
            "Start on the device minus start of the launch call on the host. Long delays are good: the host runs "
            "ahead.",
        ),
        "queue": (
            "Queue length",
            "Launches made minus device events started, at a moment. 0 means the device waits for the host.",
        ),
        "host_silent": (
            "Host silent",
            "A millisecond or more in a phase in which the host recorded neither an operator nor a call: it computes "
            "in Python, or polls, as DeepEP's dispatch does for the number of tokens to receive.",
        ),
        "host_blocked": (
            "Host blocked",
            "Host calls that wait for the device (synchronisations): the host cannot run ahead while in them.",
        ),
        "algbw": (
            "algbw, busbw",
            "Payload bytes / duration. busbw multiplies by the collective's factor: all-reduce 2(n−1)/n; all-gather, "
            "reduce-scatter, all-to-all (n−1)/n; others 1.",
        ),
        "whole_busbw": (
            "Bandwidth of the whole",
            "busbw at the median duration of a collective on all ranks, in which it also waits for the last rank: "
            "what the job got, not what the links can carry.",
        ),
        "transfer_busbw": (
            "Bandwidth of the transfer",
            "busbw at the median of own end − last start of the group, the time in which all ranks were there. “≥” "
            "marks a lower bound: what stands for the transfer may hold waiting. Best and least are those of the "
            "shortest and the longest transfer.",
        ),
        "transfer_basis": (
            "What stands for the transfer",
            "all ranks: own end − last start. ranks present: the same, but ranks of the group have no file here. "
            "fastest rank: clocks disagree by more than a tenth of it, so the shortest duration of a rank in each "
            "collective. shortest event: nothing could be matched, so the shortest duration on all ranks. whole: "
            "nothing is known but the whole, with waiting inside.",
        ),
        "quality": (
            "Data quality",
            "What was dropped, repaired, clipped, could not be linked to its launch, or is not named by any kernel "
            "rule. A number from part of the data should look like one.",
        ),
        "unnamed": (
            "Unnamed kernels",
            "Kernels that no rule names. They count as compute; their share of compute time is shown, so that you can"
            " judge the rest.",
        ),
        "module_time": (
            "Time by module",
            "Sum of the durations of the device events launched while the module was the innermost one open on the "
            "launching thread (own), and of all modules in it (total). What a backward operator launched belongs to "
            "where its forward operator was called. Own times of all modules, and what lies outside, add up to the "
            "serial sum.",
        ),
        "function_time": (
            "Time by function",
            "The same by Python function; those of torch, triton and Python's own library are passed over. The line is "
            "the one at which the function begins.",
        ),
        "module_flops": (
            "FLOPs of a module",
            "Matrix FLOPs that the model needs, of the operators launched in it, or for its backward, whose FLOPs "
            "follow from their shapes: at least so many. FLOP/s: over the time in which anything of it ran.",
        ),
        "module_idle": (
            "Idle in a module",
            "Idle time of the device while the module was open on the thread that launched what ended the gap. Those "
            "of all modules and of what lies outside add up to idle. Idle before a module: the gaps that its own "
            "events ended, wherever the time went.",
        ),
        "efficiency": (
            "Efficiency",
            "FLOPs and bytes of each operator call, by the formulas that count a model as it runs, from the shapes "
            "that the trace recorded; and the time in which the call's device events ran. A device event belongs to "
            "the outermost operator with a formula that was open when it was launched.",
        ),
        "rated_flops": (
            "FLOPs known",
            "Device time of operator calls whose matrix FLOPs follow from their shapes: matrix products, convolutions, "
            "attention.",
        ),
        "rated_bytes": (
            "Bytes alone",
            "Device time of operator calls without matrix FLOPs: what they read and write is their measure.",
        ),
        "no_shapes": (
            "No shapes",
            "Device time of operators that were recorded without shapes, or whose work does not follow from them.",
        ),
        "no_operator": (
            "No operator",
            "Device time around whose launch no operator is recorded: replays of graphs, launches outside of operators "
            "or before the recording.",
        ),
        "trace_mfu": (
            "MFU and HFU, at least",
            "Time that the needed (MFU) or the executed (HFU) matrix FLOPs of all rated calls take at the chip's dense "
            "peak for their dtypes, over the span. What is not rated adds nothing, so both are lower bounds.",
        ),
        "peak_share": (
            "Part of the peak",
            "Time that the executed matrix FLOPs take at the chip's dense peak for their dtype / the calls' time.",
        ),
        "roofline_share": (
            "Part of the roofline",
            "Least time of the calls, the longer of what their arithmetic takes at the peak and what their bytes, each "
            "input and output once, take at the memory's bandwidth / the time of the calls.",
        ),
        "clock": (
            "Clock offset",
            "How far this rank's clock is ahead of the first rank's, estimated from the ends of matched collectives.",
        ),
        "job_span": (
            "Mean span",
            "The mean of the spans of the ranks that count: none that failed, and none that is in no sum.",
        ),
        "job_idle": (
            "Idle over ranks",
            "Sum of the idle times of the ranks that count / sum of their spans, as the headline has it.",
        ),
        "job_exposed": (
            "Exposed over ranks",
            "Sum of the exposed communication of the ranks that count / sum of their spans, as the headline has it.",
        ),
        **SLOWDOWN_TERMS,
        "waiting": (
            "Waiting for others",
            "Of a collective that was matched over ranks: last start of any rank − own start. The rest, own end − last "
            "start, is transferring.",
        ),
        "transfer": (
            "Transferring",
            "Of a collective that was matched over ranks: own end − last start of any rank.",
        ),
        "caused": (
            "Lateness caused",
            "Sum over collectives into which the rank came last of own start − second last start.",
        ),
        "suffered": (
            "Lateness suffered",
            "Sum of a rank's waiting for others within its matched collectives.",
        ),
        "origin": (
            "Waits that began with it",
            "Waiting of all ranks that began with this one: where it was late because it had itself waited, that part "
            "is passed on to the rank that it waited for.",
        ),
        "peers": (
            "Compute of peers",
            "How long a rank computes in a step / the lower median of its peers: the ranks of its stage where stages "
            "are told, else all. Bold where it is 1.1 or more in two thirds of the steps and the others are alike.",
        ),
    }
)

#: Time by module: what stands beside its heading, by where modules are known from.
CODE_NOTES: Mapping[str, str] = MappingProxyType(
    {
        "frames": "launched in it, or for its backward",
        "hierarchy": "as operators of TorchScript tell it",
        "ranges": "by ranges that are named like modules",
        "stacks": "as operators of an old file tell it",
        "nothing": "",
    }
)
OUTSIDE_CODE = "(outside)"
GRAPH_NOTE = "Of what lies outside, {} ran in graphs (CUDA, HIP), whose replay is in none of their modules."
NO_MODULES = (
    "Nothing in this file tells modules. torch.profiler records them with with_stack=True (with_modules=True alone is "
    "for TorchScript)."
)
NONE_LAUNCHED = "The file tells {}, and none of them launched what is told of here."
NO_FUNCTIONS = "There are no Python frames in this file. torch.profiler records them with with_stack=True."
