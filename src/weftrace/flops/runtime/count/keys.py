"""Keys: what of a call tells it apart from others of its operator, found out once for each operator by its schema."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter, itemgetter
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.parameter import Parameter

Tensor = torch.Tensor
_TENSORS = frozenset({Tensor, Parameter, FakeTensor})  # isinstance on a tensor's type costs as much as its shape
_STRIDED = torch.strided
sized: Callable[[Any], Any] = attrgetter("shape", "dtype")


def all_dense(args: Any) -> bool:
    for arg in args:  # noqa: SIM110 (a loop: a generator costs as much as the rest of the key)
        if type(arg) in _TENSORS and arg.layout is not _STRIDED:
            return False
    return True


def tensors_of(func: Any) -> Callable[[Any], Any]:
    """What takes the tensors from the arguments of an operator, by its schema.

    Where a call does not fit (an optional tensor left out, a list of tensors), the key is made by looking at all.
    """
    schema = getattr(func, "_schema", None)
    types = [] if schema is None else [str(argument.type) for argument in schema.arguments if not argument.kwarg_only]
    by_keyword = [] if schema is None else [str(argument.type) for argument in schema.arguments if argument.kwarg_only]
    listed = any("List[Tensor]" in type_ or "List[Optional[Tensor]]" in type_ for type_ in types)
    if schema is None or listed or any("Tensor" in type_ for type_ in by_keyword):
        return _look
    places = [place for place, type_ in enumerate(types) if "Tensor" in type_]
    if len(places) == len(types):
        return tuple
    if len(places) > 1:
        return itemgetter(*places)
    return itemgetter(slice(places[0], places[0] + 1)) if places else _none


def _look(args: Any) -> Any:
    raise TypeError


def _none(args: Any) -> Any:
    return ()


# Arguments that change no shape and no dtype of a result. (A float added to integers does; their sizes are then close.)
# Not bool, nor a list of any: they say which results there are (`training`, `output_mask`), and how large.
_SIZELESS = frozenset(
    type_ for kind in ("number", "float", "str", "Generator") for type_ in (kind, f"Optional[{kind}]")
)


def result_of(func: Any) -> Callable[[Any], Any] | None:
    """What sizes the result of an operator, where its shapes depend on more than its tensors' shapes; else None."""
    schema = getattr(func, "_schema", None)
    if schema is None:
        return sized
    types = [str(argument.type) for argument in schema.arguments]
    varies = any("Tensor" not in type_ and type_ not in _SIZELESS for type_ in types)
    if not varies and torch.Tag.dynamic_output_shape not in func.tags:
        return None
    return sized if len(schema.returns) == 1 else _all_sized


def _all_sized(out: Any) -> Any:
    return tuple(map(sized, out))


def key_of_any(args: Any, kwargs: Any, out: Any) -> Any:
    """Shapes and dtypes of all tensors of a call, and where one that may be there is not; None where one has no shape:
    a strided nested tensor."""
    parts: list[Any] = []
    try:
        _add_shapes(parts, (args, kwargs, out))
    except RuntimeError:
        return None
    return tuple(parts)


def _add_shapes(parts: list[Any], value: Any) -> None:
    if isinstance(value, Tensor):
        parts.append(value.shape)
        parts.append(value.dtype)
    elif isinstance(value, (list, tuple)):
        parts.append(len(value))
        for item in value:
            _add_shapes(parts, item)
    elif isinstance(value, dict):
        _add_shapes(parts, tuple(value.values()))
    elif value is None:
        parts.append(None)
