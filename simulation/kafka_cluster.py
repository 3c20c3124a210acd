"""A model of a Kafka cluster: logs, transactions with their markers, fencing, topics with ids, groups."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from operator import attrgetter

RECORD, COMMIT, ABORT = "record", "commit", "abort"
CREATE_TIME, APPEND_TIME = 1, 2
Place = tuple[str, int]
_NEVER_NS = 1 << 63
_offset = attrgetter("offset")


class Fenced(Exception):
    """A later producer has the same transactional id."""


@dataclass(slots=True)
class Stored:
    """One entry of a log."""

    offset: int
    kind: str
    timestamp_ms: int
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    transaction: "Transaction | None" = None
    timestamp_type: int = CREATE_TIME

    @property
    def is_visible(self) -> bool:
        """To who reads what is committed, once it stands before the last stable offset."""
        if self.kind != RECORD:
            return False
        return self.transaction is None or not self.transaction.is_aborted


@dataclass(slots=True, eq=False)
class Transaction:
    """What one producer has sent between a begin and its end."""

    transactional_id: str
    epoch: int
    began_ns: int
    timeout_ns: int
    is_aborted: bool = False
    decided: str | None = None
    """Which marker it gets; None while it is open."""
    firsts: dict[Place, tuple["Log", int]] = field(default_factory=dict)
    """Where its records begin, in each partition that has no marker of it yet."""
    offsets: dict[str, dict[Place, int]] = field(default_factory=dict)
    """Groups that it moves when it commits."""


class Log:
    """One partition."""

    def __init__(self) -> None:
        self.entries: list[Stored] = []
        self.start = self.end = 0
        self.open: list[Transaction] = []
        self._place: Place = ("", 0)

    def append(self, entry: Stored) -> int:
        entry.offset = self.end
        self.entries.append(entry)
        self.end += 1
        return entry.offset

    def stable_end(self, place: Place) -> int:
        """Up to where no transaction is open."""
        if not self.open:
            return self.end
        return min(each.firsts[place][1] for each in self.open)

    def between(self, start: int, stop: int) -> Iterator[Stored]:
        """Entries in `[start, stop)` that are still there."""
        first, entries = max(start, self.start), self.entries
        at = bisect_left(entries, first, key=_offset)
        while at < len(entries) and entries[at].offset < stop:
            yield entries[at]
            at += 1

    def first_at(self, timestamp_ms: int, stop: int) -> int:
        """Kafka's answer for a time: the first entry that is not before it, or -1."""
        for entry in self.between(self.start, stop):
            if entry.timestamp_ms >= timestamp_ms:
                return entry.offset
        return -1


@dataclass(slots=True, eq=False)
class Topic:
    name: str
    topic_id: str
    logs: list[Log]
    settings: dict[str, str]


@dataclass(slots=True)
class Coordinated:
    """What the coordinator knows of one transactional id."""

    epoch: int = -1
    current: Transaction | None = None


class Cluster:
    """The servers; time is told to it, and nothing here ever waits."""

    def __init__(self, cluster_id: str = "cluster") -> None:
        self.cluster_id = cluster_id
        self.topics: dict[str, Topic] = {}
        self.coordinated: dict[str, Coordinated] = {}
        self.groups: dict[str, dict[Place, int]] = {}
        self._all_young_until_ns = 0
        """No open transaction is given up before."""
        self._ids = count(1)

    # --- topics

    def create(
        self, name: str, partitions: int, settings: Mapping[str, str] | None = None
    ) -> Topic:
        logs = [Log() for _ in range(partitions)]
        topic = Topic(name, f"id{next(self._ids)}", logs, dict(settings or {}))
        self.topics[name] = topic
        return topic

    def delete(self, name: str) -> None:
        topic = self.topics.pop(name)
        for number, log in enumerate(topic.logs):
            for each in log.open:
                each.firsts.pop((name, number), None)

    def log(self, place: Place) -> Log | None:
        topic = self.topics.get(place[0])
        if topic is None or not 0 <= place[1] < len(topic.logs):
            return None
        return topic.logs[place[1]]

    # --- transactions

    def begin_producer(self, transactional_id: str, now_ns: int) -> int:
        """A new epoch; whatever was open under the id ends now. The epoch is the producer's."""
        known = self.coordinated.setdefault(transactional_id, Coordinated())
        if known.current is not None:
            if known.current.decided is None:
                self.decide(known.current, ABORT)
            self.complete(known.current, now_ns)
            known.current = None
        known.epoch += 1
        return known.epoch

    def transaction_of(
        self, transactional_id: str, epoch: int, now_ns: int, timeout_ns: int
    ) -> Transaction:
        """The open one, or a new one; a producer of an older epoch is fenced."""
        known = self._checked(transactional_id, epoch)
        current = known.current
        if current is not None and current.decided is not None:
            self.complete(current, now_ns)
            current = None
        if current is None:
            current = known.current = Transaction(transactional_id, epoch, now_ns, timeout_ns)
            ends_ns = now_ns + timeout_ns
            self._all_young_until_ns = min(self._all_young_until_ns, ends_ns)
        return current

    def write(self, transaction: Transaction | None, place: Place, entry: Stored) -> int:
        log = self.log(place)
        assert log is not None
        if self.topics[place[0]].settings.get("message.timestamp.type") == "LogAppendTime":
            entry.timestamp_type = APPEND_TIME
        entry.transaction = transaction
        offset = log.append(entry)
        if transaction is not None and place not in transaction.firsts:
            transaction.firsts[place] = (log, offset)
            log.open.append(transaction)
        return offset

    def end_transaction(self, transactional_id: str, epoch: int, marker: str) -> Transaction | None:
        """Decide it; the markers come when it is completed. None when there was none."""
        known = self._checked(transactional_id, epoch)
        current = known.current
        if current is None or (current.decided is not None and current.decided == marker):
            return current
        if current.decided is not None:
            raise Fenced
        self.decide(current, marker)
        return current

    def decide(self, transaction: Transaction, marker: str) -> None:
        transaction.decided = marker
        transaction.is_aborted = marker == ABORT
        if marker == COMMIT:
            for group, offsets in transaction.offsets.items():
                self.groups.setdefault(group, {}).update(offsets)

    def complete(self, transaction: Transaction, now_ns: int, place: Place | None = None) -> None:
        """Write the marker into one partition, or into all that have none yet."""
        assert transaction.decided is not None
        for each in [place] if place is not None else sorted(transaction.firsts):
            log, _ = transaction.firsts.pop(each, (None, 0))
            if log is not None:
                log.open.remove(transaction)
                log.append(Stored(0, transaction.decided, now_ns // 1_000_000))

    def expire(self, now_ns: int) -> None:
        """Give up transactions that were open for too long; their producers are fenced."""
        if now_ns <= self._all_young_until_ns:
            return
        for known in self.coordinated.values():
            current = known.current
            if current is None or current.decided is not None:
                continue
            if now_ns - current.began_ns > current.timeout_ns:
                known.epoch += 1
                known.current = None
                self.decide(current, ABORT)
                self.complete(current, now_ns)
        self._all_young_until_ns = self.next_expiry_ns() or _NEVER_NS

    def next_expiry_ns(self) -> int | None:
        """When the next one would be given up."""
        opened = [known.current for known in self.coordinated.values() if known.current]
        ends = [each.began_ns + each.timeout_ns for each in opened if each.decided is None]
        return min(ends, default=None)

    def _checked(self, transactional_id: str, epoch: int) -> Coordinated:
        known = self.coordinated.get(transactional_id)
        if known is None or known.epoch != epoch:
            raise Fenced
        return known

    # --- looking in, for oracles and tests

    def committed(self, place: Place) -> list[Stored]:
        """The records that a reader of committed ones gets."""
        log = self.log(place)
        if log is None:
            return []
        stop = log.stable_end(place)
        return [each for each in log.between(log.start, stop) if each.is_visible]

    def settled(self, place: Place) -> list[Stored]:
        """The same, once the markers of all that is decided are written and nothing else comes."""
        log = self.log(place)
        return (
            [each for each in log.between(log.start, log.end) if _is_settled(each)] if log else []
        )


def _is_settled(entry: Stored) -> bool:
    if entry.kind != RECORD:
        return False
    return entry.transaction is None or entry.transaction.decided == COMMIT
