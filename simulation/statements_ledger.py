"""The statements of the ledger's table."""

import json
from collections.abc import Sequence
from typing import Any

from simulation.database import Link, Table, refusal
from simulation.statements import Answer, shape

_LEDGER = r'"(?P<schema>playhead_ledger)"\."(?P<name>entries)"'


@shape(r"WITH RECURSIVE mine AS .* WHERE n\.nspname = \$1")
def _found(link: Link, _: Any, parameters: Sequence[Any]) -> Answer:
    kind = "r" if tuple(parameters) in link.base.tables else None
    owner = "playhead"
    told = (owner, True, "", False) if kind else (None, None, "", None)
    found = (owner, True, kind, *told)
    return ([found] if parameters[0] in link.base.schemas else []), -1


@shape(r"SELECT CASE WHEN n\.oid IS NULL THEN pg_catalog\.has_database_privilege.*")
def _may_make(link: Link, _: Any, __: Any) -> Answer:
    return [(True,)], -1


@shape(r'CREATE SCHEMA "(\w+)"')
def _make_schema(link: Link, match: Any, __: Any) -> Answer:
    # Seen by others at once: nothing that is played depends on its being undone.
    link.base.schemas.add(match[1])
    return [], -1


@shape(rf"CREATE TABLE IF NOT EXISTS {_LEDGER} \(\s*replay text.*\)")
def _make(link: Link, match: Any, __: Any) -> Answer:
    place = (match["schema"], match["name"])
    if place not in link.base.tables:
        kinds = {
            "replay": "text",
            "topic": "text",
            "partition": "int4",
            "from_offset": "int8",
            "to_offset": "int8",
            "entry": "text",
        }
        link.base.create(place, kinds, ("replay", "topic", "partition", "from_offset"))
    return [], -1


def _ledger(link: Link, match: Any) -> Table:
    table = link.base.tables.get((match["schema"], match["name"]))
    if table is None:
        raise refusal("42P01", "there is no ledger")
    return table


def _of(link: Link, match: Any, **wanted: Any) -> list[tuple[int, dict[str, Any]]]:
    assert link.transaction is not None
    return [
        (rid, row)
        for rid, row in link.base.visible(_ledger(link, match), link.transaction)
        if all(row[name] == value for name, value in wanted.items())
    ]


_ENTRY = r"SELECT topic, partition, from_offset, to_offset, CAST\(entry AS text\)"


def _entry_row(row: dict[str, Any]) -> tuple[Any, ...]:
    names = ("topic", "partition", "from_offset", "to_offset", "entry")
    return tuple(row[name] for name in names)


@shape(rf"{_ENTRY} FROM {_LEDGER} WHERE replay = \$1")
def _entries(link: Link, match: Any, parameters: Sequence[Any]) -> Answer:
    return [_entry_row(row) for _, row in _of(link, match, replay=parameters[0])], -1


@shape(
    rf"SELECT from_offset, to_offset FROM {_LEDGER} WHERE replay = \$1 AND topic = \$2 "
    r"AND partition = CAST\(\$3 AS bigint\) AND from_offset < \$4 AND to_offset > \$5 LIMIT 1"
)
def _overlap(link: Link, match: Any, parameters: Sequence[Any]) -> Answer:
    replay, topic, partition, end, start = parameters
    found = _of(link, match, replay=replay, topic=topic, partition=partition)
    met = [
        (row["from_offset"], row["to_offset"])
        for _, row in found
        if row["from_offset"] < end and row["to_offset"] > start
    ]
    return met[:1], -1


@shape(
    rf"SELECT pg_catalog\.count\(\*\) > 0, .* FROM {_LEDGER} WHERE replay = \$1 AND topic = \$2 .*"
)
def _others(link: Link, match: Any, parameters: Sequence[Any]) -> Answer:
    replay, topic, partition, start = parameters
    found = [
        json.loads(row["entry"])["details"]
        for _, row in _of(link, match, replay=replay, topic=topic)
        if (row["partition"], row["from_offset"]) != (partition, start)
    ]
    any_ = [any(each.get(name, 0) > 0 for each in found) for name in ("updated", "tombstones")]
    return [(bool(found), *any_)], -1


@shape(
    rf"{_ENTRY} FROM {_LEDGER} WHERE replay = \$1 AND topic = \$2 "
    r"AND partition = \$3::int8 AND to_offset = \$4"
)
def _ending(link: Link, match: Any, parameters: Sequence[Any]) -> Answer:
    replay, topic, partition, end = parameters
    found = _of(link, match, replay=replay, topic=topic, partition=partition, to_offset=end)
    return [_entry_row(row) for _, row in found], -1


@shape(rf"UPDATE {_LEDGER} SET to_offset = \$5, entry = .* AND from_offset = \$4")
def _extend(link: Link, match: Any, parameters: Sequence[Any]) -> Answer:
    assert link.transaction is not None
    replay, topic, partition, start, end, entry = parameters
    table = _ledger(link, match)
    wanted = {"replay": replay, "topic": topic, "partition": partition, "from_offset": start}
    for rid, row in _of(link, match, **wanted):
        link.base.update(table, link.transaction, rid, row | {"to_offset": end, "entry": entry})
    return [], 1


@shape(
    rf"INSERT INTO {_LEDGER} \(replay, topic, partition, from_offset, to_offset, entry\) VALUES .*"
)
def _add(link: Link, match: Any, parameters: Sequence[Any]) -> Answer:
    assert link.transaction is not None
    names = ("replay", "topic", "partition", "from_offset", "to_offset", "entry")
    row = dict(zip(names, parameters, strict=True))
    link.base.insert(_ledger(link, match), link.transaction, row)
    return [], 1


@shape(rf"SELECT 1 FROM {_LEDGER} WHERE replay = \$1 LIMIT 1")
def _has_entries(link: Link, match: Any, parameters: Sequence[Any]) -> Answer:
    return [(1,) for _ in _of(link, match, replay=parameters[0])][:1], -1


@shape(
    rf"SELECT from_offset, to_offset FROM {_LEDGER} WHERE replay = \$1 AND topic = \$2 "
    r"AND partition = CAST\(\$3 AS bigint\) ORDER BY from_offset DESC LIMIT 1"
)
def _last(link: Link, match: Any, parameters: Sequence[Any]) -> Answer:
    replay, topic, partition = parameters
    found = _of(link, match, replay=replay, topic=topic, partition=partition)
    slices = sorted((row["from_offset"], row["to_offset"]) for _, row in found)
    return slices[-1:], -1


# --- terms

_REPLAYS = r'"(?P<schema>playhead_ledger)"\."(?P<name>replays)"'


@shape(rf"CREATE TABLE IF NOT EXISTS {_REPLAYS} \(\s*replay text.*\)")
def _make_replays(link: Link, match: Any, _: Any) -> Answer:
    place = (match["schema"], match["name"])
    if place not in link.base.tables:
        link.base.create(place, {"replay": "text", "terms": "text"}, ("replay",))
    return [], -1


@shape(rf"SELECT CAST\(terms AS text\) FROM {_REPLAYS} WHERE replay = \$1")
def _terms(link: Link, match: Any, parameters: Sequence[Any]) -> Answer:
    return [(row["terms"],) for _, row in _of(link, match, replay=parameters[0])], -1


@shape(rf"SELECT replay, terms::text FROM {_REPLAYS} WHERE terms::text LIKE \$1")
def _terms_like(link: Link, match: Any, parameters: Sequence[Any]) -> Answer:
    part = parameters[0].strip("%")
    found = [row for _, row in _of(link, match) if part in row["terms"]]
    return [(row["replay"], row["terms"]) for row in found], -1


@shape(rf"INSERT INTO {_REPLAYS} \(replay, terms\) VALUES \(\$1, \$2::text::json\)")
def _add_terms(link: Link, match: Any, parameters: Sequence[Any]) -> Answer:
    assert link.transaction is not None
    row = dict(zip(("replay", "terms"), parameters, strict=True))
    link.base.insert(_ledger(link, match), link.transaction, row)
    return [], 1


@shape(rf"UPDATE {_REPLAYS} SET terms = \$2::text::json WHERE replay = \$1")
def _change_terms(link: Link, match: Any, parameters: Sequence[Any]) -> Answer:
    assert link.transaction is not None
    for rid, row in _of(link, match, replay=parameters[0]):
        changed = row | {"terms": parameters[1]}
        link.base.update(_ledger(link, match), link.transaction, rid, changed)
    return [], 1


@shape(
    r"SELECT c\.oid::int8 FROM pg_catalog\.pg_class c .* WHERE n\.nspname = \$1 AND c\.relname = \$2"
)
def _oid(link: Link, _: Any, parameters: Sequence[Any]) -> Answer:
    table = link.base.tables.get((parameters[0], parameters[1]))
    return ([] if table is None else [(table.oid,)]), -1
