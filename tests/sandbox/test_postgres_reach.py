"""Values too deep and times too far for a table take their record, and nobody with it."""

from typing import Any

import pytest

from playhead.sandbox import Endpoints
from tests.sandbox.postgres_table import NOON_MS, Table, record

FAR_MS = NOON_MS * 10**6
"""Nanoseconds where milliseconds are meant."""


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


class TestDeepValues:
    @pytest.mark.parametrize("levels", [100, 340, 450])
    @pytest.mark.parametrize("kind", ["jsonb", "json", "text"])
    def test_deep_json_is_written(
        self, sandbox: Endpoints, schema: str, levels: int, kind: str
    ) -> None:
        table = Table.made(sandbox.database_url, schema, f"_offset int8, v {kind}")
        table.commit([record(0, b'{"v":%s}' % nested(levels))])
        assert table.column("v::text") == [nested(levels).decode()]

    @pytest.mark.parametrize("levels", [600, 900, 5000])
    @pytest.mark.parametrize("kind", ["jsonb", "text"])
    def test_deeper_json_is_refused(
        self, sandbox: Endpoints, schema: str, levels: int, kind: str
    ) -> None:
        table = Table.made(sandbox.database_url, schema, f"_offset int8, v {kind}")
        good = record(0, {"v": "x"})
        assert table.refused([good, record(1, b'{"v":%s}' % nested(levels))]) == [(1, "json")]

    @pytest.mark.parametrize("levels", [7, 200, 400])
    def test_an_array_of_too_many_dimensions(
        self, sandbox: Endpoints, schema: str, levels: int
    ) -> None:
        table = Table.made(sandbox.database_url, schema, "_offset int8, v int[]")
        rows = [
            record(0, {"v": [1]}),
            record(1, b'{"v":%s}' % nested(levels).replace(b"[]", b"[1]")),
        ]
        assert table.refused(rows) == [(1, "type")]
        assert table.column("v") == [[1]]


class TestTimesOutOfReach:
    @pytest.mark.parametrize("kind", ["timestamptz", "timestamp", "timestamptz(3)"])
    @pytest.mark.parametrize("ms", [FAR_MS, (1 << 63) - 1, -(1 << 63), -210_866_803_200_001])
    def test_are_refused(self, sandbox: Endpoints, schema: str, kind: str, ms: int) -> None:
        columns = f"_offset int8, _timestamp {kind}, v int"
        table = Table.made(sandbox.database_url, schema, columns)
        rows = [record(0, {"v": 1}), record(1, {"v": 2}, ms=ms), record(2, {"v": 3}, ms=-1)]
        assert table.refused(rows) == [(1, "out_of_reach")]
        assert table.column("v") == [1, 3]

    @pytest.mark.parametrize("ms", [(1 << 63) // 1000 - 1, -210_866_803_200_000, 0])
    def test_the_outermost_are_written(self, sandbox: Endpoints, schema: str, ms: int) -> None:
        columns = "_offset int8, _timestamp timestamptz, v int"
        table = Table.made(sandbox.database_url, schema, columns)
        table.commit([record(0, {"v": 1}, ms=ms)])
        assert table.column("(extract(epoch FROM _timestamp) * 1000)::int8") == [ms]

    def test_are_numbers_in_a_column_of_numbers(self, sandbox: Endpoints, schema: str) -> None:
        table = Table.made(sandbox.database_url, schema, "_offset int8, _timestamp int8, v int")
        table.commit([record(0, {"v": 1}, ms=FAR_MS)])
        assert table.column("_timestamp") == [FAR_MS]

    @pytest.mark.parametrize("rule", ["update", "newer"])
    def test_of_tombstones(self, sandbox: Endpoints, schema: str, rule: Any) -> None:
        """A table that does not hold times has no reason to refuse one."""
        stamp = ", _timestamp timestamptz" if rule == "newer" else ""
        columns = f"id int PRIMARY KEY, _offset int8{stamp}"
        options = {"on_conflict": rule, "tombstones": "delete"}
        table = Table.made(sandbox.database_url, schema, columns, **options)
        table.run("INSERT INTO {table} (id, _offset) VALUES (1, 0), (2, 0)")
        rows = [record(1, None, key=b"1", ms=FAR_MS), record(2, None, key=b"2")]
        if rule == "newer":
            assert table.refused(rows) == [(1, "out_of_reach")]
            assert table.column("id") == [1]
        else:
            assert table.commit(rows).details["deleted"] == 2
