"""Commits slices to a cluster: records, ledger entry and the group's progress in one transaction."""

import time
from bisect import bisect, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from playhead.account import Account, ErrorRule
from playhead.errors import PlayheadError
from playhead.host.faults import abort_point
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.errors import KafkaRefused, words_of
from playhead.kafka.write.ledger import folded
from playhead.kafka.write.ledger_keys import LEDGER_TOPIC, key_of, new_writer
from playhead.kafka.write.lost_copies import IDS
from playhead.kafka.write.offset_map import MapMaker, spans
from playhead.kafka.write.rejected_records import find_refused
from playhead.kafka.write.routing import Refusal, Route, sendable
from playhead.kafka.write.target_topics import TimesReplaced, look_up
from playhead.kafka.write.transactions import (
    TRANSACTION_TIMEOUT_S,
    RecordColumns,
    Transactions,
    Unacceptable,
)
from playhead.ledger import Entry, joined
from playhead.record import Slice
from playhead.records import Records
from playhead.source import TopicPartition
from playhead.target import AlreadyCommitted, OutOfOrder

_PIECE = 2_000
# Open a transaction only when this many records, or all, are ready: slow sources are waited for
# outside.
_WORTH_OPENING = 5_000
# The entry must fit into one record; beyond this size it has only the count.
_MOST_REFUSED = 5_000
_OPEN_AT_MOST_S = TRANSACTION_TIMEOUT_S / 3


class _TooSlow(Exception):
    """The records arrive so slowly that the broker might abort the transaction."""


@dataclass(slots=True)
class PartitionWriter:
    """Commits the slices of one source partition, one after the other."""

    transactions: Transactions
    route: Route
    replay_id: str
    group: str | None
    """The consumer group to move with each slice."""
    committed: list[Slice]
    """The slices committed when `transactions` was made, in order; no other writer has added any since."""
    own: list[Slice]
    """What this process has certainly committed of the partition, neighbours joined; outlives the lane."""
    confirm: Callable[[Collection[str]], Mapping[str, str]] = lambda _: {}
    """Returns the ids of topics; raises if they were replaced since the replay began to write to them."""
    keeps_times: Callable[[str], bool] = lambda _: False
    """Whether a topic kept the times of records when the replay began to write to it."""
    is_paced: bool = False
    """Whether each record is sent at once, because it has waited until it was due."""
    earlier: Mapping[bytes, Entry] = field(default_factory=dict)
    """The ledger entries of an endless replay, in order, by their keys."""
    may_overlap: bool = False
    """Whether several commits may contain parts of one slice, each with other records."""
    writer: str = field(default_factory=new_writer)
    """The writer's name in the keys of its entries."""
    _latest: Entry | None = None
    """The last entry written here, which an endless replay joins with the next one."""
    _refused: dict[int, Refusal] = field(default_factory=dict)

    def commit(self, account: Account, records: Iterable[Records]) -> None:
        """As `Writer.commit`."""
        self._refuse_overlap(account.slice)
        self._refuse_gap(account)
        self._refused.clear()
        held: list[Records] = []
        drawn = _keeping(records, held)
        may_wait = True
        try:
            while (failure := self._attempt(account, drawn, held, may_wait)) is not None:
                for _ in drawn:
                    pass  # The remaining records, which are in memory now.
                account.start_over()
                if isinstance(failure, Unacceptable):
                    self._learn_refused(account.slice, held, failure)
                drawn, may_wait = iter(list(held)), False
        except BaseException:
            with suppress(PlayheadError, Unacceptable):
                self.transactions.abort()
            raise

    def _refuse_overlap(self, slice_: Slice) -> None:
        at = bisect(self.committed, slice_)
        if self.may_overlap:
            return
        for each in self.committed[max(at - 1, 0) : at + 1]:
            if each.overlaps(slice_):
                raise AlreadyCommitted(self.replay_id, found=slice_, committed=each)

    def _refuse_gap(self, account: Account) -> None:
        """Refuse to pass over what the caller has seen committed, and a restored cluster lacks."""
        # Entries of an older version may overlap.
        last = max(self.committed, key=lambda each: each.to_offset, default=None)
        reached, needed = 0 if last is None else last.to_offset, account.follows
        if needed is not None and reached < needed and not self.may_overlap:
            raise OutOfOrder(self.replay_id, found=account.slice, committed=last, needed=needed)

    def _attempt(
        self, account: Account, drawn: Iterator[Records], held: Sequence[Records], may_wait: bool
    ) -> Exception | None:
        """Commit; return what failed if it must be repeated with all records in memory."""
        try:
            maker = self._send(account, drawn, may_wait)
            self.transactions.flush()
            abort_point("kafka.records_sent")
            details = maker.finish().as_details()
            if not account.is_endless:
                self._refuse_other_times(held)
            details[IDS] = self.confirm(details["topics"])
            refused = spans(sorted(account.refused_offsets))[:_MOST_REFUSED]
            self._close(account, account.close(details | {"refused": refused}))
        except _TooSlow as exc:
            self.transactions.abort()
            return exc
        except Unacceptable as exc:
            self.transactions.renew()
            return exc
        return None

    def _refuse_other_times(self, sent: Sequence[Records]) -> None:
        """Refuse a topic that has replaced times of records.

        If the answer to some records was lost, the broker recognises them when they come again, and answers with the
        time of one of them, as if it had set it.
        """
        for topic in sorted(filter(self.keeps_times, self.transactions.stamped)):
            own = {time_ms for records in sent for time_ms in records.timestamps_ms}
            if not self.transactions.stamped[topic] <= own or self._sets_times(topic):
                raise TimesReplaced(topic)

    def _sets_times(self, topic: str) -> bool:
        with Admin(self.transactions.connection) as admin:
            found = look_up(admin, [topic]).get(topic)
        return found is not None and found.sets_log_append_time

    def _send(self, account: Account, drawn: Iterator[Records], may_wait: bool) -> MapMaker:
        maker, waiting, count, opened = MapMaker(), list[Records](), 0, 0.0
        for records in drawn:
            waiting.append(records)
            count += len(records)
            if count < (1 if self.is_paced else _WORTH_OPENING):
                continue
            if not self.transactions.is_open:
                self._begin()
                opened = time.monotonic()
            elif may_wait and time.monotonic() - opened > _OPEN_AT_MOST_S:
                raise _TooSlow
            self._send_waiting(account, waiting, maker)
        if not self.transactions.is_open:
            self._begin()
        self._send_waiting(account, waiting, maker)
        return maker

    def _begin(self) -> None:
        self.transactions.begin()
        abort_point("kafka.begun")

    def _send_waiting(self, account: Account, waiting: list[Records], maker: MapMaker) -> None:
        for records in waiting:
            for columns in self.route.ways(sendable(records, self.route, account, self._refused)):
                for start in range(0, len(columns), _PIECE):
                    self._send_piece(columns.cut(start, start + _PIECE), maker)
        waiting.clear()

    def _send_piece(self, columns: RecordColumns, maker: MapMaker) -> None:
        # Send the first record alone, so that the map knows where the others must begin.
        if maker.begins(columns.topic, columns.partition):
            self._send_as_one(columns.cut(0, 1), maker)
            columns = columns.cut(1, len(columns))
        if columns:
            self._send_as_one(columns, maker)

    def _send_as_one(self, columns: RecordColumns, maker: MapMaker) -> None:
        piece = maker.piece(columns.topic, columns.partition, columns.offsets)
        self.transactions.send(columns, piece.acknowledge)

    def _close(self, account: Account, entry: Entry) -> None:
        slice_, before = entry.slice, self._latest if account.is_endless else None
        if before is not None and before.slice.to_offset == slice_.from_offset:
            entry = joined(before, entry)
        self._note(entry)
        if account.is_endless:
            self._fold_earlier()
        abort_point("kafka.ledger_sent")
        if self.group is not None:
            place: TopicPartition = slice_.topic, slice_.partition
            self.transactions.move_group(self.group, place, slice_.to_offset)
            abort_point("kafka.group_moved")
        self.transactions.commit()
        abort_point("kafka.committed")
        self._remember(entry, slice_)

    def _note(self, entry: Entry) -> None:
        key = key_of(self.replay_id, entry.slice, self.writer)
        self.transactions.note(LEDGER_TOPIC, key, entry.as_json().encode())

    def _fold_earlier(self) -> None:
        """Join the entries that earlier writers of an endless replay wrote.

        The last one stays: its writer may have written more than was read here, and joining it would hide that.
        The next writer will have read both.
        """
        for keys, whole in folded(self.earlier):
            self._note(whole)
            for key in keys:
                self.transactions.note(LEDGER_TOPIC, key, None)

    def _remember(self, entry: Entry, slice_: Slice) -> None:
        self.earlier = {}
        if self._latest is not None and entry.slice != slice_:
            self.committed.remove(self._latest.slice)  # The entry it was joined with.
        insort(self.committed, entry.slice)
        self._latest = entry
        before = self.own[-1] if self.own else None
        if before is not None and before.to_offset == slice_.from_offset:
            self.own[-1] = replace(before, to_offset=slice_.to_offset)
        else:
            self.own.append(slice_)

    def _learn_refused(self, slice_: Slice, held: Sequence[Records], failure: Unacceptable) -> None:
        """Find the records that the cluster refused; the next attempt leaves them out."""
        account = Account(slice_, ErrorRule("skip"))
        found: dict[int, Refusal] = {}
        for records in held:
            left = sendable(records, self.route, account, self._refused)
            found |= find_refused(self.transactions, self.route.ways(left))
        if not found:
            raise KafkaRefused(f"writing {slice_}", reason=words_of(failure.error)) from failure
        self._refused |= found


def _keeping(records: Iterable[Records], held: list[Records]) -> Iterator[Records]:
    for each in records:
        held.append(each)
        yield each
