"""The commands by name, each loaded only when it is called: the help of all must not load them all."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import click

from playhead.cli.layout import Group

SECTIONS = {
    "Replay": {
        "replay": "A span of a topic into a database, a topic, files: exactly once, with a proof.",
        "gaps": "Find what a target does not have of a topic, and replay just that.",
        "verify": "Read a target back and compare it with its source.",
        "resume": "Go on with a replay that stopped.",
        "runs": "The replays of this machine; of one, how far it is.",
        "cancel": "Stop a replay that runs here, at a slice boundary.",
        "standby": "Replays that lie ready under a name, triggered with a span.",
    },
    "Live": {
        "live": "What comes into a topic into a database or a topic, exactly once, without an end.",
        "ingest": "UDP datagrams into a topic, each one accounted for.",
    },
    "Kafka tools": {
        "topics": "Topics: list, describe, create, alter, trim, delete.",
        "groups": "Consumer groups: who reads, how far behind, and the safe reset.",
        "produce": "Lines, or JSON Lines of whole records, into a topic.",
        "consume": "Records of a span to the terminal or a pipe.",
        "timeline": "How many records a topic has over time; none is read.",
    },
    "Captured traffic": {
        "capture": "A proxy before Kafka that writes down what passes through it.",
        "extract": "Values, or whole records, out of captured traffic.",
    },
    "Set-up": {
        "demo": "A database loses power: the gap is found, filled and proved, on real servers.",
        "doctor": "Check all that has to work; say what to do where it does not.",
        "sandbox": "A real Kafka broker and a real PostgreSQL on this machine.",
        "context": "Named clusters with their databases, and every setting with its origin.",
        "config": "Trust a project's file.",
    },
}
"""What `playhead --help` says of each."""

_MODULES = {
    "replay": "replay.replay",
    "gaps": "replay.gaps",
    "verify": "replay.verify",
    "resume": "replay.resume",
    "runs": "replay.runs",
    "cancel": "replay.cancel",
    "standby": "standby.standby",
    "live": "live",
    "ingest": "ingest.ingest",
    "topics": "topics.list",
    "groups": "groups.list",
    "produce": "records.produce",
    "consume": "records.consume",
    "timeline": "replay.timeline",
    "capture": "traffic.capture",
    "extract": "traffic.extract",
    "demo": "setup.demo",
    "doctor": "setup.doctor",
    "sandbox": "setup.sandbox",
    "context": "setup.context",
    "config": "setup.config",
}
"""Where each command is, under its own name."""


class _Commands(Mapping[str, click.Command]):
    """Name to command, loaded at the first look."""

    def __init__(self) -> None:
        self._loaded: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in _MODULES:
            raise KeyError(name)
        if name not in self._loaded:
            module = import_module(f"playhead.cli.{_MODULES[name]}")
            self._loaded[name] = getattr(module, name)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


class Tree(Group):
    """The root, whose help is written from the table above."""

    def __init__(self, name: str, **settings: Any) -> None:
        super().__init__(name, **settings)
        self.commands = _Commands()  # type: ignore[assignment]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        for heading, commands in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl(list(commands.items()))
