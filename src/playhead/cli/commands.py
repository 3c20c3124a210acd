"""The commands by name; each is loaded when it is called, so that the main help stays fast."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import click

from playhead.cli.layout import Group

SECTIONS = {
    "Replay": {
        "replay": "Replay a span of a topic into a table, a topic or files: exactly once, with a proof.",
        "gaps": "Find the records of a topic that a target lacks, and replay exactly these.",
        "verify": "Read source and target again, and compare them.",
        "resume": "Continue a replay that stopped.",
        "runs": "List the replays of this machine, or show one.",
        "cancel": "Stop a running replay after its current slice.",
        "standby": "Save a replay under a name, and start it with a span.",
    },
    "Live": {
        "live": "Write new records of a topic into a table or a topic, exactly once.",
        "ingest": "Write UDP datagrams into a topic, and account for each one.",
    },
    "Kafka tools": {
        "topics": "List, describe, create, alter, trim and delete topics.",
        "groups": "Show the lag of consumer groups; reset offsets, and undo it.",
        "produce": "Write lines, or JSON Lines of whole records, into a topic.",
        "consume": "Print the records of a span.",
        "timeline": "Draw the number of records of a topic over time.",
    },
    "Captured traffic": {
        "capture": "Run a proxy in front of Kafka that records the traffic.",
        "extract": "Extract values, or whole records, from captured traffic.",
    },
    "PostgreSQL queries": {
        "queries": "Ship a PostgreSQL server's statement log into topics, and replay its queries.",
    },
    "Set-up": {
        "demo": "Play the whole story on real servers: an outage, the gap, the replay, the proof.",
        "doctor": "Check the installation and the servers; say what to do about problems.",
        "sandbox": "Start and stop a real Kafka broker and PostgreSQL on this machine.",
        "engine": "Start, show and stop the warm engine, which later commands use.",
        "context": "Name clusters with their databases; show every setting and its origin.",
        "config": "Trust a project's settings file.",
    },
}
"""The sentence about each command in `playhead --help`."""

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
    "queries": "queries.queries",
    "demo": "setup.demo",
    "doctor": "setup.doctor",
    "sandbox": "setup.sandbox",
    "engine": "warm.engine",
    "context": "setup.context",
    "config": "setup.config",
}
"""The module of each command."""


class _Commands(Mapping[str, click.Command]):
    """Maps names to commands, each loaded at its first use."""

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
    """The root command, whose help comes from the table above."""

    def __init__(self, name: str, **settings: Any) -> None:
        super().__init__(name, **settings)
        self.commands = _Commands()  # type: ignore[assignment]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        for heading, commands in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl(list(commands.items()))
