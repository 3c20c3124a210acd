"""Topics of a Kafka cluster as a source."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

from playhead.config.kafka_connection import KafkaConnection
from playhead.endpoint import BAD_PATTERN, check_pattern
from playhead.errors import BadValue, MissingPiece, Refused, UsageError
from playhead.grammar.instant import show_ms
from playhead.host.clock import wait_until
from playhead.kafka.admin.broker_socket import need_login
from playhead.kafka.admin.client import DEFAULT_TIMEOUT_S, Admin
from playhead.kafka.admin.leader_epochs import ends_of_epochs, leader_epochs
from playhead.kafka.admin.log_dirs import sizes_at_leaders
from playhead.kafka.admin.offsets import (
    Described,
    bounds_of,
    describe,
    describe_those,
    entries_at,
    is_like,
    log_starts,
    places_of,
    stable_ends,
    topics_like,
)
from playhead.kafka.admin.open_transactions import open_transactions
from playhead.kafka.read.absences import LogExplainer
from playhead.kafka.read.facts import (
    notes_on_groups,
    notes_on_settings,
    settings_of,
    topic_facts,
)
from playhead.kafka.read.log_reader import LogReader
from playhead.kafka.read.planned_topics import PlannedTopics
from playhead.kafka.read.reader import KafkaReader
from playhead.kafka.read.time_answers import leaving_out
from playhead.kafka.read.time_lookup import first_records_at
from playhead.kafka.read.time_probes import glance
from playhead.kafka.read.two_readers import TwoReaders
from playhead.record import Slice
from playhead.source import Bounds, SourceFacts, TopicPartition
from playhead.time_span_tail import Times

DEFAULT_PATIENCE_S = 60.0
_HEARD_OF_WITHIN_S = 3.0


class OtherTopic(Refused):
    """A plan would read a topic that its source does not name: the writer of the plan chose it."""

    def __init__(self, topic: str, *, named: str) -> None:
        super().__init__(
            f"the plan would read topic {topic}, but its source names only {named}",
            hint="make a new plan",
        )


class MisleadingTime(Refused):
    """Records from a time on are before the offset that the broker names for it."""

    def __init__(self, place: TopicPartition, *, instant_ms: int, answer: int) -> None:
        super().__init__(
            f"the broker says that {place[0]}:{place[1]} has its first record of {show_ms(instant_ms)} or later "
            f"at offset {answer:,}, but there are such records before it: a producer wrote records "
            "under offsets that are not theirs",
            hint="--from earliest, or --from group:NAME after `playhead groups reset`",
        )


@dataclass(frozen=True)
class KafkaSource:
    """Named topics, or those whose names match a pattern at the time of the call.

    Only committed records are read. With `expect_topic_ids`, a topic that was deleted and created again is
    refused. `patience_s` is how long a reader waits for a broker that does not answer. With `is_read_directly`,
    records come from the logs without the Kafka client, where something else than the client can log in.
    """

    connection: KafkaConnection
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    expect_topic_ids: Mapping[str, str] | None = None
    patience_s: float = DEFAULT_PATIENCE_S
    is_read_directly: bool = False

    def __post_init__(self) -> None:
        if bool(self.topics) == (self.pattern is not None):
            raise ValueError("KafkaSource: needed topics or a pattern, and not both")
        try:
            check_pattern(self.pattern or "")
        except BAD_PATTERN as exc:
            raise BadValue(
                "the pattern of topics",
                found=self.pattern,
                needed=f"a regular expression ({exc})",
                where="the source",
            ) from exc

    def bounds(self) -> Mapping[TopicPartition, Bounds]:
        """Return the bounds of every partition of the topics."""
        with self.watched() as look:
            return look()

    @contextmanager
    def watched(self) -> Iterator[Callable[[], Mapping[TopicPartition, Bounds]]]:
        """Yield a function that returns the bounds now; a topic whose id is not the expected one is refused."""
        with self._asking() as admin:
            yield lambda: bounds_of(admin, places_of(self._described(admin)))

    def names(self) -> tuple[str, ...]:
        """Return the names of the topics now."""
        if self.pattern is None:
            return self.topics
        with self._asking() as admin:
            return topics_like(admin, self.pattern)

    def facts(self) -> SourceFacts:
        """Return the cluster's id, the topics' ids and settings, and notes on their activity."""
        with self._asking() as admin:
            described = self._described(admin)
            settings = settings_of(admin, described)
            notes = [
                note for topic in described for note in notes_on_settings(topic, settings[topic])
            ]
            notes += notes_on_groups(admin, described)
            sizes = sizes_at_leaders(self.connection, described)
            epochs = leader_epochs(admin, places_of(described))
            facts = {
                name: topic_facts(each, settings[name], sizes[name], epochs.get(name, {}))
                for name, each in described.items()
            }
            return SourceFacts(admin.cluster().cluster_id, facts, tuple(notes))

    def leader_epochs(self) -> Mapping[TopicPartition, int]:
        """Return the present epochs of the partitions' leaders."""
        with self._asking() as admin:
            found = leader_epochs(admin, places_of(self._described(admin)))
        return {(topic, number): epoch for topic in found for number, epoch in found[topic].items()}

    def ends_of_epochs(self, epochs: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Ask the leaders of the partitions."""
        with self._asking() as admin:
            return ends_of_epochs(admin, self.connection, epochs)

    def offsets_at(self, instant_ms: int) -> Mapping[TopicPartition, int]:
        """Use Kafka's time index, and read past the markers at which it stops.

        Where its answer would leave out records, the answer is the log start, which leaves out none.
        """
        answers, wrong = self._answers_at(instant_ms)
        if wrong:
            with self._asking() as admin:
                answers |= log_starts(admin, wrong)
        return answers

    def exact_offsets_at(self, instant_ms: int) -> Mapping[TopicPartition, int]:
        """Return what `offsets_at` does, but refuse the time if Kafka's answer would leave out records."""
        answers, wrong = self._answers_at(instant_ms)
        if wrong:
            raise MisleadingTime(wrong[0], instant_ms=instant_ms, answer=answers[wrong[0]])
        return answers

    def _answers_at(
        self, instant_ms: int
    ) -> tuple[dict[TopicPartition, int], list[TopicPartition]]:
        """Return Kafka's answers, and the partitions whose answer would leave out records."""
        with self._asking() as admin:
            places = places_of(self._described(admin))
            # The ends first: records that arrive later are not part of the answer.
            ends = stable_ends(admin, places)
            found = entries_at(admin, places, instant_ms)
        answers = first_records_at(
            self.connection, found, ends, instant_ms=instant_ms, patience_s=self.patience_s
        )
        timeout_s = min(self.patience_s, DEFAULT_TIMEOUT_S)
        return answers, leaving_out(
            self.connection, answers, instant_ms=instant_ms, timeout_s=timeout_s
        )

    def glance(
        self, probes: Sequence[Slice], /, *, within_s: float, most_bytes: int
    ) -> Iterable[tuple[Slice, Times]]:
        """Return the times of records in short probes, in all partitions at the same time."""
        return glance(
            self.connection,
            probes,
            within_s=within_s,
            most_bytes=most_bytes,
            patience_s=self.patience_s,
        )

    @contextmanager
    def absences(self) -> Iterator[LogExplainer]:
        """Open the log itself, independent of the client that reads it."""
        timeout_s = min(self.patience_s, DEFAULT_TIMEOUT_S)
        with closing(LogExplainer(self.connection, timeout_s=timeout_s)) as explainer:
            yield explainer

    @contextmanager
    def topic_ids(self) -> Iterator[Callable[[str], str | None]]:
        """Yield a function that returns a topic's id; None if it is gone and not only unknown to one broker."""
        with self._asking() as admin:

            def found(topic: str) -> str | None:
                described = wait_until(
                    lambda: describe_those(admin, [topic]).get(topic),
                    deadline_s=_HEARD_OF_WITHIN_S,
                    every_s=0.2,
                )
                return described.topic_id if described else None

            yield found

    def open_transactions(self, bounds: Mapping[TopicPartition, Bounds], /) -> set[TopicPartition]:
        """By the leaders' own lists of producers."""
        with self._asking() as admin:
            return open_transactions(admin, self.connection, bounds)

    def pinned(self, facts: SourceFacts, /) -> "KafkaSource":
        """Return the source with these topics only, bound to their ids."""
        if not facts.topics:  # Another user may have written the plan.
            raise UsageError("the plan names no topic of its source", hint="make a new plan")
        for name in facts.topics:
            if not self._names(name):
                raise OtherTopic(name, named=self.pattern or ",".join(self.topics))
        ids = {name: topic.topic_id for name, topic in facts.topics.items() if topic.topic_id}
        return replace(self, topics=tuple(facts.topics), pattern=None, expect_topic_ids=ids)

    def read_directly(self) -> "KafkaSource":
        """See `playhead.source.ReadsDirectly`."""
        return replace(self, is_read_directly=True)

    @contextmanager
    def open(self) -> Iterator[KafkaReader | LogReader | TwoReaders]:
        """Open a consumer without a group, which commits nothing, or the logs."""
        topics = PlannedTopics(
            self.connection,
            topic_ids=self.expect_topic_ids or {},
            reads=self._names,
            patience_s=self.patience_s,
        )
        with closing(topics):
            topics.confirm_all()
            made: type[KafkaReader | LogReader | TwoReaders] = KafkaReader
            if self._can_log_in():
                made = LogReader if self.is_read_directly else TwoReaders
            with closing(made(self.connection, topics, patience_s=self.patience_s)) as reader:
                yield reader

    def _can_log_in(self) -> bool:
        try:
            need_login(self.connection, needed_for="reading the log")
        except MissingPiece:
            return False
        return True

    def _names(self, topic: str) -> bool:
        return topic in self.topics if self.pattern is None else is_like(self.pattern, topic)

    @contextmanager
    def _asking(self) -> Iterator[Admin]:
        timeout_s = min(self.patience_s, DEFAULT_TIMEOUT_S)
        with Admin(self.connection, timeout_s=timeout_s) as admin:
            yield admin

    def _described(self, admin: Admin) -> dict[str, Described]:
        topics = self.topics if self.pattern is None else topics_like(admin, self.pattern)
        return describe(admin, topics)
