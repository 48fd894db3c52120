"""Commands and groups of them, as every wing makes them: one look of the help, options that kept an earlier name."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

#: Earlier name of an option -> its name. They are understood, and no help names them.
RENAMED = {"--step-by": "--step-events", "--steps-by": "--steps-named"}

_BOUNDS = {
    "greater than or equal to": "at least", "less than or equal to": "at most", "greater than": "more than",
    "less than": "less than",
}  # fmt: skip


class Command(TyperCommand):
    """A command whose help is that of `cli.help_pages`."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from weftrace.cli.help_pages import print_help

        print_help(self, ctx)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return _usage(self, ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return list(super().parse_args(ctx, with_new_names(self, ctx, args)))
        except typer.BadParameter as error:
            error.message = _in_words(error.message)
            raise


class Group(TyperGroup):
    """A group of commands, likewise."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from weftrace.cli.help_pages import print_help

        print_help(self, ctx)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [*_usage(self, ctx), self.subcommand_metavar]


class App(typer.Typer):
    """What commands are added to; without arguments it shows its help."""

    def __init__(self, *, cls: type[TyperGroup] = Group, **how: Any) -> None:
        super().__init__(cls=cls, no_args_is_help=True, rich_markup_mode="rich", **how)

    def command(self, name: str | None = None, *, cls: type[TyperCommand] | None = Command, **how: Any) -> Any:
        return super().command(name, cls=cls, **how)


def with_new_names(command: Any, context: Any, args: list[str]) -> list[str]:
    """The arguments, with options by the names that the command has now."""
    known = {name for param in command.get_params(context) for name in param.opts}
    found = []
    for arg in args:
        name, equals, value = arg.partition("=")
        new = RENAMED.get(name)
        found.append(f"{new}{equals}{value}" if new in known else arg)
    return found


def _in_words(message: str) -> str:
    """What is wrong with a value, as a person says it: "must be at least 8"."""
    for bound, words in _BOUNDS.items():
        message = message.replace(f"Input should be {bound}", f"must be {words}")
    return message


def _usage(command: Any, context: Any) -> list[str]:
    from weftrace.cli.help_pages import argument_name

    shown = [param for param in command.get_params(context) if not getattr(param, "hidden", False)]
    return [*(argument_name(param) for param in shown if param.param_type_name == "argument"), "[OPTIONS]"]
