"""What travels to a worker of a cluster and back: a call and its result, packed and opened by weftrace itself.

So another weftrace, a module that is missing there, and a result that cannot be pickled are told as such: Ray tells the
first two in words of its own, and Dask waits for ever for all three.
"""

from __future__ import annotations

import os
import pickle
import platform
import sys
from collections.abc import Callable
from typing import Any

from weftrace.errors import ClusterError
from weftrace.version import __version__

#: A pickled call (what packs the result, the function, its arguments), and the weftrace and Python that it takes.
Parcel = tuple[bytes, str, str]
#: A pickled result; or, where there is none, why this worker can answer no parcel of its sender.
Answer = tuple[bytes | None, str]


def packed(
    dumps: Callable[[object], bytes], function: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Parcel:
    """dumps: the cluster's own, which also takes lambdas and functions of scripts and notebooks."""
    return dumps((dumps, function, args, kwargs)), __version__, python_version()


def courier() -> Callable[[Parcel], Answer]:
    """What the cluster calls on a worker. Made here since a function within a function travels by value: it arrives,
    and can tell, where there is another weftrace or none.
    """

    def weftrace_call(parcel: Parcel) -> Answer:
        import platform
        import socket
        from contextlib import suppress
        from importlib import import_module

        call, needed, python = parcel
        here, found = ".".join(platform.python_version_tuple()[:2]), "no weftrace"
        with suppress(ImportError):
            found = f"weftrace {import_module('weftrace').__version__}"
        if (found, here) != (f"weftrace {needed}", python):
            return None, (
                f"the worker on {socket.gethostname()} has {found} with Python {here}, and what it was sent comes from "
                f"weftrace {needed} with Python {python}: install the same on all machines"
            )
        answer: Answer = import_module("weftrace.workers.parcels").answered(call, socket.gethostname())
        return answer

    return weftrace_call


def answered(call: bytes, host: str) -> Answer:
    """On a worker: the result of a call, with one thread of Polars if nothing has imported Polars there before."""
    if "polars" not in sys.modules:  # which reads it once, when it is imported
        os.environ.setdefault("POLARS_MAX_THREADS", "1")
    try:
        dumps, function, args, kwargs = _loaded(call)
    except Exception as error:  # what an import raises is up to the module
        summary = f"{type(error).__name__}: {error}"
        return (
            None,
            f"the worker on {host} cannot load what it is to call ({summary}): install what that needs on all machines",
        )
    return dumps(function(*args, **kwargs)), ""


def unpacked(answer: Answer) -> Any:
    """The result. Raises ClusterError where the worker can answer nothing."""
    result, why = answer
    if result is None:
        raise ClusterError(why)
    return _loaded(result)


def python_version() -> str:
    """ "3.12": what two Pythons that exchange functions must agree in."""
    return ".".join(platform.python_version_tuple()[:2])


def _loaded(data: bytes) -> Any:
    return pickle.loads(data)  # noqa: S301 # packed by weftrace, and come over the cluster's own line
