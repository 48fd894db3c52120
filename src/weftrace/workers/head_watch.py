"""Whether a cluster's head is still there, told by a connection that is held open.

Dask notices a lost scheduler after some seconds, Ray's client a lost head after 30, and a driver of Ray ends its whole
process after 60.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

#: For a head that has ended a connection to accept another one. With `_KEEPALIVE` and `_PAUSE_S`, a loss is told
#: within 5 s, also that of a machine which ends no connection.
_PATIENCE_S, _PAUSE_S = 2.0, 0.5
#: Seconds until an idle connection is tested, seconds between two tests, and how many go unanswered; by platform.
_KEEPALIVE = {"TCP_KEEPIDLE": 1, "TCP_KEEPALIVE": 1, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 1}


def watch_head(host: str, port: int, on_lost: Callable[[], object]) -> Callable[[], object]:
    """Call `on_lost`, once and in a thread of its own, when nothing accepts connections there any more. Returns what
    ends the watch.

    A head that hangs, and whose machine answers for it, is not lost.
    """
    over = threading.Event()
    threading.Thread(target=_watch, args=(host, port, on_lost, over), daemon=True).start()
    return over.set


def _watch(host: str, port: int, on_lost: Callable[[], object], over: threading.Event) -> None:
    while not over.is_set():
        connection = _connected(host, port)
        if connection is None:
            if not over.is_set():
                on_lost()
            return
        with connection:
            _hold(connection, over)
        over.wait(_PAUSE_S)


def _connected(host: str, port: int) -> socket.socket | None:
    deadline = time.monotonic() + _PATIENCE_S
    while (left := deadline - time.monotonic()) > 0:
        try:
            return socket.create_connection((host, port), timeout=left)
        except OSError:
            time.sleep(min(_PAUSE_S, left))
    return None


def _hold(connection: socket.socket, over: threading.Event) -> None:
    """Until either side ends the connection: a head does so, too, with one that never says a thing."""
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE.items():
            if hasattr(socket, name):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        connection.settimeout(_PAUSE_S)
        while not over.is_set():
            try:
                if not connection.recv(4096):
                    return
            except TimeoutError as error:
                if error.errno is not None:  # ETIMEDOUT: the machine does not answer
                    return
    except OSError:
        return
