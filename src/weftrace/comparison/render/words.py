"""What the terminal, Markdown, the page and the docs say alike of comparisons, and what the terms mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from types import MappingProxyType
from typing import Final, cast

from weftrace.analysis.idle_causes import TOLD_APART
from weftrace.comparison.diffs import RankRow
from weftrace.comparison.document import (
    DiffReport,
    LatenessRow,
    MoverRow,
    PartRow,
    SideSummary,
)
from weftrace.comparison.gates import GateRow, change_text
from weftrace.comparison.noise import ONE_RUN_EACH, Difference
from weftrace.comparison.runs import WAITING
from weftrace.comparison.shape_changes import ShapeChangeRow
from weftrace.units import counted, duration, percent, signed_duration

#: Form of a figure, as `gates.FIGURES` has it -> what it is, of a step, mean over ranks.
FIGURE_TERMS: Mapping[str, str] = MappingProxyType(
    {
        "span": "The step's length: median over the steps that count. All others are means over them.",
        "compute": "Time in which compute kernels ran, fused ones among them.",
        "exposed": "Communication time with no computation beside it; of a job, less what ranks waited for a late one.",
        "exposed:ROLE": "The same for one role: exposed:data of kernels that move data, exposed:barrier of those that "
        "only wait.",
        "lateness": "Of a job: time in which ranks waited, exposed, for the one that began a collective last.",
        "memory": "Copies and sets with neither computation nor communication beside them.",
        "idle": "Time in which nothing ran on the device.",
        "idle:CAUSE": "The same for one cause: host_wait, dependency_wait, kernel_gap or unknown; or, for gaps "
        "with a known cause, data_loading, blocking_sync, garbage_collection and so on (docs/idle.md).",
        "communication": "Time in which communication ran, hidden or not.",
        "hidden": "The share of communication time that is hidden behind computation. Its limit is in points: with "
        "--fail-below hidden=2% 60 % may fall to 58 %.",
        "launches": "Kernels, copies and sets that start on the device. Its limit is a number or a percentage.",
        "family:NAME": "Durations of the kernels of one family, hidden or not: family:gemm.",
        "kernel:REGEX": "Durations of the kernels with a name that the regular expression fits: kernel:flash_.*bwd.",
        "operator:NAME": "Durations of the work that an operator launched itself: operator:aten::mm.",
        "phase:NAME": "Durations of the work that a phase (a host annotation) launched: phase:attn(F).",
        "rank:N": "The length of the steps of one rank: median over the steps that count.",
    }
)

#: How limits are written.
LIMITS = (
    "A limit is a percentage of the figure before (5%), a time (300us, 2ms), or a number where the figure is one. What "
    "was 0 before has no percentage: anything new is above it."
)

#: What a verdict of noise cannot see.
NOISE_LIMITS = f"Noise is estimated from {ONE_RUN_EACH}."

#: Levels of movers -> the heading of their table.
LEVEL_TERMS: Mapping[str, str] = MappingProxyType(
    {"family": "Kernel families", "kernel": "Kernels", "operator": "Operators", "phase": "Phases"}
)
#: What the change of the median step has beyond that of the mean step, which the parts add up to.
MEDIAN_LESS_MEAN: Final = "median less mean step"
_CAUSES: Mapping[str, str] = MappingProxyType(
    {
        "host_wait": "host wait",
        "dependency_wait": "dependency wait",
        "kernel_gap": "gaps between kernels",
        "unknown": "cause unknown",
        "barrier": "barriers",
        **{cause: cause.replace("_", " ") for cause in TOLD_APART},
    }
)
_SHORT = (
    ("exposed communication", "exposed comm."), (WAITING, "waiting"),
    ("gaps between kernels", "kernel gaps"), ("dependency wait", "dependency"), ("cause unknown", "unknown"),
)  # fmt: skip
_KINDS: Mapping[str, str] = MappingProxyType({"data": "data", "barrier": "barriers"})
_EFFECTS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "by_number_ns": ("more", "fewer"),
        "by_duration_ns": ("longer", "shorter"),
        "by_overlap_ns": ("less hidden", "more hidden"),
        "by_kernel_ns": ("new", "gone"),
    }
)


def part_words(part: str, cause: str | None) -> str:
    """A part and its cause: "idle: host wait"; of communication that moves data, the part alone."""
    if cause is None or (part == "exposed communication" and cause == "data"):
        return part
    return f"{part}: {_CAUSES.get(cause, cause)}"


def part_names(parts: Sequence[PartRow]) -> list[str]:
    """A name for each part; where there are barriers too, communication that moves data is called so."""
    has_barriers = any(row["cause"] == "barrier" for row in parts)
    return [
        f"{row['part']}: data" if has_barriers and row["cause"] == "data" else part_words(row["part"], row["cause"])
        for row in parts
    ]


def part_label(part: str, cause: str | None) -> str:
    """The same in few letters, for the axis of a picture: "exposed comm.", "idle: kernel gaps", "waiting: rank 2"."""
    return _shorter(part_words(part, cause))


def part_labels(parts: Sequence[PartRow]) -> list[str]:
    """`part_names` in few letters."""
    return [_shorter(name) for name in part_names(parts)]


def _shorter(words: str) -> str:
    for long, short in _SHORT:
        words = words.replace(long, short)
    return words


def why_words(row: PartRow | MoverRow) -> str:
    """By what most of a change came about: "longer", "fewer", "less hidden", "new"; nothing of no change."""
    if not row["change_ns"]:
        return ""
    effects = {key: cast(int, row.get(key)) for key in _EFFECTS}
    most = max(effects, key=lambda key: effects[key] if row["change_ns"] > 0 else -effects[key])
    if most == "by_overlap_ns" and row["part"] == "compute":
        return ("less overlap", "more overlap")[row["change_ns"] < 0]
    if most == "by_kernel_ns" and row["before_ns"] and row["after_ns"]:
        return "other kernels"
    return _EFFECTS[most][row["change_ns"] < 0]


def mover_words(row: MoverRow) -> str:
    """Why a mover moved: that it is new, gone or replaced, else by what most of its change came about."""
    return row["status"] if row["status"] != "both" else why_words(row)


def mover_name(row: MoverRow) -> str:
    """Of one that was replaced, by what."""
    return row["name"] if row["replaced_by"] is None else f"{row['name']} → {row['replaced_by']}"


def mover_names(rows: Sequence[MoverRow]) -> list[str]:
    """A name for each row; of those that bear the same, with what each is of: "combine, barriers"; "Adam, compute"."""
    num = Counter(row["name"] for row in rows)
    return [
        f"{mover_name(row)}, {_KINDS.get(row['cause'] or '') or row['part']}"
        if num[row["name"]] > 1
        else mover_name(row)
        for row in rows
    ]


def noise_words(row: PartRow | MoverRow | GateRow | ShapeChangeRow) -> str:
    """ "within" the noise, of a change that is one."""
    before, after = ("before_ns", "after_ns") if "before_ns" in row else ("before", "after")
    return "within" if row["is_noise"] and dict(row)[before] != dict(row)[after] else ""


def verdict_words(report: DiffReport) -> str:
    """The verdict in a line, with the reasons. Of runs that are not comparable the headline has the first: here are the
    others, if any."""
    word, reasons = report.verdict.word, report.verdict.reasons
    if word == "comparable":
        return "Comparable."
    if word == "not comparable":
        return f"Also: {'; '.join(reasons[1:])}." if reasons[1:] else ""
    return f"{word[0].upper()}{word[1:]}: {'; '.join(reasons)}."


def difference_words(difference: Difference) -> str:
    """ "+60.0 µs ± 4.2 µs of the mean step (98 % sure)"."""
    change_ns, margin_ns = difference.change_ns, (difference.high_ns - difference.low_ns) / 2
    sure = percent(difference.confidence, 0)
    return f"{signed_duration(change_ns)} ± {duration(margin_ns)} of the mean step ({sure} sure)"


def steps_words(side: SideSummary) -> str:
    """How many steps count, how their lengths lie, and which were left out."""
    steps, dropped = side.steps, side.dropped
    if not steps:
        return "no rank that both have"
    median = f"median {duration(side.median_ns)}"
    if steps[0]["step"] is None:
        return f"no steps: the whole recording, {duration(side.median_ns)}"
    said = f"{counted(len(steps), 'step')}, {median if len(steps) > 1 else duration(side.median_ns)}"
    if len(steps) > 1:
        said += f" (quartiles {duration(side.low_ns)}, {duration(side.high_ns)})"
    if dropped:
        said += "; without " + ", ".join(f"{each['step']} ({each['why'].split(':')[0]})" for each in dropped[:3])
        said += f" and {len(dropped) - 3} more" if len(dropped) > 3 else ""
    return said


def ranks_words(side: SideSummary) -> str:
    """Of which rank, or of how many."""
    ranks = [rank["rank"] for rank in side.ranks]
    if len(ranks) != 1:
        return counted(len(ranks), "rank")
    return "one device" if ranks[0] is None else f"rank {ranks[0]}"


def both_ranks_words(before: SideSummary, after: SideSummary) -> str:
    """The same of two runs; "rank 0 → rank 1" where they are of different ranks."""
    return " → ".join(dict.fromkeys(map(ranks_words, (before, after))))


def without_common_folders(one: str, other: str) -> tuple[str, str]:
    """Two paths without the folders in front that both are in: what is left tells which is which."""
    if one == other or "://" in one + other:
        return one, other
    names = [path.replace("\\", "/").split("/") for path in (one, other)]
    same = next(at for at, (a, b) in enumerate(zip_longest(*names)) if a != b)
    same = min(same, *(len(each) - 1 for each in names))
    return "/".join(names[0][same:]), "/".join(names[1][same:])


def launches_words(row: MoverRow | ShapeChangeRow) -> str:
    """Launches, or calls, in a step: "3", "3 → 2"."""
    before, after = (f"{row[key]:,.4g}" for key in ("before_num", "after_num"))
    return before if before == after else f"{before} → {after}"


def call_words(row: ShapeChangeRow) -> str:
    """The time of a call on both sides; of shapes that one run alone has, that they are new or gone."""
    if row["status"] != "both":
        return row["status"]
    return f"{duration(row['before_call_ns'])} → {duration(row['after_call_ns'])}"


def gate_result(is_met: bool | None) -> str:
    """ "met", "FAILED", or "not judged"."""
    return "not judged" if is_met is None else "met" if is_met else "FAILED"


def gate_change(gate: GateRow) -> str:
    """The change of a gate's figure, in what its limit is in: "+30.0 %", "−40.0 µs", "+2.0 points", "new"."""
    before, after = gate["before"], gate["after"]
    if before is None or after is None:
        return "–"
    is_part = gate["limit"].endswith("%")
    return "new" if is_part and not before and after else change_text(before, after, gate["unit"], is_part=is_part)


def gate_limit(gate: GateRow) -> str:
    """What is allowed: "+5%", "−300us", of a share "−2 points"."""
    limit = gate["limit"].removesuffix("%").strip() + " points" if gate["unit"] == "share" else gate["limit"]
    return f"{'+' if gate['direction'] == 'above' else '−'}{limit}"


def rows_of(report: DiffReport, level: str) -> list[MoverRow]:
    """The movers of a level; who waited for whom is told of ranks."""
    rows: list[MoverRow] = dict(report.movers)[level]  # type: ignore[assignment]
    return [row for row in rows if row["part"] != WAITING]


def parts_of(report: DiffReport) -> list[PartRow]:
    """The parts that either run has; waiting is one, whichever the late ranks are."""
    parts = [row for row in report.parts if row["before_ns"] or row["after_ns"]]
    waits = [row for row in parts if row["part"] == WAITING]
    if len(waits) < 2:
        return parts
    sums = {key: sum(cast(int, row.get(key)) for row in waits) for key in waits[0] if key.endswith("_ns")}
    summary = {row["is_noise"] for row in waits}
    every: dict[str, object] = {
        "part": WAITING, "cause": None, **sums, "is_noise": None if None in summary else summary == {True}
    }  # fmt: skip
    at = parts.index(waits[0])
    return [*parts[:at], cast(PartRow, every), *parts[at + len(waits) :]]


def own_words(row: LatenessRow) -> str:
    """What changed most on a late rank itself: "gemm +1.2 ms", "idle: host wait −30.0 µs"."""
    if not row["own"]:
        return ""
    most = row["own"][0]
    what = most["family"] if most["part"] == "compute" and most["family"] else part_words(most["part"], most["cause"])
    return f"{what} {change_text(0.0, most['change_ns'], 'ns', is_part=False)}"


def rank_words(row: RankRow, rows: Sequence[RankRow]) -> str:
    """ "rank 2"; with the device where a rank drove several."""
    name = "no rank" if row["rank"] is None else f"rank {row['rank']}"
    several = sum(each["rank"] == row["rank"] for each in rows) > 1
    return f"{name}, device {row['device']}" if several and row["device"] is not None else name


#: Terms of the page and the docs: key -> (term, what it means).
DIFF_TERMS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "median_step": (
            "Median step",
            "The median length of the steps that count, each the mean over ranks. A last step with an unknown end "
            "does not count, and neither does a step far from the others. A run without steps is one step.",
        ),
        "change": ("Change", "The median step after less the median step before."),
        "by_speed": (
            "By speed",
            "Of the change of an operator with the same shapes: the change of the time of a call, times the "
            "mean number of calls of both runs. The rest is their number. Shapes that one run alone has are other "
            "work.",
        ),
        "remainder": (
            MEDIAN_LESS_MEAN.capitalize(),
            "The change of the median step less that of the mean step. Parts are means, so that they add up; this "
            "is how much the median moved otherwise.",
        ),
        "noise": (
            "Noise",
            "What the steps of one run differ by. A change is within the noise where the steps of both runs differ by "
            "no more than that; with one step of either, noise is not known.",
        ),
        "verdict": (
            "Verdict",
            "Whether the difference may be read as the effect of a change: comparable; comparable, with a list of "
            "other differences; not comparable, and then no cause is given.",
        ),
        "own_time": (
            "Own time",
            "How much an event lengthens its step. Each nanosecond of a step has one owner, so own times add up to "
            "its parts. Communication beside computation owns none of it.",
        ),
        "by_number": ("By number", "(n1 − n0) × the mean own time of a launch: there are more or fewer of them."),
        "by_duration": (
            "By duration",
            "Mean number × (d1 − d0) × the mean share of a duration that is its own: they take longer or shorter.",
        ),
        "by_overlap": (
            "By overlap",
            "The rest of a kernel that both runs have: more or less of it is hidden, or runs next to its own kind.",
        ),
        "by_kernel": ("By other kernels", "Own time of kernels that one run alone has: new, gone, or replaced."),
        "exposed": (
            "Exposed communication",
            "Time during which communication ran and no compute kernel did. The GPU waits for the network.",
        ),
        "hidden": ("Hidden communication", "Communication time during which some compute kernel ran too."),
        "idle": ("Idle", "Time of a step during which nothing ran on the device."),
        "sms": (
            "SMs",
            "Streaming multiprocessors that the lane's persistent kernels hold; with ≤, an upper bound from the "
            "largest launch grid. On AMD, compute units.",
        ),
    }
)
