"""Rows of logs into topics: each transaction also says how far every log has been shipped."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from playhead.config.guards import Guard
from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import Refused, Unavailable
from playhead.host.faults import abort_point
from playhead.kafka.admin.client import Admin
from playhead.kafka.write.ledger_keys import LEDGER_TOPIC
from playhead.kafka.write.ledger_reading import ledger_end, read_ledger
from playhead.kafka.write.ledger_topic import make_ledger
from playhead.kafka.write.partitioner import KeyPartitioner
from playhead.kafka.write.target_topics import look_up, make_topic
from playhead.kafka.write.transactions import RecordColumns, Transactions, Unacceptable
from playhead.ledger import UNREADABLE, LedgerUnreadable

_VERSION: Final = 1
_MOST_LOGS, _MOST_OF_A_LOG = 1 << 23, 1 << 40
"""A place, which is made of both, has 63 bits."""
_OVERHEAD_BYTES: Final = 512
"""What a record has beside its key, its value and its headers, in a set of its own."""
_SET_BYTES: Final = 1_000_000


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


class Shipped(NamedTuple):
    """How far a log has been shipped."""

    sequence: int
    position: int
    path: str
    tail: str = ""
    """A digest of the last shipped bytes, by which a rewritten log is recognised."""

    def as_json(self) -> bytes:
        return json.dumps({"version": _VERSION, **self._asdict()}, sort_keys=True).encode()

    @classmethod
    def from_json(cls, where: str, text: bytes) -> "Shipped":
        try:
            said: Mapping[str, Any] = json.loads(text)
            if said["version"] != _VERSION:
                raise ValueError(f"version {said['version']!r}; this Playhead knows {_VERSION}")
            tail = str(said.get("tail", ""))
            at = cls(int(said["sequence"]), int(said["position"]), str(said["path"]), tail)
            if not (0 <= at.sequence < _MOST_LOGS and 0 <= at.position < _MOST_OF_A_LOG):
                raise ValueError("no log has such a number or position")
            return at
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
    _set_bytes: int = _SET_BYTES
    """The largest set of several rows: one that every topic takes, or small rows would be refused together."""
    _largest: tuple[str, str, int] | None = None
    """Topic, place and size of the largest row of the transaction."""
    _left_out: int = 0
    """Rows of the transaction that are too large."""

    def __post_init__(self) -> None:
        self.guard.need(f"shipping rows to {self.target}", self.target)
        with Admin(self.connection) as admin:
            make_ledger(admin)
            self._existing = {name for name in admin.cluster().topics if self.is_ours(name)}
            found = look_up(admin, self._existing)
        wanted = int(self.connection.tuning.get("batch.size", _SET_BYTES))
        self._set_bytes = min([wanted, *(each.set_bytes or wanted for each in found.values())])
        # This ends what an earlier process of the same name has not committed, and then its ledger is final.
        shown = f"queries ship {self.name}"
        own_id, settings = f"playhead-ship/{self.name}", {"batch.size": self._set_bytes}
        self._transactions = Transactions(self.connection, shown, own_id, settings)
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

    def begin(self) -> None:
        """Begin a transaction. After an error in it, only the ledger shows whether it is committed."""
        self._transactions.begin()
        self._largest, self._left_out = None, 0

    def place_of(self, topic: str, key: bytes | None) -> tuple[str, int]:
        """Return topic and partition of the rows with this key."""
        known = self._topics.get(topic) or self._topic(topic)
        return topic, 0 if key is None else known.partitioner.partition_of(key)

    def send(self, rows: RecordColumns, path: Path) -> int:
        """Send rows of this file, whose offsets are their bytes in it; return how many, without too large ones."""
        most = self._topics[rows.topic].most_bytes
        size, key_size = max(map(_length, rows.values)), max(map(_length, {*rows.keys}))
        if most is not None and size + key_size + _OVERHEAD_BYTES > most:
            rows = self._without_large(rows, path, most)
            size = max(map(_length, rows.values), default=0)
        if len(rows) and (self._largest is None or size > self._largest[2]):
            index = [*map(_length, rows.values)].index(size)
            self._largest = rows.topic, _shown(path, rows.offsets[index]), size
        with self._largest_named():
            self._transactions.send(rows, _unheard)
        return len(rows)

    def _without_large(self, rows: RecordColumns, path: Path, most: int) -> RecordColumns:
        large = [i for i in range(len(rows)) if _size(rows, i) > most]
        if large and not self.skip_large:
            row, size = _shown(path, rows.offsets[large[0]]), _length(rows.values[large[0]])
            raise RowTooLarge(rows.topic, row=row, size=size, most=most)
        self._left_out += len(large)
        return rows.pick([i for i in range(len(rows)) if _size(rows, i) <= most])

    def commit(self, positions: Mapping[str, Shipped]) -> None:
        """Make the rows since `begin` visible, together with the positions."""
        abort_point("ship.rows_sent")
        with self._largest_named():
            for identity, shipped in positions.items():
                key = f"{_prefix(self.name)}{identity}".encode()
                self._transactions.note(LEDGER_TOPIC, key, shipped.as_json())
            abort_point("ship.positions_sent")
            self._transactions.commit()
        abort_point("ship.committed")
        self.too_large += self._left_out
        self.positions.update(positions)

    @contextmanager
    def _largest_named(self) -> Iterator[None]:
        """Name the largest row of the transaction where the cluster does not say which it refuses."""
        try:
            yield
        except Unacceptable as exc:
            if self._largest is None:
                raise
            topic, row, size = self._largest
            raise RowTooLarge(topic, row=row, size=size, most=None) from exc

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
        if (found.set_bytes or self._set_bytes) < self._set_bytes:
            # Only a new producer sends smaller sets.
            text = f"topic {name} takes only {found.most_bytes:,} bytes at once; connecting again"
            raise Unavailable(text)
        topic = _Topic(KeyPartitioner(found.partitions), found.most_bytes)
        self._topics[name] = topic
        return topic

    def close(self) -> None:
        self._transactions.close()


class _Topic(NamedTuple):
    partitioner: KeyPartitioner
    most_bytes: int | None


def _shown(path: Path, start: int) -> str:
    return f"{path}, byte {start:,}"


def _length(text: bytes | None) -> int:
    return len(text or b"")


def _size(rows: RecordColumns, index: int) -> int:
    return _length(rows.values[index]) + _length(rows.keys[index]) + _OVERHEAD_BYTES


def _unheard(_offset: int) -> None:
    """Where a row is in its topic is not asked: its place in the log is in its headers."""
