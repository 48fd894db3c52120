"""What in a report should someone look at? Sentences with numbers, the most telling first."""

from __future__ import annotations

from weftrace.costs.cost import MATRIX_KINDS, Phase
from weftrace.costs.rates import matrix_peak
from weftrace.facts import Hardware
from weftrace.flops.derived.account import Account, account_of
from weftrace.flops.derived.coverage import Coverage
from weftrace.flops.derived.module_time import Times
from weftrace.flops.derived.tally import Totals
from weftrace.flops.values import FlopsReport
from weftrace.units import duration, percent

OPTIMIZER_SHARE = 0.25  # a weight update that takes more of a step than this is a finding
RECOMPUTE_SHARE = 0.05
ABOVE_ROOFLINE_SHARE = 0.10
FP32_SHARE = 0.05


def findings(report: FlopsReport | Account, hardware: Hardware | None = None) -> tuple[str, ...]:
    """Sentences on what is odd or costly; empty where nothing is.

    hardware: by default the report's own, where weftrace knows it; without one nothing that needs a peak is looked at.
    """
    account = account_of(report, hardware)
    result = [] if account.roofline is None else list(account.roofline.flags)
    result += _optimizer(account.times)
    result += _unknown(account.coverage)
    result += _recompute(account.totals)
    result += _fp32(account)
    result += _above(account)
    if account.report.clock.while_counting:
        result.append(
            "The timed step is the counted one, so every time holds the cost of counting; time further steps."
        )
    return tuple(result)


def _optimizer(times: Times) -> list[str]:
    update = times.by_phase.get(Phase.OPTIMIZER)
    if update is None:
        return []
    whole = times.step.typical if times.step is not None else sum(took.typical for took in times.by_phase.values())
    if not whole or update.typical <= OPTIMIZER_SHARE * whole:
        return []
    return [
        f"The weight update takes {duration(update.typical)} of a step of {duration(whole)} "
        f"({percent(update.typical / whole)}); below {percent(OPTIMIZER_SHARE, 0)} is usual. Look at the optimizer's "
        "implementation (fused, foreach), at where its state lies, and at the communication in it."
    ]


def _unknown(covered: Coverage) -> list[str]:
    if covered.is_complete:
        return []
    named = ", ".join(f"{op.op} ({op.calls:,} calls)" for op in covered.unknown[:5])
    rest = f" and {len(covered.unknown) - 5} more" if len(covered.unknown) > 5 else ""
    without = [] if covered.calls is None else [f"{percent(1 - covered.calls)} of the calls"]
    without += [] if covered.moved_bytes is None else [f"{percent(1 - covered.moved_bytes)} of the bytes"]
    without += [] if covered.time is None else [f"about {percent(1 - covered.time)} of the time"]
    number = len(covered.unknown)
    whose = (
        "1 operator no formula is known, and its"
        if number == 1
        else f"{number} operators no formula is known, and their"
    )
    return [
        f"Of {whose} FLOPs are in no total: {named}{rest}; {', '.join(without)}. Register formulas with "
        "weftrace.flops.register_formula."
    ]


def _recompute(step: Totals) -> list[str]:
    again = step.by_phase.get(Phase.RECOMPUTE)
    if again is None or again.executed_flops <= RECOMPUTE_SHARE * step.executed_flops:
        return []
    return [
        f"Recomputation is {again.executed_flops:.4g} of {step.executed_flops:.4g} executed FLOPs "
        f"({percent(again.executed_flops / step.executed_flops)}); it counts in HFU and not in MFU."
    ]


def _fp32(account: Account) -> list[str]:
    hardware, cols = account.device, account.cols
    if hardware is None or account.report.tf32 or "tf32" not in hardware.peak_flops:
        return []
    in_fp32 = everything = 0.0
    for cost, number in zip(cols.costs, cols.calls_C(), strict=True):
        if cost.kind in MATRIX_KINDS:
            everything += number * float(cost.executed_flops)
            in_fp32 += number * float(cost.executed_flops) * (cost.dtype == "fp32")
    if not everything or in_fp32 <= FP32_SHARE * everything:
        return []
    ratio = matrix_peak(hardware, "fp32", tf32=True).flops_per_s / matrix_peak(hardware, "fp32").flops_per_s
    if ratio <= 1:
        return []
    return [
        f"{percent(in_fp32 / everything)} of the executed matrix FLOPs are in FP32 with TF32 off; TF32 has "
        f"{ratio:.1f} times the peak on {hardware.name}."
    ]


def _above(account: Account) -> list[str]:
    if account.roofline is None:
        return []
    worst, timed = account.roofline.worst(1), account.step
    if not worst or timed is None or not timed.typical:
        return []
    row = worst[0]
    if row.measured is None or row.above_ns is None or row.above_ns <= ABOVE_ROOFLINE_SHARE * timed.typical:
        return []
    return [
        f"{row.path or 'The model itself'}, {row.phase}, takes {duration(row.measured.typical)} where its roofline on "
        f"{account.roofline.hardware} is {duration(row.bound_ns)} ({row.bound}-bound): "
        f"{percent(row.above_ns / timed.typical)} of the step is above it."
    ]
