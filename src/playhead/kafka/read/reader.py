"""Reads slices of partitions as columns of records, and never returns too few."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from confluent_kafka import KafkaError, Message

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import PlayheadError
from playhead.kafka.read.consumer import PartitionConsumer, need_order
from playhead.kafka.read.planned_topics import PlannedTopics
from playhead.kafka.read.unreadable import add_columns, headers_of
from playhead.record import Slice
from playhead.records import Records
from playhead.source import Bounds, TopicPartition, UnreadableRecord

RUN = 20_000
"""Records returned together, so that the topic's id is checked at a limited cost."""
RUN_BYTES = 16 << 20
_GONE = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
}


class KafkaReader:
    """A consumer of one partition at a time, which keeps records that arrived beyond a slice's end."""

    def __init__(
        self,
        connection: KafkaConnection,
        topics: PlannedTopics,
        *,
        patience_s: float,
    ) -> None:
        self._topics = topics
        self._place: TopicPartition | None = None
        self._bounds: Bounds | None = None
        self._at = self._seen = 0
        self._doubted: int | None = None
        self._rest: Records | None = None
        self._troubles: list[KafkaError | PlayheadError] = []
        self._behind: list[Message] = []
        """What arrived with a record that cannot be read, behind it."""
        self._is_confirmed = False
        self._consumer = PartitionConsumer(connection, patience_s=patience_s)

    def close(self) -> None:
        """Close the client."""
        self._consumer.close()

    def read(self, slice_: Slice) -> Iterator[Records]:
        """Read the records of the slice; see `playhead.source.Reader`."""
        self._go_to(slice_)
        whole_to = slice_.from_offset
        while self._at < slice_.to_offset:
            try:
                run = self._take(slice_)
            except UnreadableRecord as exc:
                self._confirm(slice_.topic)
                if whole_to < exc.offset:
                    self._topics.confirm_absent(slice_, whole_to)
                raise
            if run.offsets:
                whole_to = _whole_to(whole_to, run.offsets)
            if whole_to < self._at:
                # Check at once: earlier records may be deleted before the slice is read to its end.
                self._topics.confirm_absent(slice_, whole_to)
                whole_to = self._at
            if run.offsets:
                yield run

    # --- position -----------------------------------------------------------------------------

    def _go_to(self, slice_: Slice) -> None:
        """Move to the slice's start, where a following slice already is."""
        place = (slice_.topic, slice_.partition)
        stands = (place, slice_.from_offset) == (self._place, self._at)
        if not stands:
            self._place = None
            self._bounds = self._bounds_for(slice_)
            self._consumer.assign({place: slice_.from_offset})
            self._at = self._seen = slice_.from_offset
            self._rest, self._troubles, self._doubted = None, [], None
            self._behind = []
            self._place = place
        elif self._bounds is None or slice_.to_offset > self._bounds.stable_end:
            self._bounds = self._bounds_for(slice_)

    def _bounds_for(self, slice_: Slice) -> Bounds:
        # Records that were already returned may be deleted now.
        return self._topics.bounds_of(slice_, seen=self._seen if self._place else 0)

    # --- arriving records ----------------------------------------------------------------------

    def _take(self, slice_: Slice) -> Records:
        """Return the next records of the slice, or none, and advance over absent offsets."""
        # Unknown until this succeeds: records lost in a failure must not count as read.
        place, self._place = self._place, None
        held, self._rest = self._rest or Records(slice_.topic, slice_.partition), None
        if self._seen <= self._at:
            held = self._arrived(slice_)
        cut = bisect_left(held.offsets, slice_.to_offset)
        if cut < len(held):
            self._rest = held.cut(cut, len(held))
        self._at = min(self._seen, slice_.to_offset)
        self._place = place
        return held.cut(0, cut)

    def _arrived(self, slice_: Slice) -> Records:
        run = Records(slice_.topic, slice_.partition)
        self._judge_troubles(slice_)
        found, self._behind, size = self._behind, [], 0
        if not found:
            self._is_confirmed = False
            found = self._consumer.poll_or_fail(f"reading {slice_}")
        while found:
            size += self._add(run, found)
            if len(run) >= RUN or size >= RUN_BYTES or self._seen >= slice_.to_offset:
                break
            if self._troubles and len(run):
                break  # What came before them is returned first.
            self._judge_troubles(slice_)
            self._is_confirmed = False
            found = self._consumer.buffered()
        self._confirm(slice_.topic)
        return run

    def _confirm(self, topic: str) -> None:
        """Ask after the records came: ids are never reused, so they came from the expected topic."""
        if not self._is_confirmed:
            self._topics.confirm(topic)
            self._is_confirmed = True

    def _add(self, run: Records, found: list[Message]) -> int:
        """Add what arrived to the columns; return their bytes."""
        end, others = 0, list[Message]()
        if any(map(Message.error, found)) or not self._is_next(run, found[0]):
            found = [each for each in found if self._is_next(run, each)]
            others = [each for each in found if each.error()]
            end = self._heed(others)
            found = [each for each in found if each.error() is None]
        need_order(found)
        headers, size, unread = headers_of(found)
        if unread:
            # Whether it matters depends on where the slice ends; nothing is between it and what came before.
            self._troubles.append(unread)
            self._seen = max(self._seen, unread.offset)
            ends = [each for each in others if not _is_trouble(each)]
            self._behind = found[len(headers) + 1 :] + ends
            found, end = found[: len(headers)], 0
        run.headers += headers
        add_columns(run, found)
        self._seen = max(self._seen, found[-1].offset() + 1 if found else 0)
        if end > self._seen and self._is_believed(run, end):
            self._seen = end
        return size

    def _is_believed(self, run: Records, end: int) -> bool:
        """Return whether the reported end can be believed.

        A single marker may be the end of a log. More than one offset without a record is read a second time: if
        the client were wrong, records would count as absent, and the proof would still add up.
        """
        if end - self._seen == 1 or self._doubted == self._seen:
            return True
        self._doubted = self._seen
        self._consumer.assign({(run.topic, run.partition): self._seen})
        return False

    def _is_next(self, run: Records, found: Message) -> bool:
        """Return whether it is the next record; an older one may still arrive, and errors may name no partition."""
        if found.topic() not in (run.topic, None) or found.partition() not in (run.partition, None):
            return False
        return _is_trouble(found) or found.offset() >= self._seen

    def _heed(self, others: Iterable[Message]) -> int:
        """Process what arrived beside records; return the offset up to which the partition has no more."""
        end = 0
        for each in others:
            if _is_trouble(each):
                self._troubles.append(each.error())
            else:
                end = max(end, each.offset())
        return end

    def _judge_troubles(self, slice_: Slice) -> None:
        """Raise permanent errors. A slice that is already complete has none of them."""
        while self._troubles:
            error = self._troubles.pop(0)
            if isinstance(error, UnreadableRecord):
                # What follows can be read on from here.
                self._place, self._at = slice_.place, error.offset + 1
                self._seen = self._at
            if isinstance(error, PlayheadError):
                raise error
            if error.code() == KafkaError._AUTO_OFFSET_RESET:
                self._topics.confirm(slice_.topic)
                raise self._topics.out_of_bounds(slice_)
            if error.code() in _GONE:
                self._topics.confirm(slice_.topic)
            self._consumer.refuse_permanent(error, f"reading {slice_}")


def _is_trouble(found: Message) -> bool:
    error = found.error()
    return error is not None and error.code() != KafkaError._PARTITION_EOF


def _whole_to(whole_to: int, offsets: list[int]) -> int:
    """Return how far the offsets have no gap, if they had none up to `whole_to`."""
    if offsets[0] != whole_to:
        return whole_to
    if offsets[-1] - offsets[0] + 1 == len(offsets):
        return offsets[-1] + 1
    return next(n for n, offset in enumerate(offsets, offsets[0]) if n != offset)
