"""How fast can decoding be if the network alone limits it? The law of DeepSeek's paper at ISCA 2025.

Insights into DeepSeek-V3 (arXiv:2505.09343), section 2.3.2. Each step, a GPU sends every token to its experts, in
FP8, and gets the answers back in BF16: tokens x places x hidden x (1 + 2) bytes cross the link. Two micro-batches take
turns, each computing while the other communicates, and computation is taken as 0, so a layer is two such transfers:

    transfer = 3 B x tokens x places x hidden / bandwidth       3 x 32 x 9 x 7,000 / 50 GB/s = 120.96 us
    layer    = 2 transfer                                                                     241.92 us
    TPOT     = layers x layer                                   61 x 241.92 us =               14.76 ms, 67 tokens/s

places: 8 routed experts and the shared one, each on a GPU of its own. The paper rounds hidden 7,168 to 7 K = 7,000;
with 7,168 a transfer is 123.86 us. No machine is as fast: every latency, barrier and multiplication is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from weftrace.notebook import InNotebook
from weftrace.units import duration


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeLimit(InNotebook):
    """Times in nanoseconds.

    transfer_ns: of one micro-batch in one layer, there and back. layer_ns: of both micro-batches. tpot_ns: time per
    output token of a request, one token a step.
    """

    transfer_ns: float
    layer_ns: float
    tpot_ns: float

    @property
    def tokens_per_s(self) -> float:
        """Of one request."""
        return 1e9 / self.tpot_ns

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "a transfer", duration(self.transfer_ns, 4)
        yield "a layer", duration(self.layer_ns, 4)
        yield "TPOT", f"{duration(self.tpot_ns, 4)}, {self.tokens_per_s:,.0f} tokens/s"


def decode_limit(
    *,
    bytes_per_s: float = 50e9,
    tokens: int = 32,
    places: int = 9,
    hidden: int = 7_000,
    num_layers: int = 61,
    bytes_per_element: int = 3,
) -> DecodeLimit:
    """bytes_per_s: of a GPU's link, one direction: 50 GB/s a CX7 NIC, 900 GB/s NVLink in a GB200 NVL72.

    tokens: of one micro-batch on a GPU. bytes_per_element: dispatch and combine together. Defaults are the paper's.
    """
    transfer_ns = bytes_per_element * tokens * places * hidden * 1e9 / bytes_per_s
    return DecodeLimit(transfer_ns=transfer_ns, layer_ns=2 * transfer_ns, tpot_ns=2 * transfer_ns * num_layers)
