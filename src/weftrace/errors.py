"""What weftrace raises when the user can do something about it.

Every error a user can cause derives from `WeftraceError`, and its text names the file, what is wrong and what helps.
Anything else that escapes is a bug of ours.
"""


class WeftraceError(Exception):
    """Base of every error that a user's input can cause."""


class TraceError(WeftraceError):
    """A trace file cannot be used: missing, unreadable, not a trace, or holding nothing that can be kept."""


class TraceTooLarge(TraceError):
    """A compressed trace expands past the stated limit (`max_bytes`)."""


class RulesError(WeftraceError):
    """A kernel-rules file is wrong."""


class PlanError(WeftraceError):
    """A plan cannot run: an unknown dependency, a cycle, a negative duration."""


class LoadsError(WeftraceError):
    """Expert loads cannot be used: a file or an array that is not loads, NaN, a negative count, the wrong shape."""


class PlacementError(WeftraceError):
    """A placement of experts cannot be made or used: too few slots, a broken map, a constraint that none can meet."""


class FlopsError(WeftraceError):
    """A model cannot be counted: it cannot be built or run, an input does not fit, a document is not a report."""


class OutputError(WeftraceError):
    """An output cannot be written."""
