"""Profiles of mixture-of-experts layers in words: what the terminal and the pages say alike, and what terms mean."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from weftrace.moe.render.view import ProfileView
from weftrace.moe.routing.load import BALANCED
from weftrace.units import counted, duration, percent

#: key -> (term, what it means).
PROFILE_TERMS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "layer": (
            "A layer",
            "Time that one more layer adds, all its micro-batches included: from one repetition of the operation list "
            "to the next, without the first and the last. In training a pair of a forward and a backward layer.",
        ),
        "tokens": (
            "Tokens per second",
            "Tokens of all micro-batches / (time of a layer x layers of the model): what a GPU would do if every layer "
            "took as long as these. Embedding, the head and sampling are left out.",
        ),
        "hidden": ("Hidden", "Communication while some compute kernel ran: |communication & compute|."),
        "exposed": ("Exposed", "Communication while no compute kernel ran: the GPU waits for the network."),
        "idle": ("Idle", "Time in which nothing ran on the GPU: mostly the gaps between kernels."),
        "busy": (
            "Busy",
            "Of a phase: the union of its kernels over all streams, the mean of its layers. A box of the picture "
            "has another length: it runs from the first to the last kernel of the phase in one lane. The short kernels "
            "that issue and receive messages are in the compute lane, and gaps between kernels are not busy.",
        ),
        "sms": (
            "SMs",
            "Streaming multiprocessors that a lane holds. Transfers in flight hold none: only the short kernels that "
            "issue and receive them do, and these are in the compute lane.",
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
        "limit": (
            "Held up by",
            "Computation, communication, one fused kernel of both, or waiting for the slowest rank: the one that a "
            "layer would be shortest without. Each is tested by one more simulation in which it takes no time; for "
            "ranks, one in which all are the same.",
        ),
        "last_in": ("Last", "Meetings of ranks, inside dispatch and combine, that it was the last to reach."),
        "wait": (
            "Waits",
            "Time inside communication kernels until the last rank of the group came: no bytes move. Ranks differ "
            "where routing was drawn for each of them.",
        ),
    }
)

#: Of a sweep over settings.
SWEEP_TERMS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {key: PROFILE_TERMS[key] for key in ("tokens", "layer", "exposed", "limit")}
)
#: Of lists against no overlap.
PAYS_TERMS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "tokens": PROFILE_TERMS["tokens"],
        "overlap": (
            "No overlap",
            "All operations one after the other, the batch in one piece. Every list is compared with this.",
        ),
        "pays_from": (
            "Pays from",
            "The smallest batch for which a list processes more tokens per second than no overlap, at it and at every "
            "larger batch that was simulated. A list that cuts the batch in two reads weights twice, and its GEMMs "
            "are smaller.",
        ),
    }
)
#: Of a prediction held against a measurement.
VALIDATION_TERMS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "ratio": ("Ratio, error", "Predicted / measured, and the same less 1: below it the prediction is too short."),
        "spread": (
            "From, to",
            "Of the measured times: the lowest and the highest rank's median; of one rank, the shortest and the "
            "longest of its layers and steps. No smaller error of the prediction can be measured.",
        ),
        "compared": (
            "Compared by",
            "All kernels of a phase, as a union. Of communication only kernels that move data, if both sides separate "
            "them from kernels that wait for other ranks.",
        ),
    }
)

KIND_WORDS: Mapping[str, str] = MappingProxyType({"train": "Training", "prefill": "Prefill", "decode": "Decode"})
_TRIFLE = 0.01  # a loss of less of the span is told as what is left


def headline(summary: ProfileView) -> str:
    """The largest loss and its cause, in a sentence; what ranks lose to each other; how long a layer takes, by what."""
    setting, layer_ns = summary.profile.setting, summary.layer_ns or 1.0
    who = f"{KIND_WORDS[setting.kind]} of {setting.model.name} on {setting.ep} × {setting.hardware.name}"
    ends = " with both ends of the run" if setting.num_layers < 3 else ""
    layer = f"A layer takes {duration(layer_ns, 4)}{ends}, simulated; costs: {summary.profile.level}."
    exposed, idle = summary.exposed_ns / layer_ns, summary.idle_ns / layer_ns
    if summary.waited >= _TRIFLE:
        waited = percent(summary.waited)
        layer = f"Ranks wait for slower ones, computing nothing, for {waited} of the run on average. {layer}"
    if summary.profile.overlap.is_fused:
        return f"{who} moves tokens and computes in one kernel: its exposed part is not separable. {layer}"
    if max(exposed, idle) < _TRIFLE:
        return f"{who} computes for {percent(summary.compute_ns / layer_ns)} of its time. {layer}"
    if exposed >= idle:
        return f"{who} loses {percent(exposed)} of its time to exposed communication{_mostly(summary)}. {layer}"
    return f"{who} is idle for {percent(idle)} of its time, in gaps between kernels. {layer}"


def _mostly(summary: ProfileView) -> str:
    """Which phase it is, and how much of all."""
    most = summary.most_exposed
    if most is None:
        return ""
    name, exposed_ns = most
    share = exposed_ns / summary.exposed_ns
    return f", {percent(min(share, 1.0))} of it {name}" if share < 0.995 else f", all of it {name}"


def shape(summary: ProfileView) -> str:
    """What was simulated, in a line."""
    setting = summary.profile.setting
    ranks = len(summary.profile.plan.ranks)
    drawn = f"rank {summary.rank}, which ends last, is drawn" if ranks > 1 else "every rank does the same"
    if ranks < setting.ep and summary.profile.routing != BALANCED:
        drawn = "nobody waits for those that are not" if ranks == 1 else f"{drawn}; nobody waits for those that are not"
    return f"{counted(setting.num_layers, 'layer')} on {counted(ranks, 'rank')} of {setting.ep} simulated; {drawn}"


def rank_words(summary: ProfileView) -> str:
    """How the ranks differ; nothing of one rank."""
    ranks = summary.ranks
    if ranks.height < 2:
        return ""
    computed = ranks.get_column("compute_ns").to_list()
    waited = sum(ranks.get_column("waiting_ns").to_list()) / ranks.height
    if not waited:
        return f"All {ranks.height:,} ranks do the same, and none waits."
    first = ranks.row(0, named=True)
    return (
        f"Their kernels compute for {duration(min(computed), 4)} to {duration(max(computed), 4)}; a rank waits "
        f"{duration(waited)} for others on average. Rank {first['rank']} is last in {first['last_in']:,} of "
        f"{first['meets']:,} meetings."
    )


def first_view(summary: ProfileView, layers: float = 1.6) -> tuple[int, int]:
    """A stretch of about so many inner layers, which a screen can show with their names."""
    span = summary.picture["span_ns"]
    length = min(span, round(layers * summary.layer_ns))
    start = min(round(summary.layer_ns), span - length)
    return start, start + length
