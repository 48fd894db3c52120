"""Options are the request: a command is made from the frozen dataclass that it fills."""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import typer
from msgspec import Meta

from weftrace.options import Option

R = TypeVar("R")


def command_of(
    request: type[R],
    run: Callable[..., None],
    *,
    without: Collection[str] = (),
    fixed: Mapping[str, Any] | None = None,
) -> Callable[..., None]:
    """A function for `app.command(...)`: its options are the fields of `request` that are marked with an `Option`, in
    their order, then the parameters of run after the first (where the result goes, `cli.outputs`).

    run: takes the request first. without: fields that this command does not ask for. fixed: name -> value of fields
    that the command sets itself. Bounds come from a field's `Meta`, its default from the field.
    """
    given = dict(fixed or {})
    asked = [each for each in _parameters(request) if each.name not in without and each.name not in given]
    repeated = [name for name, hint in get_type_hints(request).items() if _is_repeated(hint)]
    others = list(inspect.signature(run, eval_str=True).parameters.values())[1:]

    def command(**values: Any) -> None:
        own = {each.name: values.pop(each.name) for each in asked}
        own.update({name: tuple(own[name] or ()) for name in repeated if name in own})
        run(request(**given, **own), **values)

    command.__doc__ = run.__doc__
    every = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*asked, *others)]
    vars(command)["__signature__"] = inspect.Signature(every)  # what Typer makes the options of
    return command


def _parameters(request: type) -> list[inspect.Parameter]:
    hints = get_type_hints(request, include_extras=True)
    found = []
    for field in dataclasses.fields(request):
        marks = get_args(hints[field.name])[1:] if get_origin(hints[field.name]) is Annotated else ()
        option = next((mark for mark in marks if isinstance(mark, Option)), None)
        if option is not None:
            metas = [mark for mark in marks if isinstance(mark, Meta)]
            found.append(_parameter(field, get_args(hints[field.name])[0], option, metas))
    return found


def _parameter(field: dataclasses.Field[Any], kind: Any, option: Option, metas: list[Meta]) -> inspect.Parameter:
    default = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
    is_required = default is dataclasses.MISSING
    shown = option.shows_default if option.shows_default is not None else default is not None and default != ()
    help_ = option.help or next((meta.description for meta in metas if meta.description), "")
    bounds = {
        "min": next((meta.ge for meta in metas if meta.ge is not None), None),
        "max": next((meta.le for meta in metas if meta.le is not None), None),
    }
    how: dict[str, Any] = {
        "help": help_, "metavar": option.metavar, "show_default": shown, "rich_help_panel": option.panel,
        "autocompletion": _completion(option.completes) if option.completes else None, **bounds,
    }  # fmt: skip
    flag = f"--{field.name.replace('_', '-')}"
    made = typer.Argument(**how) if option.is_argument else typer.Option(*(option.flags or (flag,)), **how)
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty
        if is_required
        else (list(default) or None if isinstance(default, tuple) else default),
        annotation=Annotated[_asked(kind), made],
    )


def _is_repeated(kind: Any) -> bool:
    return get_origin(kind) is tuple and get_args(kind)[-1] is Ellipsis


def _asked(kind: Any) -> Any:
    """The type as Typer knows it: a tuple of any length is a list, an option that may stand several times."""
    if _is_repeated(kind):
        return list[get_args(kind)[0]] | None  # type: ignore[misc]
    if get_origin(kind) in (Union, types.UnionType):
        return Union[tuple(_asked(each) for each in get_args(kind))]  # noqa: UP007
    return kind


def _completion(path: str) -> Callable[[str], list[str]]:
    module, _, name = path.partition(":")

    def complete(incomplete: str) -> list[str]:
        return list(getattr(import_module(module), name)(incomplete))

    return complete
