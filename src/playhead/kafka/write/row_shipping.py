"""Rows of logs into topics: each transaction also says how far every log has been shipped."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from playhead.config.guards import Guard
from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import Refused
from playhead.host.faults import abort_point
from playhead.kafka.admin.client import Admin
from playhead.kafka.write.ledger_keys import LEDGER_TOPIC
from playhead.kafka.write.ledger_reading import ledger_end, read_ledger
from playhead.kafka.write.ledger_topic import make_ledger
from playhead.kafka.write.partitioner import KeyPartitioner
from playhead.kafka.write.target_topics import look_up, make_topic
from playhead.kafka.write.transactions import RecordColumns, Transactions, Unacceptable
from playhead.ledger import UNREADABLE, LedgerUnreadable
from playhead.record import Headers

_VERSION: Final = 1
_OVERHEAD_BYTES: Final = 512
"""What a record has beside its key, its value and its headers, in a set of its own."""


class RowTooLarge(Refused):
    """A row that its topic does not take."""

    def __init__(self, topic: str, *, row: str, size: int, most: int | None) -> None:
        self.topic, self.row, self.size, self.most = topic, row, size, most
        limit = "" if most is None else f", and topic {topic} takes {most:,}"
        super().__init__(
            f"the row at {row} has {size:,} bytes{limit}",
            hint=f"playhead topics alter {topic} --set max.message.bytes=…; or leave such rows out and count "
            "them: --on-large skip",
        )


class OutRow(NamedTuple):
    """A row on its way."""

    topic: str
    key: bytes | None
    value: bytes
    time_ms: int
    headers: Headers
    path: Path
    start: int

    @property
    def where(self) -> str:
        """File and byte, for errors."""
        return f"{self.path}, byte {self.start:,}"


class Shipped(NamedTuple):
    """How far a log has been shipped."""

    sequence: int
    position: int
    path: str

    def as_json(self) -> bytes:
        return json.dumps({"version": _VERSION, **self._asdict()}, sort_keys=True).encode()

    @classmethod
    def from_json(cls, where: str, text: bytes) -> "Shipped":
        try:
            said: Mapping[str, Any] = json.loads(text)
            if said["version"] != _VERSION:
                raise ValueError(f"version {said['version']!r}; this Playhead knows {_VERSION}")
            return cls(int(said["sequence"]), int(said["position"]), str(said["path"]))
        except UNREADABLE as exc:
            raise LedgerUnreadable(where, str(exc)) from exc


def _prefix(shipper: str) -> str:
    # No replay's id contains `/`, and no key of an entry looks like these.
    return f"ship/{shipper}|"


@dataclass(slots=True)
class RowShipper:
    """The transactions of one shipper. A second one of the same name ends this one at its next transaction."""

    connection: KafkaConnection
    name: str
    guard: Guard
    target: str
    """The pattern of topics that the guard knows."""
    fallback: str
    """The topic of rows for which no other topic is created."""
    is_ours: Callable[[str], object]
    """Whether the name of a topic fits the pattern."""
    most_topics: int
    """How many topics of the pattern there may be before no more are created: clients choose the names."""
    partitions: int = 4
    """Of topics that it creates."""
    skip_large: bool = False
    too_large: int = 0
    """Rows that were left out because their topic does not take them."""
    positions: dict[str, Shipped] = field(default_factory=dict)
    """How far each log has been shipped, by its identity."""
    _transactions: Transactions = field(init=False)
    _topics: "dict[str, _Topic]" = field(default_factory=dict)
    _existing: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.guard.need(f"shipping rows to {self.target}", self.target)
        with Admin(self.connection) as admin:
            make_ledger(admin)
            self._existing = {name for name in admin.cluster().topics if self.is_ours(name)}
        # This ends what an earlier process of the same name has not committed, and then its ledger is final.
        shown = f"queries ship {self.name}"
        self._transactions = Transactions(self.connection, shown, f"playhead-ship/{self.name}")
        self._read_positions()

    def _read_positions(self) -> None:
        held = ledger_end(self.connection)
        if held is None:
            return
        prefix = _prefix(self.name).encode()
        found, _ = read_ledger(
            self.connection,
            start=0,
            end=held.end,
            wanted=lambda key: key.startswith(prefix),
        )
        for key, value in found:
            identity = key.removeprefix(prefix).decode(errors="replace")
            if value is not None:
                where = f"topic {LEDGER_TOPIC}, record {key.decode(errors='replace')}"
                self.positions[identity] = Shipped.from_json(where, value)

    def ship(self, rows: Sequence[OutRow], positions: Mapping[str, Shipped]) -> None:
        """Make rows and positions visible together. After an error it is not known whether they are."""
        columns = self._columns(rows)
        self._transactions.begin()
        try:
            for each in columns:
                self._transactions.send(each, _unheard)
            abort_point("ship.rows_sent")
            for identity, shipped in positions.items():
                key = f"{_prefix(self.name)}{identity}".encode()
                self._transactions.note(LEDGER_TOPIC, key, shipped.as_json())
            abort_point("ship.positions_sent")
            self._transactions.commit()
        except Unacceptable as exc:
            largest = max(rows, key=lambda row: len(row.value))
            raise RowTooLarge(
                largest.topic, row=largest.where, size=len(largest.value), most=None
            ) from exc
        abort_point("ship.committed")
        self.positions.update(positions)

    def _columns(self, rows: Iterable[OutRow]) -> list[RecordColumns]:
        found: dict[tuple[str, int], list[OutRow]] = defaultdict(list)
        for row in rows:
            topic = self._topics.get(row.topic) or self._topic(row.topic)
            if topic.most_bytes is not None and _size(row) > topic.most_bytes:
                if not self.skip_large:
                    size = len(row.value)
                    raise RowTooLarge(row.topic, row=row.where, size=size, most=topic.most_bytes)
                self.too_large += 1
                continue
            number = 0 if row.key is None else topic.partitioner.partition_of(row.key)
            found[row.topic, number].append(row)
        return [_columns_of(place, each) for place, each in found.items()]

    def topic_for(self, topic: str) -> str:
        """Return where a row of this topic goes: there, or into the fallback."""
        if topic in self._existing or topic == self.fallback:
            return topic
        if len(self._existing) < self.most_topics:
            self._existing.add(topic)
            return topic
        return self.fallback

    def _topic(self, name: str) -> "_Topic":
        with Admin(self.connection) as admin:
            found = look_up(admin, [name]).get(name)
            if found is None:
                make_topic(admin, name, partitions=self.partitions, settings={})
                found = look_up(admin, [name])[name]
        topic = _Topic(KeyPartitioner(found.partitions), found.most_bytes)
        self._topics[name] = topic
        return topic

    def close(self) -> None:
        self._transactions.close()


class _Topic(NamedTuple):
    partitioner: KeyPartitioner
    most_bytes: int | None


def _size(row: OutRow) -> int:
    return len(row.value) + len(row.key or b"") + _OVERHEAD_BYTES


def _columns_of(place: tuple[str, int], rows: Sequence[OutRow]) -> RecordColumns:
    return RecordColumns(
        *place,
        range(len(rows)),
        [row.time_ms for row in rows],
        [row.key for row in rows],
        [row.value for row in rows],
        [[*row.headers] for row in rows],
    )


def _unheard(_offset: int) -> None:
    """Where a row is in its topic is not asked: its place in the log is in its headers."""
