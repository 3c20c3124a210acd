"""The topics that a reader may read: their ids, and that their logs still hold what is read."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import PlayheadError
from playhead.kafka.admin import offsets
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.errors import KafkaRefused
from playhead.record import Slice
from playhead.source import Bounds, OutOfBounds

_ASK_WITHIN_S = 10.0


class TopicReplaced(PlayheadError):
    """A topic was deleted, and perhaps created again: its old offsets have no meaning."""

    def __init__(self, topic: str, *, expected_id: str, found_id: str | None) -> None:
        self.topic, self.expected_id, self.found_id = topic, expected_id, found_id
        now = f"its id was {expected_id} and is {found_id}" if found_id else "it is gone"
        super().__init__(
            f"topic {topic} is not the planned one: {now}",
            hint="its offsets belong to other records now; make a new plan",
        )


class PlannedTopics:
    """The topics of a source, with the ids that they had in its plan."""

    def __init__(
        self,
        connection: KafkaConnection,
        *,
        topic_ids: Mapping[str, str],
        patience_s: float,
        reads: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """Connect; `reads` is whether the source has a topic: slices may be from others' ledgers."""
        self._reads, self._topic_ids = reads, dict(topic_ids)
        self._admin = Admin(connection, timeout_s=min(patience_s, _ASK_WITHIN_S))

    def close(self) -> None:
        self._admin.close()

    def confirm_all(self) -> None:
        """Check that the topics are still the planned ones."""
        if self._topic_ids:
            found = offsets.describe_those(self._admin, list(self._topic_ids))
            for topic in self._topic_ids:
                self._is_expected(topic, found.get(topic))

    def confirm(self, topic: str) -> offsets.Described | None:
        """Check that the topic is still the planned one, or the one of the first question."""
        found = offsets.describe_those(self._admin, [topic]).get(topic)
        self._is_expected(topic, found)
        return found

    def bounds_of(self, slice_: Slice, *, seen: int = 0) -> Bounds:
        """Return the bounds of the partition; OutOfBounds if it lacks offsets of the slice, from `seen` on."""
        described = self.confirm(slice_.topic) if self._reads(slice_.topic) else None
        if described is None or slice_.partition not in described.partitions:
            raise OutOfBounds(slice_, None)
        bounds = self._bounds_now(slice_)
        if max(slice_.from_offset, seen) < bounds.earliest or slice_.to_offset > bounds.stable_end:
            raise OutOfBounds(slice_, bounds)
        return bounds

    def confirm_absent(self, slice_: Slice, whole_to: int) -> None:
        """Check that offsets without a record were absent, and not deleted before they were read."""
        with self._as_planned(slice_.topic):
            starts = offsets.log_starts(self._admin, [slice_.place])
        if starts[slice_.place] > whole_to:
            raise self.out_of_bounds(slice_)

    def out_of_bounds(self, slice_: Slice) -> OutOfBounds:
        """Return the error that names the bounds of now."""
        return OutOfBounds(slice_, self._bounds_now(slice_))

    def _is_expected(self, topic: str, found: offsets.Described | None) -> None:
        found_id = found.topic_id if found else None
        # Without a planned id, the topic must at least stay the same during the read.
        expected_id = (
            self._topic_ids.setdefault(topic, found_id) if found_id else self._topic_ids.get(topic)
        )
        if found_id != expected_id and expected_id is not None:
            raise TopicReplaced(topic, expected_id=expected_id, found_id=found_id)

    def _bounds_now(self, slice_: Slice) -> Bounds:
        with self._as_planned(slice_.topic):
            return offsets.bounds_of(self._admin, [slice_.place])[slice_.place]

    @contextmanager
    def _as_planned(self, topic: str) -> Iterator[None]:
        """Confirm the topic after a refusal: it may have been deleted since, and that error says more."""
        try:
            yield
        except KafkaRefused:
            self.confirm(topic)
            raise
