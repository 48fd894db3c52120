"""Memory-bound kernels between the products: norms, rotary positions, casts, sorting, SwiGLU, sums.

What they move was counted on DeepSeek-V3: 511 kB a token in attention, 676 kB in a mixture of experts. Other models,
and GPUs whose experts get other rows, are taken to move in proportion to what the rows of their products read and
write.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from weftrace.facts import backward_factor, bytes_per_token, model_config, num_kernels
from weftrace.moe.shapes.parts import SCALED, Amount, Part
from weftrace.moe.shapes.products import after_core, before_core, routed, shared

_WORK = {"attention": "attention glue", "mlp": "mlp glue"}


def memory_bound(of: str, products: Sequence[Part], *, backward: bool = False, share: float = 1.0) -> Part:
    """The memory-bound kernels between these products, as one. of: "attention" or "mlp". share: of its kernels, that
    these products are between."""
    work = _WORK[of]
    moved: Amount = sum((part.widths for part in products), start=0) * bytes_per_element(of)
    if backward:
        moved = moved * backward_factor(work)
    kernels = max(1, round(num_kernels(f"{work} backward" if backward else work) * share))
    return Part(
        name=of, sort="memory", flops=0, moved_bytes=moved, backward="dgrad" if backward else "", num_kernels=kernels
    )


def transposed_operands(rows: Amount, hidden: int) -> Part:
    """What weight gradients of routed experts need: their inputs, and the gradients of their outputs, both as they came
    over the network in FP8 with a scale for 128 channels of a token, read and written with a scale for 128 tokens of a
    channel (DeepSeek-V3 technical report, arXiv:2412.19437, sections 3.3.2 and 3.5.2).
    """
    scales = 4 * -(-hidden // SCALED)
    return Part(name="operands", sort="casts", flops=0, moved_bytes=2 * 2 * rows * (hidden + scales), backward="wgrad")


@cache
def bytes_per_element(of: str) -> float:
    """Bytes moved for each element that a row of a product reads or writes, in DeepSeek-V3."""
    v3 = model_config("deepseek-v3")
    assert v3.experts is not None
    if of == "attention":
        products = (*before_core(v3, 1, absorbed=False), *after_core(v3, 1, absorbed=False))
    else:
        products = (*shared(v3, 1), *routed(v3, v3.experts.top_k, 1))
    return bytes_per_token(_WORK[of]) / float(sum(part.widths for part in products))
