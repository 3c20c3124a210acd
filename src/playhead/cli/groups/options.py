"""The options of `playhead groups`, each declared once, and what they say together."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from playhead.cli.completion import group_names, topic_names
from playhead.cli.options import Parameters, Run
from playhead.grammar.duration import parse_duration_ms
from playhead.kafka.groups.offsets_csv import ByGroup, NoPlanInFile, read_file
from playhead.kafka.groups.position import ByPartition, Mode, need_one_mode, read_mode
from playhead.kafka.groups.scope import Scope

Group = Annotated[
    str, typer.Argument(metavar="GROUP", help="The group.", autocompletion=group_names)
]
Groups = Annotated[
    list[str] | None,
    typer.Argument(metavar="GROUP", help="The groups.", autocompletion=group_names),
]


def _text(name: str, text: str, metavar: str) -> Any:
    return Annotated[str | None, typer.Option(name, help=text, metavar=metavar)]


def _switch(*names: str, text: str) -> Any:
    return Annotated[bool, typer.Option(*names, help=text)]


TOPICS: Parameters = {
    "topic": (
        Annotated[
            list[str] | None,
            typer.Option(
                "--topic",
                help="A topic, or some partitions of it: orders:0,2; repeatable.",
                metavar="TOPIC",
                autocompletion=topic_names,
            ),
        ],
        None,
    ),
}
SCOPE: Parameters = TOPICS | {
    "all_topics": (_switch("--all-topics", text="All that the group has committed."), False),
}
MODE: Parameters = {
    "to": (_text("--to", "An instant, `start` or `end`: 2021-08-04T12:30, now-2h.", "T"), None),
    "to_datetime": (_text("--to-datetime", "The same, by Kafka's own name for it.", "T"), None),
    "by_duration": (
        _text("--by-duration", "So long before now: PT2H0M0S, 2h.", "DURATION"),
        None,
    ),
    "shift_by": (_text("--shift-by", "So many offsets on; back, when negative.", "N"), None),
    "to_offset": (_text("--to-offset", "This offset, in all partitions.", "N"), None),
    "to_earliest": (_switch("--to-earliest", text="The start of the log."), False),
    "to_latest": (_switch("--to-latest", text="The end of the log."), False),
    "to_current": (_switch("--to-current", text="Where it stands; else the end."), False),
    "from_file": (
        Annotated[
            Path | None,
            typer.Option(
                "--from-file", help="As a CSV file of Kafka's own tool says.", metavar="CSV"
            ),
        ],
        None,
    ),
}
CONSENT: Parameters = {
    "dry_run": (_switch("--dry-run", text="Only show the plan; writes nothing."), False),
    "yes": (_switch("--yes", "-y", text="Do not ask."), False),
}
WAIT: Parameters = {
    "wait": (
        _text("--wait", "Wait so long for the group's members to go: 45s.", "DURATION"),
        None,
    ),
}


def scope_of(run: Run) -> Scope:
    """Which partitions are meant."""
    values = run.values
    return Scope.of(values["topic"] or (), all_topics=bool(values.get("all_topics")))


def wait_s(run: Run) -> float:
    """How long to wait for members to go."""
    written = run.values["wait"]
    return 0.0 if written is None else parse_duration_ms(written, where="--wait") / 1000


class Modes:
    """The mode of each group: the same for all, unless a file says it."""

    def __init__(self, run: Run, groups: Sequence[str]) -> None:
        values = run.values
        given = {
            f"--{name.replace('_', '-')}": values[name] for name in MODE if name != "from_file"
        }
        self._file: Path | None = values["from_file"]
        self._offsets: ByGroup | None = None
        self._mode: Mode | None = None
        if need_one_mode(given | {"--from-file": self._file}) == "--from-file":
            self._offsets = read_file(Path(str(self._file)), groups)
        else:
            zone = run.configuration().get("timezone") or "UTC"
            self._mode = read_mode(given, timezone=zone, now_ns=time.time_ns())

    @property
    def named(self) -> list[str]:
        """The groups that the file names; none without a file."""
        return sorted(self._offsets or ())

    def of(self, group: str) -> Mode:
        if self._mode is not None:
            return self._mode
        offsets = self._offsets or {}
        if group not in offsets:
            raise NoPlanInFile(str(self._file), group, found=self.named)
        return ByPartition(offsets[group], str(self._file))
