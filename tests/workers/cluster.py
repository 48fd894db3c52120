"""A small cluster on this machine, for tests and benchmarks, which ends with the process that asked for it.

`python -m tests.workers.cluster ray|dask NUM` prints the cluster's addresses as a line of JSON, then waits for the end
of its input.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def cluster(kind: str, num_workers: int = 2) -> Iterator[dict[str, str]]:
    """The addresses of a fresh cluster, whose workers find this checkout; see `_ray` and `_dask`."""
    paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "RAY_AUTH_MODE": "disabled"}
    environment.pop("POLARS_MAX_THREADS", None)  # which the tests set for themselves
    command = [sys.executable, "-m", __name__, kind, str(num_workers)]
    process = subprocess.Popen(
        command, env=environment, cwd=ROOT, text=True, start_new_session=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("{"), f"no {kind} cluster: {line}"
        yield json.loads(line)
    finally:
        process.communicate()


def _ray(num_workers: int, folder: str) -> None:
    """ "ray": for RAY_ADDRESS; "client": a ray:// address."""
    import ray
    from ray.util.client.server.server import serve

    started = ray.init(
        "local",
        num_cpus=num_workers,
        include_dashboard=False,
        object_store_memory=80_000_000,
        log_to_driver=False,
        _temp_dir=folder,
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = serve("127.0.0.1", port)
    _hold({"ray": started.address_info["gcs_address"], "client": f"ray://127.0.0.1:{port}"})
    server.stop(0)
    ray.shutdown()


def _dask(num_workers: int, folder: str) -> None:
    """ "dask": a dask:// address. A task that killed two workers is given up.

    A worker that died is started again by a loop of this process: distributed's nanny forgets one that is killed before
    the nanny has heard that it started, as happens on a busy machine.
    """
    import dask
    from distributed import Client, LocalCluster

    dask.config.set({"distributed.scheduler.allowed-failures": 1})
    over = threading.Event()
    running: dict[int, subprocess.Popen[bytes]] = {}

    def keep_running(number: int, address: str) -> None:
        options = (
            "--no-nanny",
            "--nthreads",
            "1",
            "--no-dashboard",
            "--local-directory",
            folder,
            "--death-timeout",
            "60",
        )
        command = [sys.executable, "-m", "distributed.cli.dask_worker", address, *options]
        while not over.is_set():
            running[number] = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            running[number].wait()

    with LocalCluster(n_workers=0, dashboard_address=None, host="127.0.0.1", local_directory=folder) as started:
        address = started.scheduler_address
        workers = [threading.Thread(target=keep_running, args=(number, address)) for number in range(num_workers)]
        for worker in workers:
            worker.start()
        with Client(started) as client:
            client.wait_for_workers(num_workers)
        _hold({"dask": address.replace("tcp", "dask")})
        over.set()
    while any(worker.is_alive() for worker in workers):
        for process in list(running.values()):
            process.kill()
        for worker in workers:
            worker.join(1)


def _hold(addresses: dict[str, str]) -> None:
    print(json.dumps(addresses), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="wt") as folder:  # a short name: sockets have at most 107 characters
        {"ray": _ray, "dask": _dask}[sys.argv[1]](int(sys.argv[2]), folder)
