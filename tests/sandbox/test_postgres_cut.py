"""What columns of times, and some short types, do not keep of a value: it is counted, or the record is refused."""

from typing import Any

import pytest

from playhead.sandbox import Endpoints
from tests.sandbox.postgres_table import Table, record, records

ALTERED = "with_rounded_values", "with_cut_values"
MOMENT = 1_609_459_200  # 2021-01-01T00:00:00Z


class TestWhatColumnsOfTimesDoNotKeep:
    """Counted, although no statement fails; what has the same meaning is not."""

    @pytest.mark.parametrize("is_alone", [True, False])
    @pytest.mark.parametrize(
        ("kind", "changed", "kept"),
        [
            ("timestamp(0)", "2021-01-01T00:00:00.7", "2021-01-01T00:00:00.0"),
            ("timestamp(0)", MOMENT * 1000 + 7, MOMENT * 1000),
            ("timestamptz(3)", "2021-01-01T00:00:00.123456Z", "2021-01-01T00:00:00.123Z"),
            ("timestamptz(3)", "2021-01-01T00:00:00.123456+02:00", "2021-01-01T00:00:00.12+02"),
            ("timestamptz(3)", MOMENT * 10**6 + 7, MOMENT * 10**6 + 7000),
            ("timestamptz(3)", MOMENT * 10**9 + 7, MOMENT * 10**9 + 7_000_000),
            ("timestamptz", MOMENT * 10**9 + 7, MOMENT * 10**9 + 7000),
            ("timestamp(0)[]", ["2021-01-01T00:00:00.7"], ["2021-01-01T00:00:00"]),
            ("time(0)[]", "{12:00:00.0,12:00:00.7}", "{12:00:00.0,12:00:00}"),
            ("time(0)", "12:00:00.7", "12:00:00"),
            ("time(2)", "12:00:00.123", "12:00:00.120"),
            ("timetz(0)", "12:00:00.7+02", "12:00:00+02"),
            ("moment", "2021-01-01T00:00:00.7Z", "2021-01-01T00:00:00Z"),
            ("tstzrange", "[2021-01-01T00:00:00.1234567Z,)", "[2021-01-01T00:00:00.1234560Z,)"),
            ("tsrange[]", ["[2021-01-01T00:00:00.1234567,)"], ["[2021-01-01T00:00:00.1,)"]),
            ("interval", "1.2345678 seconds ago", "1.2345678 hours"),
            ("interval", 0.1234567, 0.123456),
            ("interval", "1.1 us", "1.0 us"),
            ("interval", "1 s 1.0001 milliseconds ago", "1.001 ms"),
            ("interval[]", ["1:2:3.4567891"], ["PT1.500000000S"]),
            ("interval(0)", "PT1.5S", "PT0.5M"),
            ("interval(0)", "12:00:00.7", "@ 1.5 hours ago"),
            ("interval(3)", 1.0007, 1.007),
            ("interval second(1)", "1.25 s", "1.2 s"),
            ("interval(0)[]", ["1 s", "20 ms"], ["1 s", "2000 ms"]),
            ("span", "0.0001 hours", "0.001 hours 0.4 s"),
        ],
    )
    def test_rounded(
        self, sandbox: Endpoints, schema: str, kind: str, changed: Any, kept: Any, is_alone: bool
    ) -> None:
        assert self.altered(sandbox, schema, kind, changed, kept, is_alone) == (1, 0)

    @pytest.mark.parametrize("is_alone", [True, False])
    @pytest.mark.parametrize(
        ("kind", "changed", "kept"),
        [
            ("text[]", [[], []], [["a"], ["b"]]),
            ("int[]", [[[]]], []),
            ("time", "12:00:00+05:00", "12:00:00Z"),
            ("time", "12:00 EST", "12:00 PM"),
            ("time", "2021-01-01 12:00:00", "12:00"),
            ("time[]", ["12:00:00+05"], ["12:00:00+00"]),
            ("date", "2021-01-01T23:30:00-05:00", "2021-01-01"),
            ("date", "2021-01-01 23:30", "2021-01-01T00:00:00"),
            ("date", "2021-01-01T00:00:00+05:00", "2021-01-01T00:00:00Z"),
            ("date", "20210101T233000", "Jan 1, 2021"),
            ("date", "20210101 233000", "20210101 000000"),
            ("date", "Jan 1 2021 2330", "4 Jan 2021"),
            ("date", "2021-01-01 +05", "2021-01-01 UTC"),
            ("date", "2021-01-01 America/New_York", "Fri Jan 01 2021"),
            ("date", "J2459216.5", "J2459216"),
            ("time", "J2459216.5", "120000"),
            ("timetz", "2021-01-01 12:00+02", "12:00:00.5-08:00"),
            ("timetz", "J2459216.5", "12:00 EST"),
            ("tsrange", "[20210101 120000+02,)", "[20210101 120000,)"),
            ("date[]", ["2021-01-01T23:30:00"], ["2021-01-01"]),
            ("time[]", '{12:00:00,"13:00:00+05"}', '{12:00:00,"13:00:00"}'),
            ("tsrange", "[2021-01-01T12:00+02:00,)", '["2021-01-01 12:00Z",2021-01-02)'),
            ("tsmultirange", "{[2021-01-01T12:00 CET,)}", "{[2021-01-01T12:00,)}"),
            ("daterange", "[2021-01-01T12:00,)", "[2021-01-01,2021-01-02T00:00)"),
            ("interval day", "1 day 12:00", "2 days"),
            ("interval year to month", "P1Y2M3D", "1-2"),
            ("interval hour to minute", "12:30:30", "12:30:00"),
        ],
    )
    def test_cut(
        self, sandbox: Endpoints, schema: str, kind: str, changed: Any, kept: Any, is_alone: bool
    ) -> None:
        assert self.altered(sandbox, schema, kind, changed, kept, is_alone) == (0, 1)

    def altered(
        self, sandbox: Endpoints, schema: str, kind: str, changed: Any, kept: Any, is_alone: bool
    ) -> tuple[int, int]:
        """Both numbers of the entry, for the two values in one slice or in two."""
        helper = Table.made(sandbox.database_url, schema, "id int", "helper")
        helper.run(f'CREATE DOMAIN "{schema}".moment AS timestamptz(0)')
        helper.run(f'CREATE DOMAIN "{schema}".span AS interval(0)')
        kind = f'"{schema}".{kind}' if kind in ("moment", "span") else kind
        table = Table.made(sandbox.database_url, schema, f"id int, x {kind}")
        rows = records({"id": 1, "x": changed}, {"id": 2, "x": kept})
        entries = [table.commit(each) for each in ([[rows[0]], [rows[1]]] if is_alone else [rows])]
        assert len(table.rows()) == 2
        rounded, cut = (sum(e.details.get(name, 0) for e in entries) for name in ALTERED)
        if is_alone:
            assert not any(name in entries[1].details for name in ALTERED)
        return rounded, cut


@pytest.mark.parametrize("rule", [None, "update"])
@pytest.mark.parametrize(("kind", "count"), [("timestamptz(0)", 2), ("timestamp(2)", 1)])
def test_times_of_records(
    sandbox: Endpoints, schema: str, kind: str, count: int, rule: Any
) -> None:
    columns = f"id int PRIMARY KEY, _timestamp {kind}"
    table = Table.made(sandbox.database_url, schema, columns, on_conflict=rule, tombstones="skip")
    moments = [MOMENT * 1000, MOMENT * 1000 + 10, MOMENT * 1000 + 7]
    rows = [record(n, {"id": n}, ms=ms) for n, ms in enumerate(moments)]
    entry = table.commit([*rows, record(3, None, ms=MOMENT * 1000 + 7)])
    assert entry.details["with_rounded_values"] == count


@pytest.mark.parametrize("rule", ["ignore", "update"])
def test_intervals_beside_refused_ones(sandbox: Endpoints, schema: str, rule: Any) -> None:
    columns = "id int PRIMARY KEY, x interval(0), y interval day, z timestamp(0)"
    table = Table.made(sandbox.database_url, schema, columns, on_conflict=rule)
    values = [
        {"id": 1, "x": "1.5 s", "y": "36:00", "z": "2021-01-01T00:00:00.7"},
        {"id": 2, "x": "nonsense"},
        {"id": 3, "y": "36:00"},
        {"id": 4, "x": "2 s", "y": "2 days"},
    ]
    entry = table.commit(records(*values), rule="skip")
    assert [entry.details.get(name) for name in ALTERED] == [1, 2]
    assert (entry.written, entry.skipped) == (3, 1)


@pytest.mark.parametrize(
    ("kind", "bad", "good"),
    [
        ('"char"', "abc", "a"),
        ('"char"', "é", "\\303"),
        ('"char"', "\\400", "\\377"),
        ('"char"[]', ["a", "bc"], ["a", "b"]),
        ("name[]", ["x" * 64], ["x" * 63]),
        ("oid", -1, 1),
        ("oid", "-1", "4294967295"),
        ("oid[]", [1, -1], [1]),
    ],
)
def test_what_the_server_would_take_for_another_value(
    sandbox: Endpoints, schema: str, kind: str, bad: Any, good: Any
) -> None:
    table = Table.made(sandbox.database_url, schema, f"id int, x {kind}")
    entry = table.commit(records({"id": 1, "x": bad}, {"id": 2, "x": good}), rule="skip")
    assert table.column("id", "id") == [2]
    assert entry.skipped == 1
