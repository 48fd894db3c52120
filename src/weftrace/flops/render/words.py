"""A model's cost in words: what each number means, numbers as text. The terminal and the page say them alike."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from weftrace.units import percent

#: key -> (term, what it means).
TERMS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "flops": (
            "Model FLOPs",
            "Multiplications and additions on matrix units (matrix products, convolutions, attention) that forward "
            "and backward need: 1 multiply-accumulate (MAC) = 2 FLOPs. Attention under a causal mask counts the "
            "pairs that the mask lets through. What is computed again does not count.",
        ),
        "full_flops": (
            "Model FLOPs, full attention",
            "The same with every attention over all pairs of positions, masked or not: the convention of the PaLM "
            "paper (appendix B), and of most published MFU figures.",
        ),
        "executed_flops": (
            "Executed FLOPs",
            "What the device does on matrix units in a step: model FLOPs and what is computed a second time, by "
            "checkpointing or inside a kernel, as flash attention's backward does.",
        ),
        "vector_flops": (
            "Vector FLOPs",
            "Arithmetic off the matrix units: norms, activations, softmax, elementwise work, reductions, the "
            "optimizer. Never added to the others: it runs on other units, at another rate.",
        ),
        "macs": (
            "MACs",
            "Multiply-accumulates: half of the model FLOPs.",
        ),
        "bytes": (
            "Bytes moved",
            "Each input of an operator read once and each output written once. What a cache saves, or a kernel "
            "reads twice, is not known.",
        ),
        "intensity": (
            "Intensity",
            "Executed matrix FLOPs and vector FLOPs for each byte moved.",
        ),
        "params": (
            "Parameters",
            "Elements of all parameters on this rank; a parameter that two modules share counts once, at its first "
            "place.",
        ),
        "trainable": (
            "Trainable parameters",
            "Those that take a gradient.",
        ),
        "active": (
            "Active parameters",
            "Those that one token uses: of routed experts, the share top-k / experts; all others in full.",
        ),
        "coverage": (
            "Coverage",
            "The part of operator calls, bytes and time that has a formula. An operator without one adds nothing to "
            "any total and is listed by name. The part of the time is an estimate: a module's time is shared among "
            "its operators by their bytes.",
        ),
        "status": (
            "Status",
            "How far a formula can be trusted. Exact: it is the algorithm's. Estimate: right for usual values. "
            "Upper bound: the work depends on values that were not read, or less is needed than what ran. Unknown: no "
            "formula.",
        ),
        "step": (
            "Step time",
            "Wall time of a step from end to end: the median of the timed steps (of an even number, the lower one).",
        ),
        "time": (
            "Time",
            "Time between a module's start and its end, children included, forward, backward and recomputation "
            "together, in the step of median length: so parts add up.",
        ),
        "share": (
            "Share",
            "The module's share of the time of all modules in the step of median length; of the model FLOPs if "
            "nothing was timed.",
        ),
        "flops_per_s": (
            "FLOP/s",
            "Executed FLOPs divided by the time they took; of merged ranks, those of one of them, the mean.",
        ),
        "mfu": (
            "MFU",
            "Model FLOPs utilization: the time that the model FLOPs take at the device's dense peak for their "
            "dtypes, divided by the step time.",
        ),
        "mfu_full": (
            "MFU, PaLM",
            "The same for model FLOPs with full attention.",
        ),
        "hfu": (
            "HFU",
            "Hardware FLOPs utilization: the time that the executed FLOPs take at the device's dense peak, divided "
            "by the step time.",
        ),
        "bound": (
            "Bound",
            "The least time that the named device needs. Each operator call takes the longest of three: its matrix "
            "FLOPs at the peak of their dtype, its vector FLOPs at the vector peak, and its bytes at the memory's "
            "bandwidth. The kind, compute or memory, is the larger part of that time.",
        ),
        "predicted": (
            "Predicted step",
            "The bound's parts over the efficiencies that real kernels reach (see remarks): an estimate, without "
            "launch gaps, communication and overlap.",
        ),
        "tokens_per_s": (
            "Tokens per second, predicted",
            "A step's tokens on one device over the predicted time; at most: over the bound.",
        ),
        "fits": (
            "Memory",
            "Whether the parameters alone fit the device; gradients, optimizer state, activations, caches come on top.",
        ),
        "above": (
            "Above the roofline",
            "Measured time minus the bound: what better kernels could save at most.",
        ),
        "throughput": (
            "Throughput",
            "Samples and tokens of a step, of all data-parallel ranks, divided by the step time.",
        ),
        "recompute": (
            "Recomputation",
            "A checkpointed forward, run again during the backward.",
        ),
        "own": (
            "Own",
            "What a module does itself, outside its children.",
        ),
        "folded": (
            "Folded modules",
            "Siblings with the same class and the same counts, all the way down, share one row; its numbers are "
            "the sums over all of them. The parts of the first follow.",
        ),
    }
)


#: The same of FLOPs that are joined to a trace, where they differ.
JOIN_TERMS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "elapsed": ("Elapsed", "how far a phase's events moved the step on, idle time before them included."),
        "mfu": (
            "MFU",
            "time that the model FLOPs take at the device's dense peak / elapsed time; HFU: executed FLOPs.",
        ),
    }
)


def covered_text(fraction: float | None) -> str:
    """A part as per cent, rounded down: what is not all of it does not look like all of it."""
    return percent(None if fraction is None else math.floor(1000 * fraction + 1e-9) / 1000)
