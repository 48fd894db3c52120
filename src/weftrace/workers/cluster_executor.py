"""What executors on clusters share: calls and results are packed here, and failures come out as they went in."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import SimpleQueue
from threading import TIMEOUT_MAX, Thread
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from weftrace.workers.head_watch import watch_head
from weftrace.workers.losses import HeadLost
from weftrace.workers.parcels import Answer, Parcel, packed, unpacked

P = ParamSpec("P")
T = TypeVar("T")


class ClusterExecutor(Executor):
    """An executor whose `with` block does not wait for what is under way when it is left by an error, Ctrl-C say.

    on_lost: gets a sentence when the cluster's head is lost; what is under way then fails at once.
    """

    def __init__(self, dumps: Callable[[object], bytes], on_lost: Callable[[str], object] | None = None) -> None:
        self._dumps, self._on_lost = dumps, on_lost
        self._under_way: set[Future[Any]] = set()
        self._lost: HeadLost | None = None
        self._unsettled: set[Future[Any]] = set()  # whoever takes a future from it settles it
        self._end_watch: Callable[[], object] = lambda: None
        self._to_send: SimpleQueue[tuple[Future[Any], Parcel] | None] = SimpleQueue()
        Thread(target=self._send_all, daemon=True).start()

    @abstractmethod
    def _send(self, parcel: Parcel) -> tuple[Future[Answer], Callable[[], object]]:
        """Hand a parcel to the cluster: what comes back, and what cancels it."""

    @abstractmethod
    def _leave(self) -> None:
        """End the connection, and with it what is under way."""

    def _watch(self, address: str) -> None:
        """Have the loss of the head told; its address as the cluster writes it: `tcp://10.0.0.1:8786`, say."""
        host, _, port = address.rpartition("://")[2].rpartition(":")
        if port.isdecimal():
            self._end_watch = watch_head(host.strip("[]"), int(port), partial(self._lose, f"{host}:{port}"))

    def _lose(self, place: str) -> None:
        self._lost = HeadLost(f"the cluster's head at {place} was lost")
        if self._on_lost is not None:
            self._on_lost(f"{self._lost}: it no longer answers. What is not done is given up")
        self._give_up()
        self._leave()  # now, since a driver of Ray that stays on is ended by Ray, with all of its process

    def _give_up(self) -> None:
        """Where the head is lost, end all that waits for it."""
        for future in tuple(self._unsettled) if self._lost is not None else ():
            self._settle(future, None, self._lost)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        if self._lost is not None:
            raise self._lost
        parcel = packed(self._dumps, fn, args, kwargs)
        future: Future[T] = Future()
        for waiting in (self._under_way, self._unsettled):
            waiting.add(future)
            future.add_done_callback(waiting.discard)
        self._to_send.put((future, parcel))
        self._give_up()  # in case it was lost in the meantime
        return future

    def _send_all(self) -> None:
        """In a thread, since Ray's client holds whoever sends for half a minute when the head is lost."""
        while (item := self._to_send.get()) is not None:
            future, parcel = item
            if future.done():
                continue
            try:
                sent, cancel = self._send(parcel)
            except BaseException as error:  # each part of Ray raises types of its own
                self._settle(future, None, error)
                continue
            future.add_done_callback(partial(_cancel_too, cancel))
            sent.add_done_callback(partial(self._receive, future))

    def _receive(self, future: Future[Any], sent: Future[Answer]) -> None:
        """Hand on what came back. An exception that the call itself raised comes out of Ray's wrapping (`cause`)."""
        if future.cancelled():
            return
        try:
            self._settle(future, unpacked(sent.result()), None)
        except BaseException as error:  # a cancellation too: it is whoever waits for the future who hears it
            cause = getattr(error, "cause", None)
            self._settle(future, None, cause if isinstance(cause, BaseException) else error)

    def _settle(self, future: Future[Any], result: object, error: BaseException | None) -> None:
        """Set what a future gives, unless it has been cancelled, or given up because the head was lost."""
        try:
            self._unsettled.remove(future)
        except KeyError:
            return
        if not future.set_running_or_notify_cancel():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        for future in tuple(self._under_way):
            if cancel_futures:
                future.cancel()
            elif wait:
                future.exception(TIMEOUT_MAX)  # as in `sharing`, so that Ctrl-C is heard
        self._end_watch()
        self._to_send.put(None)
        if self._lost is None:
            self._leave()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.shutdown(cancel_futures=error is not None)


def _cancel_too(cancel: Callable[[], object], future: Future[Any]) -> None:
    if future.cancelled():
        cancel()
