"""Kafka as a target: exact copies of records, and the ledger in the same transaction."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from playhead.account import Account
from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import Refused
from playhead.host.faults import abort_point
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.offsets import NoSuchTopic
from playhead.kafka.write.compare import Comparison
from playhead.kafka.write.dead_letter_headers import RETURNS_TO, allowed, named_in
from playhead.kafka.write.headers import HeaderRules
from playhead.kafka.write.inspect import CopySpec, inspect_copy, inspect_redrive, topics_made
from playhead.kafka.write.ledger import (
    Ledger,
    LedgerShort,
    fence_unfinished,
    ledger_of,
    replays_of,
    settle,
)
from playhead.kafka.write.ledger_keys import former_transactional_id, transactional_id
from playhead.kafka.write.ledger_topic import make_ledger
from playhead.kafka.write.lost_copies import lost_copies
from playhead.kafka.write.partition_writer import PartitionWriter
from playhead.kafka.write.preview import preview_rows
from playhead.kafka.write.routing import CopyRoute, PartitionRule, RedriveRoute, Route, TargetShape
from playhead.kafka.write.target_topics import TargetTopic, confirm_same, look_up, make_topic
from playhead.kafka.write.transactions import Transactions
from playhead.ledger import Entry, remaining
from playhead.note import Note
from playhead.record import Slice
from playhead.records import Records
from playhead.source import TopicPartition
from playhead.target import Inspection, InspectRequest, SliceComparison, Target, Writer, at_once
from playhead.terms import Terms, Whereto, agreed, without_terms

# Each one is a client with its own threads and connections.
_MOST_PRODUCERS = 16
_SET_BYTES = 1_000_000
_PACED_LINGER_MS = 5
# The limits of topics that are found on the way are not known before.
_REDRIVE_SET_BYTES = 100_000


@dataclass(frozen=True)
class KafkaTarget(Target):
    """Topics of a cluster.

    Ordering: the records of a source partition keep their order, within a slice and across slices, in
    each partition they go to; so do all records of one key.
    Idempotence: a slice that overlaps a committed one of the same replay is refused. Another replay of the
    same records appends them again, because a log replaces nothing.
    Delivery: exactly once, for readers of committed records. Records, ledger entry and, within one cluster,
    the progress of the group `playhead.<replay>` are one Kafka transaction, and a transactional id for each
    replay and source partition keeps two runs from writing side by side.
    """

    connection: KafkaConnection
    topic: str
    """Its name; `{topic}` is replaced by the source topic's name. For a redrive, those to which records may return."""
    headers: tuple[str, ...] = ()
    """`keep`, `drop:NAME`, `add:NAME=VALUE`."""
    provenance: bool = False
    """Whether headers name the record of which a copy was made."""
    redrive: bool = False
    """Whether the records are dead letters that return to the topics in their headers."""
    partitions: int | None = None
    """The number of partitions of a new topic; None for that of its source."""
    create: bool = False
    partition_rule: PartitionRule = "auto"
    """How to choose the partition: by number, by key, in turn; or by number if both topics have equally many."""
    is_paced: bool = False
    """Whether each record is sent when it is due, in a transaction that waits."""
    topic_map: tuple[tuple[str, str], ...] = ()
    """Source topics with a target topic of their own."""
    moves_group: bool = True
    """Whether the group `playhead.<replay>` shows the progress if source and target are one cluster."""

    def __post_init__(self) -> None:
        HeaderRules.parse(self.headers)

    @property
    def is_ordered(self) -> bool:
        """Whether slices of one partition must be in order, so that records keep theirs."""
        return True

    def topic_for(self, source_topic: str) -> str:
        """Return the target topic of a source topic."""
        named = dict(self.topic_map).get(source_topic)
        return self.topic.replace("{topic}", source_topic) if named is None else named

    def for_live(self) -> "KafkaTarget":
        """Return the target for a pipeline: records are sent at once, and the group is moved separately."""
        return replace(self, is_paced=True, moves_group=False)

    def identity(self) -> str:
        """Return the cluster's id."""
        with Admin(self.connection) as admin:
            return admin.cluster().cluster_id

    def inspect(self, look: InspectRequest, /) -> Inspection:
        """Return the target topics, and notes about their settings; refuse what cannot work."""
        with Admin(self.connection) as admin:
            if self.redrive:
                return inspect_redrive(admin, look, named_in(self.topic))
            names = {topic: self.topic_for(topic) for topic in look.partitions}
            wish = CopySpec(names, self.partitions, self.create, self.partition_rule)
            return inspect_copy(admin, wish, look)

    def creates(self, needs: Mapping[str, Any], /) -> Sequence[str]:
        """Describe the topics to create."""
        return topics_made(needs)

    def preview(self, records: Records, /) -> Sequence[Mapping[str, Any]]:
        """Return one row for each record, as it would be sent."""
        topic_for = None if self.redrive else self.topic_for
        return preview_rows(records, HeaderRules.parse(self.headers), topic_for)

    def prepare(self, replay_id: str, inspection: Inspection, terms: Terms, /) -> Sequence[Note]:
        """Create the ledger and missing topics, and fix their ids and partition rules."""
        with Admin(self.connection) as admin:
            make_ledger(admin, beside={*map(self.topic_for, self._sources(inspection, terms))})
            ledger = ledger_of(self.connection, replay_id)
            kept, before = ledger.terms(), ledger.settled()
            confirm_same(admin, before.get("topic_ids") or {})
            agreed(replay_id, kept, terms)
            is_old = kept is None and not ledger.is_new
            if ledger.is_new or (kept is not None and kept.is_endless):
                self._make_topics(admin, inspection, before)
            wanted = self._wanted(admin, inspection, terms)
        if is_old:
            wanted = replace(wanted, settled={**wanted.settled, **before})
        abort_point("kafka.terms_looked")
        if agreed(replay_id, kept, wanted) != kept:
            settle(self.connection, replay_id, wanted)
        return (without_terms(replay_id),) if is_old else ()

    def _make_topics(self, admin: Admin, inspection: Inspection, before: Mapping[str, Any]) -> None:
        """Create the planned topics, but never one that was written to and deleted."""
        wanted = set(map(self.topic_for, inspection.needs.get("partitions", ())))
        for topic, made in inspection.needs.get("create", {}).items():
            if topic not in wanted:
                raise Refused(
                    f"the plan would create topic {topic}, but no record goes there",
                    hint="make a new plan",
                )
            if topic not in (before.get("topic_ids") or {}):
                make_topic(admin, topic, partitions=made["partitions"], settings=made["settings"])

    def _wanted(self, admin: Admin, inspection: Inspection, terms: Terms) -> Terms:
        """Return the terms, with the ids of the present topics."""
        needs, sources = inspection.needs, self._sources(inspection, terms)
        found = look_up(admin, {*map(self.topic_for, sources)})
        settled = {name: needs.get(name) for name in ("partitions", "same_cluster")}
        settled |= {RETURNS_TO: needs.get(RETURNS_TO)} if self.redrive else {}
        settled["topic_ids"] = {name: topic.topic_id for name, topic in found.items()}
        settled["counts"] = {name: topic.partitions for name, topic in found.items()}
        settled["own_times"] = sorted(n for n, topic in found.items() if topic.sets_log_append_time)
        return replace(terms, places=self._places(sources, found), settled=settled)

    def _places(
        self, sources: Collection[str], found: Mapping[str, TargetTopic]
    ) -> dict[str, Whereto]:
        return {
            source: Whereto(f"topic {name}", f"id {found[name].topic_id}" if name in found else "")
            for source, name in ((each, self.topic_for(each)) for each in sources)
        }

    def _sources(self, inspection: Inspection, terms: Terms) -> Sequence[str]:
        """Return the topics of this cluster that receive records and are known before reading."""
        return () if self.redrive else tuple(inspection.needs.get("partitions") or terms.topics)

    def terms(self, replay_id: str, /) -> Terms | None:
        """Return the terms in the ledger topic."""
        return ledger_of(self.connection, replay_id).terms()

    def replays_of(self, topics: Collection[str], /) -> dict[str, tuple[Terms, list[Entry]]]:
        return replays_of(self.connection, topics)

    def whereto(self, topics: Collection[str], /) -> Mapping[str, Whereto]:
        """Return the topics with their ids."""
        with Admin(self.connection) as admin:
            return self._places(topics, look_up(admin, {*map(self.topic_for, topics)}))

    def lost_copies(self, entries: Sequence[Entry], /) -> Mapping[Slice, str]:
        """Return the source's offsets whose copies are gone, by the bounds of the topics."""
        with Admin(self.connection) as admin:
            return lost_copies(admin, entries)

    @contextmanager
    def hold(self, replay_id: str, /) -> Iterator[None]:
        """End what a dead run left open. No lock: a later writer fences an earlier one."""
        fence_unfinished(self.connection, replay_id)
        yield

    def entries(self, replay_id: str, /) -> Sequence[Entry]:
        """Return what the replay has committed."""
        with self.watch(replay_id) as entries:
            return entries()

    @contextmanager
    def watch(self, replay_id: str, /) -> Iterator[Callable[[], Sequence[Entry]]]:
        """Yield a function that reads what was added since its last call."""
        ledger = Ledger(self.connection, replay_id)

        def entries() -> Sequence[Entry]:
            ledger.catch_up()
            return ledger.entries()

        yield entries

    @contextmanager
    def open(self, replay_id: str, /) -> Iterator["KafkaWriter"]:
        """A writer; its producers are made when their partition's first slice comes."""
        with closing(KafkaWriter(self, replay_id)) as writer:
            yield writer


class KafkaWriter(Writer):
    """Commits slices, with one producer for each source partition."""

    def __init__(self, target: KafkaTarget, replay_id: str, burials: Ledger | None = None) -> None:
        """Make a writer; with a ledger of dead letters, commits may overlap."""
        self._target, self._replay_id = target, replay_id
        self._ledger = burials or Ledger(target.connection, replay_id, is_made=True)
        self._may_overlap = burials is not None
        self._lanes: dict[TopicPartition, PartitionWriter] = {}
        self._own: dict[TopicPartition, list[Slice]] = {}
        self._topics: dict[str, TargetTopic | None] = {}
        self._admin: Admin | None = None
        self._expected: dict[TopicPartition, Future[PartitionWriter]] = {}
        self._opening = ThreadPoolExecutor(1, thread_name_prefix="opening")

    def expect(self, place: TopicPartition, /) -> Callable[[], None]:
        """Make the partition's producer while its first records are read."""
        if place in self._lanes or place in self._expected:
            return at_once
        self._expected[place] = self._opening.submit(self._open_lane, place)

        def wait() -> None:
            self._lane(place)

        return wait

    def commit(self, account: Account, records: Iterable[Records], /) -> None:
        """Commit records, entry and progress in one transaction."""
        lane = self._lane(account.slice.place)
        try:
            lane.commit(account, records)
        except BaseException:
            if lane.transactions.is_lost:
                self._lanes.pop(account.slice.place).transactions.close()
            raise

    def compare(self, entry: Entry, records: Iterable[Records], /) -> SliceComparison:
        """Read back the records in the entry's offset map, and compare them."""
        self._ledger.catch_up()
        route = self._route(entry.slice.topic)
        for name in entry.details["topics"]:
            self._find(name)
        self.confirm(entry.details["topics"])
        own = {name for name, it in self._topics.items() if it and it.sets_log_append_time}
        timeless = {name for name in own if not self.keeps_times(name)}
        comparison = Comparison(self._target.connection, entry, route, frozenset(timeless))
        return comparison.compare(records)

    def committed(self, place: TopicPartition) -> Sequence[Slice]:
        """Return what the replay has committed of a partition; from now on only this writer adds to it."""
        return tuple(self._lane(place).committed)

    def confirm(self, topics: Collection[str]) -> Mapping[str, str]:
        """Return the ids of these topics; refuse those that were deleted since this replay first used them."""
        began_with = self._ledger.settled().get("topic_ids") or {}
        seen = {name: it.topic_id for name in topics if (it := self._topics.get(name))}
        every = {name: began_with.get(name) or seen.get(name) for name in topics}
        ids = {name: each for name, each in every.items() if each}
        confirm_same(self._asking(), ids)
        return ids

    def keeps_times(self, topic: str) -> bool:
        """Return whether a topic certainly kept the times of records when this replay began."""
        terms = self._ledger.settled()
        return topic in (terms.get("counts") or {}) and topic not in terms.get("own_times", [topic])

    def close(self) -> None:
        """Close the producers."""
        self._opening.shutdown()
        for opened in self._expected.values():
            if opened.exception() is None:
                opened.result().transactions.close()
        self._expected.clear()
        while self._lanes:
            _, lane = self._lanes.popitem()
            lane.transactions.close()
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def _lane(self, place: TopicPartition) -> PartitionWriter:
        lane = self._lanes.pop(place, None)
        if lane is None:
            if len(self._lanes) >= _MOST_PRODUCERS:
                self._lanes.pop(next(iter(self._lanes))).transactions.close()
            expected = self._expected.pop(place, None)
            lane = self._open_lane(place) if expected is None else expected.result()
        # The last one in the dict is the most recently used.
        self._lanes[place] = lane
        return lane

    def _open_lane(self, place: TopicPartition) -> PartitionWriter:
        target = self._target
        own_id = transactional_id(self._replay_id, place)
        settings = self._settings(place[0])
        transactions = Transactions(target.connection, self._replay_id, own_id, settings)
        try:
            self._fence_former(place)
            # Read the ledger only now, because making the producer fenced all other writers of this
            # id.
            self._ledger.catch_up()
            if not self._may_overlap:
                self._ledger.need_terms()
            shows_group = target.moves_group and self._ledger.settled().get("same_cluster")
            group = f"playhead.{self._replay_id}" if shows_group else None
            held = self._ledger.held_of(place)
            route = self._route(place[0])
            return PartitionWriter(
                transactions,
                route,
                self._replay_id,
                group,
                self._with_own(place, [each.slice for each in held.values()]),
                self._own.setdefault(place, []),
                self.confirm,
                self.keeps_times,
                is_paced=target.is_paced,
                earlier=held,
                may_overlap=self._may_overlap,
            )
        except BaseException:
            transactions.close()
            raise

    def _fence_former(self, place: TopicPartition) -> None:
        """Fence a writer that uses the partition's transactional id of an earlier version."""
        if not (self._ledger.names_writers or self._may_overlap):
            self._ledger.catch_up()
        if not self._ledger.names_writers:
            former = former_transactional_id(self._ledger.former_id, place)
            Transactions(self._target.connection, self._replay_id, former).close()

    def _with_own(self, place: TopicPartition, committed: list[Slice]) -> list[Slice]:
        """Return the ledger's slices; refuse a ledger without those committed here."""
        lost = remaining(self._own.get(place, []), committed)
        if lost:
            raise LedgerShort(f"it lacks {lost[0]}, which was committed")
        return committed

    def _settings(self, source_topic: str) -> Mapping[str, Any]:
        paced = {"linger.ms": _PACED_LINGER_MS} if self._target.is_paced else {}
        return {**paced, **self._set_bytes(source_topic)}

    def _set_bytes(self, source_topic: str) -> Mapping[str, Any]:
        if self._target.redrive:
            return {"batch.size": _REDRIVE_SET_BYTES}
        found = self._find(self._target.topic_for(source_topic))
        wanted = int(self._target.connection.tuning.get("batch.size", _SET_BYTES))
        return {"batch.size": min(wanted, (found and found.set_bytes) or wanted)}

    def _route(self, source_topic: str) -> Route:
        target = self._target
        shape = TargetShape(HeaderRules.parse(target.headers), target.provenance, self._replay_id)
        if target.redrive:
            return RedriveRoute(self._find, allowed(target.topic, self._ledger.settled()), shape)
        name = target.topic_for(source_topic)
        topic = self._find(name)
        if topic is None:
            raise NoSuchTopic(name, existing=())
        # The rule fixed at the start holds to the end, or a key's records would be split.
        terms = self._ledger.settled()
        topic = replace(topic, partitions=(terms.get("counts") or {}).get(name, topic.partitions))
        partitions = (terms.get("partitions") or {}).get(source_topic)
        rule = target.partition_rule
        keeps = rule == "keep" or (rule == "auto" and partitions in (None, topic.partitions))
        return CopyRoute(topic, keeps, shape, is_any=rule == "any")

    def _find(self, topic: str) -> TargetTopic | None:
        if topic not in self._topics:
            self._topics[topic] = look_up(self._asking(), [topic]).get(topic)
        return self._topics[topic]

    def _asking(self) -> Admin:
        if self._admin is None:
            self._admin = Admin(self._target.connection)
        return self._admin
