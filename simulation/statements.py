"""Exactly the statements that the product sends, recognised by their shape; any other is an error."""

import json
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from simulation.database import IN_FAILED, Link, Transaction, refusal
from simulation.expressions import Unknown

Answer = tuple[Any, ...]
"""Rows, the number of rows changed, and True where the transaction stays open behind it."""
Work = Callable[[Link, Any, Sequence[Any]], Answer]
_PROCESS = 7
"""The number of the server's process, which is one for each link: no pooler is in the model."""


_SHAPES: list[tuple[re.Pattern[str], Work]] = []


def shape(pattern: str) -> Callable[[Work], Work]:
    """The statements that a function plays; a space stands for any white space."""

    def remember(work: Work) -> Work:
        _SHAPES.append((re.compile(pattern.replace(" ", r"\s+"), re.DOTALL), work))
        return work

    return remember


@lru_cache(maxsize=20_000)
def _recognised(statement: str) -> tuple[Work, re.Match[str]]:
    text = statement.strip()
    for pattern, work in _SHAPES:
        found = pattern.fullmatch(text)
        if found is not None:
            return work, found
    raise Unknown(text)


def execute(link: Link, statement: str, parameters: Sequence[Any]) -> Answer:
    """Play one statement."""
    work, match = _recognised(statement)
    own = link.transaction
    if own is not None and own.has_failed and work not in (_rollback, _rollback_to, _commit):
        raise refusal(IN_FAILED, "current transaction is aborted")
    return work(link, match, parameters)


# --- transactions and settings


@shape(r"BEGIN.*")
def _begin(link: Link, _: Any, __: Any) -> Answer:
    link.transaction = Transaction()
    return [], -1, True


@shape(r"COMMIT")
def _commit(link: Link, _: Any, __: Any) -> Answer:
    own = link.transaction
    assert own is not None
    if own.has_failed:
        return _rollback(link, None, ())
    try:
        link.base.refuse_orphans(own)
        link.base.commit(own)
    except BaseException:
        link.base.release(own)
        raise
    finally:
        link.transaction = None
    return [], -1


@shape(r"ROLLBACK")
def _rollback(link: Link, _: Any, __: Any) -> Answer:
    if link.transaction is not None:
        link.base.release(link.transaction)
    link.transaction = None
    return [], -1


@shape(r"SAVEPOINT playhead")
def _savepoint(link: Link, _: Any, __: Any) -> Answer:
    assert link.transaction is not None
    link.transaction.savepoints.append(link.transaction.snapshot())
    return [], -1


@shape(r"ROLLBACK TO SAVEPOINT playhead")
def _rollback_to(link: Link, _: Any, __: Any) -> Answer:
    assert link.transaction is not None
    link.transaction.restore(link.transaction.savepoints[-1])
    link.transaction.has_failed = False
    return [], -1


@shape(r"RELEASE SAVEPOINT playhead")
def _release(link: Link, _: Any, __: Any) -> Answer:
    assert link.transaction is not None
    link.transaction.savepoints.pop()
    return [], -1


@shape(r"SELECT pg_catalog\.set_config.*")
def _set_config(link: Link, _: Any, __: Any) -> Answer:
    return [("", _PROCESS)], -1


@shape(
    r"SELECT pg_catalog\.current_setting\('server_version_num'\)::int8, "
    r"pg_catalog\.current_setting\('lock_timeout'\), pg_catalog\.pg_backend_pid\(\)::int8"
)
def _version(link: Link, _: Any, __: Any) -> Answer:
    return [(180_000, "60s", _PROCESS)], -1


@shape(r"SET CONSTRAINTS ALL IMMEDIATE")
def _immediate(link: Link, _: Any, __: Any) -> Answer:
    assert link.transaction is not None
    link.transaction.is_immediate = True
    link.base.refuse_orphans(link.transaction)
    return [], -1


@shape(r"ANALYZE .*|CREATE INDEX .*|LOCK TABLE .* MODE")
def _nothing(link: Link, _: Any, __: Any) -> Answer:
    return [], -1


# --- locks


@shape(r"SELECT pg_catalog\.pg_try_advisory_lock\(pg_catalog\.hashtextextended\(\$1, 0\)\)")
def _try_lock(link: Link, _: Any, parameters: Sequence[Any]) -> Answer:
    return [(link.base.try_lock(("advisory", parameters[0]), link),)], -1


@shape(r"SELECT pg_catalog\.pg_advisory_unlock\(pg_catalog\.hashtextextended\(\$1, 0\)\)")
def _unlock(link: Link, _: Any, parameters: Sequence[Any]) -> Answer:
    return [(link.base.unlock(("advisory", parameters[0]), link),)], -1


@shape(r"SELECT pg_catalog\.pg_advisory_xact_lock\(pg_catalog\.hashtextextended\(\$1, 0\)\)")
def _lock(link: Link, _: Any, parameters: Sequence[Any]) -> Answer:
    link.base.lock(("advisory", parameters[0]), link.transaction)
    return [(b"",)], -1


# --- the catalog


@shape(
    r"SELECT system_identifier::text, pg_catalog\.current_database\(\)::text "
    r"FROM pg_catalog\.pg_control_system\(\)"
)
def _identity(link: Link, _: Any, __: Any) -> Answer:
    return [(link.base.system, "d")], -1


@shape(r"SELECT n\.nspname::text, c\.relname::text FROM pg_catalog\.pg_class c .*")
def _place(link: Link, _: Any, parameters: Sequence[Any]) -> Answer:
    name, schema = parameters
    found = (schema or "public", name)
    return ([found] if found in link.base.tables else []), -1


@shape(r"SELECT pg_catalog\.current_schema\(\)::text")
def _schema(link: Link, _: Any, __: Any) -> Answer:
    return [("public",)], -1


@shape(r"SELECT c\.oid::int8, c\.relkind::text, .*")
def _table(link: Link, _: Any, parameters: Sequence[Any]) -> Answer:
    table = link.base.tables.get((parameters[0], parameters[1]))
    if table is None:
        return [], -1
    has_deferred = bool(table.orphans)
    flags = (False, False, False, has_deferred, False, False)
    return [(table.oid, "r", "p", *table.place, *flags)], -1


@shape(
    r"SELECT o\.oid::int8, coalesce\(pg_catalog\.pg_relation_filenode\(o\.oid\), 0\)::int8 "
    r"FROM \(SELECT (\d+)::oid AS oid\) o ORDER BY 1"
)
def _files(link: Link, match: Any, __: Any) -> Answer:
    return [(int(match[1]), int(match[1]))], -1


_TYPES = {
    "int8": ("bigint", 20),
    "int4": ("integer", 23),
    "text": ("text", 25),
    "timestamptz": ("timestamp with time zone", 1184),
}


@shape(r"SELECT a\.attname::text, pg_catalog\.format_type.*")
def _columns(link: Link, _: Any, parameters: Sequence[Any]) -> Answer:
    table = next(each for each in link.base.tables.values() if each.oid == parameters[0])
    rows = []
    for name, base in table.kinds.items():
        kind, oid = _TYPES[base]
        is_required = name in table.required
        facts = (name, kind, base, "b", "", -1, is_required, "", "", kind, None, "", -1)
        rows.append((*facts, len(rows) + 1, kind, oid, False, "", ""))
    return rows, -1


@shape(r"SELECT pg_catalog\.array_to_json\(pg_catalog\.array_agg\(a\.attname.*")
def _keys(link: Link, _: Any, parameters: Sequence[Any]) -> Answer:
    table = next(each for each in link.base.tables.values() if each.oid == parameters[0])
    return ([(json.dumps(table.key, separators=(",", ":")), True, True)] if table.key else []), -1


@shape(r"SELECT pg_catalog\.pg_is_in_recovery\(\)")
def _recovery(link: Link, _: Any, __: Any) -> Answer:
    return [(False,)], -1


@shape(r"SELECT pg_catalog\.current_setting\('session_replication_role'\)")
def _replication_role(link: Link, _: Any, __: Any) -> Answer:
    return [("origin",)], -1


@shape(r"SELECT current_user::text, (.*has_.*)")
def _privileges(link: Link, match: Any, __: Any) -> Answer:
    return [("u", *([True] * (1 + match[1].count("has_table_privilege"))))], -1


@shape(r'SELECT EXISTS \(SELECT FROM "(\w+)"\."(\w+)"\)')
def _has_rows(link: Link, match: Any, __: Any) -> Answer:
    assert link.transaction is not None
    table = link.base.tables[match[1], match[2]]
    return [(any(True for _ in link.base.visible(table, link.transaction)),)], -1


def of_session(base: Any) -> Callable[[str], Link]:
    """What makes the product's links, connected to a database."""
    return lambda _: Link(base, execute)
