"""The options that commands share, each declared once, and what a command gets of them.

A command says which groups it takes with `@with_options(...)` and receives one `Run`; the groups'
options appear in its help as if it had declared them itself.
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from playhead.cli.output import FORMATS, PROGRESS, Output
from playhead.config.context import Configuration, configure
from playhead.config.settings import BY_NAME
from playhead.endpoint import check_topic
from playhead.errors import BadValue

Parameters = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Run:
    """One invocation of a command: how it speaks, and what its options say."""

    output: Output
    values: dict[str, Any]

    def configuration(self) -> Configuration:
        """Everything that is set, from all the places."""
        flags = {name: self.values.get(name) for name in BY_NAME}
        return configure(
            flags,
            assignments=self.values.get("assignment") or (),
            context=self.values.get("context"),
        )


def _setting(name: str, *short: str, metavar: str) -> Any:
    """The option by which a setting is given; the setting says what it is called and means."""
    setting = BY_NAME[name]
    option = typer.Option(*short, str(setting.flag), help=setting.help, metavar=metavar)
    return Annotated[str | None, option]


def text_option(*names: str, text: str, metavar: str) -> Any:
    """An option that says a text, or is not there."""
    return Annotated[str | None, typer.Option(*names, help=text, metavar=metavar)]


def only_topics(found: Any) -> Any:
    """What an argument names, when each can be a topic; a `/regex/` is for the command to take or not."""
    for name in [found] if isinstance(found, str) else found or ():
        if len(name) < 2 or not name[0] == name[-1] == "/":
            check_topic(name)
    return found


def _complete_contexts(incomplete: str) -> list[str]:
    from playhead.cli.completion import context_names

    return context_names(incomplete)


def _complete_properties(incomplete: str) -> list[str]:
    from playhead.cli.completion import property_names

    return property_names(incomplete)


OUTPUT: Parameters = {
    "form": (
        Annotated[
            str,
            typer.Option(
                "-o", "--output", help=f"Form of the data: {', '.join(FORMATS)}.", metavar="FORM"
            ),
        ],
        "table",
    ),
    "quiet": (Annotated[bool, typer.Option("-q", "--quiet", help="Only data and errors.")], False),
    "verbose": (
        Annotated[
            int,
            typer.Option(
                "-v", "--verbose", count=True, help="-vv adds tracebacks.", show_default=False
            ),
        ],
        0,
    ),
    "progress": (
        Annotated[
            str,
            typer.Option(help=f"Form of progress: {', '.join(PROGRESS)}.", metavar="FORM"),
        ],
        "auto",
    ),
}
CONNECTION: Parameters = {
    "bootstrap_servers": (_setting("bootstrap_servers", "-b", metavar="HOST:PORT"), None),
    "context": (
        Annotated[
            str | None,
            typer.Option(
                "-c",
                "--context",
                help="A context by name.",
                metavar="NAME",
                autocompletion=_complete_contexts,
            ),
        ],
        None,
    ),
    "assignment": (
        Annotated[
            list[str] | None,
            typer.Option(
                "-X",
                help="A Kafka client property, key=value; repeatable; -X list names them.",
                metavar="KEY=VALUE",
                autocompletion=_complete_properties,
            ),
        ],
        None,
    ),
    "kafka_config": (_setting("kafka_config", metavar="FILE"), None),
    "database": (_setting("database", metavar="URL"), None),
}
SPARK: Parameters = {
    "spark_master": (_setting("spark_master", metavar="URL"), None),
    "spark_remote": (_setting("spark_remote", metavar="URL"), None),
    "spark_memory": (_setting("spark_memory", metavar="SIZE"), None),
}
REGISTRY: Parameters = {"schema_registry": (_setting("schema_registry", metavar="URL"), None)}
TIME: Parameters = {"timezone": (_setting("timezone", metavar="ZONE"), None)}
SEPARATORS: Parameters = {
    "headers_separator": (
        text_option("--headers-separator", text="Between headers: ','.", metavar="TEXT"),
        None,
    ),
    "header_separator": (
        text_option("--header-separator", text="After a header's name: ':'.", metavar="TEXT"),
        None,
    ),
}
"""How headers stand in a line, read or written."""
SANDBOX: Parameters = {
    "directory": (
        Annotated[
            str | None, typer.Option("--dir", help="The sandbox's folder.", metavar="FOLDER")
        ],
        None,
    ),
}


def with_options(*groups: Parameters) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of these groups; its first parameter becomes the `Run`."""
    shared: Parameters = {}
    for group in (*groups, OUTPUT):  # a command's own word for one of them counts
        for name, spec in group.items():
            shared.setdefault(name, spec)

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        _, *own = inspect.signature(command).parameters.values()

        @functools.wraps(command)
        def invoke(**values: Any) -> None:
            taken = {parameter.name: values.pop(parameter.name) for parameter in own}
            command(Run(_output(values), values), **taken)

        del invoke.__dict__["__wrapped__"]  # or the framework would look behind us
        more = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind
            )
            for name, (kind, default) in shared.items()
        ]
        parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + more
        invoke.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        invoke.__annotations__ = {p.name: p.annotation for p in parameters}
        return invoke

    return decorate


def _output(values: dict[str, Any]) -> Output:
    return Output(
        _one_of("--output", values.pop("form"), FORMATS),
        values.pop("quiet"),
        values.pop("verbose"),
        _one_of("--progress", values.pop("progress"), PROGRESS),
    )


def _one_of(flag: str, found: str, allowed: tuple[str, ...]) -> str:
    if found not in allowed:
        raise BadValue(flag, found=found, needed=" or ".join(allowed), where="the command line")
    return found
