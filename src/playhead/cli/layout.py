"""The layout of the help: options under headings, and commands with their first sentence."""

from collections.abc import Mapping
from types import MappingProxyType

import click

from playhead.cli.output import Output

_LAST = "Output"
"""The heading of --help itself."""


class CommandOption(click.Option):
    """An option with its heading in the help."""

    heading = ""
    unlisted: tuple[str, ...] = ()
    """Spellings that are taken, and that the help leaves out."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        every, self.opts = self.opts, [flag for flag in self.opts if flag not in self.unlisted]
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = every


class _Helpful(click.Command):
    """A command whose help is printed as every other output is: its reader may be gone."""

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        option = super().get_help_option(ctx)
        if option is not None:
            option.callback = _show_help
        return option


def _show_help(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        Output().text(context.get_help())
        context.exit()


class Command(_Helpful):
    """A command whose help has its options under headings."""

    leading_word: str | None = None
    """A word that is accepted before the arguments, as in another tool."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args[:1] == [self.leading_word] and not "".join(args[1:2]).startswith("-"):
            args = args[1:] or args
        return super().parse_args(ctx, args)

    def format_arguments(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [
            each.get_help_record(ctx) for each in self.params if isinstance(each, click.Argument)
        ]
        if rows:
            with formatter.section("Arguments"):
                formatter.write_dl(rows)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if isinstance(parameter, click.Option) and record is not None:
                heading = getattr(parameter, "heading", _LAST)
                sections.setdefault(heading, []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)


class Group(_Helpful, click.Group):
    """Commands in the given order, each with its first sentence."""

    kafka_flags: Mapping[str, str] = MappingProxyType({})
    """Flags of Kafka's own tool, each with the command that it names, also without its dashes."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        flag = next((arg for arg in args if arg in self.kafka_flags), None)
        if flag is not None and args[0] not in self.commands:
            args = [self.kafka_flags[flag], *(arg for arg in args if arg != flag)]
        elif args and args[0] not in self.commands and f"--{args[0]}" in self.kafka_flags:
            args = [self.kafka_flags[f"--{args[0]}"], *args[1:]]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        rows = [
            (name, " ".join((each.help or "").partition("\n\n")[0].split()))
            for name, each in self.commands.items()
            if not each.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
