"""What travels to a worker of a cluster: a call, and who packed it, so that another weftrace is told as such."""

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


class Parcel(NamedTuple):
    """weftrace, python: the versions that packed it. call: pickled function, positional and named arguments."""

    weftrace: str
    python: str
    call: bytes


def packed(
    dumps: Callable[[object], bytes], function: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Parcel:
    """dumps: the cluster's own, which also takes lambdas and functions of a notebook."""
    return Parcel(__version__, _python(), dumps((function, args, kwargs)))


def unpack_and_call(parcel: Parcel) -> Any:
    """On a worker: do what the parcel says, with one thread of Polars if nothing has imported Polars there before.

    Raises ClusterError where this worker cannot do what any parcel of its sender says.
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
        function, args, kwargs = pickle.loads(packer.call)  # noqa: S301 # pickled by our own sender, over the cluster's line
    except Exception as error:  # what an import raises is up to the module
        raise ClusterError(
            f"the worker on {socket.gethostname()} cannot load what it is to call ({type(error).__name__}: {error}): "
            "install what that needs on all machines"
        ) from None
    return function(*args, **kwargs)


def _python() -> str:
    return ".".join(platform.python_version_tuple()[:2])
