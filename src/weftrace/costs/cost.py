"""What one call of an operator costs: FLOPs of four kinds, bytes, and how sure we are.

1 multiply-accumulate (MAC) = 2 FLOPs. Matrix work (matmul, convolution, attention) and vector work (norms, activations,
softmax, elementwise, reductions, the optimizer) are never added together: they run on different units at different
rates.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from weftrace.files.schemas import Count
from weftrace.files.values import UNBOUNDED
from weftrace.notebook import InNotebook


class Status(StrEnum):
    """How far a cost can be trusted."""

    EXACT = "exact"  # the formula is the algorithm's
    ESTIMATE = "estimate"  # right for usual values; the note of the cost says what was assumed
    UPPER_BOUND = "upper bound"  # the work depends on values that were not read (lengths on a meta device, say), or is
    # known to be more than the task needs: the note says which
    UNKNOWN = "unknown"  # no formula: its FLOPs are not in any total, its calls and time are reported by name


WHOLE_CACHE = "transformers projects the whole latent cache at each step; an engine with absorbed weights does not"
"""The note of an upper bound that is none for want of values: what ran is more than a decode step needs."""


class Kind(StrEnum):
    """What an operator does, as far as its rate is concerned."""

    MATMUL = "matmul"
    CONV = "conv"
    ATTENTION = "attention"
    VECTOR = "vector"  # elementwise, norms, softmax, reductions, optimizers: no matrix units
    MOVE = "move"  # copies, gathers, casts, factories: bytes and no arithmetic
    FREE = "free"  # views and metadata: neither
    COMM = "communication"  # collectives: bytes cross the network, not the memory alone
    UNKNOWN = "unknown"


MATRIX_KINDS = frozenset({Kind.MATMUL, Kind.CONV, Kind.ATTENTION})


class Phase(StrEnum):
    """When in a step an operator ran."""

    FORWARD = "forward"
    BACKWARD = "backward"
    RECOMPUTE = "recompute"  # a checkpointed forward run again during the backward
    OPTIMIZER = "optimizer"

    __hash__ = str.__hash__  # an Enum's own is a Python function, called at each change of module


PHASES = tuple(Phase)


Amount = Annotated[Count, UNBOUNDED]
"""FLOPs and bytes of an operator; those of a large model pass 2^63."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost(InNotebook):
    """What one call of one operator costs on one device.

    flops: model FLOPs on matrix units; attention under a causal mask counts the unmasked pairs alone, where the mask is
        known to be causal. A backward counts the gradients' own products, not what a kernel computes a second time.
    full_flops: the same with every attention over all S_q x S_kv pairs (the convention of PaLM, appendix B).
    executed_flops: what the kernel executes on matrix units, its own recomputation included: the backward of flash
        attention computes the scores again (5 products, not 4). Skipped blocks of a causal kernel are not executed.
    vector_flops: arithmetic off the matrix units. One for each add, multiply, compare, exp, ... of an element.
    read_bytes, written_bytes: each input tensor read once and each output written once; what a cache saves or a kernel
        reads twice is not known. Operators of kind FREE have none.
    dtype: of the matrix inputs: one of `weftrace.facts.DTYPES` ("fp32" for single precision whether or not
        TF32 is allowed), or torch's name of another ("int64", "complex64").
    kind, status: see `Kind`, `Status`. note: what was assumed or could not be known; "" where nothing was.
    """

    flops: Annotated[Amount, Meta(description="On matrix units, for the model's sake; causal attention exact.")] = 0
    full_flops: Annotated[Amount, Meta(description="The same, attention over all pairs (PaLM's convention).")] = 0
    executed_flops: Annotated[Amount, Meta(description="On matrix units, a kernel's own recomputation included.")] = 0
    vector_flops: Annotated[Amount, Meta(description="Off the matrix units; never added to the others.")] = 0
    read_bytes: Amount = 0
    written_bytes: Amount = 0
    dtype: Annotated[str, Meta(description="Of the matrix inputs.")] = ""
    kind: Kind = Kind.VECTOR
    status: Status = Status.EXACT
    note: Annotated[str, Meta(description="What was assumed or could not be known.")] = ""

    @property
    def moved_bytes(self) -> int:
        return self.read_bytes + self.written_bytes

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the model FLOPs: half of them."""
        return self.flops // 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally(InNotebook):
    """Sums of costs over calls; each field as in `Cost`, all of them integers, so that parts add up exactly.

    calls, unknown_calls: operator calls that did something (kind not FREE), and those of them without a formula.
    """

    flops: Count = 0
    full_flops: Count = 0
    executed_flops: Count = 0
    vector_flops: Count = 0
    read_bytes: Count = 0
    written_bytes: Count = 0
    calls: Annotated[Count, Meta(description="Of operators that do something.")] = 0
    unknown_calls: Annotated[Count, Meta(description="Those of them without a formula.")] = 0

    @property
    def macs(self) -> int:
        return self.flops // 2

    @property
    def moved_bytes(self) -> int:
        return self.read_bytes + self.written_bytes

    @property
    def intensity(
        self,
    ) -> Annotated[float | None, Meta(description="Executed matrix and vector FLOPs per byte; null if none moves.")]:
        """Executed matrix FLOPs and vector FLOPs for each byte moved; None where no byte moves."""
        return (self.executed_flops + self.vector_flops) / self.moved_bytes if self.moved_bytes else None

    def plus(self, other: Tally) -> Tally:
        return Tally(**{name: getattr(self, name) + getattr(other, name) for name in COUNTED})

    def times(self, number: int) -> Tally:
        """The same, so many times."""
        return Tally(**{name: number * getattr(self, name) for name in COUNTED})

    def over(self, number: int) -> Tally:
        """The mean of so many parts, each field rounded down."""
        return Tally(**{name: getattr(self, name) // number for name in COUNTED})


NOTHING = Tally()

COUNTED = tuple(Tally.__dataclass_fields__)
"""The fields of a `Tally`, in their order."""


def tally_of(cost: Cost, calls: int = 1) -> Tally:
    """What so many calls of one cost add to a sum: nothing where it is of kind FREE."""
    if cost.kind is Kind.FREE:
        return NOTHING
    return Tally(
        flops=calls * cost.flops,
        full_flops=calls * cost.full_flops,
        executed_flops=calls * cost.executed_flops,
        vector_flops=calls * cost.vector_flops,
        read_bytes=calls * cost.read_bytes,
        written_bytes=calls * cost.written_bytes,
        calls=calls,
        unknown_calls=calls if cost.status is Status.UNKNOWN else 0,
    )
