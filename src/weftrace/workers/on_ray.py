"""An executor over Ray tasks: https://docs.ray.io/en/latest/ray-core/tasks.html."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from weftrace.errors import ClusterError
from weftrace.installing import install_command
from weftrace.workers.addresses import Address, check_answers_at, in_time
from weftrace.workers.cluster_executor import ClusterExecutor
from weftrace.workers.parcels import Answer, Parcel, courier


class RayExecutor(ClusterExecutor):
    """Each submitted call is a Ray task on one processor; nodes take turns, so that their memory fills evenly.

    A process that is connected to a cluster already (`ray.init`) uses that one, and stays connected. Ray itself tries
    nothing again: it would run a task for which its memory monitor ended a worker without end.
    """

    num_retries = 1

    def __init__(self, where: Address, on_lost: Callable[[str], object] | None = None) -> None:
        try:
            import ray
            from ray import cloudpickle
        except ImportError as error:
            raise ClusterError(f"Ray is not installed here: {install_command('ray')} ({error})") from error
        super().__init__(cloudpickle.dumps, on_lost)
        self._ray: Any = ray
        self._is_ours = not ray.is_initialized()
        if self._is_ours:
            self._watch(_connect(ray, where))
        self._call = ray.remote(num_cpus=1, max_retries=0, scheduling_strategy="SPREAD")(courier())

    def _send(self, parcel: Parcel) -> tuple[Future[Answer], Callable[[], object]]:
        reference = self._call.remote(parcel)
        return reference.future(), partial(self._ray.cancel, reference)

    def _leave(self) -> None:
        if self._is_ours:
            self._ray.shutdown()


def _connect(ray: Any, where: Address) -> str:
    address = f"ray://{where.place}" if where.host else _known_cluster()
    in_time(address, lambda: ray.init(address, log_to_driver=False, logging_level=logging.ERROR))
    return address


def _known_cluster() -> str:
    """The address in RAY_ADDRESS, or of the cluster that `ray start` made this machine a part of.

    Asked of Ray's inside, for want of another door: it would wait for one that is gone for minutes, in silence.
    """
    from ray._private.services import get_ray_address_from_environment

    try:
        address: str = get_ray_address_from_environment("auto", None)
    except ConnectionError as error:
        raise ClusterError(
            "ray: no Ray cluster runs on this machine, and RAY_ADDRESS names none: `ray start --head` starts one; "
            "other machines join it by `ray start --address=HOST:6379`"
        ) from error
    check_answers_at(address)
    return address
