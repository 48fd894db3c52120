"""Gates of efficiency: what `weftrace report --fail-below mfu=40%` holds a trace to, or each rank of a job."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from weftrace.errors import WeftraceError
from weftrace.units import percent

if TYPE_CHECKING:
    from weftrace.report.document_types import ReportDocument

#: Name of a figure -> its field of `Efficiency`, and what it is a share of.
FIGURES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "mfu": ("mfu", "of the peak over the span, needed FLOPs"),
        "hfu": ("hfu", "of the peak over the span, executed FLOPs"),
        "gemm": ("gemm_peak_share", "of the peak in the time of matrix products"),
        "rated": ("rated_share", "of device time has known FLOPs"),
        "tensor-cores": ("tensor_core_gemm_share", "of the time of matrix products is on tensor cores"),
    }
)


@dataclass(frozen=True, slots=True)
class EfficiencyGate:
    """A figure and the least share that it may have."""

    name: str
    least: Fraction


def parse_efficiency_gate(text: str) -> EfficiencyGate:
    """ "mfu=40%". Raises `WeftraceError` for what means nothing, with the nearest name."""
    name, _, limit = (part.strip() for part in text.partition("="))
    if name not in FIGURES:
        near = get_close_matches(name.lower(), FIGURES, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise WeftraceError(f"there is no share called {name!r}.{hint} Choose from {', '.join(FIGURES)}.")
    match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*%", limit)
    if match is None:
        raise WeftraceError(f"{limit!r} is not a share: write {name}=40%, for example.")
    return EfficiencyGate(name, Fraction(match[1]) / 100)


def unmet(document: ReportDocument, gates: Sequence[EfficiencyGate]) -> list[str]:
    """A sentence for each gate that a rank does not meet, or of which it cannot be told whether it does."""
    from weftrace.report.render.parts import rank_name

    ranks = [rank for rank in document["ranks"] if rank["apart"] is None]
    found = []
    for gate in gates:
        for rank in ranks:
            said = _unmet(rank.get("efficiency"), gate)
            of_rank = f"{rank_name(rank)}: " if len(ranks) > 1 else ""
            found += [f"{of_rank}{gate.name}: {said}"] if said else []
    return found


def _unmet(efficiency: Mapping[str, Any] | None, gate: EfficiencyGate) -> str:
    """What is wrong; "" where the gate is met."""
    field, of = FIGURES[gate.name]
    if efficiency is None:
        return "unknown: the trace has no operators with FLOPs or bytes"
    value = efficiency[field]
    if value is None or not efficiency["num_rated"]:
        return f"unknown: {_why_unknown(efficiency, gate)}"
    if Fraction(value).limit_denominator(10**9) >= gate.least:
        return ""
    unknown = efficiency["unknown_core_gemm_share"] or 0.0
    if gate.name == "tensor-cores" and value + unknown >= gate.least:
        return f"unknown: {percent(value)} {of}, and {percent(unknown)} is in kernels with names that do not show it"
    bound = "at least " if gate.name in ("mfu", "hfu") else ""
    beside = f", with FLOPs known for {percent(efficiency['rated_share'])} of device time" if bound else ""
    return f"{bound}{percent(value)} {of}{beside}; it must be {percent(float(gate.least))} or more"


def _why_unknown(efficiency: Mapping[str, Any], gate: EfficiencyGate) -> str:
    if not efficiency["num_rated"]:
        return "operators were recorded without shapes (record_shapes=True records them)"
    if gate.name in ("mfu", "hfu", "gemm") and not efficiency["hardware"]:
        return "the peaks of its device are not known (--hardware NAME gives them)"
    if gate.name in ("gemm", "tensor-cores") and not efficiency["gemm_ns"]:
        return "no matrix product with known FLOPs ran"
    if gate.name == "tensor-cores":
        return "the names of the kernels do not show whether they ran on tensor cores"
    return "no FLOPs are known"
