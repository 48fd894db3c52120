"""How a trace or a profile was made, in words: what `Trace.configuration` tells, for the terminal and the pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

#: How a trace was made: the names that weftrace's profiles and captures write into it, in words.
CONFIGURATION: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "profile.kind": (
            "Profile",
            "Which of DeepSeek's published profiles it is the like of: training (a forward and a backward chunk "
            "overlapped), prefill or decode (two micro-batches of an inference server).",
        ),
        "profile.model": ("Model", "The model whose shapes the work has."),
        "profile.hardware": ("Hardware", "The accelerator whose rates the times are worked out with, or that ran it."),
        "profile.ep": ("EP", "Ranks of the expert-parallel group, over which the experts of a layer are spread."),
        "profile.tokens": ("Tokens", "Tokens of one micro-batch on one GPU."),
        "profile.sequence": ("Sequence", "Tokens of a prompt; in decode, of a request's cache."),
        "profile.comm": ("Communication", "The library whose dispatch and combine kernels are meant."),
        "profile.layers": (
            "Layers",
            "Layers that were run, each a mixture-of-experts layer; in training pairs of two.",
        ),
        "profile.overlap": ("Overlap", "The list of operations, in order: what runs beside what."),
        "profile.sms": ("SM split", "SMs of the device left for computation + held by communication kernels."),
        "profile.costs": (
            "Costs",
            "Where simulated times come from: roofline (bytes and FLOPs at peak rates), published rates, or calibrated "
            "on layers of a measured trace.",
        ),
        "profile.hidden": ("Hidden", "The width of the model that was run."),
        "profile.routing": (
            "Routing",
            "How tokens were shared out among experts: balanced, as in the published profiles; learned: by the weights "
            "of a gate; drawn at random; or by given loads of GPUs.",
        ),
        "capture.torch": ("torch", "The version of torch that was captured."),
        "capture.cuda": ("CUDA", "The version of CUDA that torch was built with."),
        "capture.hip": ("HIP", "The version of HIP that torch was built with."),
        "capture.nccl": ("NCCL", "The version of NCCL that torch uses."),
        "capture.python": ("Python", "The version of Python that ran."),
        "capture.weftrace": ("weftrace", "The version of weftrace that recorded."),
        "capture.parallel": ("Parallel", "Sizes of the parallel groups, as the program said them."),
        "capture.host": ("Host", "The machine that this rank ran on."),
        "capture.program": ("Program", "The script that was recorded."),
        "capture.schedule": (
            "Schedule",
            "Steps that were left alone, steps in which the profiler started, steps that were recorded.",
        ),
        "capture.with": ("Recorded", "What was recorded beside operators, kernels and ranges."),
        "capture.overhead": (
            "Overhead",
            "What recording cost, by the run's own clock: median steps before and while recorded, and the longest time "
            "that the run stood still, to stop the profiler or while torch wrote its JSON.",
        ),
        "capture.stretches": (
            "Stretches",
            "How often the profiler was stopped and started again between recorded steps.",
        ),
        "capture.cut_short": ("Cut short", "The step that an exception ended; its events end there."),
        "capture.problems": ("Problems", "What went wrong with the recording until this file was written."),
        "capture.steps": ("Steps kept", "Profiler steps that the file holds."),
        "capture.dropped_steps": ("Steps dropped", "Older steps that were given up to keep the file under its bound."),
    }
)


def configured_terms(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Terms of the settings that a trace has: a page of no profile need not define them."""
    summary = set(names)
    return {name: term for name, term in CONFIGURATION.items() if name in summary}


def in_words(configuration: Mapping[str, str]) -> dict[str, str]:
    """What each setting is called -> its text."""
    return {CONFIGURATION.get(name, (name, ""))[0]: text for name, text in configuration.items()}
