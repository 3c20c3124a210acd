"""The rows that records should have left, in the table's types, with a mask of their known columns."""

from collections.abc import Collection, Iterable, Sequence

from playhead.postgres.merge_sql import EXPECTED, MergeSql, named
from playhead.postgres.rows.column_layout import Field
from playhead.postgres.rows.column_types import INTEGERS
from playhead.postgres.rows.decode import ORDER
from playhead.postgres.rows.named_columns import FORM
from playhead.postgres.session import literal
from playhead.postgres.table import Table
from playhead.record import Slice
from playhead.tables.columns import OFFSET, PARTITION, PLACE, TOPIC

WANTED = "playhead_wanted"
BITS, LAYER = "playhead:named", "playhead:layer"
_ORDER, _FORM, _BITS, _LAYER = named(ORDER), named(FORM), named(BITS), named(LAYER)


def make_wanted(merge: MergeSql, fields: Sequence[Field], *, is_update: bool) -> str:
    """Create `WANTED` with all expected rows of a slice: a mask of known columns, and a layer.

    A row of a key that names other columns than the one before goes into a later layer.
    """
    bits, layer = _bits(merge, fields, is_update=is_update), "0"
    rows = EXPECTED
    if merge.forms and merge.key:
        order = f"(PARTITION BY {_listed(merge.key)} ORDER BY {_ORDER})"
        change = f"coalesce(({_FORM} <> pg_catalog.lag({_FORM}) OVER {order})::int, 0)"
        rows = f'(SELECT x.*, {change} AS "playhead:change" FROM {EXPECTED} x)'  # noqa: S608
        layer = f'pg_catalog.sum(e."playhead:change") OVER {order}'
    columns = [_ORDER, *map(named, (each.name for each in fields))]
    form = f"e.{_FORM}" if merge.forms else "0"
    return (
        f"CREATE TEMPORARY TABLE {WANTED} ON COMMIT DROP AS SELECT {', '.join(columns)}, "  # noqa: S608
        f"{form} AS {_FORM}, {layer} AS {_LAYER}, {bits} AS {_BITS} FROM {rows} e"
    )


def _listed(key: Sequence[str]) -> str:
    return ", ".join(map(named, key))


def _bits(merge: MergeSql, fields: Sequence[Field], *, is_update: bool) -> str:
    """Return SQL for one bit per column: whether its value is known."""
    if not merge.forms:
        known = bit_text(named_columns(merge, fields, None, is_update=is_update))
    else:
        cases = " ".join(
            f"WHEN {number} THEN "
            f"{bit_text(named_columns(merge, fields, number, is_update=is_update))}"
            for number in range(len(merge.forms))
        )
        known = f"CASE e.{_FORM} {cases} END"
    for index, each in enumerate(fields):
        if _may_be_default(each):
            # A NOT NULL column has got its default instead, which only the server knows.
            without = bit_text([number != index for number in range(len(fields))])
            known = f"{known} & CASE WHEN e.{named(each.name)} IS NULL THEN {without} ELSE ~{none(fields)} END"
    return f"({known})"


def named_columns(
    merge: MergeSql, fields: Sequence[Field], form: int | None, *, is_update: bool
) -> list[bool]:
    """Return the mask of columns that rows of a form name, or that nothing else can have filled."""
    given = merge.fields if form is None else merge.forms[form]
    return [each in given or (not is_update and each.column.default is None) for each in fields]


def _may_be_default(field: Field) -> bool:
    return field.column.is_required and field.column.default is not None


def bit_text(bits: Sequence[bool]) -> str:
    return f"B'{''.join('01'[bit] for bit in bits)}'"


def none(fields: Sequence[Field]) -> str:
    """Return the mask without any known column."""
    return bit_text([False] * len(fields))


# After the join of expected and actual rows: window functions in the same query would sort the columns of
# both, and PostgreSQL sorts no more than 1,664.
APART = "OFFSET 0"


def row_text(alias: str, fields: Sequence[Field]) -> str:
    """Return SQL for a row as one text, with the known columns only.

    Also key columns, by which rows are joined: equal values may have different texts.
    """
    columns = [
        f"CASE WHEN pg_catalog.get_bit(e.{_BITS}, {index}) = 1 THEN {alias}.{named(each.name)} END"
        for index, each in enumerate(fields)
    ]
    return f"ROW({', '.join(columns)})::text"


def differing(fields: Sequence[Field]) -> str:
    """Return SQL for the names of known columns in which `e` and `t` differ."""
    cases = ", ".join(
        f"CASE WHEN pg_catalog.get_bit(e.{_BITS}, {index}) = 1 AND "
        f"e.{named(each.name)}::text IS DISTINCT FROM t.{named(each.name)}::text "
        f"THEN {literal(each.name)} END"
        for index, each in enumerate(fields)
    )
    # As an array, because a function takes no more than 100 arguments.
    return f"pg_catalog.array_to_string(ARRAY[{cases}]::text[], ', ')"


def checksum(column: str, condition: str) -> str:
    """Return SQL for a sum of hashes, which ignores the order and counts duplicates."""
    hashes = f"pg_catalog.sum(pg_catalog.hashtextextended({column}, 0)::numeric)"
    return f"coalesce({hashes} FILTER (WHERE {condition}), 0)::text"


def has_place(table: Table) -> bool:
    """Return whether rows say which record they are from."""
    return all(table.column(name) is not None for name in PLACE)


def inside(table: Table, spans: Sequence[Slice]) -> str:
    """Return the condition that `t` is a row of one of these spans."""
    conditions = (
        f"t.{named(TOPIC)}::text = {literal(each.topic)} "
        f"AND {number(table, PARTITION)} = {each.partition} "
        f"AND {number(table, OFFSET)} >= {each.from_offset} "
        f"AND {number(table, OFFSET)} < {each.to_offset}"
        for each in spans
    )
    return "(" + " OR ".join(f"({each})" for each in conditions) + ")"


def unless_refused(table: Table, refused: Iterable[tuple[Slice, Collection[int]]]) -> str:
    """Return, as the rest of a WHERE, that `t` is not the row of a record that the table refuses now."""
    return "".join(
        f" AND NOT ({inside(table, [slice_])} AND {number(table, OFFSET)} = "
        f"ANY ('{{{','.join(map(str, offsets))}}}'::int8[]))"
        for slice_, offsets in refused
        if offsets
    )


def number(table: Table, name: str) -> str:
    """Return a column of `t` as a number, without a cast if it is one, so that an index can be used."""
    column = table.column(name)
    is_number = column is not None and column.base in INTEGERS
    return f"t.{named(name)}" if is_number else f"t.{named(name)}::text::int8"
