"""Addresses of clusters: what they say, and whether anything answers."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from weftrace.errors import ClusterError
from weftrace.workers.losses import said

RAY_CLIENT_PORT = 10001
DASK_PORT = 8786
PORTS = f"Ray's client port is {RAY_CLIENT_PORT} and Dask's scheduler's {DASK_PORT}, unless they were set otherwise"
#: For something to answer at an address; a cluster that is there answers within a second.
PATIENCE_S = 20.0

T = TypeVar("T")
HOW = "write ray://HOST:10001 or dask://HOST:8786; ray for the cluster that this machine belongs to, local for none"


class Address(NamedTuple):
    """kind: "ray", "dask" or "local". host: "" for the cluster that is known here. file: of a Dask scheduler."""

    kind: str
    host: str = ""
    port: int = 0
    file: str = ""

    @property
    def place(self) -> str:
        """Host and port, as URLs have them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """ "ray://head:10001", "ray://head", "ray", "dask:///shared/scheduler.json", "local" ... Raises ClusterError."""
    if text in ("local", "ray", "dask"):
        return Address(text)
    if match := re.fullmatch(r"dask://(/.+\.json)", text):
        return Address("dask", file=match[1])
    match = re.fullmatch(r"(ray|dask)://(\[[0-9a-fA-F:.]+\]|[^\s/:@\[\]]+)(?::(\d{1,5}))?/?", text)
    if match is None or int(match[3] or 0) > 65535:
        raise ClusterError(f"{text!r} names no cluster: {HOW}")
    port = int(match[3] or (RAY_CLIENT_PORT if match[1] == "ray" else DASK_PORT))
    return Address(match[1], match[2].strip("[]"), port)


def check_answers(address: str, host: str, port: int) -> None:
    """Raises ClusterError where nothing listens: Ray and Dask try for minutes, and then tell much."""
    try:
        socket.create_connection((host, port), timeout=PATIENCE_S).close()
    except OSError as error:
        raise ClusterError(
            f"{address}: nothing answers at port {port} of {host} ({error.strerror or error}). Check that the cluster "
            "runs, and that this machine can reach it"
        ) from error


def check_answers_at(address: str) -> None:
    """`check_answers` of what a cluster calls itself: `tcp://10.0.0.1:8786`, `10.0.0.1:6379`."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if port.isdecimal():
        check_answers(address, host.strip("[]"), int(port))


def in_time(address: str, connect: Callable[[], T]) -> T:
    """What `connect` gives. Raises ClusterError where it fails, or takes longer than a cluster that works would.

    In a thread, since neither Ray nor Dask keeps to a limit of its own where something else answers at the port.
    """
    ended: list[T | Exception] = []

    def run() -> None:
        try:
            ended.append(connect())
        except Exception as error:  # comms, TLS and each part of Ray raise types of their own
            ended.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(2 * PATIENCE_S)
    if not ended:
        raise ClusterError(f"{address}: something answers there, but not as a cluster does. {PORTS}")
    (result,) = ended
    if isinstance(result, Exception):
        raise ClusterError(f"{address}: cannot be used: {said(result)}. {PORTS}") from result
    return result
