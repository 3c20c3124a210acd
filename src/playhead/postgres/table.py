"""Reads a table's description from the catalog: columns, types, and keys."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from playhead.postgres.answers import reading
from playhead.postgres.errors import DataError
from playhead.postgres.session import Row, TableName
from playhead.written_rows import ColumnThere

Ask = Callable[[str, Sequence[Any]], Sequence[Row]]

# The database's default collation is always deterministic; of others only these are known to be.
DETERMINISTIC = ("", 'pg_catalog."C"', 'pg_catalog."POSIX"')

_COLUMNS = """
SELECT a.attname::text, pg_catalog.format_type(a.atttypid, a.atttypmod), base.typname::text,
       base.typtype::text, coalesce(element.typname::text, ''), a.atttypmod::int8,
       a.attnotnull OR t.typnotnull, a.attidentity::text, a.attgenerated::text,
       pg_catalog.format_type(base.oid, -1),
       CASE WHEN a.attidentity <> '' THEN ''
            WHEN a.attgenerated = '' THEN coalesce(
                pg_catalog.pg_get_expr(d.adbin, d.adrelid), pg_catalog.pg_get_expr(t.typdefaultbin, 0),
                pg_catalog.quote_literal(t.typdefault) || '::' || pg_catalog.format_type(t.oid, -1)) END,
       coalesce((SELECT pg_catalog.format('%I.%I', n.nspname, o.collname) FROM pg_catalog.pg_collation o
                 JOIN pg_catalog.pg_namespace n ON n.oid = o.collnamespace
                 WHERE o.oid = a.attcollation AND o.collname <> 'default'), ''),
       lowest.modifier::int8,
       a.attnum::int8, pg_catalog.format_type(base.oid, lowest.modifier),
       coalesce(element.oid, base.oid)::int8, base.typcategory = 'A',
       CASE WHEN coalesce(element.typname, base.typname) = 'money' THEN 1234.5::numeric::money::text ELSE '' END,
       coalesce((WITH RECURSIVE up AS (
                     SELECT element.typtype, element.typbasetype
                     UNION ALL SELECT p.typtype, p.typbasetype
                     FROM up JOIN pg_catalog.pg_type p ON p.oid = up.typbasetype
                 ) SELECT typtype::text FROM up WHERE typtype <> 'd'), '')
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
JOIN LATERAL (
    WITH RECURSIVE up AS (
        SELECT t.oid, t.typbasetype, t.typtype, a.atttypmod AS modifier, t.typtypmod
        UNION ALL
        SELECT p.oid, p.typbasetype, p.typtype,
               CASE WHEN up.typtypmod = -1 THEN up.modifier ELSE up.typtypmod END, p.typtypmod
        FROM up JOIN pg_catalog.pg_type p ON p.oid = up.typbasetype WHERE up.typtype = 'd'
    ) SELECT oid, modifier FROM up WHERE typtype <> 'd'
) lowest ON true
JOIN pg_catalog.pg_type base ON base.oid = lowest.oid
LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
LEFT JOIN pg_catalog.pg_type element ON element.oid = base.typelem AND base.typcategory = 'A'
WHERE a.attrelid = $1::int8::oid AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""
# Of a type that is not PostgreSQL's own: whether it contains times, and a type of an extension such as hstore or
# geometry, and of what types it is made.
_PARTS = """
WITH RECURSIVE part AS (
    SELECT $1::int8::oid AS oid
    UNION
    SELECT inner_type.oid FROM part JOIN pg_catalog.pg_type p ON p.oid = part.oid,
    LATERAL (
        SELECT p.typbasetype UNION ALL SELECT p.typelem
        UNION ALL SELECT r.rngsubtype FROM pg_catalog.pg_range r WHERE r.rngtypid = p.oid
        UNION ALL SELECT f.atttypid FROM pg_catalog.pg_attribute f
                  WHERE f.attrelid = p.typrelid AND f.attnum > 0 AND NOT f.attisdropped
        UNION ALL SELECT w.refobjid FROM pg_catalog.pg_depend w
                  WHERE p.typtype = 'm' AND w.objid = p.oid AND w.deptype = 'i'
                  AND w.classid = 1247::oid AND w.refclassid = 1247::oid
    ) inner_type (oid)
), piece AS (
    SELECT p.typcategory = 'D' AND p.oid < 16384::oid AS holds_times,
           p.typtype = 'b' AND p.typelem = 0::oid AND p.typcategory <> 'S' AND p.oid >= 16384::oid AS is_unknown,
           CASE p.typtype
        WHEN 'd' THEN pg_catalog.format_type(p.typbasetype, p.typtypmod)
        WHEN 'e' THEN 'enum'
        WHEN 'c' THEN (
            SELECT pg_catalog.string_agg(pg_catalog.format('%I %s', f.attname, CASE
                       WHEN f.atttypid < 16384::oid THEN pg_catalog.format_type(f.atttypid, f.atttypmod)
                       ELSE 'type' END), ', ' ORDER BY f.attnum)
            FROM pg_catalog.pg_attribute f
            WHERE f.attrelid = p.typrelid AND f.attnum > 0 AND NOT f.attisdropped)
        ELSE p.typname::text END AS made_of
    FROM part JOIN pg_catalog.pg_type p ON p.oid = part.oid
) SELECT pg_catalog.bool_or(holds_times), pg_catalog.bool_or(is_unknown),
         pg_catalog.string_agg(made_of, '; ' ORDER BY made_of) FROM piece
"""
_FIRST_OF_USERS = 16384
# Types of which the server may keep less than a text says, without an error, in what `_PARTS` says of a type.
_MAY_ALTER = re.compile(
    r"(?:^|[ ;])(?:numeric\(|character varying\(|money|interval|jsonb|tsvector|tid|"
    r'name|"char"|oid|xid8?|cid)[^ ,;]*(?:[,;]|$)'
)
_TABLE = """
SELECT c.oid::int8, c.relkind::text,
       CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_partition_tree(c.oid) p JOIN pg_catalog.pg_class l ON l.oid = p.relid
                         WHERE l.relpersistence = 'u') THEN 'u' ELSE c.relpersistence::text END,
       n.nspname::text, c.relname::text,
       EXISTS (SELECT FROM pg_catalog.pg_trigger g WHERE g.tgrelid = c.oid AND NOT g.tgisinternal),
       EXISTS (SELECT FROM pg_catalog.pg_trigger g WHERE NOT g.tgisinternal AND g.tgenabled <> 'D'
               AND g.tgtype::int4 & 28 <> 0 AND g.tgrelid = ANY (part.oids))
       OR EXISTS (SELECT FROM pg_catalog.pg_rewrite w WHERE w.ev_class = c.oid AND w.ev_type IN ('3', '4')
                  AND w.ev_enabled <> 'D'),
       pg_catalog.row_security_active(c.oid),
       EXISTS (SELECT FROM pg_catalog.pg_constraint k WHERE k.condeferrable AND (
               c.oid IN (k.conrelid, k.confrelid)
               OR k.conrelid IN (SELECT relid FROM pg_catalog.pg_partition_tree(c.oid)))),
       EXISTS (WITH RECURSIVE up AS (
                   SELECT k.confrelid AS oid FROM pg_catalog.pg_constraint k
                   WHERE k.conrelid = ANY (part.oids) AND k.contype = 'f' AND k.confdeltype = 'c'
                   UNION SELECT k.confrelid FROM up JOIN pg_catalog.pg_constraint k ON k.conrelid = up.oid
                   WHERE k.contype = 'f' AND k.confdeltype = 'c'
               ) SELECT FROM up WHERE up.oid = ANY (part.oids))
       OR EXISTS (WITH RECURSIVE below AS (
                      SELECT pg_catalog.unnest(part.oids) AS oid
                      UNION SELECT k.conrelid FROM below JOIN pg_catalog.pg_constraint k ON k.confrelid = below.oid
                      WHERE k.contype = 'f' AND (k.confdeltype IN ('c', 'n', 'd') OR k.confupdtype IN ('c', 'n', 'd'))
                  ) SELECT FROM below WHERE below.oid <> ALL (part.oids) AND (
                      EXISTS (SELECT FROM pg_catalog.pg_trigger g WHERE g.tgrelid = below.oid AND NOT g.tgisinternal
                              AND g.tgenabled <> 'D' AND g.tgtype::int4 & 28 <> 0)
                      OR EXISTS (SELECT FROM pg_catalog.pg_rewrite w WHERE w.ev_class = below.oid
                                 AND w.ev_type IN ('2', '4') AND w.ev_enabled <> 'D'))),
       EXISTS (SELECT FROM pg_catalog.pg_rewrite w WHERE w.ev_class = c.oid AND w.ev_type = '3' AND w.is_instead
               AND w.ev_enabled <> 'D')
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (
    WITH RECURSIVE part AS (
        SELECT c.oid
        UNION SELECT i.inhrelid FROM part JOIN pg_catalog.pg_inherits i ON i.inhparent = part.oid
    ) SELECT pg_catalog.array_agg(oid) AS oids FROM part
) part
WHERE n.nspname = $1 AND c.relname = $2
"""
_KEYS = """
SELECT pg_catalog.array_to_json(pg_catalog.array_agg(a.attname::text ORDER BY k.place))::text,
       i.indisprimary, i.indimmediate
FROM pg_catalog.pg_index i
JOIN LATERAL pg_catalog.unnest(i.indkey::int2[]) WITH ORDINALITY k (number, place) ON k.place <= i.indnkeyatts
JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
WHERE i.indrelid = $1::int8::oid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL
  AND i.indexprs IS NULL
GROUP BY i.indexrelid, i.indisprimary, i.indimmediate, i.indnkeyatts
HAVING pg_catalog.count(*) = i.indnkeyatts
ORDER BY i.indisprimary DESC, i.indexrelid
"""


@dataclass(frozen=True, slots=True)
class Column:
    """One column; `base` and `element` name its type in the catalog, below all domains."""

    name: str
    type: str
    """With its modifier, as in a statement."""
    base: str
    kind: str
    """The letter in the catalog: b(ase), c(omposite), e(num), r(ange), m(ultirange)."""
    element: str
    modifier: int
    is_required: bool
    identity: str
    generated: str
    base_type: str
    """The type below all domains, without a modifier, as in a statement."""
    default: str | None
    """An expression, the column's or its type's; empty if the server fills the column with a number."""
    collation: str = ""
    """As in a statement; empty for the database's default."""
    base_modifier: int = -1
    """The effective modifier, the column's or a domain's."""
    holds_times: bool = False
    """Whether a user-defined type contains times: a row, a range, an array."""
    may_alter_inside: bool = False
    """Whether the server may silently alter what is inside of such a type, or of one of an extension."""
    number: int = 0
    """The server's own, which a column that is dropped and added again does not get back."""
    made_of: str = ""
    """Its type below all domains, with the modifier; for rows, ranges and their arrays, the types inside."""

    decimal_point: str = "."
    """Of the type money, by the server's `lc_monetary`."""
    money_digits: int = 2
    """How many decimals the type money has, by the same."""
    element_kind: str = ""
    """As `kind`, of an array's elements, below all domains."""

    @property
    def there(self) -> ColumnThere:
        return ColumnThere(self.number, self.made_of)

    @property
    def is_ours(self) -> bool:
        """Whether values can be given for it."""
        return not self.generated and self.identity != "a"


@dataclass(frozen=True, slots=True)
class Key:
    """The columns of a unique index."""

    columns: tuple[str, ...]
    is_primary: bool
    is_immediate: bool


@dataclass(frozen=True, slots=True)
class Table:
    """The description of one table."""

    place: TableName
    oid: int
    kind: str
    persistence: str
    """The letter in the catalog; u(nlogged) also if one of its partitions is."""
    has_triggers: bool
    may_drop_rows: bool
    """Whether triggers of inserts, updates and deletes, or rules, may undo or drop what was written."""
    has_row_security: bool
    """For the present user."""
    has_deferred: bool
    """Whether a constraint may be checked as late as the transaction's end."""
    cascades: bool
    """Whether the deletion or update of a row may delete others, by foreign keys that lead back to this table, or
    that delete or update rows of one with triggers or rules; the keys of its partitions count, too."""
    columns: tuple[Column, ...]
    keys: tuple[Key, ...]
    may_write_elsewhere: bool = False
    """Whether a rule may write new rows to another table instead."""

    @property
    def primary_key(self) -> tuple[str, ...] | None:
        return next((key.columns for key in self.keys if key.is_primary), None)

    def column(self, name: str) -> Column | None:
        return next((column for column in self.columns if column.name == name), None)

    def has_key(self, columns: Sequence[str]) -> bool:
        """Return whether a unique index on exactly these columns can decide conflicts."""
        return any(set(key.columns) == set(columns) and key.is_immediate for key in self.keys)


def read_table(ask: Ask, place: TableName) -> Table | None:
    """Return the table's present description; None if it does not exist."""
    found = ask(_TABLE, (place.schema, place.name))
    if not found:
        return None
    with reading(DataError):
        oid, kind, persistence, schema, name, *more = found[0]
        triggers, drops, security, deferred, cascades, elsewhere = more
        columns = tuple(_column(ask, row) for row in ask(_COLUMNS, (oid,)))
        keys = tuple(_key(row) for row in ask(_KEYS, (oid,)))
        flags = (triggers, drops, security, deferred, cascades)
        place = TableName(schema, name)
        return Table(place, oid, kind, persistence, *flags, columns, keys, elsewhere)


def _column(ask: Ask, row: Row) -> Column:
    *facts, number, made_of, type_oid, is_array, money, element_kind = row
    holds_times = may_alter = False
    if type_oid >= _FIRST_OF_USERS:
        [(holds_times, is_unknown, made_of)] = ask(_PARTS, (type_oid,))
        may_alter = holds_times or is_unknown or _MAY_ALTER.search(made_of) is not None
        made_of += "[]" if is_array else ""
    more = (*form_of_money(money), element_kind)
    return Column(*[*facts, holds_times, may_alter, number, made_of, *more])


def form_of_money(money: str) -> tuple[str, int]:
    """Return the decimal point and the decimals of a server that writes 1234.5 so, with them or rounded."""
    between = re.findall(r"(?<=\d)\D+(?=\d)", money)
    is_rounded = len(between) == 1 and re.search(r"23[45]\D*$", money) is not None
    if is_rounded:
        return "," if between[0] == "." else ".", 0
    last = re.search(r"(\d+)\D*$", money)
    return (between[-1], len(last[1])) if between and last else (".", 0 if money else 2)


def _key(row: Row) -> Key:
    names, is_primary, is_immediate = row
    return Key(tuple(json.loads(names)), is_primary, is_immediate)
