"""A group of commands one of which needs no name: `weftrace flops MODEL` is `weftrace flops count MODEL`."""

from __future__ import annotations

from typing import Any

from weftrace.cli.apps import Command, Group

COUNT = "count"  # the command that needs no name; hidden, because the group's own help shows its options


class CountByDefault(Group):
    """Arguments that do not begin with a command's name belong to the command `count`, and its options to the help."""

    _shows_count = False

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [COUNT, *args]
        return super().parse_args(ctx, args)

    def get_params(self, ctx: Any) -> list[Any]:
        return self.commands[COUNT].get_params(ctx) if self._shows_count else super().get_params(ctx)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["[OPTIONS] MODEL", "|", "--config JSON SCRIPT [ARGS]...", "|", self.subcommand_metavar]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self._shows_count = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._shows_count = False

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Commands, and what may stand first after `count`: names of models, options."""
        count = self.commands[COUNT]
        counts = count.make_context(COUNT, [], parent=ctx, resilient_parsing=True)
        if incomplete.startswith("-"):
            return list(count.shell_complete(counts, incomplete))
        first = next(param for param in count.get_params(counts) if param.param_type_name == "argument")
        return [*super().shell_complete(ctx, incomplete), *first.shell_complete(counts, incomplete)]


def _group_path(ctx: Any) -> str:
    return COUNT if ctx.parent is None else str(ctx.parent.command_path)


class ScriptArguments(Command):
    """After `--config JSON SCRIPT`, everything belongs to the script. Else options may stand anywhere.

    The command is called by its group's name alone, in its usage and in "Try 'weftrace flops -h'" after a mistake.
    """

    # a class made by hand: Typer brings a Click of its own in some versions, whose Context is no type to a checker
    context_class = type("Unnamed", (Command.context_class,), {"command_path": property(_group_path)})

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.allow_interspersed_args = not any(
            arg == "--config" or arg.startswith("--config=") for arg in self._before_model(ctx, args)
        )
        return list(super().parse_args(ctx, args))

    def _before_model(self, ctx: Any, args: list[str]) -> list[str]:
        """The arguments up to the first that is neither an option nor an option's value."""
        takes_value = {
            name
            for param in self.get_params(ctx)
            if param.param_type_name == "option" and not getattr(param, "is_flag", False)
            for name in param.opts
        }
        at = 0
        while at < len(args) and args[at].startswith("-") and args[at] not in ("-", "--"):
            at += 2 if args[at] in takes_value else 1
        return args[:at]
