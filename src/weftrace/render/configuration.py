"""How a trace or a profile was made, in words: what `Trace.configuration` tells, for the terminal and the pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

#: How a trace was made: the names that weftrace's profiles and captures write into it, in words.
CONFIGURATION: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "profile.kind": (
            "Profile",
            "Which of DeepSeek's published profiles it resembles: training (a forward and a backward "
            "chunk overlapped), prefill or decode (two micro-batches of an inference server).",
        ),
        "profile.model": ("Model", "The model that the shapes are from."),
        "profile.hardware": (
            "Hardware",
            "The accelerator that ran the work, or that sets the rates of simulated times.",
        ),
        "profile.ep": ("EP", "Ranks of the expert-parallel group. The experts of a layer are spread over them."),
        "profile.tokens": ("Tokens", "Tokens of one micro-batch on one GPU."),
        "profile.sequence": ("Sequence", "Tokens of a prompt; in decode, tokens in a request's cache."),
        "profile.comm": ("Communication", "The library of the dispatch and combine kernels."),
        "profile.layers": (
            "Layers",
            "Mixture-of-experts layers that were run; in training, pairs of layers.",
        ),
        "profile.overlap": ("Overlap", "The list of operations in order, and which of them overlap."),
        "profile.sms": ("SM split", "SMs of the device left for computation + held by communication kernels."),
        "profile.costs": (
            "Costs",
            "The source of simulated times: roofline (bytes and FLOPs at peak rates), published rates, or calibrated "
            "on layers of a measured trace.",
        ),
        "profile.hidden": ("Hidden", "The hidden size of the model that was run."),
        "profile.routing": (
            "Routing",
            "How tokens were distributed over experts: balanced, as in the published profiles; "
            "learned (by the weights of a gate); drawn at random; or by given loads of GPUs.",
        ),
        "capture.torch": ("torch", "The version of torch that was captured."),
        "capture.cuda": ("CUDA", "The version of CUDA that torch was built with."),
        "capture.hip": ("HIP", "The version of HIP that torch was built with."),
        "capture.nccl": ("NCCL", "The version of NCCL that torch uses."),
        "capture.python": ("Python", "The version of Python that ran."),
        "capture.weftrace": ("weftrace", "The version of weftrace that recorded."),
        "capture.parallel": ("Parallel", "Sizes of the parallel groups, as the program gave them."),
        "capture.host": ("Host", "The machine that this rank ran on."),
        "capture.program": ("Program", "The script that was recorded."),
        "capture.schedule": (
            "Schedule",
            "Steps without recording, steps in which the profiler warmed up, and recorded steps.",
        ),
        "capture.with": ("Recorded", "What was recorded in addition to operators, kernels and ranges."),
        "capture.overhead": (
            "Overhead",
            "What recording cost, by the run's own clock: the median step before and during "
            "recording, and the longest pause of the run (to stop the profiler, or while torch wrote its "
            "JSON).",
        ),
        "capture.stretches": (
            "Stretches",
            "How often the profiler was stopped and started again between recorded steps.",
        ),
        "capture.cut_short": ("Cut short", "The step in which an exception stopped the run; its events end there."),
        "capture.problems": ("Problems", "What went wrong with the recording before this file was written."),
        "capture.steps": ("Steps kept", "Profiler steps that the file holds."),
        "capture.dropped_steps": (
            "Steps dropped",
            "Older steps that were dropped to keep the file below its size limit.",
        ),
    }
)


def configured_terms(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Terms of the settings that a trace has: a page of no profile need not define them."""
    summary = set(names)
    return {name: term for name, term in CONFIGURATION.items() if name in summary}


def in_words(configuration: Mapping[str, str]) -> dict[str, str]:
    """What each setting is called -> its text."""
    return {CONFIGURATION.get(name, (name, ""))[0]: text for name, text in configuration.items()}
