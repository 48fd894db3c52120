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
        "capture.torch": ("torch", "The version of torch that was captured."),
        "capture.steps": ("Steps kept", "Profiler steps that the file holds."),
        "capture.dropped_steps": ("Steps dropped", "Older steps that were given up to keep the file under its bound."),
    }
)


def configured_terms(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Terms of the settings that are told: a page of no profile need not define them."""
    told = set(names)
    return {name: term for name, term in CONFIGURATION.items() if name in told}


def in_words(configuration: Mapping[str, str]) -> dict[str, str]:
    """What each setting is called -> its text."""
    return {CONFIGURATION.get(name, (name, ""))[0]: text for name, text in configuration.items()}
