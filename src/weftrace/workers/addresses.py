"""Addresses of clusters: what they say, and whether anything answers."""

from __future__ import annotations

import re
import socket
from typing import NamedTuple

from weftrace.errors import ClusterError

RAY_CLIENT_PORT = 10001
DASK_PORT = 8786
#: For something to answer at an address; a cluster that is there answers within a second.
PATIENCE_S = 20.0

HOW = "write ray://HOST:10001 or dask://HOST:8786; ray for the cluster that this machine belongs to, local for none"


class Address(NamedTuple):
    """kind: "ray", "dask" or "local". host: "" for the cluster that is known here. file: of a Dask scheduler."""

    kind: str
    host: str = ""
    port: int = 0
    file: str = ""


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
