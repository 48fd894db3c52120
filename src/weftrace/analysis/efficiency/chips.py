"""Which accelerator's peaks count for a trace?"""

from __future__ import annotations

from weftrace.errors import WeftraceError
from weftrace.facts import Hardware, hardware
from weftrace.trace.work import Work


def chip_of(work: Work, wanted: Hardware | str | None = None) -> tuple[Hardware | None, tuple[str, ...]]:
    """(the accelerator that is wanted, else the one that the file names; notes: why there is none).

    Raises `WeftraceError` where one is wanted that weftrace does not know.
    """
    if wanted is not None:
        return (wanted if isinstance(wanted, Hardware) else hardware(wanted)), ()
    if work.basis != "device" or work.device is None:
        return None, ()
    name = work.trace.device(work.device).name
    if not name:
        return None, ("The file does not name its device, so no rate is held against a peak: give --hardware NAME.",)
    try:
        return hardware(name), ()
    except WeftraceError as error:
        return None, (f"No rate is held against a peak: {error}",)
