"""An executor on a Dask cluster, over Dask's own: https://distributed.dask.org/en/stable/api.html."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from weftrace.errors import ClusterError, ClusterWarning
from weftrace.workers.addresses import PATIENCE_S, Address
from weftrace.workers.cluster_executor import ClusterExecutor
from weftrace.workers.losses import said
from weftrace.workers.parcels import Parcel, answered


class DaskExecutor(ClusterExecutor):
    """Each submitted call is a task of its own. Dask runs one again, on another worker, when its worker died:
    `distributed.scheduler.allowed-failures` times.
    """

    def __init__(self, where: Address) -> None:
        try:
            import cloudpickle
            import distributed  # noqa: F401
        except ImportError as error:
            raise ClusterError(f"Dask is not installed here: pip install 'weftrace[dask]' ({error})") from error
        super().__init__(cloudpickle.dumps)
        self._client = _client(where)
        self._inner: Any = self._client.get_executor(pure=False)
        _advise(self._client)

    def _send(self, parcel: Parcel) -> tuple[Future[bytes], Callable[[], object]]:
        sent: Future[bytes] = self._inner.submit(answered, parcel)
        return sent, sent.cancel

    def _leave(self) -> None:
        self._client.close()


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
