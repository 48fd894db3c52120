"""What part of the device's peak does a step reach? MFU and HFU.

Model FLOPs utilization is what the model needs over what the device could have done in the step; hardware FLOPs
utilization is what was executed, recomputation and kernels' own included, over the same (Chowdhery et al., PaLM, 2022,
section 4.1 and appendix B). With several dtypes the peak is not one number, so both are ratios of times: for a dtype d,

    time at peak = sum over d of FLOPs_d / peak_d        MFU = time at peak of the model FLOPs / wall time of the step
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from weftrace.costs.cost import PHASES, Cost, Kind, Phase
from weftrace.costs.rates import matrix_peak, peak_notes
from weftrace.facts import Hardware
from weftrace.flops.derived.columns import Columns, columns
from weftrace.flops.derived.module_time import Spread, Times, step_time, times_of
from weftrace.flops.derived.roofline import TOLERANCE
from weftrace.flops.derived.tally import MODEL_PHASES
from weftrace.flops.values import FlopsReport
from weftrace.notebook import InNotebook, in_words
from weftrace.units import duration, percent, si


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseUtilization(InNotebook):
    """As `Utilization`, over the time of one phase: mfu of recomputation is 0, because the model does not need it.

    flops_per_s, executed_flops_per_s: model and executed matrix FLOPs of the phase a second, of one GPU.
    """

    ns: Spread
    mfu: float
    mfu_full: float
    hfu: float
    flops_per_s: float
    executed_flops_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Utilization(InNotebook):
    """Utilization of one GPU in one step (of merged ranks: their mean work, the slowest's time).

    mfu: time at peak of `flops` (forward and backward; attention under a causal mask counts unmasked pairs) / step_ns.
    mfu_full: the same of `full_flops`, every attention over all pairs: PaLM's convention, and most published figures'.
    hfu: time at peak of `executed_flops` of all phases / step_ns. Vector work is in none of them.
    step_ns: wall time of the step, the median of the timed ones. time_at_peak_ns: of the executed FLOPs, by the dtype
    whose peak was used. flops_per_s, executed_flops_per_s: matrix FLOPs of the step a second.
    by_phase: phases that were timed. flags: numbers that cannot be right. notes: what was assumed.
    """

    hardware: str
    mfu: Annotated[float, Meta(description="Time at peak of the model FLOPs / step_ns.")]
    mfu_full: Annotated[float, Meta(description="The same, attention over all pairs.")]
    hfu: Annotated[float, Meta(description="The same for executed FLOPs.")]
    step_ns: float
    flops_per_s: float
    executed_flops_per_s: float
    time_at_peak_ns: Annotated[Mapping[str, float], Meta(description="Of executed FLOPs, by the dtype of the peak.")]
    by_phase: Mapping[Phase, PhaseUtilization]
    flags: tuple[str, ...]
    notes: tuple[str, ...]

    def _describe(self) -> Iterable[tuple[str, str]]:
        yield "hardware", self.hardware
        yield "step", duration(self.step_ns)
        for name in ("mfu", "mfu_full", "hfu"):
            yield name, percent(getattr(self, name))
        for phase, part in self.by_phase.items():
            yield f"{phase}: mfu, hfu", f"{percent(part.mfu)}, {percent(part.hfu)}"
        yield from (("flag", in_words(flag)) for flag in self.flags[:4])
        yield "executed FLOP/s", si(self.executed_flops_per_s)


def utilization(report: FlopsReport, hardware: Hardware, step_ns: float | None = None) -> Utilization:
    """Utilization of a report's step on a device.

    step_ns: wall time of a step, where the report has none or another clock knows better. Raises `FlopsError` where no
    step was timed and none is given, or it is not above 0.
    """
    return utilization_of(report, hardware, columns(report.ops), times_of(report), step_ns)


def utilization_of(
    report: FlopsReport, hardware: Hardware, cols: Columns, times: Times, step_ns: float | None = None
) -> Utilization:
    """The same, from the local operators as arrays."""
    step_ns = step_time(report, step_ns, "utilization")
    work = _Work.of(report, hardware, cols)
    model, full = work.at_peak("flops", MODEL_PHASES), work.at_peak("full", MODEL_PHASES)
    executed = work.at_peak("executed", PHASES)
    hfu = executed / step_ns
    rate = 1e9 * work.flops("executed", PHASES) / step_ns
    flags = []
    if hfu > 1 + TOLERANCE:
        flags.append(
            f"The step's executed FLOPs need {duration(executed)} at the peak of {hardware.name} and took "
            f"{duration(step_ns)} ({si(rate, 'FLOP/s')}, HFU {percent(hfu)}): the clock, the count or the "
            "hardware's name is wrong."
        )
    by_phase = {}
    for phase, took in times.by_phase.items():
        if took.typical > 0:
            by_phase[phase] = work.in_phase(phase, took)
            if by_phase[phase].hfu > 1 + TOLERANCE:
                above = si(by_phase[phase].executed_flops_per_s, "FLOP/s")
                flags.append(
                    f"The {phase} runs at {above}, {percent(by_phase[phase].hfu)} of the peak of {hardware.name}: "
                    "the clock, the count or the hardware's name is wrong."
                )
    return Utilization(
        hardware=hardware.name,
        mfu=model / step_ns,
        mfu_full=full / step_ns,
        hfu=hfu,
        step_ns=step_ns,
        flops_per_s=1e9 * work.flops("flops", MODEL_PHASES) / step_ns,
        executed_flops_per_s=rate,
        time_at_peak_ns=work.by_dtype(),
        by_phase=by_phase,
        flags=tuple(flags),
        notes=_notes(report, hardware, cols),
    )


def model_ns_by_key(report: FlopsReport, hardware: Hardware) -> dict[tuple[int, Phase], float]:
    """(module, phase) -> time that its own model FLOPs take at the device's peak, ns, on one rank.

    Only where there are such FLOPs; 0 in phases that the model does not need.
    """
    calls: dict[tuple[int, Phase], dict[int, float]] = {}
    costs: dict[int, Cost] = {}  # by identity: operators share them
    for op in report.ops:
        if op.cost.flops:
            costs[id(op.cost)] = op.cost
            of_key = calls.setdefault((op.module, op.phase), {})
            of_key[id(op.cost)] = of_key.get(id(op.cost), 0.0) + op.calls / report.ranks
    result: dict[tuple[int, Phase], float] = {}
    for key, of_key in calls.items():
        of_dtype: dict[str, float] = {}
        for identity, number in of_key.items():
            cost = costs[identity]
            peak = matrix_peak(hardware, cost.dtype, tf32=report.tf32)
            ns = 1e9 * number * cost.flops / peak.flops_per_s
            of_dtype[peak.dtype] = of_dtype.get(peak.dtype, 0.0) + ns
        result[key] = sum(of_dtype.values()) if key[1] in MODEL_PHASES else 0.0
    return result


def _notes(report: FlopsReport, hardware: Hardware, cols: Columns) -> tuple[str, ...]:
    notes = list(peak_notes(cols.costs, hardware, tf32=report.tf32))
    if report.clock.while_counting:
        notes.append(
            "The timed step is the counted one: its time holds the cost of counting, so the utilization is too low."
        )
    if any(cost.kind is Kind.UNKNOWN for cost in cols.costs):
        notes.append("Operators without a formula ran; their FLOPs are in no utilization.")
    if report.ranks > 1:
        notes.append(f"The mean work of {report.ranks} merged ranks over the slowest one's time.")
    return tuple(notes)


@dataclass(frozen=True, slots=True)
class _Work:
    """Time at peak and FLOPs by what was counted ("flops", "full", "executed"), phase and dtype; floats, of one GPU."""

    peaks_ns: dict[tuple[str, Phase, str], float]
    counts: dict[tuple[str, Phase], float]

    @classmethod
    def of(cls, report: FlopsReport, hardware: Hardware, cols: Columns) -> _Work:
        calls_PC = cols.calls_PC(report.ranks)
        peaks_ns: dict[tuple[str, Phase, str], float] = {}
        counts: dict[tuple[str, Phase], float] = {}
        for index, cost in enumerate(cols.costs):
            if not (cost.flops or cost.full_flops or cost.executed_flops):
                continue
            peak = matrix_peak(hardware, cost.dtype, tf32=report.tf32)
            each = {"flops": cost.flops, "full": cost.full_flops, "executed": cost.executed_flops}
            for phase, calls in zip(PHASES, calls_PC[:, index].tolist(), strict=True):
                for kind, flops in each.items():
                    if calls:
                        key = (kind, phase, peak.dtype)
                        peaks_ns[key] = peaks_ns.get(key, 0.0) + 1e9 * calls * flops / peak.flops_per_s
                        counts[kind, phase] = counts.get((kind, phase), 0.0) + calls * flops
        return cls(peaks_ns, counts)

    def at_peak(self, kind: str, phases: tuple[Phase, ...]) -> float:
        return sum(ns for (other, phase, _), ns in self.peaks_ns.items() if other == kind and phase in phases)

    def flops(self, kind: str, phases: tuple[Phase, ...]) -> float:
        return sum(self.counts.get((kind, phase), 0.0) for phase in phases)

    def by_dtype(self) -> dict[str, float]:
        result: dict[str, float] = {}
        for (kind, _, dtype), ns in self.peaks_ns.items():
            if kind == "executed":
                result[dtype] = result.get(dtype, 0.0) + ns
        return result

    def in_phase(self, phase: Phase, took: Spread) -> PhaseUtilization:
        wanted = (phase,) if phase in MODEL_PHASES else ()
        return PhaseUtilization(
            ns=took,
            mfu=self.at_peak("flops", wanted) / took.typical,
            mfu_full=self.at_peak("full", wanted) / took.typical,
            hfu=self.at_peak("executed", (phase,)) / took.typical,
            flops_per_s=1e9 * self.flops("flops", wanted) / took.typical,
            executed_flops_per_s=1e9 * self.flops("executed", (phase,)) / took.typical,
        )
