"""Makes commands from option tables: what click shows and parses, and what a command receives.

A command declares its options with `@command(...)` and receives one `Run`. Options in its signature are
passed to it; the others are in `run.values`.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import click
from click.exceptions import Exit

from playhead.cli.layout import Command, CommandOption, Group
from playhead.cli.output import Output
from playhead.config.context import Configuration, configure
from playhead.config.settings import BY_NAME
from playhead.errors import PlayheadError, UsageError
from playhead.grammar.zone import zone_name
from playhead.options.option import Argument, Option, Options
from playhead.options.shared import OUTPUT

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_SETTINGS = {"help_option_names": ["-h", "--help"]}


@dataclass(frozen=True, slots=True)
class Run:
    """One invocation of a command: its output, and the values of its options."""

    output: Output
    values: dict[str, Any]

    def configuration(self) -> Configuration:
        """Return the configuration, merged from all places."""
        flags = {name: self.values.get(name) for name in BY_NAME}
        return configure(
            flags,
            assignments=self.values.get("assignment") or (),
            context=self.values.get("context"),
        )


def command(
    *groups: Options, now: str | None = None, leading_word: str | None = None
) -> Callable[[Callable[..., None]], "Command"]:
    """Make a command of a function, with the options of these groups and those of all commands.

    An old spelling says what it is called `now`: the help leaves it out, and a note names the new one.
    A `leading_word` is one that another tool puts before the first argument; it is accepted there.
    """
    taken: dict[str, tuple[str, Option | Argument]] = {}
    for group in (*groups, OUTPUT):  # A command's own row for an option has precedence.
        for row in group:
            taken.setdefault(row.name, (group.heading, row))

    def decorate(function: Callable[..., None]) -> Command:
        _, *own = inspect.signature(function).parameters

        def invoke(**given: Any) -> None:
            given = _placed([row for _, row in taken.values()], given)
            values = {name: row.value(_given(row, given)) for name, (_, row) in taken.items()}
            output = Output(*(values.pop(row.name) for row in OUTPUT))
            if "timezone" in taken:
                output = replace(output, zone=_zone(Run(output, values)))
            if now is not None:
                path = click.get_current_context().command_path
                output.say(f"note: {path} is {now} now; the next version removes the old name")
            function(Run(output, values), **{name: values.pop(name) for name in own})

        made = Command(
            function.__name__.rstrip("_").replace("_", "-"),
            callback=invoke,
            help=inspect.getdoc(function),
            params=[each for heading, row in taken.values() for each in _parameters(row, heading)],
            context_settings=_SETTINGS,
            hidden=now is not None,
        )
        made.leading_word = leading_word
        return made

    return decorate


def _zone(run: Run) -> str:
    """Return the zone that was asked for; a command that needs one refuses a wrong zone itself."""
    try:
        return zone_name(run.configuration().get("timezone") or "UTC", where="timezone")
    except PlayheadError:
        return "UTC"


def group(
    text: str, *commands: click.Command, name: str, kafka_flags: Mapping[str, str] | None = None
) -> "Group":
    """Commands under a name; `kafka_flags` are the flags by which Kafka's own tool names them."""
    made = Group(
        name,
        commands=list(commands),
        help=text,
        no_args_is_help=True,
        context_settings=_SETTINGS,
    )
    made.kafka_flags = kafka_flags or {}
    return made


def end(code: int) -> Exit:
    """Return the exception that ends a command with an exit code after all output."""
    return Exit(code)


_BY_FLAG = "_by_flag"
"""Ends the name of the option by which an argument can be given too."""


def _placed(rows: list[Option | Argument], given: dict[str, Any]) -> dict[str, Any]:
    """What was given, with a file in its own place if the argument before it is given by a flag."""
    arguments = [row for row in rows if isinstance(row, Argument)]
    for before, row in pairwise(arguments):
        is_flagged = before.kafka_flags and given[before.name + _BY_FLAG] is not None
        if is_flagged and row.kind == "file" and given[row.name] is None:
            given = {**given, before.name: None, row.name: given[before.name]}
    return given


def _given(row: Option | Argument, given: dict[str, Any]) -> Any:
    """What was given for a row: an argument by its position, or by the flag of Kafka's own tools."""
    if row.joined:
        return ",".join(given[row.name]) if given[row.name] else None
    if not (isinstance(row, Argument) and row.kafka_flags):
        return given[row.name]
    placed, flagged = given[row.name], given[row.name + _BY_FLAG]
    if row.repeatable:
        placed, flagged = (*placed, *flagged) or None, None
    if placed is not None and flagged is not None:
        raise UsageError(f"{row.shown_name} is given twice: {placed} and {flagged}")
    value = flagged if placed is None else placed
    if row.required and value is None:
        raise click.UsageError(f"Missing argument '{_usage_of(row)}'.", click.get_current_context())
    return value


def _parameters(row: Option | Argument, heading: str) -> list[click.Parameter]:
    """The row as click knows it, with a hidden option for an argument that Kafka's tools give by name."""
    shown = _parameter(row, heading)
    if not (isinstance(row, Argument) and row.kafka_flags):
        return [shown]
    shown.required = False
    by_flag = CommandOption(
        [*row.kafka_flags, row.name + _BY_FLAG],
        type=click.STRING,
        multiple=row.repeatable,
        hidden=True,
        shell_complete=_completer(row),
    )
    return [shown, by_flag]


def _parameter(row: Option | Argument, heading: str) -> click.Parameter:
    """Return click's parameter for a row; click passes texts, and the row parses them."""
    shared: dict[str, Any] = {
        "type": click.Path(readable=False) if row.kind == "file" else click.STRING,
        "shell_complete": _completer(row),
        "required": row.required,
        "help": row.help + _extra(row),
    }
    if isinstance(row, Argument):
        many = -1 if row.repeatable else 1
        return click.Argument([row.name], nargs=many, metavar=_usage_of(row), **shared)
    if row.kind == "count":
        shared |= {"count": True, "type": None}
    elif row.kind == "switch":
        shared |= {"is_flag": True, "type": None, "default": row.default}
    else:
        shared |= {"multiple": row.repeatable or row.joined, "metavar": row.shown_value}
    spellings = [*row.spellings]
    if row.off:
        spellings[-1] += f"/{row.off}"
    option = CommandOption([*spellings, *row.kafka_flags, row.name], **shared)
    option.heading, option.unlisted = heading, row.kafka_flags
    return option


def _usage_of(row: Argument) -> str:
    text = row.shown_name + ("…" if row.repeatable else "")
    return text if row.required else f"[{text}]"


def _extra(row: Option | Argument) -> str:
    """Return what the help adds to the row's text."""
    extra = []
    if row.default is not None and row.kind not in ("switch", "count"):
        extra.append(f"default: {row.default}")
    if row.bounds:
        extra.append(row.bounds)
    return f"  [{'; '.join(extra)}]" if extra else ""


def _completer(row: Option | Argument) -> Callable[..., "list[CompletionItem]"] | None:
    """Return what completes a value of this row: its choices, or names; None for neither."""
    if not (row.completes or row.choices):
        return None

    def complete(
        _ctx: click.Context, _parameter: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        from playhead.cli.completion import NAMES

        if row.completes:
            names = NAMES[row.completes](incomplete)
        else:
            names = [choice for choice in row.choices if choice.startswith(incomplete)]
        return [CompletionItem(name) for name in names]

    return complete
