"""What executors on clusters share: calls and results are packed here, and failures come out as they went in."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from threading import TIMEOUT_MAX
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from weftrace.workers.parcels import Answer, Parcel, packed, unpacked

P = ParamSpec("P")
T = TypeVar("T")


class ClusterExecutor(Executor):
    """An executor whose `with` block does not wait for what is under way when it is left by an error, Ctrl-C say."""

    def __init__(self, dumps: Callable[[object], bytes]) -> None:
        self._dumps = dumps
        self._under_way: set[Future[Any]] = set()

    @abstractmethod
    def _send(self, parcel: Parcel) -> tuple[Future[Answer], Callable[[], object]]:
        """Hand a parcel to the cluster: what comes back, and what cancels it."""

    @abstractmethod
    def _leave(self) -> None:
        """End the connection, and with it what is under way."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        sent, cancel = self._send(packed(self._dumps, fn, args, kwargs))
        future: Future[T] = Future()
        self._under_way.add(future)
        future.add_done_callback(partial(self._forget, cancel))
        sent.add_done_callback(partial(_settle, future))
        return future

    def _forget(self, cancel: Callable[[], object], future: Future[Any]) -> None:
        self._under_way.discard(future)
        if future.cancelled():
            cancel()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        for future in tuple(self._under_way):
            if cancel_futures:
                future.cancel()
            elif wait:
                future.exception(TIMEOUT_MAX)  # as in `sharing`, so that Ctrl-C is heard
        self._leave()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.shutdown(cancel_futures=error is not None)


def _settle(future: Future[Any], sent: Future[Answer]) -> None:
    """Hand on what came back. An exception that the call itself raised comes out of Ray's wrapping (`cause`)."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(unpacked(sent.result()))
    except BaseException as error:  # a cancellation too: it is whoever waits for the future who hears it
        cause = getattr(error, "cause", None)
        future.set_exception(cause if isinstance(cause, BaseException) else error)
