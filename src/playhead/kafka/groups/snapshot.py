"""Snapshots of offsets before a change, stored on this machine, so that the change can be undone exactly."""

import hashlib
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from playhead.errors import PlayheadError, Refused, UsageError
from playhead.grammar.field_types import need_kinds
from playhead.host import paths, private_files
from playhead.host.atomic_file import write_whole
from playhead.kafka.groups.plan import CommittedOffset, GroupPlan
from playhead.source import TopicPartition

VERSION = 1
_LONGEST_NAME = 100


class SnapshotUnreadable(PlayheadError):
    """A snapshot's file has other content."""

    def __init__(self, file: Path, *, reason: str) -> None:
        self.file, self.reason = file, reason
        super().__init__(
            f"the snapshot {file} cannot be read: {reason}",
            hint="move the file out of its folder; the other snapshots of the group stay usable",
        )


class NothingToUndo(UsageError):
    """This machine has no such snapshot."""

    def __init__(self, group: str, *, wanted: str | None = None) -> None:
        self.group, self.wanted = group, wanted
        what = f"no snapshot {wanted}" if wanted else "no change that could be taken back"
        super().__init__(
            f"there is {what} of group {group} on this machine",
            hint=f"`playhead groups undo {group} --list` lists the snapshots",
        )


class NothingLeftToRestore(Refused):
    """No topic whose offsets a snapshot has is there any more."""

    def __init__(self, group: str, *, snapshot: str) -> None:
        self.group, self.snapshot = group, snapshot
        super().__init__(
            f"nothing of the snapshot {snapshot} of group {group} can be restored: its topics are gone, or were "
            "created again",
            hint=f"`playhead groups reset {group}` sets offsets in the topics that there are",
        )


@dataclass(frozen=True, slots=True)
class SavedGroup:
    """One partition: the committed offset before, and the written one."""

    place: TopicPartition
    before: CommittedOffset | None
    after: int | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The committed offsets of a group before one change."""

    snapshot_id: str
    group: str
    made_at_ms: int
    does: str
    was_there: bool
    """False if the change created the group."""
    kept: tuple[SavedGroup, ...]
    undone_at_ms: int | None = None
    is_undo: bool = False
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    """The topics of the offsets, which mean nothing in other topics of the same names.

    Snapshots of earlier versions have none.
    """

    def as_document(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "topic_ids": dict(self.topic_ids),
            **{name: getattr(self, name) for name in _PLAIN},
            "partitions": [
                {
                    "topic": each.place[0],
                    "partition": each.place[1],
                    "before": asdict(each.before) if each.before else None,
                    "after": each.after,
                }
                for each in self.kept
            ],
        }

    @classmethod
    def from_document(cls, document: Any) -> "Snapshot":
        """Read a document of `as_document`."""
        if document["version"] != VERSION:
            raise ValueError(
                f"it is of version {document['version']}; this Playhead knows {VERSION}"
            )
        kept = tuple(
            SavedGroup(
                (each["topic"], each["partition"]),
                CommittedOffset(**each["before"]) if each["before"] else None,
                each["after"],
            )
            for each in document["partitions"]
        )
        topic_ids = {str(name): str(id_) for name, id_ in document.get("topic_ids", {}).items()}
        made = cls(**{name: document[name] for name in _PLAIN}, kept=kept, topic_ids=topic_ids)
        need_kinds(made, "snapshot")
        return made


_PLAIN = (
    "snapshot_id",
    "group",
    "made_at_ms",
    "does",
    "was_there",
    "undone_at_ms",
    "is_undo",
)


class Snapshots:
    """The snapshots of one cluster; one file each, readable only by its owner."""

    def __init__(self, cluster_id: str, folder: Path | None = None) -> None:
        self._of_all = folder or paths.state_dir() / "groups"
        self._folder = self._of_all / _file_name(cluster_id)

    def take(
        self, plan: GroupPlan, topic_ids: Mapping[str, str], *, is_undo: bool = False
    ) -> Snapshot:
        """Store what the plan will change, before it does."""
        now_ns = time.time_ns()
        name = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now_ns // 10**9))
        kept = tuple(
            SavedGroup(move.place, move.before, move.after.offset if move.after else None)
            for move in plan.moves
        )
        snapshot = Snapshot(
            f"{name}-{now_ns % 10**9 // 1000:06}",
            plan.group,
            now_ns // 1_000_000,
            plan.does,
            plan.is_there,
            kept,
            is_undo=is_undo,
            topic_ids=topic_ids,
        )
        self._write(snapshot)
        return snapshot

    def note_undone(self, snapshot: Snapshot) -> None:
        """Note that the change was undone, so that it is not undone again."""
        document = snapshot.as_document() | {"undone_at_ms": time.time_ns() // 1_000_000}
        self._write(Snapshot.from_document(document))

    def drop(self, snapshot: Snapshot) -> None:
        """Delete the snapshot, because nothing was written."""
        self._file(snapshot).unlink(missing_ok=True)

    def of(self, group: str) -> list[Snapshot]:
        """Return a group's snapshots, latest first."""
        folder = self._folder / _file_name(group)
        files: Iterable[Path] = sorted(folder.glob("*.json"), reverse=True)
        return [_read(file) for file in files]

    def latest(self, group: str) -> Snapshot:
        """Return the last change that was not undone."""
        for snapshot in self.of(group):
            if snapshot.undone_at_ms is None and not snapshot.is_undo:
                return snapshot
        raise NothingToUndo(group)

    def find(self, group: str, snapshot_id: str) -> Snapshot:
        for snapshot in self.of(group):
            if snapshot.snapshot_id == snapshot_id:
                return snapshot
        raise NothingToUndo(group, wanted=snapshot_id)

    def _file(self, snapshot: Snapshot) -> Path:
        return self._folder / _file_name(snapshot.group) / f"{snapshot.snapshot_id}.json"

    def _write(self, snapshot: Snapshot) -> None:
        file = self._file(snapshot)
        text = json.dumps(snapshot.as_document(), indent=1, ensure_ascii=False) + "\n"
        try:
            private_files.folder_in(self._of_all, self._folder.name, file.parent.name)
            write_whole(file, text)
        except OSError as exc:
            raise PlayheadError(
                f"the offsets of group {snapshot.group} could not be saved to {file}: {exc.strerror}",
                hint="nothing was changed, because it could not be undone without a snapshot",
            ) from exc


def _file_name(name: str) -> str:
    """Return a safe file name: a group may be called `..`, or have a very long name."""
    quoted = "g-" + quote(name, safe="")
    if len(quoted) <= _LONGEST_NAME:
        return quoted
    return f"{quoted[:_LONGEST_NAME]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def _read(file: Path) -> Snapshot:
    try:
        found = Snapshot.from_document(json.loads(file.read_text(encoding="utf-8")))
        # A copy under another name would be undone once for each name, or for another group than was asked.
        if (_file_name(found.group), found.snapshot_id) != (file.parent.name, file.stem):
            raise ValueError(f"it is {found.snapshot_id} of group {found.group}")
        return found
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
        raise SnapshotUnreadable(file, reason=str(exc)) from exc
