"""The statements by which staged rows come into a table."""

import re
from collections.abc import Sequence
from typing import Any

from simulation.database import Link, Row, refusal
from simulation.statements import Answer, Unknown, shape

ORDER = "playhead:offset"
_NAME = r'"((?:[^"]|"")+)"'
_WITHIN = r'WHERE s\."playhead:offset" BETWEEN (?P<first>-?\d+) AND (?P<last>-?\d+)'


def _temporary(link: Link, name: str) -> list[Row]:
    assert link.transaction is not None
    return link.transaction.temporary[name]


def _within(rows: list[Row], match: Any) -> list[Row]:
    first, last = int(match["first"]), int(match["last"])
    return [row for row in rows if first <= row[ORDER] <= last]


# --- expressions

_TIMES = ("timestamptz", "timestamp with time zone")


def value_of(text: str, row: Row) -> Any:
    """`s."name"`, `"name"`, either read as a type."""
    found = re.fullmatch(rf"(?:s\.)?{_NAME}((?:::[\w ]+)*)", text.strip())
    if found is None:
        raise Unknown(f"expression {text}")
    value = row.get(found[1].replace('""', '"'))
    for kind in filter(None, found[2].split("::")):
        value = _cast(value, kind)
    return value


def _cast(value: Any, kind: str) -> Any:
    if value is None or kind in ("text", *_TIMES):
        return value
    if kind in ("int8", "bigint", "int4", "integer"):
        if re.fullmatch(r"\s*[-+]?\d+\s*", str(value)) is None:
            raise refusal("22P02", f'invalid input syntax for type {kind}: "{value}"')
        return int(value)
    raise Unknown(f"type {kind}")


def _listed(text: str) -> list[str]:
    """Parts between commas that stand in no parentheses."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += {"(": 1, ")": -1}.get(char, 0)
        if char == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()]


def _names(text: str) -> list[str]:
    return [each.strip().strip('"') for each in _listed(text)]


# --- temporary tables


@shape(r"CREATE TEMPORARY TABLE (\w+) \((.*)\) ON COMMIT DROP")
def _make(link: Link, match: Any, _: Any) -> Answer:
    assert link.transaction is not None
    if match[1] in link.transaction.temporary:
        raise refusal("42P07", f"relation {match[1]} already exists")
    link.transaction.temporary[match[1]] = []
    return [], -1


@shape(
    rf"INSERT INTO (playhead_\w+) \((?P<columns>[^)]*)\) SELECT (?P<held>.*) FROM (?P<of>playhead_texts) s {_WITHIN}"
)
def _read_texts(link: Link, match: Any, _: Any) -> Answer:
    names, held = _names(match["columns"]), _listed(match["held"])
    rows = [
        {name: value_of(text, row) for name, text in zip(names, held, strict=True)}
        for row in _within(_temporary(link, match["of"]), match)
    ]
    _temporary(link, match[1]).extend(rows)
    return [], len(rows)


@shape(rf"INSERT INTO playhead_gone SELECT (?P<held>.*) FROM playhead_gone_texts s {_WITHIN}")
def _read_gone(link: Link, match: Any, _: Any) -> Answer:
    held = _listed(match["held"])
    rows = []
    for row in _within(_temporary(link, "playhead_gone_texts"), match):
        names = [re.match(_NAME, text.strip()) for text in held]
        rows.append(
            {
                name[1]: value_of(text, row)
                for name, text in zip(names, held, strict=True)
                if name is not None
            }
        )
    _temporary(link, "playhead_gone").extend(rows)
    return [], len(rows)


@shape(r'SELECT "playhead:offset" FROM (playhead_\w+) ORDER BY 1')
def _orders(link: Link, match: Any, _: Any) -> Answer:
    return [(each,) for each in sorted(row[ORDER] for row in _temporary(link, match[1]))], -1


@shape(r'DELETE FROM (playhead_\w+) WHERE "playhead:offset" = \$1')
def _forget(link: Link, match: Any, parameters: Sequence[Any]) -> Answer:
    rows = _temporary(link, match[1])
    rows[:] = [row for row in rows if row[ORDER] != parameters[0]]
    return [], -1


@shape(
    rf"DELETE FROM (playhead_\w+) WHERE {_NAME} IS NULL RETURNING \"playhead:offset\", '23502', .*"
)
def _sweep_nulls(link: Link, match: Any, _: Any) -> Answer:
    rows = _temporary(link, match[1])
    bad = [(row[ORDER], "23502", "null") for row in rows if row.get(match[2]) is None]
    rows[:] = [row for row in rows if row.get(match[2]) is not None]
    return bad, len(bad)


@shape(r"DELETE FROM (playhead_\w+) WHERE NOT \((?P<tests>pg_input_is_valid.*?)\) RETURNING .*")
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
        _cast(value, kind)
    except Unknown:
        raise
    except Exception:  # noqa: BLE001  the driver's own error
        return False
    return True


# --- into the table

_INTO = r'INSERT INTO "(?P<schema>\w+)"\."(?P<table>\w+)" AS t \((?P<columns>[^)]*)\) '
_CHOSEN = (
    r"SELECT (?:DISTINCT ON \((?P<distinct>[^)]*)\) )?(?P<held>.*?) FROM playhead_rows s "
    rf"{_WITHIN}(?P<part> AND .*?)?(?: ORDER BY (?P<order>.*?))?"
)
_MEETING = r"(?: ON CONFLICT \((?P<key>[^)]*)\) DO (?P<action>NOTHING|UPDATE SET .*))?"


@shape(rf"{_INTO}{_CHOSEN}{_MEETING}")
def _insert(link: Link, match: Any, _: Any) -> Answer:
    inserted, updated = _written(link, match)
    return [], inserted + updated


@shape(
    rf"WITH written AS \({_INTO}{_CHOSEN}{_MEETING} RETURNING \(t\.xmax = 0\) AS is_new\) "
    r"SELECT count\(\*\) FILTER \(WHERE is_new\), count\(\*\) FROM written w"
)
def _insert_counted(link: Link, match: Any, _: Any) -> Answer:
    inserted, updated = _written(link, match)
    return [(inserted, inserted + updated)], -1


def _written(link: Link, match: Any) -> tuple[int, int]:
    assert link.transaction is not None
    if match["part"]:
        raise Unknown(f"part {match['part']}")
    table = link.base.tables[match["schema"], match["table"]]
    names, held = _names(match["columns"]), _listed(match["held"])
    rows = _within(_temporary(link, "playhead_rows"), match)
    if match["distinct"]:
        rows = _distinct(rows, _listed(match["distinct"]), _listed(match["order"]))
    inserted = updated = 0
    seen: set[Any] = set()
    for row in rows:
        new = {name: value_of(text, row) for name, text in zip(names, held, strict=True)}
        if not match["action"]:
            link.base.insert(table, link.transaction, new)
            inserted += 1
            continue
        found = link.base.with_key(table, link.transaction, new)
        key = table.key_of(new)
        if found is None:
            link.base.insert(table, link.transaction, new)
            inserted += 1
        elif match["action"] != "NOTHING":
            if key in seen:
                raise refusal("21000", "ON CONFLICT DO UPDATE cannot affect row a second time")
            if _replaces(match["action"], found[1], new):
                link.base.update(table, link.transaction, found[0], found[1] | new)
                updated += 1
        seen.add(key)
    return inserted, updated


def _distinct(rows: list[Row], keys: list[str], order: list[str]) -> list[Row]:
    """The first of each key, by an order."""
    chosen = list(rows)
    for each in reversed(order[len(keys) :]):
        text, _, direction = each.partition(" ")
        chosen.sort(
            key=lambda row, t=text: _sortable(value_of(t, row)), reverse="DESC" in direction
        )
    found: dict[Any, Row] = {}
    for row in chosen:
        found.setdefault(tuple(value_of(key, row) for key in keys), row)
    return list(found.values())


def _sortable(value: Any) -> tuple[bool, Any]:
    return (value is not None, value if value is not None else 0)


def _replaces(action: str, there: Row, new: Row) -> bool:
    """Whether a row that is there gives way."""
    _, _, condition = action.partition(" WHERE ")
    tests = re.split(r" AND (?=\(t\.)", condition)
    if "*<>" not in tests[0]:
        raise Unknown(f"condition {condition}")
    if all(there.get(name) == value for name, value in new.items()):
        return False
    for test in tests[1:]:
        found = re.fullmatch(
            rf"\(t\.{_NAME} IS NULL OR t\.{_NAME} <= EXCLUDED\.{_NAME}\)", test.strip()
        )
        if found is None:
            raise Unknown(f"condition {test}")
        before, after = there.get(found[1]), new.get(found[1])
        if before is not None and (after is None or before > after):
            return False
    return True


@shape(
    r'DELETE FROM playhead_rows s USING playhead_gone g WHERE s\."playhead:offset" BETWEEN '
    r"(?P<first>-?\d+) AND (?P<last>-?\d+) AND (?P<same>.*) AND (?P<later>[^=]*<.*)"
)
def _supersede(link: Link, match: Any, _: Any) -> Answer:
    rows, gone = _temporary(link, "playhead_rows"), _temporary(link, "playhead_gone")
    key = re.findall(rf"s\.{_NAME} = g\.{_NAME}", match["same"])
    versioned = re.match(
        rf"\(s\.{_NAME}, s\.{_NAME}\) < \(g\.{_NAME}, g\.{_NAME}\)", match["later"]
    )

    def is_superseded(row: Row, tomb: Row) -> bool:
        if any(row.get(one) != tomb.get(other) for one, other in key):
            return False
        if versioned is None:
            return bool(row[ORDER] < tomb[ORDER])
        one = (row.get(versioned[1]), row[ORDER])
        other = (tomb.get(versioned[3]), tomb[ORDER])
        return None not in (one[0], other[0]) and one < other

    inside = _within(rows, match)
    out = [row for row in inside if any(is_superseded(row, tomb) for tomb in gone)]
    rows[:] = [row for row in rows if not any(row is each for each in out)]
    return [], len(out)


@shape(
    r'DELETE FROM "(?P<schema>\w+)"\."(?P<table>\w+)" t USING playhead_gone g WHERE (?P<same>.*?) '
    r'AND g\."playhead:offset" BETWEEN (?P<first>-?\d+) AND (?P<last>-?\d+)(?P<unless> AND NOT .*)?'
)
def _delete(link: Link, match: Any, _: Any) -> Answer:
    assert link.transaction is not None
    table = link.base.tables[match["schema"], match["table"]]
    key = re.findall(rf"t\.{_NAME} = g\.{_NAME}", match["same"])
    version = re.search(rf"t\.{_NAME} > g\.{_NAME}", match["unless"] or "")
    count = 0
    for tomb in _within(_temporary(link, "playhead_gone"), match):
        probe = {one: tomb.get(other) for one, other in key}
        found = link.base.with_key(table, link.transaction, probe)
        if found is None:
            continue
        rid, row = found
        if version is not None:
            there, at = row.get(version[1]), tomb.get(version[2])
            if there is not None and at is not None and there > at:
                continue
        link.base.delete(table, link.transaction, rid)
        count += 1
    return [], count


@shape(
    r'SELECT "playhead:offset" FROM playhead_keys k WHERE EXISTS \(SELECT FROM "(\w+)"\."(\w+)" t WHERE (.*)\)'
)
def _met(link: Link, match: Any, _: Any) -> Answer:
    assert link.transaction is not None
    table = link.base.tables[match[1], match[2]]
    there = {table.key_of(row) for _, row in link.base.visible(table, link.transaction)}
    found = [row for row in _temporary(link, "playhead_keys") if table.key_of(row) in there]
    return [(row[ORDER],) for row in found], -1
