"""The PostgreSQL target keeps the contract of every target."""

import base64
import json
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from playhead.postgres.target import PostgresTarget
from playhead.record import Headers, Record, TimestampType
from playhead.sandbox import Endpoints
from playhead.testing import exercise_target
from tests.sandbox.postgres_table import record

COLUMNS = "_topic text, _partition {kind}, _offset int8, _timestamp int8, _key bytea, _headers jsonb, {more}"
PLACE = "PRIMARY KEY (_topic, _partition, _offset)"


def reading(url: str, table: str, value: str) -> Callable[[], list[Record]]:
    def read_back() -> list[Record]:
        with psycopg.connect(url) as connection:
            found = connection.execute(
                f"SELECT _topic, _partition::int, _offset, _timestamp, _key, {value}, _headers FROM {table}"
            ).fetchall()
        return [
            Record(*row[:4], TimestampType.CREATE_TIME, *row[4:6], headers(row[6])) for row in found
        ]

    return read_back


def headers(pairs: list[Any]) -> Headers:
    def value(held: Any) -> bytes | None:
        if isinstance(held, dict):
            return base64.b64decode(held["base64"])
        return None if held is None else str(held).encode()

    return tuple((name, value(held)) for name, held in pairs)


@pytest.mark.parametrize(
    ("rule", "way"),
    [
        (None, "direct"),
        ("update", "staged"),
        *(
            pytest.param(rule, way, marks=pytest.mark.torture)
            for rule, way in [
                (None, "staged"),
                ("ignore", "direct"),
                ("ignore", "staged"),
                ("update", "direct"),
                ("newer", "direct"),
                ("newer", "staged"),
            ]
        ),
    ],
)
def test_a_table_that_takes_every_record(
    sandbox: Endpoints, schema: str, rule: Any, way: str
) -> None:
    """Under the rule `error` the same slice of another replay is refused, record by record."""
    key = PLACE if rule else ""
    # A type that has no form of its own in a COPY is read by the server, from the stage.
    kind = "int" if way == "direct" else "numeric"
    url, table = sandbox.database_url, f"{schema}.kept"
    with psycopg.connect(url, autocommit=True) as connection:
        more = "value bytea" + (f", {key}" if key else "")
        connection.execute(f"CREATE TABLE {table} ({COLUMNS.format(more=more, kind=kind)})")

    def make() -> PostgresTarget:
        return PostgresTarget(
            url,
            table,
            decode="bytes",
            tombstones="null",
            on_conflict=rule,
            ledger_table=f"{schema}.ledger",
        )

    def damage() -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            last = f"SELECT max(_offset) FROM {table}"
            connection.execute(f"UPDATE {table} SET value = 'damaged' WHERE _offset = ({last})")

    exercise_target(
        make, reading(url, table, "value"), replaces=bool(key), exclusive=True, damage=damage
    )


def test_a_table_that_cannot_take_some(sandbox: Endpoints, schema: str) -> None:
    url, table = sandbox.database_url, f"{schema}.texts"
    with psycopg.connect(url, autocommit=True) as connection:
        # What is not text comes from the records of the suite, and has to find a column.
        more = "value bytea, CHECK (value <> 'bad')"
        connection.execute(f"CREATE TABLE {table} ({COLUMNS.format(more=more, kind='int')})")

    def make() -> PostgresTarget:
        return PostgresTarget(
            url, table, decode="bytes", tombstones="null", ledger_table=f"{schema}.ledger"
        )

    exercise_target(
        make,
        reading(url, table, "value"),
        exclusive=True,
        bad_record=record(0, b"bad", key=json.dumps(1).encode()),
    )
