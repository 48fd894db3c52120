"""Which accelerator's peaks count for a report?"""

from __future__ import annotations

from weftrace.errors import WeftraceError
from weftrace.facts import Hardware, hardware
from weftrace.flops.values import FlopsReport


def device_of(report: FlopsReport, wanted: Hardware | str | None = None) -> tuple[Hardware | None, str]:
    """(the accelerator that is wanted, else the report's own; why there is none, "" where the report names none).

    A report of another weftrace can name one that this weftrace does not know: then what needs peaks is left out.
    Raises `WeftraceError` where one is wanted that weftrace does not know.
    """
    if isinstance(wanted, Hardware):
        return wanted, ""
    if wanted:
        return hardware(wanted), ""
    return named(report.hardware)


def named(recorded: str) -> tuple[Hardware | None, str]:
    """The same of a name that was recorded in a run, "" where none was."""
    if not recorded:
        return None, ""
    try:
        return hardware(recorded), ""
    except WeftraceError as error:
        return None, f"No peaks are known for {recorded}, so there is no utilization and no roofline: {error}"
