"""The arguments of torch's operators: their names, which are tensors, and their defaults, from `operators.txt`.

A trace records a call's arguments by position. Which overload was called follows from their number and types.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

_FILE = Path(__file__).parent / "operators.txt"


class ArgumentKind(Enum):
    """What an argument holds."""

    TENSOR = ""
    TENSORS = "*"
    NUMBER = "."  # a bool and the code of a dtype, a layout or a memory format, too
    NUMBERS = "#"
    OTHER = "~"  # texts, devices, generators: traces do not record them


@dataclass(frozen=True, slots=True)
class Argument:
    """optional: None is one of its values. written: in place. result: only written. default: None for none."""

    name: str
    kind: ArgumentKind
    optional: bool
    written: bool
    result: bool
    default: Any

    def takes(self, type_: str) -> int | None:
        """How well a recorded type fits: 2 as itself, 1 as None or as what is not recorded, None not at all."""
        if type_ == "":
            return 1
        wanted = _RECORDED.get(self.kind)
        if wanted is None:
            return None if self.kind is ArgumentKind.OTHER or type_ in _NO_TENSORS else 2
        return 2 if type_ == wanted else None


_RECORDED = {
    ArgumentKind.TENSORS: "TensorList",
    ArgumentKind.NUMBER: "Scalar",
    ArgumentKind.NUMBERS: "ScalarList",
}
_NO_TENSORS = frozenset({"TensorList", "Scalar", "ScalarList", "GenericList"})


@dataclass(frozen=True, slots=True)
class Overload:
    """arguments: in their order. outs: how many results, given as arguments (out=), follow them. composite: torch makes
    it of other operators.
    """

    arguments: tuple[Argument, ...]
    outs: int = 0
    composite: bool = False


def is_view(name: str) -> bool:
    """Whether an operator ("aten::transpose") only looks at its tensor in another way, or at none."""
    return _lines().get(name) == [""]


def has_composites(name: str) -> bool:
    """Whether torch makes some overload of an operator of other operators."""
    return any(line.startswith("-") for line in _lines().get(name, ()))


def find_overload(name: str, types: Sequence[str]) -> Overload | None:
    """The overload of an operator whose arguments have these recorded types; None where none fits.

    An older or newer torch may have fewer or more arguments at the end: the longest overload that fits so far.
    """
    found = _overloads(name)
    exact = [(fit, overload) for overload in found if (fit := _fit(overload.arguments, types)) is not None]
    if exact:
        return max(exact, key=lambda pair: (pair[0], not pair[1].composite))[1]
    for overload in sorted(found, key=lambda overload: (-len(overload.arguments), overload.composite)):
        outs = len(types) - len(overload.arguments)
        given = 0 < outs <= 3 and all(type_ and type_ not in _NO_TENSORS for type_ in types[-outs:])
        if given and _fit(overload.arguments, types[:-outs]) is not None:
            return Overload(overload.arguments, outs)
    for overload in sorted(found, key=lambda overload: len(overload.arguments), reverse=True):
        short = min(len(overload.arguments), len(types))
        if _fit(overload.arguments[:short], types[:short]) is not None:
            return overload
    return None


def _fit(arguments: Sequence[Argument], types: Sequence[str]) -> int | None:
    if len(arguments) != len(types):
        return None
    total = 0
    for argument, type_ in zip(arguments, types, strict=True):
        fit = argument.takes(type_)
        if fit is None:
            return None
        total += fit
    return total


@cache
def _lines() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in _FILE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            name, _, arguments = line.partition(" ")
            found.setdefault(name if "::" in name else f"aten::{name}", []).append(arguments)
    return found


@cache
def _overloads(name: str) -> tuple[Overload, ...]:
    lines = list(_lines().get(name, ()))
    if name.endswith("_") and not name.endswith("__"):
        lines += [line.replace("self*", "self*!", 1) for line in _lines().get(name[:-1], ())]
    return tuple(overload_of(line.split()) for line in lines)


def overload_of(words: Sequence[str]) -> Overload:
    """The arguments that words of `operators.txt` or `custom_ops.toml` name."""
    arguments = tuple(_argument(word) for word in words if word not in ("-", "|"))
    return Overload(arguments, composite=list(words[:1]) == ["-"])


@cache
def _argument(word: str) -> Argument:
    word, _, default = word.partition("=")
    optional, word = word.endswith("?"), word.removesuffix("?")
    written, result = word.endswith("!"), word.endswith(">")
    word = word.rstrip("!>")
    optional, word = optional or word.endswith("?"), word.removesuffix("?")
    kind = next(
        (kind for kind in ArgumentKind if kind.value and kind.value in (word[0], word[-1])), ArgumentKind.TENSOR
    )
    return Argument(word.strip(".#~*"), kind, optional, written, result, _default(default, kind))


def _default(text: str, kind: ArgumentKind) -> Any:
    if kind is ArgumentKind.OTHER or not text:
        return text or None
    value = ast.literal_eval(text)
    return tuple(value) if isinstance(value, list) else value
