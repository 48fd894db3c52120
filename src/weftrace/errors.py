"""What weftrace raises when the user can do something about it.

Every error a user can cause derives from `WeftraceError`, and its text names the file, what is wrong and what helps.
Anything else that escapes is a bug of ours.
"""

#: Exit codes of the command line besides 0, fine: a gate or `--strict` was not met; wrong usage; an unusable input.
NOT_MET, USAGE, UNUSABLE_INPUT = 1, 2, 3


class WeftraceError(Exception):
    """Base of every error that a user's input can cause. exit_code: what the command line ends with."""

    exit_code = USAGE


class TraceError(WeftraceError):
    """A trace file cannot be used: missing, unreadable, not a trace, or holding nothing that can be kept."""

    exit_code = UNUSABLE_INPUT


class TraceTooLarge(TraceError):
    """A compressed trace expands past the stated limit (`max_bytes`)."""


class DocumentError(WeftraceError):
    """A file is not the document that it should be: unreadable, damaged, not JSON, or of another schema."""

    exit_code = UNUSABLE_INPUT


class RulesError(WeftraceError):
    """A kernel-rules file is wrong."""

    exit_code = UNUSABLE_INPUT


class PlanError(WeftraceError):
    """A plan cannot run: an unknown dependency, a cycle, a negative duration."""

    exit_code = UNUSABLE_INPUT


class ScheduleError(WeftraceError):
    """A pipeline schedule cannot be made or run: impossible arguments, an action missing or twice, a deadlock."""


class PipelineRunError(WeftraceError):
    """A pipeline stopped while it ran: a stage failed, another rank has ended, or ranks were told different things."""


class ProfileError(WeftraceError):
    """A profile cannot be made: numbers that contradict each other, an operation list that cannot run."""


class AdviceError(WeftraceError):
    """A change cannot be tried on a plan: what it names is not there, or it says two things of one op."""


class ComparisonError(WeftraceError):
    """Two runs cannot be compared as it was asked: a gate that means nothing, a name that neither run has."""


class QueryError(WeftraceError):
    """A question cannot be asked: SQL that is not understood, or a table or column that is not there."""


class QueryWarning(UserWarning):
    """A question was answered without some ranks of a job, which could not be read."""


class LoadsError(WeftraceError):
    """Expert loads cannot be used: a file or an array that is not loads, NaN, a negative count, the wrong shape."""

    exit_code = UNUSABLE_INPUT


class PlacementError(WeftraceError):
    """A placement of experts cannot be made or used: too few slots, a broken map, a constraint that none can meet."""


class FlopsError(WeftraceError):
    """A model cannot be counted: it cannot be built or run, an input does not fit, a document is not a report."""

    exit_code = UNUSABLE_INPUT


class SpecError(FlopsError):
    """What is to be counted is not said right: an unknown phase or dtype, options that contradict each other."""

    exit_code = USAGE


class CaptureError(WeftraceError):
    """A recording cannot begin: a file is there already, the folder cannot be written, arguments mean nothing."""


class CaptureWarning(UserWarning):
    """Something of a recording went wrong while the run that it records went on."""


class UncheckedWarning(UserWarning):
    """A file was saved before files had a digest, so nobody can tell whether it is damaged."""


class OutputError(WeftraceError):
    """An output cannot be written."""


class ClusterError(WeftraceError):
    """A cluster cannot be used: it does not answer, or its workers cannot run what this machine sends."""


class ClusterWarning(UserWarning):
    """A cluster can be used, and will keep whoever waits for it waiting."""


class CompileWarning(UserWarning):
    """Compiled functions cannot be kept on disk: each run compiles them again."""
