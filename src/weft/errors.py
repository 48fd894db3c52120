"""What weft raises when the user can do something about it.

Every error a user can cause derives from `WeftError`, and its text names the file, what is wrong and what helps.
Anything else that escapes is a bug of ours.
"""


class WeftError(Exception):
    """Base of every error that a user's input can cause."""


class TraceError(WeftError):
    """A trace file cannot be used: missing, unreadable, not a trace, or holding nothing that can be kept."""


class TraceTooLarge(TraceError):
    """A compressed trace expands past the stated limit (`max_bytes`)."""


class RulesError(WeftError):
    """A kernel-rules file is wrong."""


class PlanError(WeftError):
    """A plan cannot run: an unknown dependency, a cycle, a negative duration."""


class LoadsError(WeftError):
    """Expert loads cannot be used: a file or an array that is not loads, NaN, a negative count, the wrong shape."""


class PlacementError(WeftError):
    """A placement of experts cannot be made or used: too few slots, a broken map, a constraint that none can meet."""


class FlopsError(WeftError):
    """A model cannot be counted: it cannot be built or run, an input does not fit, a document is not a report."""


class OutputError(WeftError):
    """An output cannot be written."""
