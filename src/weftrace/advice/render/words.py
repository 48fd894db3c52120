"""What the terminal, the pages and the docs say alike of critical paths and what-ifs, and what the terms mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from weftrace.advice.contention import Contention
from weftrace.advice.critical_paths import WeakestEdge
from weftrace.advice.document import Advice, WaitsRow
from weftrace.plan import Kept, Replay
from weftrace.render.console_text import clean, kernel_label, shorten_middle
from weftrace.units import counted, duration, percent, signed

#: key -> (term, what it means).
PATH_TERMS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "critical_path": (
            "Critical path",
            "The chain of work and waits that decided when the last op on a device ended: from that end back to the op "
            "or call that let the op start, and so on. Its parts lie end to end, so they add up to the replayed span.",
        ),
        "replay_error": (
            "Replay error",
            "Replayed span / measured span, less 1. The replay keeps measured durations, a few medians (one gap, one "
            "latency per kind of wait) and the listed waits, nothing else. Do not trust it if the "
            "span or a phase's end is more than 3 % of the span off, or if most of the late starts are unexplained.",
        ),
        "vote": (
            "Vote",
            "One repeat of a pattern (a layer, a step) in which an op was late. For: the other op ended just as it "
            "started. Against: it started at another time. Files that record no waits between streams show them so.",
        ),
        "confidence": (
            "Confidence",
            "Of a wait: 1 where it is recorded or follows from a launch; of a vote, votes for over all votes, less "
            "where there are few.",
        ),
        "weakest": ("Weakest wait", "The wait on the critical path with the least confidence: there it may be wrong."),
        "slack": (
            "Slack",
            "How much later an op could start, all else as it is, without the run ending later. On the critical "
            "path it is 0. A chain shares its slack.",
        ),
        "launch": (
            "Launch",
            "Of the critical path: time in calls that launch work, and from their end until the work starts.",
        ),
        "host": ("Host", "Of the critical path: time of a host thread between its calls, and in calls that block."),
        "dependency": (
            "Dependency",
            "Of the critical path: what passes between the end of an op and the start of one that waited for it.",
        ),
        "sm_wait": (
            "SM wait",
            "Of the critical path: the part of an op in which the next one lacked nothing but the SMs that it held.",
        ),
        "idle_gap": ("Idle", "Of the critical path: the gap between two ops back to back on a stream."),
        "unrecorded": (
            "Unrecorded",
            "Of the critical path: a hole in which work ran that the file does not hold. It stays as long as it was.",
        ),
        "late_start": (
            "Late start",
            "An op on a device that starts more than 10 µs after its stream was free and its launch had come. It is "
            "unexplained if no other wait of the plan holds it until within 10 µs of its start.",
        ),
    }
)
WHAT_IF_TERMS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "replay_error": PATH_TERMS["replay_error"],
        "saved": (
            "Saved",
            "Replayed span less that of the changed plan. Both replays keep the same things, so the two are compared, "
            "and not the changed plan with the measurement.",
        ),
        "sensitivity": (
            "Sensitivity",
            "What the span loses where all ops of one selection take 1 % less time, and nothing else changes.",
        ),
        "contention": (
            "Contention",
            "How much kernels that share a device slow each other. Runs of the same kernel (name, grid, block, shapes) "
            "beside a transfer and away from it give its factor; a changed plan stretches each kernel by the work "
            "beside it then.",
        ),
        "interval": (
            "Interval",
            "If ranks of the job are not in the plan, it is not known how much of a collective is waiting for them, "
            "and what a change would do to them. The answer then lies between two spans, whatever they do.",
        ),
        "knee": (
            "Knee",
            "Of a curve: above this factor the span grows with the selection; below it, the selection is hidden.",
        ),
        "alone": (
            "Alone",
            "What the span would lose with none of a class, all else as it is. What two classes save alone does not "
            "add up: where one is gone, another decides.",
        ),
    }
)

#: Where waits come from, for a person; the keys are `weftrace.plan.inference.values.SOURCES`.
SOURCE_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "launch": "launch call",
        "graph": "launch of a CUDA graph",
        "recorded": "recorded wait",
        "voted": "voted on",
        "sm": "free SMs",
        "blocking": "call that blocks",
        "quiet": "host that polled",
        "autograd": "autograd's thread",
        "thread": "another thread",
        "origin": "start of the recording",
        "unrecorded": "not recorded",
    }
)
#: The same at the head of a narrow column, as `docs/critical-path.md` has them; what is not here, by its key.
SOURCE_HEADS: Mapping[str, str] = MappingProxyType({"sm": "SMs", "quiet": "polling", "origin": "start"})


#: How names of simulated kernels begin.
SIMULATED = "weftrace::sim::"


def replay_words(replay: Replay) -> str:
    """How far the replay is off, in a sentence or two."""
    measured = f"measured {duration(replay.span_ns, 4)}: {signed(replay.error, 2)}"
    said = f"Replayed in {duration(replay.replayed_ns, 4)}, {measured}"
    if replay.worst_phase is not None and not replay.worst_phase_ns:
        said += "; all phases end when they did"
    elif replay.worst_phase is not None:
        late = "late" if replay.worst_phase_ns > 0 else "early"
        said += f"; the worst phase end, of {replay.worst_phase}, is {duration(abs(replay.worst_phase_ns))} {late}"
    if not replay.late_starts:
        return f"{said}."
    part, number = replay.unexplained, counted(replay.late_starts, "late start")
    if not part:
        return f"{said}. The plan explains {'all ' * (replay.late_starts > 1)}{number}."
    return f"{said}. Of {number} {percent(part, 0)} of the time is unexplained."


def doubt_words(report: Advice) -> str:
    """Why an answer is not to be trusted, or is an interval; nothing where it is exact."""
    if not report.trust.is_trusted:
        return f"Not reliable: {'; '.join(report.trust.reasons)}. Take what follows for a hint."
    if report.trust.answer == "interval":
        why = "" if report.trust.is_first else f": {'; '.join(report.trust.reasons)}"
        return (
            f"The answer is an interval{why}. It holds whatever absent ranks do; paths take their part as it was "
            "measured. The traces of all ranks give an exact answer."
        )
    return ""


def range_words(low_ns: int, high_ns: int, unit: Callable[[float], str]) -> str:
    """A time in a table's unit, or the two that it lies between."""
    return unit(low_ns) if low_ns == high_ns else f"{unit(low_ns)} to {unit(high_ns)}"


def contention_words(contention: Contention) -> str:
    """What kernels lose beside communication in changed plans, and where that comes from."""
    takes = f"Beside communication, computation takes × {contention.factor:.2f} in changed plans"
    if contention.basis == "measured":
        pairs = f"measured from {counted(contention.num_pairs, 'pair')} of runs of a kernel beside it and away from it"
        rest = "" if contention.share > 0.995 else f", for {percent(contention.share, 0)} of its time"
        stated = "; stated for the rest" if contention.source else ""
        return f"{takes}: {pairs}{rest}{stated}."
    if contention.basis == "stated":
        return f"{takes}, as stated for this device: {contention.source}."
    return "Too few kernels ran both beside communication and away from it to measure the cost: it stays as it was."


def kept_words(kept: Kept, waits: Sequence[WaitsRow]) -> str:
    """What the replay keeps of the run: durations, these medians, and the waits."""
    sources = {row["source"] for row in waits}
    medians = [
        ("gap", kept.gap_ns, True),
        ("launch latency", kept.launch_latency_ns, "launch" in sources),
        ("latency of waits", kept.wait_latency_ns, bool(sources & {"recorded", "voted"})),
        ("latency of graphs", kept.graph_latency_ns, "graph" in sources),
        ("time before a kernel's end at which its SMs are free", kept.drain_ns, "sm" in sources),
        ("latency of polling", kept.quiet_latency_ns, "quiet" in sources),
    ]
    summary = ", ".join(f"{name} {duration(time_ns)}" for name, time_ns, is_used in medians if is_used)
    pinned = f"; {counted(kept.num_pinned, 'stream')} held up before the recording" if kept.num_pinned else ""
    return f"The replay keeps measured durations, one median each ({summary}) and these waits{pinned}; nothing else."


def kernel_words(name: str, width: int) -> str:
    """A kernel's name that fits; of a simulated one whole, for its parentheses hold no parameters."""
    return shorten_middle(clean(name), width) if name.startswith(SIMULATED) else kernel_label(name, width)


def weakest_words(weakest: WeakestEdge | None) -> str:
    """The wait on the path of which we are least sure."""
    if weakest is None:
        return "All waits on the path are sure: recorded, or launches."
    name, on = (kernel_words(each, 48) for each in (weakest.name, weakest.on_name))
    said = f"Weakest wait: {name} for {on}, {SOURCE_WORDS[weakest.source]}, confidence {weakest.confidence:.2f}"
    if weakest.votes_for is None:
        return f"{said}."
    return f"{said} ({counted(weakest.votes_for, 'vote')} for, {weakest.votes_against or 0:,} against)."


def votes_words(row: WaitsRow) -> str:
    """Votes for and against, a dash where nothing was voted on."""
    return "–" if row["votes_for"] is None else f"{row['votes_for']:,} : {row['votes_against'] or 0:,}"
