"""The ledger and the terms of each replay, in tables of the same database."""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from playhead.account import Account
from playhead.ledger import Entry, entry_at
from playhead.record import Slice
from playhead.target import AlreadyCommitted
from playhead.task.commit_order import refuse_wrong_order
from playhead.terms import Terms, terms_at

_MAKE = """
CREATE TABLE IF NOT EXISTS playhead_replays (replay TEXT PRIMARY KEY, terms TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS playhead_entries (
    replay TEXT, topic TEXT, partition INTEGER, from_offset INTEGER, to_offset INTEGER, entry TEXT,
    PRIMARY KEY (replay, topic, partition, from_offset))
"""
_OVERLAPPING = (
    "SELECT replay, entry FROM playhead_entries "
    "WHERE topic = ? AND partition = ? AND from_offset < ? AND to_offset > ?"
)


@dataclass(frozen=True, slots=True)
class Ledger:
    """The slices that one replay has committed to a database."""

    connection: sqlite3.Connection
    replay_id: str

    def make(self) -> None:
        for statement in _MAKE.split(";"):
            self.connection.execute(statement)

    def entries(self) -> list[Entry]:
        statement = "SELECT entry FROM playhead_entries WHERE replay = ?"
        rows = self._select(f"{statement} ORDER BY topic, partition, from_offset", self.replay_id)
        return [entry_at("playhead_entries", text) for (text,) in rows]

    def terms(self) -> Terms | None:
        statement = "SELECT terms FROM playhead_replays WHERE replay = ?"
        found = self._select(statement, self.replay_id)
        return terms_at(self.replay_id, "playhead_replays", found[0][0]) if found else None

    def keep(self, terms: Terms) -> None:
        statement = "INSERT OR REPLACE INTO playhead_replays VALUES (?, ?)"
        self.connection.execute(statement, (self.replay_id, terms.as_json()))

    def refuse(self, account: Account) -> None:
        """Refuse a slice that is already committed, or whose predecessor is not committed yet."""
        slice_ = account.slice
        statement = (
            "SELECT entry FROM playhead_entries WHERE replay = ? AND topic = ? AND partition = ?"
        )
        values = self.replay_id, slice_.topic, slice_.partition
        last = self._select(f"{statement} ORDER BY to_offset DESC LIMIT 1", *values)
        committed_last = entry_at("playhead_entries", last[0][0]).slice if last else None
        refuse_wrong_order(self.replay_id, slice_, follows=account.follows, last=committed_last)
        for committed in self.overlapping(slice_).get(self.replay_id, ()):
            raise AlreadyCommitted(self.replay_id, found=slice_, committed=committed)

    def add(self, entry: Entry) -> None:
        key = entry.slice.topic, entry.slice.partition, entry.slice.from_offset
        values = self.replay_id, *key, entry.slice.to_offset, entry.as_json()
        self.connection.execute("INSERT INTO playhead_entries VALUES (?, ?, ?, ?, ?, ?)", values)

    def overlapping(self, slice_: Slice) -> dict[str, list[Slice]]:
        """Return the committed slices that overlap this one, by replay."""
        values = slice_.topic, slice_.partition, slice_.to_offset, slice_.from_offset
        slices: dict[str, list[Slice]] = {}
        for replay_id, text in self._select(_OVERLAPPING, *values):
            slices.setdefault(replay_id, []).append(entry_at("playhead_entries", text).slice)
        return slices

    def is_alone(self, slice_: Slice) -> bool:
        return [*self.overlapping(slice_)] == [self.replay_id]

    def others_cover(self, claimed: Mapping[str, Any]) -> bool:
        topic = " AND topic = :_topic" if "_topic" in claimed else ""
        statement = (
            "SELECT 1 FROM playhead_entries WHERE replay <> :replay AND partition = :_partition "  # noqa: S608
            f"AND from_offset <= :_offset AND to_offset > :_offset{topic} LIMIT 1"
        )
        values = {**claimed, "replay": self.replay_id}
        return bool(self.connection.execute(statement, values).fetchall())

    def _select(self, statement: str, *values: Any) -> list[Any]:
        exists = "SELECT 1 FROM sqlite_master WHERE name = 'playhead_entries'"
        ledger_exists = self.connection.execute(exists).fetchall()
        return self.connection.execute(statement, values).fetchall() if ledger_exists else []
