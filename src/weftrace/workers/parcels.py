"""What travels to a worker of a cluster and back: a call and its result, packed and opened by weftrace itself.

So another weftrace or Python, a module that is missing there, and a result that cannot be pickled are told as such: a
cluster tells the first two in words of its own, and Dask's executor waits for the third for ever.
"""

from __future__ import annotations

import os
import pickle
import platform
import socket
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from weftrace.errors import ClusterError
from weftrace.version import __version__

Dumps = Callable[[object], bytes]


class Parcel(NamedTuple):
    """weftrace, python: the versions that packed it. call: what packs the result, the function, and its arguments."""

    weftrace: str
    python: str
    call: bytes


def packed(dumps: Dumps, function: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parcel:
    """dumps: the cluster's own, which also takes lambdas and functions of scripts and notebooks."""
    return Parcel(__version__, _python(), dumps((dumps, function, args, kwargs)))


def answered(parcel: Parcel) -> bytes:
    """On a worker: do what the parcel says, with one thread of Polars if nothing has imported Polars there before.

    Raises ClusterError where this worker can do nothing that its sender says.
    """
    packer, here = Parcel(*parcel), (__version__, _python())
    if (packer.weftrace, packer.python) != here:
        raise ClusterError(
            f"the worker on {socket.gethostname()} has weftrace {here[0]} with Python {here[1]}, and what it was sent "
            f"comes from weftrace {packer.weftrace} with Python {packer.python}: install the same on all machines"
        )
    if "polars" not in sys.modules:  # which reads it once, when it is imported
        os.environ.setdefault("POLARS_MAX_THREADS", "1")
    try:
        dumps, function, args, kwargs = unpacked(packer.call)
    except Exception as error:  # what an import raises is up to the module
        raise ClusterError(
            f"the worker on {socket.gethostname()} cannot load what it is to call ({type(error).__name__}: {error}): "
            "install what that needs on all machines"
        ) from None
    answer: bytes = dumps(function(*args, **kwargs))
    return answer


def unpacked(data: bytes) -> Any:
    return pickle.loads(data)  # noqa: S301 # packed by weftrace, and come over the cluster's own line


def _python() -> str:
    return ".".join(platform.python_version_tuple()[:2])
