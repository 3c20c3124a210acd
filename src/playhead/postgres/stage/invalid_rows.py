"""The statements that find and remove staged rows that the server would certainly refuse."""

from collections.abc import Sequence

from playhead.postgres.merge_sql import STAGE, TEXTS, MergeSql, named, read_first_as
from playhead.postgres.rows.column_layout import Field
from playhead.postgres.rows.decode import ORDER
from playhead.postgres.session import literal

# Each returns offset, SQLSTATE and reason.


def before_read(as_text: Sequence[Field], *, has_validity: bool) -> list[str]:
    """Return statements for texts that their type cannot parse."""
    if not has_validity:
        return []
    typed = [
        (each.name, read_first_as(each) or each.aside) for each in as_text if each.aside != "text"
    ]
    return [_invalid(TEXTS, typed)] if typed else []


def before_insert(merge: MergeSql, *, has_validity: bool) -> list[str]:
    """Return statements for staged rows that cannot be rows of the table."""
    sweeps = []
    for each in merge.fields:
        if each.column.is_required and each.column.default is None:
            reason = literal(f"null in column {each.name}, which must not be null")
            sweeps.append(
                f"DELETE FROM {STAGE} WHERE {named(each.name)} IS NULL "  # noqa: S608 - all quoted
                f"RETURNING {named(ORDER)}, '23502', {reason}"
            )
    narrow = [
        (each.name, (each.is_unread_aside and read_first_as(each)) or each.column.type)
        for each in merge.fields
        if each.is_unread_aside or each.column.type != each.column.base_type
    ]
    if has_validity and narrow:
        sweeps.append(_invalid(STAGE, narrow))
    if merge.rule == "error" and merge.key:
        sweeps.append(merge.known())
    return sweeps


def _invalid(table: str, typed: Sequence[tuple[str, str]]) -> str:
    """Return the statement with pg_input_is_valid, which PostgreSQL 16 introduced."""
    tests = [
        f"pg_catalog.pg_input_is_valid({_text(name)}, {literal(kind)})" for name, kind in typed
    ]
    codes, reasons = [], []
    for (name, kind), test in zip(typed, tests, strict=True):
        said = f"pg_catalog.pg_input_error_info({_text(name)}, {literal(kind)})"
        codes.append(f"WHEN NOT {test} THEN (SELECT sql_error_code FROM {said})")  # noqa: S608
        reasons.append(
            f"WHEN NOT {test} THEN {literal(f'column {name}: ')} || (SELECT message FROM {said})"  # noqa: S608
        )
    return (
        f"DELETE FROM {table} WHERE NOT ({' AND '.join(tests)}) "  # noqa: S608
        f"RETURNING {named(ORDER)}, CASE {' '.join(codes)} END, CASE {' '.join(reasons)} END"
    )


def _text(name: str) -> str:
    return f"{named(name)}::text"
