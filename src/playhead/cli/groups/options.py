"""Parses the combined options of `playhead groups`."""

import time
from collections.abc import Sequence
from pathlib import Path

from playhead.cli.options import Run
from playhead.kafka.groups.offsets_csv import ByGroup, NoPlanInFile, read_file
from playhead.kafka.groups.position import ByPartition, Position, need_one_mode, read_mode
from playhead.kafka.groups.scope import Scope
from playhead.options.groups import MODE


def scope_of(run: Run) -> Scope:
    """Return the partitions in scope."""
    values = run.values
    return Scope.of(values["topic"] or (), all_topics=bool(values.get("all_topics")))


def wait_s(run: Run) -> float:
    """Return how long to wait until the members have left."""
    return float(run.values["wait"] or 0) / 1000


class Modes:
    """The position for each group: the same for all, unless a file gives them."""

    def __init__(self, run: Run, groups: Sequence[str]) -> None:
        values = run.values
        given = {row.shown_name: values[row.name] for row in MODE.without("from_file")}
        self._file: Path | None = values["from_file"]
        self._offsets: ByGroup | None = None
        self._mode: Position | None = None
        if need_one_mode(given | {"--from-file": self._file}) == "--from-file":
            self._offsets = read_file(Path(str(self._file)), groups)
        else:
            zone = run.configuration().get("timezone") or "UTC"
            self._mode = read_mode(given, timezone=zone, now_ns=time.time_ns())

    @property
    def named(self) -> list[str]:
        """Return the groups that the file names; none without a file."""
        return sorted(self._offsets or ())

    def of(self, group: str) -> Position:
        if self._mode is not None:
            return self._mode
        offsets = self._offsets or {}
        if group not in offsets:
            raise NoPlanInFile(str(self._file), group, found=self.named)
        return ByPartition(offsets[group], str(self._file))
