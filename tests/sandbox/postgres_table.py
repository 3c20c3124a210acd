"""A table of a test's own, a target that writes to it, and what is in it afterwards."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import psycopg
import pytest
from psycopg import sql

from playhead.account import Account, DeadLetter, ErrorRule, RecordRefused, WriteDeadLetters
from playhead.ledger import Entry
from playhead.postgres.target import PostgresTarget
from playhead.record import Headers, Record, Slice, TimestampType
from playhead.records import Records
from playhead.target import Inspection, SliceComparison
from playhead.testing.target_case import terms

NOON_MS = 1_628_080_200_000
REPLAY = "7f3a"


def record(
    offset: int,
    value: Any,
    *,
    key: bytes | None = None,
    ms: int | None = None,
    headers: Headers = (),
    partition: int = 0,
) -> Record:
    """One of topic "cars"; a value that is no bytes is written as JSON."""
    raw = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
    when = NOON_MS + offset if ms is None else ms
    return Record("cars", partition, offset, when, TimestampType.CREATE_TIME, key, raw, headers)


def records(*values: Any, start: int = 0, **same: Any) -> list[Record]:
    return [record(start + n, value, **same) for n, value in enumerate(values)]


@dataclass(frozen=True)
class Table:
    """A table in a schema that no other test has, with the ledger beside it."""

    url: str
    schema: str
    name: str
    target: PostgresTarget

    @classmethod
    def made(
        cls, url: str, schema: str, columns: str, name: str = "cars", **options: Any
    ) -> "Table":
        with psycopg.connect(url, autocommit=True) as connection:
            quoted = sql.Identifier(schema, name).as_string()
            connection.execute(f"CREATE TABLE {quoted} ({columns})".encode())
        # A replay goes into one table for ever, by its ledger.
        ledger = f"{schema}.ledger" if name == "cars" else f"{schema}.ledger_of_{name}"
        target = PostgresTarget(url, f"{schema}.{name}", ledger_table=ledger, **options)
        target.prepare(REPLAY, Inspection(""), terms())
        return cls(url, schema, name, target)

    def with_options(self, **options: Any) -> "Table":
        return replace(self, target=replace(self.target, **options))

    def run(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """`{table}` stands for the table."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            quoted = sql.Identifier(self.schema, self.name).as_string()
            named = statement.replace("{table}", quoted).encode()
            cursor = connection.execute(named, parameters or None)
            return cursor.fetchall() if cursor.description else []

    def rows(self, columns: str = "*", order: str = "1") -> list[tuple[Any, ...]]:
        return self.run(f"SELECT {columns} FROM {{table}} ORDER BY {order}")

    def column(self, expression: str, order: str = "_offset") -> list[Any]:
        return [row[0] for row in self.rows(expression, order)]

    def commit(
        self,
        rows: Sequence[Record],
        *,
        rule: str = "fail",
        write_dead_letters: WriteDeadLetters | None = None,
        replay: str = REPLAY,
    ) -> Entry:
        """The records as one slice; says what the ledger then says of it, but where its rows are."""
        slice_ = Slice("cars", rows[0].partition, rows[0].offset, rows[-1].offset + 1)
        if self.target.terms(replay) is None:
            self.target.prepare(replay, Inspection(""), terms())
        with self.target.open(replay) as writer:
            writer.commit(account_of(slice_, rows, rule, write_dead_letters), [Records.of(rows)])
        [entry] = [each for each in self.target.entries(replay) if each.slice == slice_]
        counts = {
            name: entry.details[name]
            for name in entry.details
            if name not in ("storage", "columns")
        }
        return replace(entry, details=counts)

    def differences(self, entry: Entry, rows: Sequence[Record]) -> list[tuple[str, int | None]]:
        """Kind and offset of each that a comparison of this slice finds to differ."""
        findings = self.compared((entry, rows))
        shown = [each for found in findings for each in found.differences]
        return [(each.kind, each.offset) for each in shown if each.kind != "unknown"]

    def compared(self, *slices: tuple[Entry, Sequence[Record]]) -> list[SliceComparison]:
        """What a comparison of all of them finds."""
        with self.target.open(REPLAY) as writer:
            found = [writer.compare(entry, [Records.of(rows)]) for entry, rows in slices]
            return [*(each for each in found if each is not None), *writer.conclude()]

    def refused(self, rows: Sequence[Record]) -> list[tuple[int, str]]:
        """Offset and kind of each record that is; `fail` names the first, and a comparison agrees."""
        with pytest.raises(RecordRefused) as caught:
            self.commit(rows)
        dead: list[DeadLetter] = []
        entry = self.commit(
            rows, rule="dlq:d", write_dead_letters=lambda _, letters: dead.extend(letters)
        )
        found = [(each.record.offset, each.kind) for each in dead]
        assert (caught.value.offset, caught.value.kind) == found[0]
        assert (entry.written, entry.dead) == (len(rows) - len(found), len(found))
        assert self.differences(entry, rows) == []
        return found


def account_of(
    slice_: Slice,
    rows: Sequence[Record],
    rule: str = "fail",
    write_dead_letters: WriteDeadLetters | None = None,
) -> Account:
    account = Account(slice_, ErrorRule.parse(rule), write_dead_letters)
    account.read = len(rows)
    return account
