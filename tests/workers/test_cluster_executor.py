"""What comes back from a cluster is what the call gave or raised."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from weftrace.workers.cluster_executor import ClusterExecutor
from weftrace.workers.parcels import Answer, Parcel


class Wrapped(Exception):
    """As Ray's: `cause` is what the call raised. Others name a reason so."""

    def __init__(self, cause: object) -> None:
        super().__init__("wrapped")
        self.cause = cause


class Raising(ClusterExecutor):
    def __init__(self, error: Exception) -> None:
        super().__init__(pickle.dumps)
        self._error = error

    def _send(self, parcel: Parcel) -> tuple[Future[Answer], Callable[[], object]]:
        sent: Future[Answer] = Future()
        sent.set_exception(self._error)
        return sent, sent.cancel

    def _leave(self) -> None: ...


@pytest.mark.parametrize(
    ("error", "summary"), [(Wrapped(ZeroDivisionError()), ZeroDivisionError), (Wrapped("a disk was full"), Wrapped)]
)
def test_an_error_comes_out_of_its_wrapping(error: Exception, summary: type[Exception]) -> None:
    with Raising(error) as executor:
        assert type(executor.submit(len, "").exception(10)) is summary
