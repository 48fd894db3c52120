"""Options are the request: a command is made of the frozen dataclasses that it fills."""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer
from msgspec import Meta
from typer.models import ParameterInfo

from weftrace.cli.completion import Complete, among
from weftrace.options import Option
from weftrace.units import quoted

_MOST = 1e20  # of numbers that an option takes: seeds of 64 bits, rates, counts


def command_of(
    request: type | tuple[type, ...],
    run: Callable[..., None],
    *,
    without: Collection[str] = (),
    fixed: Mapping[str, Any] | None = None,
    narrowed: Mapping[str, Any] | None = None,
    panels: Mapping[str, Collection[str]] | None = None,
    completes: Mapping[str, Complete] | None = None,
) -> Callable[..., None]:
    """A function for `app.command(...)`: its options are the fields of the request that are marked with an `Option`, in
    their order, then the parameters of run after the first.

    request: what run takes first; of several, run takes each. A field may have a mark of Typer's instead, as the
    options that commands share (`cli.options`) do. without: fields that this command does not ask for.
    fixed: name -> value of fields that the command sets itself. narrowed: name -> type of fields of which it takes
    fewer values. panels: heading in the help -> fields that stand below it, where their options name no panel.
    completes: field -> what completes its value, where its option does not say.
    Bounds come from a field's `Meta`, its default from the field.
    """
    requests = request if isinstance(request, tuple) else (request,)
    given = dict(fixed or {})
    headings = {name: heading for heading, names in (panels or {}).items() for name in names}
    asked = {
        request: [each for each in _asked_of(request, narrowed or {}) if each.field.name not in {*without, *given}]
        for request in requests
    }
    others = list(inspect.signature(run, eval_str=True).parameters.values())[len(requests) :]

    def command(**values: Any) -> None:
        filled = [
            request(
                **{name: value for name, value in given.items() if name in request.__annotations__},
                **{each.field.name: each.value(values.pop(each.field.name)) for each in asked[request]},
            )
            for request in requests
        ]
        run(*filled, **values)

    command.__doc__ = run.__doc__
    parameters = [
        *(
            each.parameter(headings.get(each.field.name), (completes or {}).get(each.field.name))
            for request in requests
            for each in asked[request]
        ),
        *others,
    ]
    every = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    every.sort(key=lambda each: each.default is not inspect.Parameter.empty)  # what must be given comes first
    vars(command)["__signature__"] = inspect.Signature(every)  # what Typer makes the options of
    return command


@dataclass(frozen=True, slots=True)
class _Asked:
    """A field that is asked for. kind: its type, without what is said beside it. option: None of one with a mark of
    Typer's, whose annotation, hint, is taken as it is."""

    field: dataclasses.Field[Any]
    kind: Any
    option: Option | None
    metas: list[Meta]
    hint: Any = None

    @property
    def is_repeated(self) -> bool:
        return get_origin(self.kind) is tuple and get_args(self.kind)[-1] is Ellipsis

    @property
    def one(self) -> Any:
        """The type of one value: of a tuple of any length, of each."""
        return get_args(self.kind)[0] if self.is_repeated else self.kind

    @property
    def flag(self) -> str:
        """What the option is called on the command line."""
        assert self.option is not None, self.field.name
        return (self.option.flags or (f"--{self.field.name.replace('_', '-')}",))[0]

    @property
    def default(self) -> Any:
        made = self.field.default_factory
        return self.field.default if made is dataclasses.MISSING else made()

    def value(self, typed: Any) -> Any:
        """The field's value, of what Typer gives. Raises `typer.BadParameter` for NaN and very large numbers."""
        if self.option is None:
            return typed
        for each in typed if isinstance(typed, list) else [typed]:
            if type(each) in (int, float) and not abs(each) < _MOST:
                raise typer.BadParameter(f"{quoted(each)} is no number below {_MOST:g}", param_hint=self.flag)
        read = self.option.reads
        if self.is_repeated:
            return tuple(typed or () if read is None else map(read, typed or ()))
        if read is None:
            return typed
        return self.default if typed is None else read(typed)

    def parameter(self, panel: str | None, complete: Complete | None) -> inspect.Parameter:
        """The parameter of which Typer makes the option. panel, complete: where it names none."""
        name, option, default = self.field.name, self.option, self.default
        if option is None:
            none = inspect.Parameter.empty if default is dataclasses.MISSING else default
            return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=none, annotation=self.hint)
        if (option.reads is not None and default is not dataclasses.MISSING) or default == ():
            default = None
        shown = option.shows_default if option.shows_default is not None else default is not None
        how: dict[str, Any] = {
            "help": option.help or next((meta.description for meta in self.metas if meta.description), ""),
            "metavar": option.metavar or _metavar(self.one, option.completes),
            "show_default": shown, "rich_help_panel": option.panel or panel,
            "autocompletion": _completion(option.completes) if option.completes else complete,
            "min": next((meta.ge for meta in self.metas if meta.ge is not None), None),
            "max": next((meta.le for meta in self.metas if meta.le is not None), None),
        }  # fmt: skip
        flags = option.flags or (f"--{name.replace('_', '-')}",)
        made = typer.Argument(**how) if option.is_argument else typer.Option(*flags, **how)
        none = inspect.Parameter.empty if default is dataclasses.MISSING else default
        return inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=none, annotation=Annotated[self._typed(), made]
        )

    def _typed(self) -> Any:
        """The type as Typer knows it: a tuple of any length is a list, an option that may stand several times."""
        assert self.option is not None, self.field.name
        own = str if self.option.reads is not None else self.one
        if self.is_repeated:
            return list[own] | None  # type: ignore[valid-type]
        return own if self.option.reads is None or self.default is dataclasses.MISSING else own | None


def _metavar(kind: Any, completes: str) -> str | None:
    """What a value is called where its option does not say: its choices, N, NUMBER, FILE, NAME; None of a flag."""
    (kind, *_) = [part for part in (get_args(kind) if _is_union(kind) else (kind,)) if part is not type(None)]
    if get_origin(kind) is Literal:
        return "|".join(map(str, get_args(kind)))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(str(each.value) for each in kind)
    if completes and ":" not in completes:
        return "|".join(completes.split())
    return {bool: None, int: "N", float: "NUMBER", Path: "FILE"}.get(kind, "NAME")


def _is_union(kind: Any) -> bool:
    return get_origin(kind) in (Union, types.UnionType)


def _asked_of(request: type, narrowed: Mapping[str, Any]) -> list[_Asked]:
    hints, plain = get_type_hints(request, include_extras=True), get_type_hints(request)
    found = []
    for field in dataclasses.fields(request):
        marks = get_args(hints[field.name])[1:] if get_origin(hints[field.name]) is Annotated else ()
        mark = next((mark for mark in marks if isinstance(mark, Option | ParameterInfo)), None)
        if mark is not None:
            kind, option = narrowed.get(field.name, plain[field.name]), mark if isinstance(mark, Option) else None
            found.append(_Asked(field, kind, option, _metas(hints[field.name]), hints[field.name]))
    return found


def _metas(kind: Any) -> list[Meta]:
    """All that is said of a type's values, also inside a union."""
    if get_origin(kind) is Annotated:
        return [*_metas(get_args(kind)[0]), *(mark for mark in get_args(kind)[1:] if isinstance(mark, Meta))]
    if _is_union(kind):
        return [meta for each in get_args(kind) for meta in _metas(each)]
    return []


def _completion(path: str) -> Callable[[str], list[str]]:
    module, _, name = path.partition(":")
    if not name:
        return among(*path.split())

    def complete(incomplete: str) -> list[str]:
        return list(getattr(import_module(module), name)(incomplete))

    return complete
