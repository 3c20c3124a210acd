"""Every command of the tree as lines into which a poison text can be put, and what must never be shown."""

import io
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from playhead.cli import app as cli_app
from tests.capturing import SNAPSHOT
from tests.unit.test_printable import Terminal, harmful

Words = tuple[str, ...]

LINES: Mapping[str, tuple[Words, Words]] = {
    "demo": ((), ("--headless",)),
    "replay": (("kafka:laps", "postgres:laps"), ("--dry-run",)),
    "live": (("kafka:laps", "postgres:laps"), ("--dry-run",)),
    "resume": (("laps",), ()),
    "runs": ((), ()),
    "cancel": (("laps",), ("--wait=0",)),
    "ingest": (("udp://127.0.0.1:0", "kafka:laps"), ("--dry-run", "--for=1ms")),
    "standby add": (("night", "kafka:laps", "postgres:laps"), ("--dry-run",)),
    "standby list": ((), ()),
    "standby show": (("laps",), ()),
    "standby run": (("laps",), ("--dry-run", "--from=start")),
    "standby history": (("laps",), ()),
    "standby remove": (("laps",), ("--dry-run",)),
    "standby watch": ((".",), ("--once", "--dry-run")),
    "capture": ((), ("--dry-run", "--upstream=127.0.0.1:9", "--out=pairs", "--listen=127.0.0.1:0")),
    "topics list": ((), ()),
    "topics describe": (("laps",), ()),
    "topics sizes": (("laps",), ()),
    "topics offsets": (("laps",), ()),
    "topics create": (("laps",), ("--dry-run",)),
    "topics alter": (("laps",), ("--dry-run", "--retain=1h")),
    "topics delete": (("laps",), ("--dry-run",)),
    "topics trim": (("laps",), ("--dry-run", "--to=-1h")),
    "produce": (("laps", "/dev/null"), ()),
    "consume": (("laps",), ()),
    "gaps": (("kafka:laps", "postgres:laps"), ()),
    "timeline": (("laps",), ()),
    "verify": (("laps",), ()),
    "extract": ((str(SNAPSHOT),), ("--path=command",)),
    "groups list": ((), ()),
    "groups describe": (("g",), ()),
    "groups members": (("g",), ()),
    "groups reset": (("g",), ("--dry-run", "--to-latest", "--topic=laps")),
    "groups undo": (("g",), ("--dry-run",)),
    "groups clone": (("g", "other"), ("--dry-run", "--topic=laps")),
    "groups delete": (("g",), ("--dry-run",)),
    "groups delete-offsets": (("g",), ("--dry-run", "--topic=laps")),
    "queries ship": (("*.csv", "kafka:pg_raw_{db}"), ("--once",)),
    "queries capacity": (
        ("csvlog:laps.csv",),
        ("--to=postgresql://127.0.0.1:9/db", "--until=p99 > 50ms", "--yes"),
    ),
    "queries plan": (("csvlog:laps.csv",), ("--to=postgresql://127.0.0.1:9/db",)),
    "queries replay": (
        ("csvlog:laps.csv",),
        ("--dry-run", "--to=postgresql://127.0.0.1:9/db"),
    ),
    "doctor": ((), ()),
    "engine start": ((), ()),
    "engine status": ((), ()),
    "engine stop": ((), ()),
    "sandbox up": ((), ("--dry-run", "--dir=room")),
    "sandbox down": ((), ("--dir=room",)),
    "sandbox status": ((), ("--dir=room",)),
    "sandbox env": ((), ("--dir=room",)),
    "context list": ((), ()),
    "context show": (("there",), ()),
    "context use": (("there",), ()),
    "context add": (("night",), ()),
    "context edit": ((), ()),
    "config show": ((), ()),
    "config trust": ((".",), ()),
}
"""What each command is given beside the poison: arguments, then options, so that it gets as far as it can."""

SHAPES: Mapping[str, Words] = {
    "source": ("{}", "kafka:{}", "json:{}", "postgres:{}", "s3:{}"),
    "target": ("{}", "kafka:{}", "csv:{}", "postgres:{}", "kafka:{}/laps"),
    "topics": ("{}", "/{}/"),
    "--property": ("{}", "client.id={}", "{}=1"),
    "--set": ("{}", "retention.ms={}", "{}=1"),
    "--offsets": ("{}", "laps:0:{}", "{}:0:1-2"),
    "--where": ("{}", "key = '{}'", "value:{} = 1", "value:a::{} = 1"),
    "--select": ("{}", "value:{} AS value", "value:a AS `{}`"),
    "--header": ("{}", "name={}", "{}=value"),
    "--headers": ("{}", "{}=value"),
    "--topic-map": ("{}", "laps={}", "{}=copy"),
    "--filter": ("{}", '(command IS "{}")', '({} IS "x")'),
    "--pace": ("{}", "{}x", "{}/s"),
    "--from": ("{}", "-{}", "2021-08-04T{}"),
    "--on-error": ("{}", "dlq:{}", "dlq=kafka:{}"),
    "--group": ("{}",),
}
"""Where a text of a command has parts, in which of them the poison stands."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A parameter of a command that takes a text, and one form of it."""

    command: str
    name: str
    shape: str
    position: int | None = None

    def words(self, text: str) -> list[str]:
        """The command line with the poison in its spot."""
        arguments, options = LINES[self.command]
        put = self.shape.replace("{}", text)
        given = list(arguments)
        if self.position is None:
            options = (*options, f"{self.name}={put}")
        else:
            given[self.position : self.position + 1] = [put]
        return [*self.command.split(), *options, "--", *given]

    def __str__(self) -> str:
        return f"{self.command} {self.name} {self.shape}"


def commands(command: Any = None, words: Words = ()) -> Iterator[tuple[str, Any]]:
    """All that can be called, by their words."""
    command = command or cli_app.app
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, (*words, name))
    if not getattr(command, "commands", {}):
        yield " ".join(words), command


def spots() -> Iterator[Spot]:
    """Every parameter of every command that takes a text, or what is made of one."""
    for words, command in commands():
        arguments = [each for each in command.params if each.param_type_name == "argument"]
        for each in command.params:
            if getattr(each, "is_flag", False):
                continue
            name = max(each.opts, key=len)
            position = arguments.index(each) if each in arguments else None
            for shape in SHAPES.get(name, ("{}",)):
                yield Spot(words, name, shape, position)


def run_on_terminal(words: list[str]) -> tuple[int, str]:
    """A command in this process, all of whose streams are a terminal but stdin: its exit code, and what it shows."""
    terminal = Terminal()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("TERM", "dumb"), ("NO_COLOR", "1")):
            patch.setenv(name, value)
        for name in ("stdout", "stderr"):
            patch.setattr(sys, name, terminal)
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
        code = cli_app._run(words, cli_app.Ending(), cli_app._run_command)
    return code, terminal.shown()


def wrong_in(code: int, said: str) -> list[str]:
    """What a command must not do, whatever it was given."""
    wrong = [word for word in ("fault of Playhead", "Traceback") if word in said]
    wrong += [repr(letter) for letter in sorted(harmful(said))]
    return wrong if code in (0, 1, 2, 4, 5, 6) else [*wrong, f"exit {code}"]
