"""How long is a fused kernel, and what does it save? The law of waves, held against DeepGEMM's published MegaMoE.

With communication hidden, what is left of a GPU's kernel is its start, and its products at the rate that they reach,
or the reading of its experts' weights, whichever is longer:

    fused    = start + max(6 rows h I / rate, bytes of weights / memory)
    separate = fused + (h + h / 32 + 2 h) rows / link + launches

rows = tokens x top-k of balanced routing (the own GPU's counted, as DeepEP counts); weights in FP4 with a scale of a
byte for 32, of the experts that get a row at all; FP8 with such scales there, BF16 back. memory and link: 0.6 of
HBM's bandwidth and 0.96 of NVLink's (facts/efficiency.toml) of a B200, which is assumed: the source says neither.
start, rate and launches are calibrated on the smallest and the largest batch of a model, and the batches between are
predicted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from weftrace.errors import WeftraceError
from weftrace.facts import Hardware, ModelConfig, efficiency, hardware, model_config
from weftrace.facts.tables import read_tables
from weftrace.notebook import InNotebook

PUBLISHED = Path(__file__).with_name("mega_moe.toml")
#: Bytes of a weight in FP4, and of an element of FP8, with a scale of one byte for 32.
FP4, FP8 = 0.5 + 1 / 32, 1 + 1 / 32


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSpeedUp:
    """A published row: fields as in `mega_moe.toml`."""

    model: str
    tokens: int
    us: float
    speed_up: float
    held_out: bool
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedKernel(InNotebook):
    """A model's fused kernel on `ep` GPUs of one NVLink domain. Times in microseconds, rates in units a second."""

    model: ModelConfig
    hardware: Hardware
    ep: int = 8
    start_us: float = 0.0
    launches_us: float = 0.0
    flops_per_s: float

    def products_us(self, tokens: int) -> float:
        """Products at their rate, or the weights that they read."""
        by_rate = 1e6 * _flops(self.model, tokens) / self.flops_per_s
        return max(by_rate, _weights_us(self.model, self.hardware, self.ep, tokens))

    def communication_us(self, tokens: int) -> float:
        """Dispatch and combine, that it hides."""
        experts = self.model.experts
        assert experts is not None
        moved = tokens * experts.top_k * self.model.hidden_size * (FP8 + 2)
        return 1e6 * moved / (self.hardware.link_bytes_per_s * efficiency("nvlink"))

    def fused_us(self, tokens: int) -> float:
        return self.start_us + self.products_us(tokens)

    def speed_up(self, tokens: int, fused_us: float | None = None) -> float:
        """Over separate kernels. fused_us: its time where that was measured, else the predicted one."""
        took = self.fused_us(tokens) if fused_us is None else fused_us
        return 1 + (self.communication_us(tokens) + self.launches_us) / took


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedPrediction(InNotebook):
    """measured: what was published. fused_us: predicted. speed_up: predicted, given the measured time."""

    measured: PublishedSpeedUp
    fused_us: float
    speed_up: float

    @property
    def time_error(self) -> float:
        return self.fused_us / self.measured.us - 1

    @property
    def speed_up_error(self) -> float:
        return self.speed_up / self.measured.speed_up - 1


def published() -> tuple[PublishedSpeedUp, ...]:
    """The rows of `mega_moe.toml`."""
    rows = read_tables(PUBLISHED, "measured", what="published times of fused kernels", error=WeftraceError)
    return tuple(PublishedSpeedUp(**row) for row in rows)


def calibrated(model: str, device: str = "B200") -> FusedKernel:
    """start_us and launches_us from the smallest published batch, the rate from the largest."""
    config, on = model_config(model), hardware(device)
    small, *_, large = sorted((row for row in published() if row.model == model and not row.held_out), key=_tokens)
    start_us = small.us - _weights_us(config, on, 8, small.tokens)
    kernel = FusedKernel(
        model=config,
        hardware=on,
        start_us=start_us,
        flops_per_s=1e6 * _flops(config, large.tokens) / (large.us - start_us),
    )
    launches_us = (small.speed_up - 1) * small.us - kernel.communication_us(small.tokens)
    return FusedKernel(
        model=config, hardware=on, start_us=start_us, launches_us=launches_us, flops_per_s=kernel.flops_per_s
    )


def predictions() -> Iterator[FusedPrediction]:
    """Of each published row that calibrates nothing."""
    for row in published():
        if row.held_out:
            kernel = calibrated(row.model)
            yield FusedPrediction(
                measured=row, fused_us=kernel.fused_us(row.tokens), speed_up=kernel.speed_up(row.tokens, row.us)
            )


def _tokens(row: PublishedSpeedUp) -> int:
    return row.tokens


def _flops(model: ModelConfig, tokens: int) -> float:
    experts = model.experts
    assert experts is not None
    return 6.0 * tokens * experts.top_k * model.hidden_size * experts.intermediate_size


def _weights_us(model: ModelConfig, device: Hardware, ep: int, tokens: int) -> float:
    """Reading the experts that get a row: of E on a GPU, E (1 - (1 - 1 / E) ** rows)."""
    experts = model.experts
    assert experts is not None
    local = experts.num_experts // ep
    touched = local * (1 - (1 - 1 / local) ** (tokens * experts.top_k))
    moved = touched * 3 * model.hidden_size * experts.intermediate_size * FP4
    return 1e6 * moved / (device.hbm_bytes_per_s * efficiency("bandwidth"))
