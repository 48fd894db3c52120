"""The loss of a cluster's head is told soon, and nothing else is taken for it."""

from __future__ import annotations

import pickle
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from weftrace.workers import head_watch
from weftrace.workers.cluster_executor import ClusterExecutor
from weftrace.workers.head_watch import watch_head
from weftrace.workers.losses import HeadLost, Lost, loss_of
from weftrace.workers.parcels import Answer, Parcel


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_watch, "_PATIENCE_S", 0.2)
    monkeypatch.setattr(head_watch, "_PAUSE_S", 0.02)


class Silent(ClusterExecutor):
    """Of a cluster that gives no result; its head is this server."""

    def __init__(self, server: socket.socket, on_lost: Callable[[str], object]) -> None:
        super().__init__(pickle.dumps, on_lost)
        self.left = threading.Event()
        self._watch(f"tcp://127.0.0.1:{server.getsockname()[1]}")

    def _send(self, parcel: Parcel) -> tuple[Future[Answer], Callable[[], object]]:
        sent: Future[Answer] = Future()
        return sent, sent.cancel

    def _leave(self) -> None:
        self.left.set()


def test_what_waits_for_a_lost_head_fails_and_so_does_what_comes_later() -> None:
    told: list[str] = []
    server = socket.create_server(("127.0.0.1", 0))
    with Silent(server, told.append) as executor:
        waiting = [executor.submit(len, "") for _ in range(3)]
        connection, _ = server.accept()
        server.close()
        assert not waiting[0].done()
        connection.close()
        for future in waiting:
            assert isinstance(future.exception(30), HeadLost)
        with pytest.raises(HeadLost):
            executor.submit(len, "")
        assert executor.left.wait(30)
    assert len(told) == 1 and "was lost" in told[0]
    assert loss_of(HeadLost("x was lost")) == Lost("it was not done when x was lost")


def test_a_head_that_ends_connections_or_says_something_is_not_lost() -> None:
    lost = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        end = watch_head("127.0.0.1", server.getsockname()[1], lost.set)
        for _ in range(3):
            connection, _ = server.accept()
            connection.sendall(b"hello")
            connection.close()
        end()
    assert not lost.wait(0.5)


def test_a_watch_that_is_over_tells_nothing() -> None:
    lost = threading.Event()
    before = threading.active_count()
    with socket.create_server(("127.0.0.1", 0)) as server:
        watch_head("127.0.0.1", server.getsockname()[1], lost.set)()
    while threading.active_count() > before:
        time.sleep(0.01)
    assert not lost.is_set()
