"""The layout of the help: options under headings, and commands with their first sentence."""

import click

_LAST = "Output"
"""The heading of --help itself."""


class CommandOption(click.Option):
    """An option, and the heading of the help under which it stands."""

    heading = ""


class Command(click.Command):
    """A command whose help has its options under headings."""

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


class Group(click.Group):
    """Commands in the order in which they are given, each with its first sentence."""

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
