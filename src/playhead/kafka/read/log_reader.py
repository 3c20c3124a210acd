"""Reads slices from the logs themselves: what the Kafka client leaves out or changes is seen here."""

import time
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import BrokerUnavailable
from playhead.kafka.admin.client import DEFAULT_TIMEOUT_S
from playhead.kafka.admin.offsets import NoSuchTopic
from playhead.kafka.read.log_heads import Heads, open_heads
from playhead.kafka.read.planned_topics import PlannedTopics
from playhead.kafka.read.reader import KafkaReader
from playhead.kafka.read.record_decoder import NotDecodedHere, records_in
from playhead.record import Slice
from playhead.records import Records
from playhead.source import TopicPartition, UnreadableRecord

_FETCH_BYTES = 4 << 20
_EMPTY_ANSWERS = 20
"""After this number, the offsets count as absent. Each takes half a second, in which slow storage may answer."""
_AGAIN_S = 0.2

_Stretch = tuple[int | None, Records | UnreadableRecord]
"""Records, and the offset up to which the log has no more before the next ones; None if it has none at all."""


class LogReader:
    """Reads one partition at a time, and keeps records beyond a slice's end; see `playhead.source.Reader`.

    It shares no decoder with the reader of replays. To that one is left what only it can decode.
    """

    def __init__(
        self, connection: KafkaConnection, topics: PlannedTopics, *, patience_s: float
    ) -> None:
        self._connection, self._topics, self._patience_s = connection, topics, patience_s
        timeout_s = min(patience_s, DEFAULT_TIMEOUT_S)
        self._log = open_heads(connection, timeout_s=timeout_s, keeps_records=True)
        self._client: KafkaReader | None = None
        self._place: TopicPartition | None = None
        self._at = self._stable_end = 0
        self._stretches: Iterator[_Stretch] = iter(())
        self._rest: _Stretch | None = None

    def close(self) -> None:
        """Close the connections."""
        self._log.close()
        if self._client is not None:
            self._client.close()

    def read(self, slice_: Slice) -> Iterator[Records]:
        """Read the records of the slice."""
        self._go_to(slice_)
        while self._at < slice_.to_offset:
            try:
                run = self._take(slice_)
            except NotDecodedHere:
                yield from self._by_client(replace(slice_, from_offset=self._at))
                return
            if run.offsets:
                yield run

    def _go_to(self, slice_: Slice) -> None:
        """Move to the slice's start, where a following slice already is."""
        stands = (slice_.place, slice_.from_offset) == (self._place, self._at)
        if not stands or slice_.to_offset > self._stable_end:
            self._place = None
            self._stable_end = self._topics.bounds_of(slice_).stable_end
        if not stands:
            self._stretches = self._from(slice_.place, slice_.from_offset)
            self._rest, self._at = None, slice_.from_offset
        self._place = slice_.place

    def _take(self, slice_: Slice) -> Records:
        """Return the next records of the slice, or none, and advance over absent offsets."""
        # Unknown until this succeeds.
        self._place = None
        reached, found = self._rest or next(self._stretches)
        self._rest = None
        if isinstance(found, UnreadableRecord):
            return self._at_unreadable(found, slice_)
        if reached is None:
            self._at = slice_.to_offset
            return found
        cut = bisect_left(found.offsets, slice_.to_offset)
        if reached > slice_.to_offset:
            self._rest = reached, found.cut(cut, len(found))
        self._at = min(reached, slice_.to_offset)
        self._place = slice_.place
        return found.cut(0, cut)

    def _at_unreadable(self, found: UnreadableRecord, slice_: Slice) -> Records:
        """Raise, and continue after it; if the slice ends before it, return nothing."""
        self._place, behind = slice_.place, found.offset + 1
        if found.offset < slice_.to_offset:
            self._at = behind
            raise found
        self._rest, self._at = (behind, found), slice_.to_offset
        return Records(*slice_.place)

    def _by_client(self, slice_: Slice) -> Iterator[Records]:
        if self._client is None:
            self._client = KafkaReader(self._connection, self._topics, patience_s=self._patience_s)
        return self._client.read(slice_)

    def _from(self, place: TopicPartition, at: int) -> Iterator[_Stretch]:
        """Return what the log holds from an offset on, as long as it is asked."""
        nothing, empty = Records(*place), 0
        while empty < _EMPTY_ANSWERS:
            began = at
            for head, is_aborted in self._answer(place, at).with_fate():
                if head.end <= at:
                    continue
                if not (head.is_marker or is_aborted):
                    for run in records_in(place, head.whole, at):
                        last = run.offsets[-1] if isinstance(run, Records) else run.offset
                        yield last + 1, run
                at = head.end
                yield at, nothing
            empty = empty + 1 if at == began else 0
        yield None, nothing

    def _answer(self, place: TopicPartition, at: int) -> Heads:
        """Ask until the leader answers, and check after that that it is still the planned topic."""
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                [answer] = self._log.look(place, [at], most_bytes=_FETCH_BYTES)
                break
            except (BrokerUnavailable, NoSuchTopic) as exc:
                if isinstance(exc, NoSuchTopic):
                    self._topics.confirm(place[0])
                if time.monotonic() > deadline:
                    raise
                time.sleep(_AGAIN_S)
        self._topics.confirm(place[0])
        if answer.is_gone:
            raise self._topics.out_of_bounds(Slice(*place, at, at + 1))
        return answer
