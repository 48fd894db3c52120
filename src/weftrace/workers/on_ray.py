"""An executor over Ray tasks: https://docs.ray.io/en/latest/ray-core/tasks.html."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from weftrace.errors import ClusterError
from weftrace.workers.addresses import RAY_CLIENT_PORT, Address, check_answers
from weftrace.workers.losses import said
from weftrace.workers.parcels import packed, unpack_and_call

#: A task whose worker died is run again so often by Ray itself; `through` then tries it alone.
NUM_RETRIES = 1

P = ParamSpec("P")
T = TypeVar("T")


class RayExecutor(Executor):
    """Each submitted call is a Ray task on one processor; nodes take turns, so that their memory fills evenly.

    A process that is connected to a cluster already (`ray.init`) uses that one, and stays connected.
    """

    def __init__(self, where: Address) -> None:
        try:
            import ray
        except ImportError as error:
            raise ClusterError(f"Ray is not installed here: pip install 'weftrace[ray]' ({error})") from error
        self._ray: Any = ray
        self._is_ours = not ray.is_initialized()
        if self._is_ours:
            _connect(ray, where)
        options = {"num_cpus": 1, "max_retries": NUM_RETRIES, "scheduling_strategy": "SPREAD"}
        self._call = ray.remote(**options)(unpack_and_call)
        self._under_way: set[Future[Any]] = set()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        from ray import cloudpickle

        reference = self._call.remote(packed(cloudpickle.dumps, fn, args, kwargs))
        future: Future[T] = Future()
        self._under_way.add(future)
        future.add_done_callback(partial(self._done, reference))
        reference.future().add_done_callback(partial(_settle, future))
        return future

    def _done(self, reference: Any, future: Future[Any]) -> None:
        self._under_way.discard(future)
        if future.cancelled():
            self._ray.cancel(reference)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        for future in tuple(self._under_way):
            if cancel_futures:
                future.cancel()
            elif wait:
                future.exception()
        if self._is_ours:
            self._ray.shutdown()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.shutdown(cancel_futures=error is not None)


def _settle(future: Future[Any], source: Future[Any]) -> None:
    """Hand on what Ray says. An exception that the call itself raised comes out of Ray's wrapping."""
    if not future.set_running_or_notify_cancel():
        return
    error = source.exception()
    if error is None:
        future.set_result(source.result())
    else:
        future.set_exception(getattr(error, "cause", None) or error)


def _connect(ray: Any, where: Address) -> None:
    address = f"ray://{where.host}:{where.port}" if where.host else _known_cluster()
    try:
        with _termination_kept():
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # each part of Ray raises types of its own
        usual = where.port in (0, RAY_CLIENT_PORT)
        hint = "" if usual else f". Ray's client port is {RAY_CLIENT_PORT} unless it was set otherwise"
        raise ClusterError(f"{address}: cannot be used: {said(error)}{hint}") from error


def _known_cluster() -> str:
    """The address in RAY_ADDRESS, or of the cluster that `ray start` made this machine a part of.

    Asked of Ray's inside, for want of another door: it would wait for one that is gone for minutes, in silence.
    """
    from ray._private.services import get_ray_address_from_environment

    address: str | None = get_ray_address_from_environment("auto", None)
    if address is None:
        raise ClusterError(
            "ray: no Ray cluster runs on this machine, and RAY_ADDRESS names none: `ray start --head` starts one; "
            "other machines join it by `ray start --address=HOST:6379`"
        )
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if port.isdecimal():
        check_answers(address, host.strip("[]"), int(port))
    return address


@contextmanager
def _termination_kept() -> Iterator[None]:
    """Ray takes terminations over for itself."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)
