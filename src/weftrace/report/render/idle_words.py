"""What the parts and the causes of idle time are called, and what each means: for terminal, page, figures and docs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from weftrace.analysis.waiting.idle_pieces import CAUSES

#: Part of idle time (`IdleAccount`, without _ns) -> (what it is called, what it means), in the order of a picture.
PART_WORDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "host": (
            "Host",
            "Idle time until the call begins that launches what ends the gap: what the host did until then.",
        ),
        "call": ("Launch call", "Idle time within the call that launches what ends the gap."),
        "launch_latency": (
            "Launch latency",
            "Idle time from the return of the launch call to the start on the device, up to what is usual in this "
            "trace: the median over launches by the same call that the device waited for. CUDA and HIP graphs make it "
            "less; faster Python does not.",
        ),
        "turnaround": (
            "Turnaround",
            "Gaps of up to 30 µs before work that had been launched in time: the device turns to the next kernel.",
        ),
        "held": (
            "Held",
            "Idle time beyond the usual launch latency, or before work that had been launched in time: it was queued, "
            "and something held it (an event, another stream, another device). It is never the host's.",
        ),
        "unrecorded": (
            "Unrecorded",
            "Gaps, or parts of them, in which work ran that the file lacks, so they are not known to be idle. The "
            "evidence: work was queued and nothing recorded held it; launches whose work is not in the file; a hole "
            "within one launch of a graph, or one that is equally long in each step, or as long as an iteration, in "
            "which the host recorded nothing either.",
        ),
        "unknown": ("Unknown", "Gaps that end with work whose launch is not in the file, so the cause cannot be told."),
    }
)

#: Cause of idle time (`CAUSES` of idle_pieces.py) -> (what it is called, what it means).
CAUSE_WORDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "garbage_collection": ("garbage collection", "The launching thread was in Python's garbage collector."),
        "compilation": (
            "compilation",
            "It was in torch.compile, Triton, or a call that loads or links a module of the device.",
        ),
        "data_loading": (
            "data loading",
            "It was waiting for, or making, a batch: DataLoader and other loaders, or a range named like one.",
        ),
        "buffer_broadcast": ("DDP's buffer broadcast", "DistributedDataParallel sent buffers before the forward pass."),
        "allocation": ("memory allocation", "It was in a call that allocates or frees memory (cudaMalloc, cudaFree)."),
        "scheduler": ("engine's scheduler", "It was in the scheduler of an inference engine (vLLM, SGLang, TensorRT)."),
        "logging": ("logging", "It was writing logs, metrics or a progress bar."),
        "checkpoint": ("checkpoint", "It was saving or loading a checkpoint."),
        "zero_grad": ("zeroing gradients", "It was in the optimizer's zero_grad."),
        "optimizer": ("optimizer step", "It was in the optimizer's step."),
        "lock": ("lock, hand-over", "It waited for a lock, a queue, or another thread."),
        "blocking_sync": (
            "waits for the device",
            "It waited for the device in a synchronisation, or to read a number (item). What follows until the next "
            "launch counts too, where the host did no work of its own.",
        ),
        "blocking_copy": (
            "blocking copies",
            "It waited for a copy: from or to pageable memory, or by a synchronous call. What follows until the next "
            "launch counts too, where the host did no work of its own.",
        ),
        "graph_launch": ("graph launch", "It was in a call that launches a CUDA or HIP graph and took 0.1 ms or more."),
        "first_use": (
            "first use of a kernel",
            "It was in the first launch of a kernel, at least 0.1 ms and ten times as long as such a call usually is: "
            "the kernel's code was loaded.",
        ),
        "operators": (
            "eager operators",
            "It was in PyTorch operators that none of the causes above names: small operators, one after another.",
        ),
        "python": (
            "Python between operators",
            "It was in Python functions, in no operator; or recorded nothing for at most 1 ms of a gap.",
        ),
        "backward_thread": (
            "silent launching thread",
            "The launching thread recorded nothing, while an annotation was open on another thread: autograd's thread "
            "under a backward pass.",
        ),
        "annotation": (
            "only an annotation",
            "Nothing but an annotation tells what the host did; recording with_stack tells more.",
        ),
        "nothing_recorded": ("host recorded nothing", "No thread recorded anything in more than 1 ms of a gap."),
        "launch_call": ("launch calls", "It was in calls that launch kernels, or in other calls of the runtime."),
        **{name: (PART_WORDS[name][0].lower(), PART_WORDS[name][1]) for name in ("launch_latency", "turnaround")},
        "held": ("held in the queue", PART_WORDS["held"][1]),
        "unrecorded": ("unrecorded work", PART_WORDS["unrecorded"][1]),
        "file_cut": (
            "cut from the file",
            "A hole as long as one to three iterations, in which no thread of the host recorded anything: iterations "
            "were likely cut out of the file. It counts as unrecorded.",
        ),
        "unknown": ("unknown", PART_WORDS["unknown"][1]),
    }
)
assert set(CAUSE_WORDS) == set(CAUSES), set(CAUSE_WORDS) ^ set(CAUSES)

#: The same as terms of the page: `idle_host`, `cause_operators` and so on.
IDLE_TERMS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {f"idle_{part}": words for part, words in PART_WORDS.items()}
    | {f"cause_{cause}": (word[0].upper() + word[1:], meaning) for cause, (word, meaning) in CAUSE_WORDS.items()}
)
