"""Watches a running pipeline from another thread: its lag, and whether the broker answers."""

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import closing, suppress
from threading import Event, Thread
from typing import Any

from playhead.errors import PlayheadError, Unavailable
from playhead.live.backoff import RepeatedNotice
from playhead.live.log_cut import ReadLog, ReadLogWasCut
from playhead.live.progress import LedgerWentBack, PipelineProgress, went_back
from playhead.replay.pipelines import RUNNING
from playhead.source import Source, TopicPartition
from playhead.task.same_topics import SameTopics
from playhead.terms import OtherTerms

_NOTE_EVERY_S = 1.0
_LOOK_EVERY_S = 5.0
_SAY_EVERY_S = 10.0


class Watch:
    """Stores the pipeline's status for others, and prints its progress now and then."""

    def __init__(
        self,
        source: Source,
        standing: PipelineProgress,
        note: Callable[[Mapping[str, Any]], None],
        say: Callable[[str], None],
        same: SameTopics,
        read: ReadLog,
    ) -> None:
        self._source, self._standing, self._note, self._say = source, standing, note, say
        self._same, self._read = same, read
        self.lag: int | None = None
        self.refusal: OtherTerms | ReadLogWasCut | None = None
        """Why the pipeline must stop: a topic was replaced, or lost records."""
        self.ledger: Callable[[], Mapping[TopicPartition, int]] | None = None
        """Returns where the target's ledger ends; None if that is not asked while no records come."""
        self._went_back: LedgerWentBack | None = None
        self.unread: Callable[[], Collection[str]] = tuple
        """Returns the topics of the source that were created after the start."""
        self._is_over = Event()
        self._told = RepeatedNotice()
        self._named: set[str] = set()
        self._thread = Thread(target=self._run, name="watch", daemon=True)

    def __enter__(self) -> "Watch":
        self.note()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(_NOTE_EVERY_S)
        self.note()

    def objection(self) -> BaseException | None:
        """Return why the pipeline must stop, or once why it must look at its ledger again."""
        found, self._went_back = self._went_back, None
        return self.refusal or found

    def note(self) -> None:
        """Store the present status."""
        at_ms = time.time_ns() // 1_000_000
        self._note(self._standing.as_document() | {"lag": self.lag, "at_ms": at_ms})

    def _run(self) -> None:
        with closing(self._same):
            self._keep_looking()

    def _keep_looking(self) -> None:
        looked = said = time.monotonic()
        records = 0
        while not self._is_over.wait(_NOTE_EVERY_S):
            now = time.monotonic()
            if now - looked >= _LOOK_EVERY_S:
                self._look()
                looked = time.monotonic()
            if now - said >= _SAY_EVERY_S and self._standing.state == RUNNING:
                new = self._standing.records - records
                if new or self.lag:
                    self._tell(new / (now - said))
                said, records = now, self._standing.records
            self.note()

    def _look(self) -> None:
        try:
            self._same.confirm_all()
            self._read.confirm(dict(self._standing.at))
            self.lag = self._standing.lag(self._source.bounds())
            self._name_unread()
            self._confirm_ledger()
        except Unavailable as exc:
            self.lag = None
            if self._told.is_time():
                self._say(f"{self._told.since()} for the broker: {exc!s}")
            return
        except (OtherTerms, ReadLogWasCut) as exc:
            self.lag, self.refusal = None, exc
            return
        except PlayheadError as exc:
            self.lag = None
            if self._told.is_time():
                self._say(str(exc))
            return
        if self._told.lasted_s():
            self._say(f"the broker is back after {self._told.lasted_s():.0f} s")
        self._told.start_over()

    def _confirm_ledger(self) -> None:
        """Notice a target that lost commits before the next record comes, whose round would notice it."""
        if self.ledger is None or self._standing.state != RUNNING:
            return
        committed = dict(self._standing.committed)  # First: the ledger may grow meanwhile.
        with suppress(PlayheadError):  # The next round meets the same error, and waits.
            self._went_back = went_back(committed, self.ledger())

    def _name_unread(self) -> None:
        """Name each topic once that this start does not read."""
        new = sorted({*self.unread()} - self._named)
        self._named.update(new)
        for topic in new:
            self._say(
                f"topic {topic} is new: it is read from its first record after the next start"
            )

    def _tell(self, rate: float) -> None:
        behind = "" if self.lag is None else f", {self.lag:,} behind"
        rejected = f", {self._standing.rejected:,} rejected" if self._standing.rejected else ""
        self._say(f"{self._standing.records:,} records written, {rate:,.0f}/s{rejected}{behind}")
