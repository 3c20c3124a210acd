"""The live pipelines of this machine: who each of them is, and what it last said of itself.

What they have committed is not here but in each target's ledger; losing this folder loses their
names and starts, and never the truth about data.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from playhead import secrets
from playhead.errors import PlayheadError, Refused, UsageError
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


# What comes in live had better not wait for what comes back.
_BESIDE_LIVE = 0.5


def pipeline_id(name: str) -> str:
    """Under which its ledger, its locks and its transactions are kept."""
    return f"live.{name}"


class UnknownPipeline(UsageError):
    """No pipeline of this machine has such a name."""

    def __init__(self, name: str, *, known: tuple[str, ...]) -> None:
        self.name = name
        super().__init__(
            f"there is no live pipeline {name!r} on this machine",
            hint=f"there are {', '.join(known)}" if known else "playhead live SOURCE TARGET is one",
        )


class OtherPipeline(Refused):
    """A pipeline of that name is another one."""

    def __init__(self, name: str, *, what: str, found: str, needed: str, folder: Path) -> None:
        self.name, self.what, self.found, self.needed = name, what, found, needed
        super().__init__(
            f"pipeline {name} of this machine has the {what} {found}, and this one has {needed}",
            hint=f"give this one a --name of its own; or, if that one is no more, delete {folder}",
        )


class MarkDamaged(PlayheadError):
    """A pipeline's folder does not say whom it belongs to."""

    def __init__(self, file: Path, *, reason: str) -> None:
        super().__init__(
            f"{file} does not say whose folder this is: {reason}",
            hint="move the folder away; the pipeline goes on from the ledger in its target",
        )


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Who a pipeline is: the same name with other ends would go on in the wrong ledger."""

    name: str
    source: str
    target: str
    """Both as endpoints."""
    cluster: str
    """The source's own identity."""
    place: str
    """The target's."""
    topic_ids: Mapping[str, str]
    group: str
    request: Mapping[str, Any]
    made_at_ms: int
    starts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Where it began in each partition: what counts until the ledger has something of it."""
    servers: Mapping[str, str] = field(default_factory=dict)

    def start(self, place: TopicPartition) -> int | None:
        return self.starts.get(place[0], {}).get(str(place[1]))

    def differs(self, other: "Pipeline") -> tuple[str, str, str] | None:
        """What is not the same of the two, if anything: what, here, there."""
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


class Pipelines:
    """Their folders."""

    def __init__(self, folder: Path | None = None) -> None:
        state = folder or paths.state_dir()
        self._folder = state / "live"
        self.journal = Journal(state)

    def folder(self, name: str) -> Path:
        return self._folder / name

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(file.parent.name for file in self._folder.glob("*/pipeline.json")))

    def get(self, name: str) -> Pipeline | None:
        """None when there is none of that name; one that cannot be read is an error."""
        file = self._mark(name)
        try:
            return Pipeline(**json.loads(file.read_text(encoding="utf-8")))
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
        """Write down who it is, durably, before it reads its first record."""
        private_files.folder(self.folder(pipeline.name))
        _write(self._mark(pipeline.name), asdict(pipeline))

    def refuse_other(self, pipeline: Pipeline) -> None:
        """The folder of a name belongs to one pipeline."""
        known = self.get(pipeline.name)
        different = known.differs(pipeline) if known is not None else None
        if different is not None:
            what, found, needed = different
            folder = self.folder(pipeline.name)
            raise OtherPipeline(pipeline.name, what=what, found=found, needed=needed, folder=folder)

    def note(self, name: str, status: Mapping[str, Any]) -> None:
        """What it says of itself; read by others at any moment."""
        private_files.folder(self.folder(name))
        # Why a server was away is in its own words.
        shown = {k: secrets.redact(v) if isinstance(v, str) else v for k, v in status.items()}
        _write(self.folder(name) / "status.json", shown)

    def status(self, name: str) -> dict[str, Any]:
        """What it last said; of one that died without a word, that it has stopped."""
        try:
            text = (self.folder(name) / "status.json").read_text(encoding="utf-8")
            found: dict[str, Any] = json.loads(text)
        except (OSError, ValueError, RecursionError):
            found = {}
        if not self.is_running(name) and found.get("state", STARTING) in _ALIVE:
            found["state"] = STOPPED
        return found

    def note_committed(self, name: str, offsets: int) -> None:
        """The ends of its ledger, added up, as they were seen in the target."""
        private_files.folder(self.folder(name))
        _write(self.committed_file(name), {"offsets": offsets})

    def committed(self, name: str) -> int:
        """The same as they were last seen from here; 0 when they never were."""
        try:
            found = json.loads(self.committed_file(name).read_text(encoding="utf-8"))
            return int(found["offsets"])
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return 0

    def committed_file(self, name: str) -> Path:
        return self.folder(name) / "committed.json"

    def is_running(self, name: str) -> bool:
        return self.journal.is_held(pipeline_id(name))

    def running_into(self, target: str) -> tuple[str, ...]:
        """The pipelines at work here that write to the same place."""
        return tuple(
            name
            for name in self.names()
            if self.is_running(name) and (found := self.get(name)) and found.target == target
        )

    def share_beside(self, target: str) -> float | None:
        """How much of the cores a replay into a target takes unless told; None for all of them."""
        return _BESIDE_LIVE if self.running_into(target) else None

    def forget(self, name: str) -> None:
        shutil.rmtree(self.folder(name), ignore_errors=True)

    def _mark(self, name: str) -> Path:
        return self.folder(name) / "pipeline.json"


def _write(file: Path, document: Mapping[str, Any]) -> None:
    write_whole(file, json.dumps(document, indent=1))
