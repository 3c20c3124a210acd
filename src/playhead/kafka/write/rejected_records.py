"""Finds the records that the cluster rejects, when it only reports that a transaction has failed."""

import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping

from confluent_kafka import KafkaError

from playhead.kafka.admin.errors import words_of
from playhead.kafka.write.routing import Refusal
from playhead.kafka.write.transactions import RecordColumns, Transactions, Unacceptable

_KINDS = {
    KafkaError.MSG_SIZE_TOO_LARGE: "too-large",
    KafkaError.RECORD_LIST_TOO_LARGE: "too-large",
    KafkaError.INVALID_TIMESTAMP: "timestamp",
    KafkaError.INVALID_RECORD: "invalid",
}


def find_refused(transactions: Transactions, ways: Iterable[RecordColumns]) -> dict[int, Refusal]:
    """Return the offsets of rejected records, by trying parts of them in separate transactions.

    All of these are aborted. Timestamps and missing keys are rejected by one rule for all, so few records are
    tried; large ones, whose size depends on compression, are tried one by one.
    """
    refused: dict[int, Refusal] = {}
    for columns in ways:
        seeker = _Seeker(transactions, columns)
        seeker.seek()
        refused |= seeker.refused
    return refused


class _Seeker:
    def __init__(self, transactions: Transactions, columns: RecordColumns) -> None:
        self._transactions, self._columns = transactions, columns
        self.refused: dict[int, Refusal] = {}
        self._left = list(range(len(columns)))

    def seek(self) -> None:
        error = self._try(self._left)
        while error is not None:
            before = len(self._left)
            if error.code() == KafkaError.INVALID_TIMESTAMP:
                self._seek_by_time()
            elif error.code() == KafkaError.INVALID_RECORD:
                self._seek_keyless()
            else:
                self._seek_by_size()
            if len(self._left) == before:
                self._seek_among(self._left)
            if len(self._left) == before:
                return  # Rejected together, but accepted alone.
            error = self._try(self._left)

    def _seek_by_time(self) -> None:
        """Search by time: rejected records are the oldest, the newest, or both; -1, no time, is always accepted."""
        times = self._columns.timestamps_ms
        order = sorted((i for i in self._left if times[i] != -1), key=lambda i: times[i])
        now_ms = time.time_ns() // 1_000_000
        sorted_times = [times[i] for i in order]
        past = order[: bisect_left(sorted_times, now_ms)]
        coming = order[bisect_right(sorted_times, now_ms) :]
        self._refuse_from_the_far_end(past)
        self._refuse_from_the_far_end(coming[::-1])

    def _refuse_from_the_far_end(self, order: list[int]) -> None:
        low, high = 0, len(order)
        error: KafkaError | None = None
        while low < high:
            middle = (low + high) // 2
            found = self._try([order[middle]])
            if found is None:
                high = middle
            else:
                low, error = middle + 1, found
        if error is not None:
            self._refuse(order[:low], error)

    def _seek_keyless(self) -> None:
        """Search for records without a key, which a compacted topic rejects."""
        keyless = [i for i in self._left if self._columns.keys[i] is None]
        error = self._try(keyless[:1])
        if error is not None:
            self._refuse(keyless, error)

    def _seek_by_size(self) -> None:
        """Search from the largest record down; a large one may be accepted when it is compressed."""
        values = self._columns.values
        order = sorted(self._left, key=lambda i: len(values[i] or b""), reverse=True)
        taken, patience = 0, 1
        for at, index in enumerate(order):
            error = self._try([index])
            if error is not None:
                self._refuse([index], error)
                taken = 0
                continue
            taken += 1
            if taken == patience:
                if self._try(order[at + 1 :]) is None:
                    return
                taken, patience = 0, 2 * patience

    def _seek_among(self, indexes: list[int]) -> None:
        """Halve what is rejected until single records are left."""
        error = self._try(indexes)
        if error is None:
            return
        if len(indexes) == 1:
            self._refuse(indexes, error)
            return
        middle = len(indexes) // 2
        self._seek_among(indexes[:middle])
        self._seek_among(indexes[middle:])

    def _try(self, indexes: list[int]) -> KafkaError | None:
        if not indexes:
            return None
        transactions = self._transactions
        transactions.begin()
        try:
            transactions.send(self._columns.pick(indexes), lambda _: None)
            transactions.flush()
        except Unacceptable as exc:
            transactions.renew()
            return exc.error
        transactions.abort()
        return None

    def _refuse(self, indexes: Iterable[int], error: KafkaError) -> None:
        gone = set(indexes)
        for index in gone:
            self.refused[self._columns.offsets[index]] = self._refusal(index, error)
        self._left = [i for i in self._left if i not in gone]

    def _refusal(self, index: int, error: KafkaError) -> Refusal:
        columns = self._columns
        kind = _KINDS.get(error.code(), "refused")
        about: Mapping[str, str] = {
            "too-large": f" ({len(columns.values[index] or b'')} bytes of value)",
            "timestamp": f" ({columns.timestamps_ms[index]})",
            "invalid": " (a compacted topic needs a key)" if columns.keys[index] is None else "",
        }
        reason = f"topic {columns.topic} rejects it: {words_of(error)}{about.get(kind, '')}"
        return kind, reason
