"""Profiles of mixture-of-experts layers in words: what the terminal and the pages say alike, and what terms mean."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from weftrace.moe.render.shown import Shown
from weftrace.units import counted, duration, percent, us

#: key -> (term, what it means).
PROFILE_TERMS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "layer": (
            "A layer",
            "Time that one more layer adds, all its micro-batches included: from one repetition of the operation list "
            "to the next, without the first and the last. In training a pair of a forward and a backward layer.",
        ),
        "tokens": (
            "Tokens a second",
            "Tokens of all micro-batches / (time of a layer x layers of the model): what a GPU would do if every layer "
            "took as long as these. Embedding, the head and sampling are left out.",
        ),
        "hidden": ("Hidden", "Communication beside which some compute kernel ran: |communication & compute|."),
        "exposed": ("Exposed", "Communication beside which no compute kernel ran: the GPU waits for the network."),
        "idle": ("Idle", "Time in which nothing ran on the GPU: mostly the gaps between kernels."),
        "busy": ("Busy", "Of a phase: the union of its kernels over streams, the mean of its layers."),
        "sms": (
            "SMs",
            "Streaming multiprocessors that a lane holds. Transfers in flight hold none: only the short kernels that "
            "issue and receive them do, and these stand in the compute lane.",
        ),
        "micro_batch": (
            "Micro-batch",
            "A part of a GPU's tokens. Two of them take turns: one computes while the other's tokens travel.",
        ),
        "basis": (
            "Basis",
            "Where a time comes from: roofline (FLOPs and bytes at peak rates), published rates, an assumption, or a "
            "calibration on layers of a measured trace.",
        ),
        "wait": (
            "Waits",
            "Time inside communication kernels until the last rank of the group came: no bytes move. Ranks differ "
            "where routing was drawn for each of them.",
        ),
    }
)

KIND_WORDS: Mapping[str, str] = MappingProxyType({"train": "Training", "prefill": "Prefill", "decode": "Decode"})
_TRIFLE = 0.01  # a loss of less of the span is told as what is left


def headline(told: Shown) -> str:
    """The largest loss and its cause, in a sentence; then how long a layer takes, and what that rests on."""
    setting, layer_ns = told.profile.setting, told.layer_ns or 1.0
    who = f"{KIND_WORDS[setting.kind]} of {setting.model.name} on {setting.ep} × {setting.hardware.name}"
    layer = f"A layer takes {us(round(layer_ns))}, simulated; costs: {told.profile.level}."
    exposed, idle = told.exposed_ns / layer_ns, told.idle_ns / layer_ns
    if max(exposed, idle) < _TRIFLE:
        return f"{who} computes for {percent(told.compute_ns / layer_ns)} of its time. {layer}"
    if exposed >= idle:
        return f"{who} loses {percent(exposed)} of its time to exposed communication{_mostly(told)}. {layer}"
    return f"{who} is idle for {percent(idle)} of its time, in gaps between kernels. {layer}"


def _mostly(told: Shown) -> str:
    """Which phase it is, and how much of all."""
    most = told.most_exposed
    if most is None:
        return ""
    name, exposed_ns = most
    share = exposed_ns / told.exposed_ns
    return f", {percent(min(share, 1.0))} of it {name}" if share < 0.995 else f", all of it {name}"


def shape(told: Shown) -> str:
    """What was simulated, in a line."""
    setting = told.profile.setting
    ranks = len(told.profile.plan.ranks)
    drawn = f"rank {told.rank}, which ends last, is drawn" if ranks > 1 else "every rank does the same"
    return f"{counted(setting.num_layers, 'layer')} on {counted(ranks, 'rank')} of {setting.ep} simulated; {drawn}"


def rank_words(told: Shown) -> str:
    """How the ranks differ; nothing of one rank."""
    ranks = told.ranks
    if ranks.height < 2:
        return ""
    computed, waited = ranks.get_column("compute_ns"), ranks.get_column("wait_ns")
    low, high, mean = (float(value or 0) for value in (computed.min(), computed.max(), waited.mean()))  # type: ignore[arg-type]
    least = int(ranks.sort("wait_ns", "rank").get_column("rank")[0])
    if not mean:
        return f"All {ranks.height:,} ranks do the same, and none waits."
    return (
        f"Their kernels compute for {duration(low)} to {duration(high)}; a rank waits {duration(mean)} for others on "
        f"average, rank {least} least: the others wait for it."
    )


def first_view(told: Shown, layers: float = 1.6) -> tuple[int, int]:
    """A stretch of about so many inner layers, which a screen can show with their names."""
    span = told.picture["span_ns"]
    length = min(span, round(layers * told.layer_ns))
    start = min(round(told.layer_ns), span - length)
    return start, start + length
