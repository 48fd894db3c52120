"""What the terms on the pages of advice mean."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

#: key -> (term, what it means): what every page that draws a path has.
PICTURE_TERMS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "path": (
            "Critical path",
            "The chain of work and waits that decides when the last op on a device ends: from there back to whatever "
            "let it start, and on. Its parts lie end to end and add up to the replayed span. Shorten what is on it, "
            "and the span is shorter, until another chain decides.",
        ),
        "slack": ("Slack", "By how much an op could start later, all else as it is, without the last op ending later."),
        "replay": (
            "Replay",
            "The run played again from its inferred plan: measured durations, one gap, one launch latency, and the "
            "waits. Its error is the replayed span over the measured one, less 1. All numbers on this page that are "
            "not measured are as good as that.",
        ),
        "launch": ("Launch", "Calls that put work on a stream, and the latency from the call's end to its start."),
        "host": ("Host", "What a host thread does between calls, and calls that block until the device is done."),
        "dependency": ("Dependency", "What passes between the end of an op and the start of one that waited for it."),
        "sm_wait": (
            "SM wait",
            "The part of an op in which it held SMs that the next op on the path lacked to start; all else it had.",
        ),
        "path_idle": ("Idle", "Gaps between two ops on one stream."),
        "cause": (
            "Reached by",
            "How an op came to run when it did: a wait, with where it is known from, or the order.",
        ),
        "confidence": (
            "Confidence",
            "How sure a wait is: 100 % of what the file records, and of launches; of a vote, what the repeats leave in "
            "which the waiter did start as the other ended, against those in which it did not.",
        ),
    }
)
#: What the page of a path has besides.
PATH_TERMS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        **PICTURE_TERMS,
        "alone": (
            "Alone saves",
            "By how much the span would be shorter with none of it anywhere, all else as it is. These do not add up: "
            "where one thing is gone, another decides.",
        ),
        "saved": (
            "Saves",
            "By how much the replayed span is shorter with all of it that much faster, and nothing else.",
        ),
        "curve": (
            "Curve",
            "The change of the span by the factor that durations are multiplied by: flat where other work decides, and "
            "steep where this does. The knee is where one becomes the other.",
        ),
    }
)
#: What the page of a what-if has besides.
WHAT_IF_TERMS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        **PICTURE_TERMS,
        "after": (
            "After",
            "The replay of the changed plan. Compare it with the replay before, not with the measurement: both keep "
            "the same things of the run.",
        ),
    }
)
