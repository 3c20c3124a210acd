"""Follows the logs of a server, and ships each row once, in transactions with the positions in the logs."""

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain
from threading import Event
from typing import Any, Final

from playhead.config.guards import Guard
from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import PlayheadError, Unavailable
from playhead.host.faults import abort_point
from playhead.kafka.admin.errors import TransactionLost
from playhead.kafka.write.row_shipping import RowShipper, Shipped
from playhead.kafka.write.transactions import RecordColumns
from playhead.queries.log_file import LogFile
from playhead.queries.log_folder import KeptLog, LogFolder, Step
from playhead.querylog.located import DATABASE, LocatedRow, place_header, place_of, topic_of

_MOST_ROWS: Final = 100_000
_MOST_BYTES: Final = 16 << 20
_LONGEST_S: Final = 0.4
"""How long rows of a log that does not stop growing wait in an open transaction: no reader sees them yet."""
_IDLE_S: Final = 0.1
_LOOK_EVERY_S: Final = 0.5
_RETRY_S: Final = 1.0


class NotAllShipped(PlayheadError):
    """Some rows of the logs are not in the topics."""


@dataclass(frozen=True, slots=True)
class ShippingSpec:
    """The logs to follow, and the topics to write to."""

    pattern: str
    """An absolute path, or a pattern of paths."""
    topic: str
    """The topic, with `{db}` in place of the database."""
    name: str
    prefixes: tuple[str, ...]
    partitions: int
    most_topics: int
    skip_large: bool = False


@dataclass(slots=True)
class ShippingCounts:
    """The counts of this run; a row counts when its transaction is committed."""

    rows: int = 0
    bytes: int = 0
    not_understood: int = 0
    """Rows that could not be parsed, which are shipped unchanged to the topic of rows without a database."""
    transactions: int = 0
    outages: int = 0
    beyond_max_topics: int = 0
    """Rows in the topic of rows without a database because of --max-topics."""
    first_not_understood: str | None = None
    by_topic: dict[str, int] = field(default_factory=dict)

    def add(self, other: "ShippingCounts") -> None:
        self.rows += other.rows
        self.bytes += other.bytes
        self.not_understood += other.not_understood
        self.transactions += other.transactions
        self.beyond_max_topics += other.beyond_max_topics
        self.first_not_understood = self.first_not_understood or other.first_not_understood
        for topic, rows in other.by_topic.items():
            self.by_topic[topic] = self.by_topic.get(topic, 0) + rows


@dataclass(slots=True)
class Shipping:
    """One run: `run` in one thread, `stop` from any.

    A row is shipped in a transaction with the position after it, so the next run continues exactly there. After an
    error, it is unknown whether the last transaction was committed: then the ledger is read, and the files are read
    again from the positions in it.
    """

    spec: ShippingSpec
    connection: KafkaConnection
    guard: Guard
    say: Callable[[str], None]
    counts: ShippingCounts = field(default_factory=ShippingCounts)
    folder: LogFolder | None = None
    too_large: int = 0
    _stopping: Event = field(default_factory=Event)

    def stop(self) -> None:
        """Ship the rows that were read, and stop."""
        self._stopping.set()

    def run(self, *, once: bool) -> None:
        """Follow the logs until `stop`, or with `once` up to their ends."""
        try:
            while True:
                shipper: RowShipper | None = None
                try:
                    shipper = self._connected()
                    self._follow(shipper, once=once)
                    return
                except (Unavailable, TransactionLost) as exc:
                    if self.folder is None:
                        raise
                    self.counts.outages += 1
                    self.say(f"waiting for the brokers: {exc}")
                finally:
                    if shipper is not None:
                        self.too_large += shipper.too_large
                        shipper.close()
                if self._stopping.wait(_RETRY_S):
                    return
        finally:
            if self.folder is not None:
                self.folder.close()

    def _connected(self) -> RowShipper:
        spec = self.spec
        return RowShipper(
            self.connection,
            spec.name,
            self.guard,
            spec.topic,
            topic_of(None, spec.topic),
            re.compile(re.escape(spec.topic).replace(re.escape(DATABASE), ".+")).fullmatch,
            spec.most_topics,
            spec.partitions,
            spec.skip_large,
        )

    def _folder_at(self, shipper: RowShipper) -> LogFolder:
        """Return the logs, each at the position of the last committed transaction."""
        spec = self.spec
        kept = {
            key: KeptLog(each.sequence, each.position, each.tail)
            for key, each in shipper.positions.items()
        }
        if self.folder is None:
            self.folder = LogFolder(spec.pattern, spec.prefixes, kept, self.say, self._stopping)
        else:
            # Only the ledger shows whether the last transaction was committed.
            self.folder.go_back(kept)
        return self.folder

    def _follow(self, shipper: RowShipper, *, once: bool) -> None:
        folder = self._folder_at(shipper)
        looked_at = -_LOOK_EVERY_S
        while True:
            is_last = self._stopping.is_set()
            if time.monotonic() - looked_at >= _LOOK_EVERY_S:
                looked_at = time.monotonic()
                folder.look()
            step = folder.step()
            if step:
                self._ship(shipper, chain([step], iter(folder.step, [])))
            if is_last or (once and not step and not folder.is_settling()):
                return
            if not step:
                self._stopping.wait(_IDLE_S)

    def _ship(self, shipper: RowShipper, steps: Iterable[Step]) -> None:
        """Ship as many rows as fit into one transaction."""
        sent = ShippingCounts(transactions=1)
        positions: dict[str, Shipped] = {}
        abort_point("ship.rows_read")
        shipper.begin()
        began = time.monotonic()
        for step in steps:
            for log, rows in step:
                self._send(shipper, log, rows, sent)
                tail = log.tail_at(log.position)
                positions[log.identity] = Shipped(log.sequence, log.position, str(log.path), tail)
            is_full = sent.rows >= _MOST_ROWS or sent.bytes >= _MOST_BYTES
            if is_full or time.monotonic() - began > _LONGEST_S:
                break
        shipper.commit(positions)
        self._say_if_beyond(shipper, sent)
        self.counts.add(sent)

    def _send(
        self, shipper: RowShipper, log: LogFile, rows: list[LocatedRow], sent: ShippingCounts
    ) -> None:
        by_place: dict[tuple[str, int], list[LocatedRow]] = {}
        by_sender: dict[tuple[bytes | None, str | None], list[LocatedRow]] = {}
        beyond = set[str | None]()
        for row in rows:
            sender = row.session, row.database
            found = by_sender.get(sender)
            if found is None:
                wanted = topic_of(row.database, self.spec.topic)
                topic = shipper.topic_for(wanted)
                if topic != wanted:
                    beyond.add(row.database)
                place = shipper.place_of(topic, row.session)
                found = by_sender[sender] = by_place.setdefault(place, [])
            found.append(row)
        for place, some in by_place.items():
            count = shipper.send(_columns_of(place, some, log.sequence), log.path)
            sent.by_topic[place[0]] = sent.by_topic.get(place[0], 0) + count
        if beyond:
            sent.beyond_max_topics += sum(row.database in beyond for row in rows)
        self._count(log, rows, sent)

    def _count(self, log: LogFile, rows: list[LocatedRow], sent: ShippingCounts) -> None:
        sent.rows += len(rows)
        sent.bytes += rows[-1].start + rows[-1].length - rows[0].start
        for row in rows:
            if row.reason is not None:
                sent.not_understood += 1
                where = f"{log.path}, byte {row.start:,}: {row.reason}"
                sent.first_not_understood = sent.first_not_understood or where

    def _say_if_beyond(self, shipper: RowShipper, sent: ShippingCounts) -> None:
        if sent.beyond_max_topics and not self.counts.beyond_max_topics:
            self.say(
                f"the limit of {self.spec.most_topics:,} topics matching {self.spec.topic} is reached "
                f"(--max-topics); rows of other databases go to {shipper.fallback}. Clients can choose names of "
                "databases that do not exist"
            )

    # --- at the end

    def held(self) -> dict[str, int]:
        """Return the bytes of incomplete rows at the end of files, by path."""
        logs = self.folder.logs if self.folder is not None else []
        return {str(log.path): log.held_bytes for log in logs if log.held_bytes and not log.is_gone}

    def as_document(self) -> dict[str, Any]:
        """Return the counts as a document."""
        folder, counts = self.folder, self.counts
        return {
            "name": self.spec.name,
            "files": len(folder.logs) if folder else 0,
            "rows": counts.rows - self.too_large,
            "bytes": counts.bytes,
            "not_understood": counts.not_understood,
            "too_large": self.too_large,
            "beyond_max_topics": counts.beyond_max_topics,
            "maybe_lost": folder.maybe_lost if folder else 0,
            "unreadable_files": len(folder.unreadable) if folder else 0,
            "unknown_files": len(folder.unknown) if folder else 0,
            "held_bytes": sum(self.held().values()),
            "transactions": counts.transactions,
            "outages": counts.outages,
            "topics": dict(sorted(counts.by_topic.items())),
        }

    def need_all(self) -> None:
        """Raise `NotAllShipped` if a part of the logs is, or may be, missing in the topics."""
        found = self.as_document()
        reasons = [
            (found["maybe_lost"], "logs were truncated or replaced before their end was read"),
            (found["unreadable_files"], "files cannot be read"),
            (found["unknown_files"], "files have no row of a log that can be parsed"),
            (found["too_large"], "rows are too large for their topics"),
            (
                found["beyond_max_topics"],
                f"rows are in {topic_of(None, self.spec.topic)} instead of the topic of their database (--max-topics)",
            ),
        ]
        said = [f"{count:,} {text}" for count, text in reasons if count]
        if said:
            raise NotAllShipped(
                f"a part of the logs is not in the topics: {'; '.join(said)}",
                hint="see the lines above, and run playhead queries plan to count the gaps in each session's rows",
            )


def _columns_of(place: tuple[str, int], rows: list[LocatedRow], sequence: int) -> RecordColumns:
    return RecordColumns(
        *place,
        [row.start for row in rows],
        [row.time_us // 1_000 for row in rows],
        [row.session for row in rows],
        [row.value for row in rows],
        [[place_header(place_of(sequence, row.start))] for row in rows],
    )
