"""The first failure of a pipeline, told to its other ranks through the store by which torch.distributed met.

A rank that waits for one that failed sees only that a connection closed. The rank that failed writes its reason to the
store before its connections close, so the others can say it.
"""

from __future__ import annotations

import re
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist

#: What errors of gloo and NCCL say where another process is gone; others are of the call itself.
_CONNECTION = re.compile(
    r"closed|reset|refused|broken pipe|time.?out|timed out|unreachable|no route|aborted|remote error|shut.?down", re.I
)
_MOST = 500


@dataclass(frozen=True, slots=True)
class FirstFailure:
    """Of one pipeline. store: None where there is one rank, or torch has none. key: the same on all ranks."""

    store: Any = None
    key: str = ""

    @classmethod
    def of(cls, group: dist.ProcessGroup | None, rank: int) -> FirstFailure:
        """Of the next pipeline that this rank makes of the group, which the others make too."""
        with _without_store():
            if group is not None:
                store = dist.distributed_c10d._get_default_store()  # where init_process_group met; no public name
                name = f"weftrace/pipeline/{group.group_name}"
                return cls(store, f"{name}/{store.add(f'{name}/made by {rank}', 1)}")
        return cls()

    def tell(self, text: str) -> None:
        """Write it, unless another rank was earlier."""
        with _without_store():
            if self.store is not None and not self.store.check([self.key]):
                self.store.set(self.key, text[:_MOST])

    def told(self) -> str:
        """What the rank that failed first wrote; empty where none did."""
        with _without_store():
            if self.store is not None and self.store.check([self.key]):
                return str(self.store.get(self.key).decode())
        return ""


def is_of_connection(error: BaseException) -> bool:
    """Whether the error tells that another process is gone, and not that this call was wrong."""
    return isinstance(error, RuntimeError) and bool(_CONNECTION.search(str(error)))


def reason_of(error: BaseException) -> str:
    """The first line of what it says, without an end."""
    return (str(error).strip() or "without a reason").splitlines()[0][:300]


def _without_store() -> AbstractContextManager[None]:
    """A store that is gone, or never was, tells nothing: the error that is under way is the one to raise."""
    return suppress(AttributeError, RuntimeError, ValueError)
