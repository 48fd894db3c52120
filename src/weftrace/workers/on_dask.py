"""An executor on a Dask cluster: Dask's own, of calls that are packed here."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import Executor, Future
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from weftrace.errors import ClusterError, ClusterWarning
from weftrace.workers.addresses import PATIENCE_S, Address
from weftrace.workers.losses import said
from weftrace.workers.parcels import packed, unpack_and_call

P = ParamSpec("P")
T = TypeVar("T")


class DaskExecutor(Executor):
    """Each submitted call is a task of its own. Dask runs one again, on another worker, when its worker died:
    `distributed.scheduler.allowed-failures` times.
    """

    def __init__(self, where: Address) -> None:
        try:
            import distributed  # noqa: F401
        except ImportError as error:
            raise ClusterError(f"Dask is not installed here: pip install 'weftrace[dask]' ({error})") from error
        self._client = _client(where)
        self._inner: Executor = self._client.get_executor(pure=False)
        _advise(self._client)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        import cloudpickle

        return self._inner.submit(unpack_and_call, packed(cloudpickle.dumps, fn, args, kwargs))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if not cancel_futures:
            self._inner.shutdown(wait)
        self._client.close()  # which cancels what nobody else waits for

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.shutdown(cancel_futures=error is not None)


def _client(where: Address) -> Any:
    """Connected to the scheduler at an address, in a file, or named by DASK_SCHEDULER_ADDRESS."""
    import dask
    from distributed import Client

    address = f"tcp://{where.host}:{where.port}" if where.host else dask.config.get("scheduler-address", None)
    if address is None and not where.file:
        raise ClusterError("dask: no scheduler is known here: set DASK_SCHEDULER_ADDRESS, or write dask://HOST:8786")
    target = {"scheduler_file": where.file} if where.file else {"address": address}
    try:
        return Client(**target, timeout=PATIENCE_S, set_as_default=False, name="weftrace")
    except Exception as error:  # comms, TLS and scheduler files raise types of their own
        raise ClusterError(f"dask: {where.file or address} cannot be used: {said(error)}") from error


def _advise(client: Any) -> None:
    """Warn of what a scheduler knows and a waiting user does not."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    if not workers:
        warnings.warn("the Dask scheduler has no workers yet; waiting for them", ClusterWarning, stacklevel=4)
    most = max((worker["nthreads"] for worker in workers), default=1)
    if most > 1:
        warnings.warn(
            f"Dask workers here run {most} threads each, which take turns in one process: start them with --nthreads 1 "
            "and as many of them as there are processors (--nworkers)",
            ClusterWarning,
            stacklevel=4,
        )
