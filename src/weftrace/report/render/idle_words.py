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
            "Idle time until the host begins the launch call of the work that ends the gap.",
        ),
        "call": ("Launch call", "Idle time within the launch call of the work that ends the gap."),
        "launch_latency": (
            "Launch latency",
            "Idle time from the return of the launch call to the start on the device, up to the "
            "usual latency in this trace. The usual latency is the median over launches by the same call "
            "that the device waited for. CUDA and HIP graphs reduce it; faster Python does not.",
        ),
        "turnaround": (
            "Turnaround",
            "Gaps of up to 30 µs before work that was launched in time: the device switches to the next kernel.",
        ),
        "held": (
            "Held",
            "Idle time beyond the usual launch latency, or before work that was launched in time. "
            "The work was queued, and something held it (an event, another stream, another device). The "
            "host is never the cause.",
        ),
        "unrecorded": (
            "Unrecorded",
            "Gaps, or parts of them, in which work ran that is missing from the file, so they may "
            "not be idle. The evidence is one of these: work was queued and nothing recorded held it; the "
            "file has launches without their work; there is a hole within one launch of a graph; or a hole "
            "is equally long in each step, or as long as an iteration, and the host recorded nothing in it.",
        ),
        "unknown": ("Unknown", "Gaps that end with work without a launch in the file, so the cause is unknown."),
    }
)

#: Cause of idle time (`CAUSES` of idle_pieces.py) -> (what it is called, what it means).
CAUSE_WORDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "garbage_collection": ("garbage collection", "The launching thread was in Python's garbage collector."),
        "compilation": (
            "compilation",
            "It was in torch.compile, Triton, or a call that loads or links device code.",
        ),
        "data_loading": (
            "data loading",
            "It waited for a batch or made one: DataLoader and other loaders, or a range named like one.",
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
            "It waited for the device in a synchronisation, or to read a number (item). The time "
            "until the next launch counts too, if the host did no work of its own in it.",
        ),
        "blocking_copy": (
            "blocking copies",
            "It waited for a copy: from or to pageable memory, or by a synchronous call. The time "
            "until the next launch counts too, if the host did no work of its own in it.",
        ),
        "graph_launch": ("graph launch", "It was in a call that launches a CUDA or HIP graph and took 0.1 ms or more."),
        "first_use": (
            "first use of a kernel",
            "It was in the first launch of a kernel, at least 0.1 ms and ten times as long as such a call usually is: "
            "the kernel's code was loaded.",
        ),
        "operators": (
            "eager operators",
            "It was in PyTorch operators that no other cause covers: small operators, one after another.",
        ),
        "python": (
            "Python between operators",
            "It was in Python functions and in no operator, or it recorded nothing for at most 1 ms of a gap.",
        ),
        "backward_thread": (
            "silent launching thread",
            "The launching thread recorded nothing, while an annotation was open on another thread: autograd's thread "
            "under a backward pass.",
        ),
        "annotation": (
            "only an annotation",
            "Only an annotation shows what the host did; record with_stack=True to see more.",
        ),
        "nothing_recorded": ("host recorded nothing", "No thread recorded anything in more than 1 ms of a gap."),
        "launch_call": ("launch calls", "It was in calls that launch kernels, or in other calls of the runtime."),
        **{name: (PART_WORDS[name][0].lower(), PART_WORDS[name][1]) for name in ("launch_latency", "turnaround")},
        "held": ("held in the queue", PART_WORDS["held"][1]),
        "unrecorded": ("unrecorded work", PART_WORDS["unrecorded"][1]),
        "file_cut": (
            "cut from the file",
            "A hole as long as one to three iterations, in which no host thread recorded anything. "
            "Iterations were probably cut out of the file. It counts as unrecorded.",
        ),
        "unknown": ("unknown", PART_WORDS["unknown"][1]),
    }
)

assert set(CAUSE_WORDS) == set(CAUSES), set(CAUSE_WORDS) ^ set(CAUSES)


def cause_name(cause: str) -> str:
    """What a cause is called; of one that only a later version knows, its own name."""
    return CAUSE_WORDS[cause][0] if cause in CAUSE_WORDS else cause.replace("_", " ")


#: The same as terms of the page: `idle_host`, `cause_operators` and so on.
IDLE_TERMS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {f"idle_{part}": words for part, words in PART_WORDS.items()}
    | {f"cause_{cause}": (word[0].upper() + word[1:], meaning) for cause, (word, meaning) in CAUSE_WORDS.items()}
)
