"""Workers: who does the same thing with many files, on this machine or on others. They know nothing of what is done."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor

from weftrace.errors import ClusterError
from weftrace.workers.addresses import check_answers, parse_address
from weftrace.workers.spool import Spool

__all__ = ["Spool", "connect"]


def connect(address: str, *, on_lost: Callable[[str], object] | None = None) -> Executor:
    """An executor whose tasks run on a cluster, for `Job.map(executor=...)` and `analyze(executor=...)`:

        with wt.workers.connect("dask://scheduler:8786") as executor:
            report = wt.analyze("traces/", executor=executor)

    address: `ray://HOST:10001` (Ray's client port) or `dask://HOST:8786`; `dask:///shared/scheduler.json` for the file
    that Dask's scheduler wrote; `ray` for the cluster that this process is connected to, RAY_ADDRESS names, or this
    machine is part of; `dask` for DASK_SCHEDULER_ADDRESS. None is started here. on_lost: gets a sentence, in a thread,
    as soon as the cluster's head no longer answers; what is not done then fails at once.

    Each task gets one processor, and Polars one thread where nothing imported it before. Functions that no module
    holds travel by value: lambdas, and those of scripts and notebooks. Raises ClusterError where the cluster cannot be
    used, ClusterWarning is given where it will be slow.
    """
    where = parse_address(address)
    if where.kind == "local":
        raise ClusterError("the processes of this machine are no cluster: leave the executor out")
    if where.host:
        check_answers(address, where.host, where.port)
    if where.kind == "ray":
        from weftrace.workers.on_ray import RayExecutor

        return RayExecutor(where, on_lost)
    from weftrace.workers.on_dask import DaskExecutor

    return DaskExecutor(where, on_lost)
