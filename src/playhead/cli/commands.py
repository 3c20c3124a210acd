"""The commands by name, each loaded only when it is called: the help of all must not load them all."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from typer.core import TyperGroup
from typer.main import get_command

from playhead.cli.typer_patch import lighten, lightened

COMMANDS = {
    "demo": "A database loses power: the gap is found, filled and proved, on real servers.",
    "replay": "A span of a topic into a database, a topic, files: exactly once, with a proof.",
    "live": "What comes into a topic into a database or a topic, exactly once, without an end.",
    "resume": "Go on with a replay that stopped.",
    "runs": "The replays of this machine; of one, how far it is.",
    "cancel": "Stop a replay that runs here, at a slice boundary.",
    "ingest": "UDP datagrams into a topic, each one accounted for.",
    "standby": "Replays that lie ready under a name, triggered with a span.",
    "capture": "A proxy before Kafka that writes down what passes through it.",
    "topics": "Topics: list, describe, sizes, offsets, create, alter, trim, delete.",
    "produce": "Lines, or JSON Lines of whole records, into a topic.",
    "consume": "Records of a span to the terminal or a pipe.",
    "gaps": "Find what a target does not have of a topic, and replay just that.",
    "timeline": "How many records a topic has over time; none is read.",
    "verify": "Read a target back and compare it with its source.",
    "extract": "Values, or whole records, out of captured traffic.",
    "groups": "Consumer groups: who reads, how far behind, and the safe reset.",
    "doctor": "Check all that has to work; say what to do where it does not.",
    "sandbox": "A real Kafka broker and a real PostgreSQL on this machine.",
    "context": "Named clusters with their databases.",
    "config": "See what is configured, and by whom; trust a project's file.",
}
"""What `playhead --help` says of each."""

_MODULES = {
    "demo": "setup.demo",
    "replay": "replay.replay",
    "live": "live",
    "resume": "replay.resume",
    "runs": "replay.runs",
    "cancel": "replay.cancel",
    "ingest": "ingest.ingest",
    "standby": "standby.standby",
    "capture": "traffic.capture",
    "topics": "topics.list",
    "produce": "records.produce",
    "consume": "records.consume",
    "gaps": "replay.gaps",
    "timeline": "replay.timeline",
    "verify": "replay.verify",
    "extract": "traffic.extract",
    "groups": "groups.list",
    "doctor": "setup.doctor",
    "sandbox": "setup.sandbox",
    "context": "setup.context",
    "config": "setup.config",
}
"""Where each command is, as `app`."""


class Commands(Mapping[str, Any]):
    """Name to command, loaded at the first look."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in COMMANDS:
            raise KeyError(name)
        if name not in self._loaded:
            command = lighten(get_command(import_module(f"playhead.cli.{_MODULES[name]}").app))
            command.name = name
            self._loaded[name] = command
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class Tree(TyperGroup):
    """The root, whose help is written from the table above."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = Commands()  # type: ignore[assignment]

    def get_params(self, ctx: Any) -> list[Any]:
        return lightened(super().get_params(ctx))

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))
