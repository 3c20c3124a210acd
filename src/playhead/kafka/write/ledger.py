"""The ledger of a cluster: one compacted topic with what each replay has committed."""

import json
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache, reduce
from typing import Any

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import Unavailable
from playhead.host.faults import abort_point
from playhead.kafka.write.ledger_keys import (
    LEDGER_TOPIC,
    burial_id,
    former_burial_id,
    former_transactional_id,
    names_key,
    parsed,
    prefix_of,
    terms_id,
    terms_key,
    transactional_id,
)
from playhead.kafka.write.ledger_reading import LedgerEnd, ledger_end, read_ledger, read_open
from playhead.kafka.write.transactions import Transactions
from playhead.ledger import UNREADABLE, Entry, LedgerUnreadable, entry_at, joined
from playhead.source import TopicPartition
from playhead.terms import NotBegunThere, Terms, UnknownTerms, agreed

_NAMED = b"1"
_TERMS = terms_key("")


class LedgerShort(Unavailable):
    """The ledger has less than a moment ago."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"topic {LEDGER_TOPIC} has lost entries: {reason}",
            hint="a broker that lags behind will catch up; a topic that was deleted or cut "
            "has lost its entries of every replay",
        )


def ledger_of(connection: KafkaConnection, replay_id: str) -> "Ledger":
    """Return the ledger of a replay as it is now."""
    ledger = Ledger(connection, replay_id)
    ledger.catch_up()
    return ledger


def settle(connection: KafkaConnection, replay_id: str, wanted: Terms) -> None:
    """Write the terms of a replay; the first ones stay, and different terms are refused."""
    # Making it aborts another run's open transaction; that run's later ones fail.
    transactions = Transactions(connection, replay_id, terms_id(replay_id))
    try:
        ledger = ledger_of(connection, replay_id)
        kept = ledger.terms()
        whole = agreed(replay_id, kept, wanted)
        if whole != kept:
            transactions.begin()
            if ledger.is_new:
                transactions.note(LEDGER_TOPIC, names_key(replay_id), _NAMED)
            transactions.note(LEDGER_TOPIC, terms_key(replay_id), whole.as_json().encode())
            abort_point("kafka.terms_sent")
            transactions.commit()
            abort_point("kafka.terms_committed")
    finally:
        transactions.close()


def replays_of(
    connection: KafkaConnection, topics: Collection[str]
) -> dict[str, tuple[Terms, list[Entry]]]:
    """Every replay with terms, and its entries of these source topics; one look, which waits for nobody.

    What lies behind an open transaction is not seen.
    """
    held = ledger_end(connection)
    if held is None or not held.stable:
        return {}

    def is_wanted(key: bytes) -> bool:
        said = parsed(key)
        return key.endswith(_TERMS) if said is None else said.place[0] in topics

    found, _ = read_ledger(connection, start=0, end=held.stable, wanted=is_wanted)
    kept = {key: value for key, value in found if value is not None}
    for key, value in found:
        if value is None:
            kept.pop(key, None)
    known: dict[str, tuple[Terms, list[Entry]]] = {}
    for key, value in kept.items():
        if key.endswith(_TERMS) and (terms := _readable_terms(value)) is not None:
            known[key.removesuffix(_TERMS).decode(errors="replace")] = (terms, [])
    for key, value in kept.items():
        said = parsed(key)
        if said is not None and said.replay_id in known:
            known[said.replay_id][1].append(entry_of(key, value))
    return known


def _readable_terms(found: bytes) -> Terms | None:
    """A later version may have written others."""
    try:
        return _terms_in(found)
    except UNREADABLE:
        return None


def fence_unfinished(connection: KafkaConnection, replay_id: str) -> None:
    """Abort the transactions that dead runs of a replay, or of its dead letters, left open.

    The broker would abort them later, and until then they hide what follows.
    """
    held = ledger_end(connection)
    if held is None or held.stable == held.end:
        return
    former = former_burial_id(replay_id)
    prefixes = tuple(map(prefix_of, (replay_id, burial_id(replay_id), former)))
    found = read_open(connection, held, lambda key: key.startswith(prefixes))
    keys = [key for each in found if (key := parsed(each.key)) is not None]
    ids = {
        (transactional_id if key.writer else former_transactional_id)(key.replay_id, key.place)
        for key in keys
        # With named writers, the replay of this name is a different replay.
        if key.replay_id != former or key.writer is None
    }
    if any(each.key == terms_key(replay_id) for each in found):
        ids.add(terms_id(replay_id))
    for each in sorted(ids):
        Transactions(connection, replay_id, each).close()


class Ledger:
    """What one replay has committed, as far as it was read; `catch_up` reads on."""

    def __init__(
        self,
        connection: KafkaConnection,
        replay_id: str,
        *,
        former_id: str | None = None,
        is_made: bool = False,
    ) -> None:
        self._connection, self._replay_id = connection, replay_id
        self._former_id = former_id
        """An earlier id under which entries may exist; a replay that owns this id has terms."""
        self._is_made = is_made
        """Whether the ledger certainly exists, so that a missing one is not an empty one."""
        self._topic_id: str | None = None
        self._next = 0
        self._found: dict[TopicPartition, dict[bytes, bytes]] = {}
        self._other: dict[bytes, bytes] = {}

    def entries(self) -> list[Entry]:
        """Return all entries, in slice order."""
        return sorted(
            (entry for place in self._found for entry in self.held_of(place).values()),
            key=lambda entry: entry.slice,
        )

    def held_of(self, place: TopicPartition) -> dict[bytes, Entry]:
        """Return the entries of one source partition with their keys."""
        found = {key: entry_of(key, value) for key, value in self.raw_of(place).items()}
        return dict(sorted(found.items(), key=lambda each: each[1].slice))

    def raw_of(self, place: TopicPartition) -> dict[bytes, bytes]:
        """Return the entries of one source partition as stored."""
        found = self._found.get(place, {})
        if self._former_id is None or terms_key(self._former_id) not in self._other:
            return found
        own = prefix_of(self._replay_id)
        return {key: value for key, value in found.items() if key.startswith(own)}

    def terms(self) -> Terms | None:
        """Return the terms of the replay; None if it has none, or an earlier version began it."""
        found = self._other.get(terms_key(self._replay_id))
        try:
            return None if found is None else _terms_in(found)
        except UNREADABLE as exc:
            raise UnknownTerms(self._replay_id, where=LEDGER_TOPIC, reason=str(exc)) from exc

    def need_terms(self) -> None:
        """Refuse a ledger without the terms: they were written before the first job, so it is another cluster's."""
        if self.terms() is None:
            where = f"the cluster at {self._connection.bootstrap_servers}"
            raise NotBegunThere(self._replay_id, where=where)

    def settled(self) -> Mapping[str, Any]:
        """The values that this target fixed when the replay began; empty if none."""
        terms = self.terms()
        if terms is not None:
            return terms.settled
        return dict(json.loads(self._other.get(terms_key(self._replay_id), b"{}")))

    @property
    def is_new(self) -> bool:
        """Whether the ledger has nothing of the replay yet."""
        return not (self.settled() or self.entries())

    @property
    def names_writers(self) -> bool:
        """Whether all versions that wrote for this replay named their writers."""
        return names_key(self._replay_id) in self._other

    @property
    def former_id(self) -> str:
        """The id of the replay's writers before they had names."""
        return self._former_id or self._replay_id

    @property
    def position(self) -> int:
        """The offset up to which the topic was read."""
        return self._next

    def _ids(self) -> tuple[str, ...]:
        return (self._replay_id,) if self._former_id is None else (self._replay_id, self._former_id)

    def is_held_up(self) -> bool:
        """Whether an open transaction blocks reading on."""
        held = ledger_end(self._connection)
        return held is not None and held.stable < held.end

    def catch_up(self) -> None:
        """Read everything that was committed before this call, waiting for commits under way.

        A reader of committed records stops at the first open transaction of any producer, and entries of ours
        may follow it: without waiting, they would be forgotten.
        """
        held = ledger_end(self._connection)
        if held is None:
            if self._is_made or self._topic_id is not None:
                raise LedgerShort("the topic does not exist")
            return
        self._refuse_another(held)
        if held.end == self._next:
            return
        prefixes = tuple(map(prefix_of, self._ids()))
        found, self._next = read_ledger(
            self._connection,
            start=self._next,
            end=held.end,
            wanted=lambda key: key.startswith(prefixes),
        )
        for key, value in found:
            self._take(key, value)

    def _refuse_another(self, held: LedgerEnd) -> None:
        if self._topic_id not in (None, held.topic_id):
            raise LedgerShort(f"its id was {self._topic_id} and is now {held.topic_id}")
        if held.end < self._next:
            raise LedgerShort(f"it was read to offset {self._next}, but ends at {held.end}")
        self._topic_id = held.topic_id

    def _take(self, key: bytes, value: bytes | None) -> None:
        said = parsed(key)
        ids = self._ids()
        if said is None and key not in (*map(terms_key, ids), *map(names_key, ids)):
            raise LedgerUnreadable(_where(key), "nothing is known by this key")
        held = self._other if said is None else self._found.setdefault(said.place, {})
        if value is None:
            held.pop(key, None)
        else:
            held[key] = value


@lru_cache(maxsize=8)
def _terms_in(found: bytes) -> Terms | None:
    """Parse the terms once: they contain the plan, and each slice needs their values."""
    return Terms.from_json(found) if "version" in json.loads(found) else None


def folded(held: Mapping[bytes, Entry]) -> Iterator[tuple[list[bytes], Entry]]:
    """Return neighbouring entries of one partition, by key, and the entry that joins them.

    The last entry stays, and so do overlapping ones: they show that something was written twice.
    """
    run: dict[bytes, Entry] = {}
    for key, entry in [*_clear_ones(held)][:-1]:
        if run and [*run.values()][-1].slice.to_offset != entry.slice.from_offset:
            yield from _one(run)
            run = {}
        run[key] = entry
    yield from _one(run)


def _clear_ones(held: Mapping[bytes, Entry]) -> Iterator[tuple[bytes, Entry]]:
    """Return the entries that no other one overlaps, in order."""
    every = sorted(held.items(), key=lambda each: each[1].slice)
    reached = 0
    for index, (key, entry) in enumerate(every):
        starts_behind = entry.slice.from_offset >= reached
        after = every[index + 1 : index + 2]
        if starts_behind and not any(each.slice.overlaps(entry.slice) for _, each in after):
            yield key, entry
        reached = max(reached, entry.slice.to_offset)


def _one(run: Mapping[bytes, Entry]) -> Iterator[tuple[list[bytes], Entry]]:
    if len(run) > 1:
        yield [*run], reduce(joined, run.values())


def entry_of(key: bytes, value: bytes) -> Entry:
    """Return the entry of a ledger record."""
    return entry_at(_where(key), value)


def _where(key: bytes) -> str:
    return f"topic {LEDGER_TOPIC}, record {key.decode(errors='replace')}"
