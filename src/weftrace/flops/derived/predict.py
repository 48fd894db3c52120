"""How long would the counted work take on a device that is not at hand? Roofline limits over stated efficiencies.

The default efficiencies are derived from rates that DeepSeek published for its own kernels on H800, and are
assumptions anywhere else; efficiency.toml has them, and the source beside each. Vector work runs at the FP32 peak, at
the efficiency of matrix work. Launch gaps, communication and what runs at the same time are not in a prediction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass
from typing import Annotated

import numpy as np
from msgspec import Meta

from weftrace.costs.cost import PHASES, Cost, Kind, Phase, Status
from weftrace.costs.rates import limits, rate_notes
from weftrace.errors import FlopsError
from weftrace.facts import Hardware, PublishedGemm, efficiency, hardware, published_gemms
from weftrace.files.schemas import Count
from weftrace.files.values import UNSAVED
from weftrace.flops.derived.columns import Columns, columns
from weftrace.flops.derived.params import params
from weftrace.flops.values import FlopsReport
from weftrace.notebook import InNotebook
from weftrace.units import percent, signed

MATRIX_EFFICIENCY = efficiency("matrix")
ATTENTION_EFFICIENCY = efficiency("attention")
ATTENTION_BACKWARD_EFFICIENCY = efficiency("attention backward")
BANDWIDTH_EFFICIENCY = efficiency("bandwidth")


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiencies:
    """Parts of the dense peak and of the memory's bandwidth that work reaches, each in (0, 1]."""

    matrix: float = MATRIX_EFFICIENCY
    attention: float = ATTENTION_EFFICIENCY
    attention_backward: float = ATTENTION_BACKWARD_EFFICIENCY
    bandwidth: float = BANDWIDTH_EFFICIENCY

    def of(self, cost: Cost, phase: Phase) -> float:
        """That of a cost's arithmetic."""
        if cost.kind is not Kind.ATTENTION:
            return self.matrix
        return self.attention_backward if phase is Phase.BACKWARD else self.attention


@dataclass(frozen=True, slots=True)
class PhasePrediction:
    """Time of one phase: the sum of its operators' bounds, and that over the efficiencies."""

    bound_ns: float
    predicted_ns: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction(InNotebook):
    """Time of one step on one GPU, if its operators ran one after another.

    bound_ns: sum of the operators' roofline bounds: what no implementation of the same operators beats.
    predicted_ns: the same with each limit divided by its efficiency: an estimate.
    by_phase: only phases in which anything ran.
    tokens: of the step on this rank, None where not known. param_bytes: of this rank's parameters.
    fits: whether these alone fit the device's memory.
    assumptions: the efficiencies, what is left out, and the error on published rates, a sentence each.
    """

    hardware: str
    bound_ns: Annotated[float, Meta(description="What no implementation of the same operators beats.")]
    predicted_ns: Annotated[float, Meta(description="The bounds over the stated efficiencies: an estimate.")]
    by_phase: Mapping[Phase, PhasePrediction]
    tokens: Annotated[int | None, UNSAVED]
    param_bytes: Count
    fits: Annotated[bool, Meta(description="Whether the parameters alone fit the device's memory.")]
    assumptions: tuple[str, ...]

    @property
    def tokens_per_s(
        self,
    ) -> Annotated[float | None, Meta(description="Of the predicted step; null without tokens or work.")]:
        """Of the predicted step; None where tokens or the time are not known."""
        rate = self.token_rate()
        return None if rate is None else rate[0]

    def token_rate(self, phase: Phase | None = None) -> tuple[float, float] | None:
        """Tokens per second of a phase, or of the step: (predicted, at most); None where they are not known."""
        own = self if phase is None else self.by_phase.get(phase)
        if not self.tokens or own is None or not own.bound_ns or not own.predicted_ns:
            return None
        return 1e9 * self.tokens / own.predicted_ns, 1e9 * self.tokens / own.bound_ns


def predict(
    report: FlopsReport,
    hardware: Hardware,
    *,
    matrix_efficiency: float = MATRIX_EFFICIENCY,
    attention_efficiency: float = ATTENTION_EFFICIENCY,
    attention_backward_efficiency: float = ATTENTION_BACKWARD_EFFICIENCY,
    bandwidth_efficiency: float = BANDWIDTH_EFFICIENCY,
) -> Prediction:
    """The time that a report's local work would take.

    Efficiencies: parts of the dense peak and of the memory's bandwidth. Raises `FlopsError` where one is not in (0, 1].
    """
    efficiencies = Efficiencies(
        matrix=matrix_efficiency,
        attention=attention_efficiency,
        attention_backward=attention_backward_efficiency,
        bandwidth=bandwidth_efficiency,
    )
    for name, value in asdict(efficiencies).items():
        if not 0 < value <= 1:
            raise FlopsError(f"{name}_efficiency is {value}; it must be above 0 and at most 1")
    return prediction_of(report, hardware, columns(report.ops), efficiencies)


def prediction_of(report: FlopsReport, hardware: Hardware, cols: Columns, efficiencies: Efficiencies) -> Prediction:
    """The same, from the local operators as arrays."""
    calls_PC = cols.calls_PC(report.ranks)
    param_bytes = params(report).bytes
    by_phase: dict[Phase, PhasePrediction] = {}
    for number, phase in enumerate(PHASES):
        bound = predicted = 0.0
        for index in np.flatnonzero(calls_PC[number]).tolist():
            cost, calls = cols.costs[index], float(calls_PC[number, index])
            arithmetic = efficiencies.of(cost, phase)
            least, likely = _ns(cost, hardware, report.tf32, arithmetic, efficiencies.bandwidth)
            bound += calls * least
            predicted += calls * likely
        if calls_PC[number].any():
            by_phase[phase] = PhasePrediction(bound, predicted)
    return Prediction(
        hardware=hardware.name,
        bound_ns=sum(each.bound_ns for each in by_phase.values()),
        predicted_ns=sum(each.predicted_ns for each in by_phase.values()),
        by_phase=by_phase,
        tokens=report.tokens,
        param_bytes=param_bytes,
        fits=param_bytes <= hardware.hbm_bytes,
        assumptions=_assumptions(report, hardware, cols, efficiencies),
    )


def published_errors(
    *, matrix_efficiency: float = MATRIX_EFFICIENCY, bandwidth_efficiency: float = BANDWIDTH_EFFICIENCY
) -> dict[str, float]:
    """Published GEMM -> predicted / measured time - 1 on H800: what the efficiencies are worth."""
    h800 = hardware("H800 SXM")
    return {
        gemm.name: _ns(cost, h800, False, matrix_efficiency, bandwidth_efficiency)[1]
        / (cost.executed_flops / (gemm.tflops * 1e3))  # TFLOP/s is 1e3 FLOPs a ns
        - 1
        for gemm in published_gemms()
        for cost in (_cost_of(gemm),)
    }


def _cost_of(gemm: PublishedGemm) -> Cost:
    flops = 2 * gemm.rows * gemm.inner * gemm.columns
    return Cost(
        flops=flops,
        full_flops=flops,
        executed_flops=flops,
        read_bytes=gemm.rows * gemm.inner + gemm.groups * gemm.inner * gemm.columns,
        written_bytes=2 * gemm.rows * gemm.columns,
        dtype="fp8",
        kind=Kind.MATMUL,
    )


def _ns(
    cost: Cost, hardware: Hardware, tf32: bool, arithmetic_efficiency: float, bandwidth_efficiency: float
) -> tuple[float, float]:
    """(bound, predicted) ns of one call."""
    least = limits(cost, hardware, tf32=tf32)
    arithmetic = max(least.matrix_ns, least.vector_ns) / arithmetic_efficiency
    return least.bound_ns, max(arithmetic, least.memory_ns / bandwidth_efficiency)


def _assumptions(report: FlopsReport, hardware: Hardware, cols: Columns, efficiencies: Efficiencies) -> tuple[str, ...]:
    matrix, attention, backward, bandwidth = astuple(efficiencies)
    errors = published_errors(matrix_efficiency=matrix, bandwidth_efficiency=bandwidth)
    summary = ", ".join(f"{name} {signed(error, 0)}" for name, error in errors.items())
    result = [
        f"Matrix and vector work reaches {percent(matrix, 0)} of the peak, attention {percent(attention, 0)} "
        f"forward and {percent(backward, 0)} backward, memory {percent(bandwidth, 0)} of its bandwidth. The defaults "
        "are from rates that DeepSeek published for H800; they are assumptions for other kernels and chips.",
        f"Against the GEMM rates that DeepGEMM publishes for H800 the predicted times are off by {summary}.",
        "Operators run one after another; gaps between launches and work that overlaps are not considered.",
        *rate_notes(cols.costs, hardware, tf32=report.tf32),
    ]
    if any(cost.kind is Kind.COMM for cost in cols.costs):
        result.append("The time of communication is not in the prediction.")
    if any(cost.status is Status.UNKNOWN for cost in cols.costs):
        result.append("Operators without a formula are predicted by their bytes alone.")
    return tuple(result)
