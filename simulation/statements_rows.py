"""The statements by which staged rows come into a table."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from simulation.database import Link, Row, Table, refusal
from simulation.expressions import Unknown, cast, compiled
from simulation.statements import Answer, shape

ORDER = "playhead:offset"
_NAME = r'"((?:[^"]|"")+)"'
_WITHIN = r'WHERE s\."playhead:offset" BETWEEN (?P<first>-?\d+) AND (?P<last>-?\d+)'


def _temporary(link: Link, name: str) -> list[Row]:
    assert link.transaction is not None
    return link.transaction.temporary[name]


def _within(rows: list[Row], match: Any) -> list[Row]:
    first, last = int(match["first"]), int(match["last"])
    return [row for row in rows if first <= row[ORDER] <= last]


def value_of(text: str, row: Row, alias: str = "s") -> Any:
    """An expression of one row."""
    return compiled(text)({alias: row, "": row})


@lru_cache(maxsize=4096)
def _listed(text: str) -> tuple[str, ...]:
    """Parts between commas that stand in no parentheses."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += {"(": 1, ")": -1}.get(char, 0)
        if char == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return (*parts, text[start:].strip())


def _first_names(text: str) -> list[str]:
    """The columns of a table that is made."""
    found = [re.match(_NAME, each) for each in _listed(text)]
    return [each[1] for each in found if each is not None]


def _names(text: str) -> list[str]:
    return [each.strip().strip('"') for each in _listed(text)]


# --- temporary tables


@shape(r"CREATE TEMPORARY TABLE (\w+) \((.*)\) ON COMMIT DROP")
def _make(link: Link, match: Any, _: Any) -> Answer:
    assert link.transaction is not None
    if match[1] in link.transaction.temporary:
        raise refusal("42P07", f"relation {match[1]} already exists")
    link.transaction.temporary[match[1]] = []
    link.transaction.kinds[match[1]] = dict.fromkeys(_first_names(match[2]), "")
    return [], -1


@shape(
    rf"INSERT INTO (?P<into>playhead_\w+)(?: \((?P<columns>[^)]*)\))? SELECT (?P<held>.*) "
    rf"FROM (?P<of>playhead_\w+) s {_WITHIN}"
)
def _read_aside(link: Link, match: Any, _: Any) -> Answer:
    assert link.transaction is not None
    columns = match["columns"]
    names = _names(columns) if columns else list(link.transaction.kinds[match["into"]])
    held = _listed(match["held"])
    rows = [
        {name: value_of(text, row) for name, text in zip(names, held, strict=True)}
        for row in _within(_temporary(link, match["of"]), match)
    ]
    _temporary(link, match["into"]).extend(rows)
    return [], len(rows)


@shape(r'SELECT "playhead:offset" FROM (playhead_\w+) ORDER BY 1')
def _orders(link: Link, match: Any, _: Any) -> Answer:
    return [(each,) for each in sorted(row[ORDER] for row in _temporary(link, match[1]))], -1


@shape(r'DELETE FROM (playhead_\w+) WHERE "playhead:offset" IN \(([\d, ]+)\)')
def _forget(link: Link, match: Any, _: Any) -> Answer:
    rows, gone = _temporary(link, match[1]), set(map(int, match[2].split(", ")))
    rows[:] = [row for row in rows if row[ORDER] not in gone]
    return [], -1


@shape(
    rf"DELETE FROM (playhead_\w+) WHERE {_NAME} IS NULL RETURNING \"playhead:offset\", '23502', .*"
)
def _sweep_nulls(link: Link, match: Any, _: Any) -> Answer:
    rows = _temporary(link, match[1])
    bad = [(row[ORDER], "23502", "null") for row in rows if row.get(match[2]) is None]
    rows[:] = [row for row in rows if row.get(match[2]) is not None]
    return bad, len(bad)


@shape(
    r"DELETE FROM (playhead_\w+) WHERE NOT \((?P<tests>pg_catalog\.pg_input_is_valid.*?)\) RETURNING .*"
)
def _sweep_invalid(link: Link, match: Any, _: Any) -> Answer:
    rows = _temporary(link, match[1])
    tests = re.findall(rf"pg_input_is_valid\({_NAME}::text, '([\w ]+)'\)", match["tests"])
    bad = [row for row in rows if not all(_is_valid(row.get(name), kind) for name, kind in tests)]
    rows[:] = [row for row in rows if not any(row is each for each in bad)]
    return [(row[ORDER], "22P02", "invalid input syntax") for row in bad], len(bad)


@shape(
    r'DELETE FROM playhead_rows s WHERE EXISTS \(SELECT FROM "(?P<schema>\w+)"\."(?P<table>\w+)" t '
    r'WHERE (?P<same>.*?)\) OR "playhead:offset" IN \(.*\) RETURNING .*'
)
def _sweep_known(link: Link, match: Any, _: Any) -> Answer:
    """Rows whose key is in the table, or in an earlier row."""
    assert link.transaction is not None
    table, rows = (
        link.base.tables[match["schema"], match["table"]],
        _temporary(link, "playhead_rows"),
    )
    seen = {table.key_of(row) for _, row in link.base.visible(table, link.transaction)}
    bad, kept = [], []
    for row in sorted(rows, key=lambda each: each[ORDER]):
        key = table.key_of(row)
        (bad if key in seen else kept).append(row)
        seen.add(key)
    rows[:] = kept
    return [(row[ORDER], "23505", "there already") for row in bad], len(bad)


def _is_valid(value: Any, kind: str) -> bool:
    try:
        cast(value, kind)
    except Unknown:
        raise
    except Exception:  # noqa: BLE001  the driver's own error
        return False
    return True


# --- into the table

_INTO = r'INSERT INTO "(?P<schema>\w+)"\."(?P<table>\w+)" AS (?P<alias>\w) \((?P<columns>[^)]*)\) '
_CHOSEN = (
    r"SELECT (?:DISTINCT ON \((?P<distinct>[^)]*)\) )?(?P<held>.*?) FROM (?P<of>playhead_\w+) "
    r"(?P<row>\w)(?: WHERE (?P<where>.*?))?(?: ORDER BY (?P<order>.*?))?"
)
_MEETING = (
    r"(?: ON CONFLICT \((?P<key>[^)]*)\) DO "
    r"(?P<action>NOTHING|UPDATE SET .*? WHERE (?P<condition>.*)))?"
)


@shape(rf"{_INTO}{_CHOSEN}{_MEETING}")
def _insert(link: Link, match: Any, _: Any) -> Answer:
    inserted, updated = _written(link, match)
    return [], inserted + updated


@shape(
    rf"WITH written AS \({_INTO}{_CHOSEN}{_MEETING} RETURNING \(t\.xmax = 0\) AS is_new\) "
    r"SELECT pg_catalog\.count\(\*\) FILTER \(WHERE is_new\), pg_catalog\.count\(\*\) FROM written w"
)
def _insert_counted(link: Link, match: Any, _: Any) -> Answer:
    inserted, updated = _written(link, match)
    return [(inserted, inserted + updated)], -1


def _given(link: Link, match: Any) -> list[Row]:
    """The rows that an INSERT chooses."""
    alias, names, held = match["row"], _names(match["columns"]), _listed(match["held"])
    rows = _temporary(link, match["of"])
    if match["where"]:
        rows = [row for row in rows if value_of(match["where"], row, alias) is True]
    if match["distinct"]:
        keys = _listed(match["distinct"])
        order = _listed(match["order"])[len(keys) :]
        rows = list(rows)
        for each in reversed(order):
            text = each.partition(" DESC")[0]
            is_falling = each != text
            rows.sort(key=lambda r, t=text: _sortable(value_of(t, r, alias)), reverse=is_falling)
        first: dict[Any, Row] = {}
        for row in rows:
            first.setdefault(tuple(value_of(key, row, alias) for key in keys), row)
        rows = list(first.values())
    return [
        {name: value_of(text, row, alias) for name, text in zip(names, held, strict=True)}
        for row in rows
    ]


def _written(link: Link, match: Any) -> tuple[int, int]:
    assert link.transaction is not None
    table = _table_of(link, match)
    inserted = updated = 0
    seen: set[Any] = set()
    for new in _given(link, match):
        found = None
        if match["action"]:
            found = link.base.with_key(table, link.transaction, new)
        key = table.key_of(new)
        if found is None:
            link.base.insert(table, link.transaction, new)
            inserted += 1
        elif match["action"] != "NOTHING":
            if key in seen:
                raise refusal("21000", "ON CONFLICT DO UPDATE cannot affect row a second time")
            rows = {match["alias"]: found[1], "EXCLUDED": new}
            if compiled(match["condition"])(rows) is True:
                link.base.update(table, link.transaction, found[0], found[1] | new)
                updated += 1
        seen.add(key)
    return inserted, updated


def _table_of(link: Link, match: Any) -> Table:
    table = link.base.tables.get((match["schema"], match["table"]))
    if table is None:
        raise refusal("42P01", "there is no such table")
    return table


def _sortable(value: Any) -> tuple[bool, Any]:
    return (value is not None, value if value is not None else 0)


@shape(
    r"DELETE FROM (?P<of>playhead_\w+) (?P<row>\w) USING "
    r'(?:"(?P<schema>\w+)"\."(?P<table>\w+)"|(?P<by>playhead_\w+)) (?P<other>\w) WHERE (?P<where>.*)'
)
def _delete_aside(link: Link, match: Any, _: Any) -> Answer:
    """Staged rows, by others that are staged or in a table."""
    assert link.transaction is not None
    if match["by"]:
        others = list(_temporary(link, match["by"]))
    else:
        others = [row for _, row in link.base.visible(_table_of(link, match), link.transaction)]
    test, rows = compiled(match["where"]), _temporary(link, match["of"])

    def goes(row: Row) -> bool:
        return any(test({match["row"]: row, match["other"]: each}) is True for each in others)

    kept = [row for row in rows if not goes(row)]
    count = len(rows) - len(kept)
    rows[:] = kept
    return [], count


@shape(
    r'DELETE FROM "(?P<schema>\w+)"\."(?P<table>\w+)" t USING playhead_gone g WHERE '
    r"(?P<same>.*?) AND (?P<where>g\.\"playhead:offset\" BETWEEN .*)"
)
def _delete(link: Link, match: Any, _: Any) -> Answer:
    assert link.transaction is not None
    table = _table_of(link, match)
    test = compiled(match["where"])
    count = 0
    for tomb in list(_temporary(link, "playhead_gone")):
        found = link.base.with_key(table, link.transaction, tomb)
        if found is not None and test({"t": found[1], "g": tomb}) is True:
            link.base.delete(table, link.transaction, found[0])
            count += 1
    return [], count


@shape(
    r'SELECT EXISTS \(SELECT FROM "(?P<schema>\w+)"\."(?P<table>\w+)" WHERE "playhead:replay" = \$1\)'
)
def _is_anything_kept(link: Link, match: Any, parameters: Sequence[Any]) -> Answer:
    assert link.transaction is not None
    held = link.base.visible(_table_of(link, match), link.transaction)
    return [(any(row["playhead:replay"] == parameters[0] for _, row in held),)], -1


@shape(
    r'CREATE TABLE IF NOT EXISTS "(?P<schema>\w+)"\."(?P<table>\w*latest_\d+)" '
    r"\((?P<columns>.*), PRIMARY KEY \((?P<key>.*)\)\)"
)
def _make_latest(link: Link, match: Any, _: Any) -> Answer:
    place = (match["schema"], match["table"])
    if place not in link.base.tables:
        kinds = dict.fromkeys(_first_names(match["columns"]), "")
        link.base.create(place, kinds, tuple(_names(match["key"])))
    return [], -1


@shape(
    r'SELECT "playhead:offset" FROM playhead_keys k WHERE EXISTS \(SELECT FROM "(\w+)"\."(\w+)" t WHERE (.*)\)'
)
def _met(link: Link, match: Any, _: Any) -> Answer:
    assert link.transaction is not None
    table = link.base.tables[match[1], match[2]]
    there = {table.key_of(row) for _, row in link.base.visible(table, link.transaction)}
    found = [row for row in _temporary(link, "playhead_keys") if table.key_of(row) in there]
    return [(row[ORDER],) for row in found], -1
