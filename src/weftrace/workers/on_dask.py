"""An executor on a Dask cluster, over Dask's own: https://distributed.dask.org/en/stable/api.html."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from weftrace.errors import ClusterError, ClusterWarning
from weftrace.installing import install_command
from weftrace.workers.addresses import PATIENCE_S, Address, check_answers_at, in_time
from weftrace.workers.cluster_executor import ClusterExecutor
from weftrace.workers.losses import said
from weftrace.workers.parcels import Answer, Parcel, courier, python_version


class DaskExecutor(ClusterExecutor):
    """Each submitted call is a task of its own. Dask runs one again, on another worker, when its worker died:
    `distributed.scheduler.allowed-failures` times.
    """

    def __init__(self, where: Address, on_lost: Callable[[str], object] | None = None) -> None:
        try:
            import cloudpickle
            import distributed  # noqa: F401
        except ImportError as error:
            raise ClusterError(f"Dask is not installed here: {install_command('dask')} ({error})") from error
        super().__init__(cloudpickle.dumps, on_lost)
        self._client = _client(where)
        self._inner: Any = self._client.get_executor(pure=False)
        self._call = courier()
        check_pythons(self._client)
        advise(self._client)
        self._watch(self._client.scheduler.address)

    def _send(self, parcel: Parcel) -> tuple[Future[Answer], Callable[[], object]]:
        sent: Future[Answer] = self._inner.submit(self._call, parcel)
        return sent, sent.cancel

    def _leave(self) -> None:
        self._client.close()


def _client(where: Address) -> Any:
    from distributed import Client

    address = f"tcp://{where.place}" if where.host else _known_scheduler(where.file)
    options = {"timeout": PATIENCE_S, "set_as_default": False, "name": "weftrace"}
    return in_time(address, lambda: Client(address, **options))


def _known_scheduler(file: str) -> str:
    """The address in a file that a scheduler wrote, or the one that Dask is configured with."""
    import dask

    if file:
        try:
            address = str(json.loads(Path(file).read_bytes())["address"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ClusterError(
                f"{file}: is no file of a Dask scheduler ({said(error)}): `dask scheduler --scheduler-file` writes it"
            ) from error
    else:
        address = dask.config.get("scheduler-address", None) or ""
        if not address:
            raise ClusterError(
                "dask: no scheduler is known here: set DASK_SCHEDULER_ADDRESS, or write dask://HOST:8786"
            )
    check_answers_at(address)
    return address


def check_pythons(client: Any) -> None:
    """Raises ClusterError where functions cannot travel: Dask would wait for ever for what a worker cannot read."""
    versions = client.get_versions()
    others = {"the scheduler": versions["scheduler"], **versions["workers"]}
    for name, summary in others.items():
        python = ".".join(summary["packages"]["python"].split(".")[:2])
        if python != python_version():
            client.close()
            raise ClusterError(
                f"dask: {name} runs Python {python}, and this machine {python_version()}: use the same on all machines"
            )


def advise(client: Any) -> None:
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
