"""Which accelerator's peaks count for a trace?"""

from __future__ import annotations

from weftrace.errors import WeftraceError
from weftrace.facts import Hardware, hardware, hardware_of_device
from weftrace.trace.work import Work

_MOST_OF_IT = 0.9  # of a chip's SMs: a device that has fewer is a partition of it


def chip_of(work: Work, wanted: Hardware | str | None = None) -> tuple[Hardware | None, tuple[str, ...]]:
    """(the accelerator that is wanted, else the one that the file describes; notes: what it was taken for by, or why
    there is none).

    Raises `WeftraceError` where one is wanted that weftrace does not know.
    """
    if wanted is not None:
        return (wanted if isinstance(wanted, Hardware) else hardware(wanted)), ()
    if work.basis != "device" or work.device is None:
        return None, ()
    device = work.trace.device(work.device)
    try:
        chip, taken = hardware_of_device(device.name, device.num_sms, device.memory_bytes)
    except WeftraceError as error:
        return None, (f"No rate is compared with a peak: {error}",)
    if device.num_sms is not None and device.num_sms < _MOST_OF_IT * chip.num_sms:
        part = f"{device.num_sms} of the {chip.num_sms} {work.sm_unit} of {chip.name}"
        return None, (f"No rate is compared with a peak: the file's device has {part}, so it is a part of the chip.",)
    return chip, (f"The device was {taken}.",) if taken else ()
