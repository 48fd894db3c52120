"""Placements and replays in words: what the pages and the terminal say alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from weftrace.experts.arrays import Floats
from weftrace.experts.document import PlacementReport
from weftrace.experts.replays.document import ReplayReport
from weftrace.experts.replays.held_out import NextWindows
from weftrace.experts.replays.replay import Row
from weftrace.units import grouped

#: The rows of every replay that no service runs: its floor and its ceiling.
_BOUNDS = {"once": "planned once, on the first window", "oracle": "an oracle that knows each window"}

#: What holds a layer back (`Certificate.binding`), and what would help.
BINDING_MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "none": "It is at its mean: perfect balance.",
        "packing": "The search ended above the bound: more search time may help.",
        "replica granularity": "Replicas are whole and do not add up to the mean: an uneven split would help.",
        "slots": "The hottest replica alone is above the mean: more slots would cure it.",
        "duplicates": "The hottest expert has a copy on every GPU already: more slots do not help.",
        "node partition": "Groups may not leave their node: a freer policy would help.",
        "constraints": "Pins, unequal GPUs or GPUs out of service.",
    }
)

_BALANCEDNESS = (
    "Balancedness",
    "Of a layer: mean GPU time / largest GPU time, where a GPU's time is its load over its speed. All GPUs wait for "
    "the busiest, so 0.80 means that they stand still 20 % of the time. Of a placement: the mean over the layers. 1 "
    "is perfect.",
)
_SLOT = (
    "Slot",
    "Room for the weights of one expert of one layer in one GPU's memory. More slots than experts leave room for "
    "copies.",
)
#: Of a placement's page: key -> (term, what it means).
PLACEMENT_TERMS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "balancedness": _BALANCEDNESS,
        "next_window": (
            "Next window",
            "What to expect. Plans were made in the same way on past windows, and each plan was scored on "
            "the window that follows its own, which it had not seen. The loads that a placement was planned "
            "on show how well it fits them, not how well it will do.",
        ),
        "published": (
            "Published EPLB",
            "DeepSeek's published balancer on the same loads and slots: by node where the nodes can share the groups, "
            "else global, with copies that take equal parts.",
        ),
        "load": (
            "Load",
            "Tokens that an expert receives, as counted or estimated. A GPU's load is the sum over its slots of the "
            "expert's load times the slot's share.",
        ),
        "mean": (
            "Mean",
            "What perfect balance would give every GPU in service: the sum of the loads over the sum of the speeds. A"
            " GPU at 1.25× takes 25 % longer than that, and the others wait for it.",
        ),
        "bound": (
            "Bound",
            "No placement under the same rules (slots, policy, split, pins, GPUs in service) has a lower maximum. It "
            "is computed, not searched for: it holds whatever the solver.",
        ),
        "gap": (
            "Gap",
            "Largest maximum over bound − 1 of any layer: what a better placement could still save at most, in the "
            "worst layer.",
        ),
        "binding": (
            "What holds it back",
            "Why a layer is above its mean. "
            + " ".join(f"{name}: {text[0].lower()}{text[1:]}" for name, text in BINDING_MEANINGS.items()),
        ),
        "slots_for_target": (
            "Slots for the target",
            "The smallest number of slots, a multiple of the GPUs, with which the bound allows this mean "
            "balancedness. Fewer cannot reach it, whatever the placement.",
        ),
        "slot": _SLOT,
        "copies": ("Copies", "How many slots hold the same expert. Its tokens are divided among them."),
        "share": (
            "Share",
            "The part of its expert's tokens that a slot takes. Even: 1 / copies, as engines that know no weights do."
            " Uneven: chosen with the placement.",
        ),
        "split": (
            "Split",
            "How an expert's tokens are divided among its copies: evenly, or by the shares that the placement gives.",
        ),
        "policy": (
            "Policy",
            "global: any expert on any node. hierarchical: the experts of a group stay on one node. "
            "semi-hierarchical: the same, except for a few foreign replicas per node.",
        ),
        "policy_time": (
            "Estimated time",
            "Of an average layer and micro-batch, by a model of the links and of the experts' matrix products. An "
            "estimate under the assumptions listed below it, never a measurement.",
        ),
        "remote_nodes": (
            "Remote nodes",
            "Distinct nodes other than its own that a token visits, on average: each costs a copy of the token on the"
            " network.",
        ),
        "moves": (
            "Moves",
            "Slots that change their expert from the previous placement to this one. A move from another slot of the "
            "same GPU costs no network.",
        ),
        "break_even": (
            "Pays after",
            "An estimate: the moves' time over what a step of one micro-batch gets shorter, the busiest GPUs' GEMMs "
            "before minus after. Loads are taken to stay as they are.",
        ),
        "rounds": (
            "Rounds",
            "The moves are ordered so that in a round each GPU exchanges weights with at most one other. Within a "
            "round all reads come before all writes.",
        ),
        "move_time": (
            "Moving time",
            "Bytes over the links by the speeds of the hardware, the rounds one after another. An estimate.",
        ),
    }
)

#: Of a replay's page.
REPLAY_TERMS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "balancedness": _BALANCEDNESS,
        "window": (
            "Window",
            "Consecutive recorded steps with their loads added up. A plan is made from the windows up to now and "
            "scored on the next window, never on loads that it has seen.",
        ),
        "estimator": (
            "Estimator",
            "How the loads to plan for are made of the windows seen: the last one, a mean of several, an exponential "
            "mean, or a mean with a margin for its spread.",
        ),
        "look_back": (
            "Look-back",
            "Windows that the estimator looks back over; for an exponential mean, the look-back of the plain mean "
            "with windows of the same average age.",
        ),
        "interval": (
            "Interval",
            "Windows between two plans. Longer intervals move fewer weights and follow the loads later.",
        ),
        "band": (
            "95 % band",
            "From a moving-block bootstrap over the scored windows: blocks of consecutive windows are drawn again, so"
            " that windows that resemble their neighbours are not counted as independent.",
        ),
        "gain": (
            "Gain",
            "Balancedness of the recommended row minus that of the baseline, in points (hundredths), with a band from"
            " the same blocks of windows for both.",
        ),
        "moved": (
            "Moved",
            "Share of all slots that a re-plan rewrites, on average. Each is one expert's weights over the network.",
        ),
        "cheaper": (
            "Cheaper choice",
            "The row that moves the fewest slots among those that the recorded loads cannot tell from the best: "
            "within its band.",
        ),
        "ceiling": (
            "Ceiling",
            "Planned on the very window it is scored on. No service can do that; it shows what a perfect forecast "
            "would give.",
        ),
        "baseline": (
            "Baseline",
            "What the gain is measured against: the published EPLB (deepseek) planned as often on the same estimate; "
            "where that was not played, or is the best itself, a plan on the first window, kept.",
        ),
        "plan_time": ("Plan time", "Mean time that making one plan took, where measured."),
        "slot": _SLOT,
    }
)


def placement_headline(report: PlacementReport) -> str:
    """The placement in a sentence or two: what to expect of it on loads not seen, then how well it fits those it was
    planned on. Without a next window, that it is a fit and no prediction.
    """
    judged = report.next_windows
    fit = f"{balance_text(mean_of(report.gpu_load.after.balancedness_L))}{_at_most(report)}"
    where = fit_words(report)
    if judged is not None:
        return f"On the next window balancedness {next_windows_words(judged)}. {where[0].upper()}{where[1:]}: {fit}."
    before = report.gpu_load.before
    against = ""
    if before is not None:
        against = f", where {before.label} reaches {balance_text(mean_of(before.balancedness_L))}"
    no_prediction = "a fit, no prediction" if is_fitted(report) else "a prediction only if it was not planned on them"
    return f"Balancedness {fit} {where}{against}: {no_prediction}."


def next_windows_words(judged: NextWindows) -> str:
    """ "0.9092, 4.8 points (4.1 to 5.2) over published EPLB, by node (0.8616); the mean of 8 windows, each planned on
    the one before it"; the points in brackets are of single windows."""
    this = judged.rows[0].balancedness_W
    text = balance_text(mean_of(this))
    for row in judged.rows:
        if row.part == "baseline":
            that = row.balancedness_W
            text += f", {gain_words(this, that)} {row.name} ({balance_text(mean_of(that))})"
    return f"{text}: {how_judged(judged)}"


def how_judged(judged: NextWindows) -> str:
    """ "the mean of 8 windows, each planned on the one before it"."""
    number = len(judged.windows_W)
    many = f"the mean of {number} windows, each" if number > 1 else "one window,"
    return f"{many} planned on {look_back_words(judged)}"


def gain_words(these: Sequence[float], those: Sequence[float]) -> str:
    """ "4.8 points (4.1 to 5.2) over": the mean and, of several windows, the least and the most."""
    gains = [100 * (this - that) for this, that in zip(these, those, strict=True)]
    mean = points(these, those)
    ends = sorted((abs(min(gains)), abs(max(gains)))) if min(gains) * max(gains) > 0 else (min(gains), max(gains))
    spread = f" ({grouped(ends[0], 1)} to {grouped(ends[1], 1)})" if len(gains) > 1 else ""
    return f"{abs(mean):.1f} points{spread} {'over' if mean >= 0 else 'under'}"


def points(these: Sequence[float], those: Sequence[float]) -> float:
    """The mean of `these` above that of `those`, in points: hundredths of balancedness."""
    return 100 * (mean_of(these) - mean_of(those))


def look_back_words(judged: NextWindows) -> str:
    """What each plan was made on."""
    if judged.look_back is None:
        return "all windows before it"
    return "the one before it" if judged.look_back == 1 else f"the {judged.look_back} before it"


def page_words(report: PlacementReport) -> dict[str, str]:
    """What a page calls the two placements and their loads; "before" is the published EPLB where none was in force."""
    judged, before = report.next_windows, report.gpu_load.before
    replanned = report.moves is not None
    label = "" if before is None else before.label
    return {
        "before": "before" if replanned else label.removeprefix("the "),
        "before_more": label if replanned else "",
        "after": "after" if replanned else "this placement",
        "after_more": "this placement" if replanned else "",
        "of": fit_words(report),
        "fit": "fit to its loads" if is_fitted(report) else "on these loads",
        "next": "" if judged is None else how_judged(judged),
        "caution": may_have_seen(report),
    }


def may_have_seen(report: PlacementReport) -> str:
    """What a re-plan's figures on the next window may owe to the placement before; nothing where there is none."""
    if report.moves is None:
        return ""
    return "The placement before may have been planned on these windows, and the re-plan starts from it."


def is_fitted(report: PlacementReport) -> bool:
    """Whether the loads are those of the certificate, which the placement was planned on; a re-plan has none."""
    certificate = report.certificate
    if certificate is None:
        return report.moves is not None
    return bool(np.isclose(report.cluster.mean_time(report.loads_LN), certificate.mean_L, rtol=1e-6, atol=0).all())


def fit_words(report: PlacementReport) -> str:
    """ "on the loads that it was planned on", or "on the loads given" where it may have been planned on others."""
    return "on the loads that it was planned on" if is_fitted(report) else "on the loads given"


def _at_most(report: PlacementReport) -> str:
    certificate = report.certificate
    if certificate is None or not is_fitted(report):
        return ""
    if all(certificate.is_optimal_L):
        return " (proved the best possible)"
    return f" (at most {balance_text(certificate.bound_balancedness)} under the same rules)"


def replay_headline(report: ReplayReport) -> str:
    """What the replay recommends in a sentence, with its number."""
    row = report.rows[report.recommendation.row]
    gain = report.recommendation.gain_points
    baseline = row_words(report.rows[report.recommendation.baseline_row])
    against = f"{abs(gain):.1f} points {'over' if gain >= 0 else 'under'} {baseline}"
    return f"{row_words(row)}: balancedness {balance_text(row.balancedness)}, {against}."


def row_words(row: Row) -> str:
    """A row of a replay in words: "balance on mean of 8, every 4 windows"."""
    if row.solver in _BOUNDS:
        return _BOUNDS[row.solver]
    text = str(row.solver)
    if row.estimator:
        window = "" if row.window is None else f" of {row.window}"
        text += f" on {row.estimator}{window}"
    if row.interval is not None:
        text += ", every window" if row.interval == 1 else f", every {row.interval} windows"
    return text


def mean_of(values: Sequence[float] | Floats) -> float:
    """The mean; 1 for no values, as a placement without a layer is balanced."""
    return math.fsum(values) / len(values) if len(values) else 1.0


def balance_text(value: float) -> str:
    """0.9957, with as many digits as keep what is not perfect from looking perfect."""
    digits = 4
    while digits < 7 and value < 1 - 1e-9 and f"{value:.{digits}f}".startswith("1"):
        digits += 1
    return f"{value:.{4 if value >= 1 - 1e-9 else digits}f}"


def gpu_ratios(report: PlacementReport, load_LG: Floats) -> Floats:
    """[L, G] GPU time / mean GPU time of the layer; 1 throughout a layer of zeros."""
    mean_L1 = report.cluster.mean_time(report.loads_LN)[:, None]
    ratio_LG = np.ones_like(load_LG)
    np.divide(load_LG / report.cluster.speed_G, mean_L1, out=ratio_LG, where=mean_L1 > 0)
    return ratio_LG
