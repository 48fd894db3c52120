"""Which accelerator's peaks count for a report?"""

from __future__ import annotations

from weft.errors import WeftError
from weft.flops.values import FlopsReport
from weft.hardware import Hardware, hardware


def device_of(report: FlopsReport, wanted: Hardware | str | None = None) -> tuple[Hardware | None, str]:
    """(the accelerator that is wanted, else the report's own; why there is none, "" where the report names none).

    A report of another weft can name one that this weft does not know: then what needs peaks is left out. Raises
    `WeftError` where one is wanted that weft does not know.
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
    except WeftError as error:
        return None, f"No peaks are known for {recorded}, so there is no utilization and no roofline: {error}"
