"""The live pipelines of this machine: their identity and their last reported status.

Each target's ledger has what they committed. Losing this folder loses their names and starts, but
nothing about the data.
"""

import json
import shutil
import types
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from playhead import secrets
from playhead.errors import PlayheadError, Refused, UsageError
from playhead.grammar.field_types import need_kinds, need_shallow
from playhead.host import paths, private_files
from playhead.host.atomic_file import write_whole
from playhead.replay.journal import Journal
from playhead.source import TopicPartition

STARTING, RUNNING, WAITING, DROPPING, STOPPED, FAILED, DONE = (
    "starting",
    "running",
    "waiting",
    "dropping",
    "stopped",
    "failed",
    "done",
)
_ALIVE = (STARTING, RUNNING, WAITING, DROPPING)


# A live pipeline must not wait for a replay.
_BESIDE_LIVE = 0.5


def pipeline_id(name: str) -> str:
    """Return the id for the pipeline's ledger, locks and transactions."""
    return f"live.{name}"


class UnknownPipeline(UsageError):
    """No pipeline of this machine has this name."""

    def __init__(self, name: str, *, known: tuple[str, ...]) -> None:
        self.name = name
        super().__init__(
            f"there is no live pipeline {name!r} on this machine",
            hint=f"there are {', '.join(known)}"
            if known
            else "start one with playhead live SOURCE TARGET",
        )


class OtherPipeline(Refused):
    """A pipeline of this name has another source or target."""

    def __init__(self, name: str, *, what: str, found: str, needed: str, folder: Path) -> None:
        self.name, self.what, self.found, self.needed = name, what, found, needed
        super().__init__(
            f"pipeline {name} already exists here with another {what}: {found} (this command: {needed})",
            hint=f"choose another --name for this pipeline, or delete {folder} if the other "
            "one is no longer needed",
        )


class MarkDamaged(PlayheadError):
    """The file that identifies a pipeline's folder cannot be read."""

    def __init__(self, file: Path, *, reason: str) -> None:
        super().__init__(
            f"cannot identify the pipeline of {file}: {reason}",
            hint="move the folder away; the pipeline continues from the ledger in its target",
        )


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The identity of a pipeline: the same name with other ends would use the wrong ledger."""

    name: str
    source: str
    target: str
    """The source and the target as endpoints."""
    cluster: str
    """The identity of the source."""
    place: str
    """The identity of the target."""
    topic_ids: Mapping[str, str]
    group: str
    request: Mapping[str, Any]
    made_at_ms: int
    starts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The first start of each partition; used if the ledger has no entry for it."""
    servers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_document(cls, document: Any, name: str) -> "Pipeline":
        """Read the file of the pipeline of this name, which another version may have written."""
        if not isinstance(document, dict):
            raise TypeError("it is JSON, but not an object")
        need_shallow(document)
        known = {each.name for each in fields(cls)}
        if unknown := sorted(document.keys() - known):
            raise ValueError(f"unknown {', '.join(unknown)}")
        if missing := sorted(_NEEDED - document.keys()):
            raise ValueError(f"it has no {', '.join(missing)}")
        found = cls(**document)
        need_kinds(found, "pipeline")
        if found.name != name:
            raise ValueError(f"it is of {found.name!r}")
        return found

    def start(self, place: TopicPartition) -> int | None:
        return self.starts.get(place[0], {}).get(str(place[1]))

    def differs(self, other: "Pipeline") -> tuple[str, str, str] | None:
        """Return what differs: its name, here, there; None if nothing does."""
        pairs = [
            ("source cluster", self.cluster, other.cluster),
            ("target", f"{self.target} in {self.place}", f"{other.target} in {other.place}"),
        ]
        pairs += [
            (f"topic {topic} with id", self.topic_ids[topic], found)
            for topic, found in other.topic_ids.items()
            if topic in self.topic_ids
        ]
        if not set(self.topic_ids) & set(other.topic_ids):
            pairs.append(("topics", ", ".join(self.topic_ids), ", ".join(other.topic_ids)))
        return next((pair for pair in pairs if pair[1] != pair[2]), None)


_NEEDED = {each.name for each in fields(Pipeline)} - {"starts", "servers"}
# What a status says; values of other kinds are of another version.
_SAID: Mapping[str, type | types.UnionType] = {
    "state": str,
    "away": str | None,
    "records": int,
    "rejected": int,
    "details": dict,
    "extra_fields": dict,
    "rounds": int,
    "lost_offsets": int,
    "lost": list,
    "last_commit_ms": int | None,
    "last_record_ms": int | None,
}


class Pipelines:
    """The folders of all pipelines."""

    def __init__(self, folder: Path | None = None) -> None:
        state = folder or paths.state_dir()
        self._folder = state / "live"
        self.journal = Journal(state)

    def folder(self, name: str) -> Path:
        return self._folder / name

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(file.parent.name for file in self._folder.glob("*/pipeline.json")))

    def get(self, name: str) -> Pipeline | None:
        """Return the pipeline of this name, or None; a file that cannot be read is an error."""
        file = self._mark(name)
        try:
            return Pipeline.from_document(json.loads(file.read_text(encoding="utf-8")), name)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, RecursionError) as exc:
            raise MarkDamaged(file, reason=str(exc)) from exc

    def find(self, name: str) -> Pipeline:
        found = self.get(name)
        if found is None:
            raise UnknownPipeline(name, known=self.names())
        return found

    def keep(self, pipeline: Pipeline) -> None:
        """Store the identity durably, before the first record is read."""
        private_files.folder_in(self._folder, pipeline.name)
        _write(self._mark(pipeline.name), asdict(pipeline))

    def refuse_other(self, pipeline: Pipeline) -> None:
        """Refuse another pipeline in the folder of this name."""
        known = self.get(pipeline.name)
        different = known.differs(pipeline) if known is not None else None
        if different is not None:
            what, found, needed = different
            folder = self.folder(pipeline.name)
            raise OtherPipeline(pipeline.name, what=what, found=found, needed=needed, folder=folder)

    def note(self, name: str, status: Mapping[str, Any]) -> None:
        """Store the pipeline's status, which others may read at any moment."""
        private_files.folder_in(self._folder, name)
        # The reason of an outage contains the server's own words.
        shown = {k: secrets.redact(v) if isinstance(v, str) else v for k, v in status.items()}
        _write(self.folder(name) / "status.json", shown)

    def status(self, name: str) -> dict[str, Any]:
        """Return the last status; if the process died, the state is `stopped`."""
        try:
            text = (self.folder(name) / "status.json").read_text(encoding="utf-8")
            found = _readable(json.loads(text))
        except (OSError, ValueError, RecursionError):
            found = {}
        if not self.is_running(name) and found.get("state", STARTING) in _ALIVE:
            found["state"] = STOPPED
        return found

    def note_committed(self, name: str, offsets: int) -> None:
        """Store the sum of the ledger's ends, as seen in the target."""
        private_files.folder_in(self._folder, name)
        _write(self.committed_file(name), {"offsets": offsets})

    def committed(self, name: str) -> int:
        """Return the last stored sum of the ledger's ends; 0 if there is none."""
        try:
            found = json.loads(self.committed_file(name).read_text(encoding="utf-8"))
            return int(found["offsets"])
        except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return 0

    def committed_file(self, name: str) -> Path:
        return self.folder(name) / "committed.json"

    def note_read(self, name: str, read: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Store for each partition an offset up to which it was read, and the epoch of its leader then."""
        private_files.folder_in(self._folder, name)
        _write(self.folder(name) / "read.json", {"read": [[*at, *of] for at, of in read.items()]})

    def read(self, name: str) -> dict[TopicPartition, tuple[int, int]]:
        """Return what `note_read` stored last; nothing if it stored nothing."""
        try:
            found = json.loads((self.folder(name) / "read.json").read_text(encoding="utf-8"))
            return {
                (str(topic), int(number)): (int(offset), int(epoch))
                for topic, number, offset, epoch in found["read"]
            }
        except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return {}

    def is_running(self, name: str) -> bool:
        return self.journal.is_held(pipeline_id(name))

    def running_into(self, target: str) -> tuple[str, ...]:
        """Return the running pipelines of this machine that write to the same target."""
        return tuple(
            name
            for name in self.names()
            if self.is_running(name) and (found := self.get(name)) and found.target == target
        )

    def share_beside(self, target: str) -> float | None:
        """Return the default share of cores for a replay into a target; None for all."""
        return _BESIDE_LIVE if self.running_into(target) else None

    def forget(self, name: str) -> None:
        shutil.rmtree(self.folder(name), ignore_errors=True)

    def _mark(self, name: str) -> Path:
        return self.folder(name) / "pipeline.json"


def _readable(status: Any) -> dict[str, Any]:
    """Return the fields of a status, without those whose values are of another kind."""
    if not isinstance(status, dict):
        return {}
    return {
        name: value for name, value in status.items() if isinstance(value, _SAID.get(name, object))
    }


def _write(file: Path, document: Mapping[str, Any]) -> None:
    write_whole(file, json.dumps(document, indent=1))
