"""A call of an operator as a trace records it, for a formula to look at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from weftrace.costs.registry import Call, NotRecorded, OutputUnknown

UNRECORDED: Any = object()
"""Stands for an argument, or a result, of which the trace has no value."""


class TracedCall(Call):
    """A call whose arguments stand in the order of the operator's schema: all of them, those with defaults too.

    names: of the arguments, with "!" after one that the operator writes ("self!"). `UNRECORDED` stands among args for
    a scalar that the file does not have. defaults: what is taken in its place, by name. assumed: of which it was.
    notes: what else had to be.
    """

    __slots__ = ("_name", "_out", "assumed", "defaults", "names", "notes")

    def __init__(
        self,
        name: str,
        args: Sequence[Any],
        names: Sequence[str] = (),
        out: Any = UNRECORDED,
        defaults: Mapping[str, Any] | None = None,
    ) -> None:
        self.args, self.kwargs, self.names = tuple(args), {}, tuple(names)
        self._name, self._out = name, out
        self.defaults = {} if defaults is None else defaults
        self.assumed: list[str] = []
        self.notes: list[str] = []

    @property
    def name(self) -> str:
        return self._name

    @property
    def out(self) -> Any:
        if self._out is UNRECORDED:
            raise OutputUnknown(f"the shapes of the results of {self.name}")
        return self._out

    def set_out(self, out: Any) -> None:
        """The result, once it is known."""
        self._out = out

    def arg(self, name: str, default: Any = None) -> Any:
        """The argument of that name; default where the schema that the trace was recorded with has none.

        Where it was not recorded, the schema's default, or this, is assumed; raises `NotRecorded` where there is none.
        """
        place = _places(self.names).get(name, -1)
        if not 0 <= place < len(self.args):
            return default
        value = self.args[place]
        if value is not UNRECORDED:
            return value
        default = default if self.defaults.get(name) is None else self.defaults[name]
        if default is None:
            raise NotRecorded(f"the argument {name} of {self.name}")
        self.assumed.append(name)
        return default

    def named_arguments(self) -> Iterator[tuple[str, Any, bool]]:
        for marked, value in zip(self.names, self.args, strict=False):
            name, written = _marked(marked)
            yield name, value, written


@lru_cache(maxsize=4096)
def _places(names: tuple[str, ...]) -> dict[str, int]:
    return {_marked(name)[0]: place for place, name in enumerate(names)}


def _marked(name: str) -> tuple[str, bool]:
    return name.removesuffix("!"), name.endswith("!")
