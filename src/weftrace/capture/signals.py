"""What a person, or torchrun, sends to a process that is about to end."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENOUGH = 3  # signals after which the sender is taken at their word


@contextmanager
def undisturbed() -> Iterator[None]:
    """Ctrl-C and a termination wait until the block has ended; the third one does not.

    A Ctrl-C under torchrun reaches a process twice, from the terminal and from torchrun: without this, the second one
    would end what the first one made the process write.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: handler for number, handler in before.items() if handler is not None}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def note(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        if len(seen) >= _ENOUGH:
            restore()
            os.kill(os.getpid(), number)

    for number in before:
        signal.signal(number, note)
    try:
        yield
    finally:
        restore()
        if 0 < len(seen) < _ENOUGH:
            signal.raise_signal(seen[0])
