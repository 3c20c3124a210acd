"""Finds the table of a name, as the user's own psql would."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from playhead.errors import Refused, did_you_mean
from playhead.postgres.answers import only_row, reading
from playhead.postgres.session import Row, TableName

Ask = Callable[[str, Sequence[Any]], Sequence[Row]]
# The server cuts longer names, so that two topics could get one table.
_LONGEST_BYTES = 63


class BadTableName(Refused):
    """A text that is not a valid table name."""

    def __init__(self, name: str, *, reason: str) -> None:
        self.name = name
        super().__init__(
            f"{name!r} is not a table name: {reason}",
            hint='write TABLE, SCHEMA.TABLE or "Schema"."Table"; {topic} is replaced by the topic',
        )


class NoTable(Refused):
    """The table does not exist; the hint names those with similar names."""

    def __init__(self, place: TableName, *, existing: Mapping[str, str], hint: str) -> None:
        self.place = place
        near = did_you_mean(place.name, existing, shown=existing.__getitem__)
        super().__init__(f"there is no table {place}", hint=f"{near} {hint}" if near else hint)


def no_table(ask: Ask, place: TableName, *, hint: str) -> NoTable:
    """Return the error for a table that does not exist, after a look at those that do."""
    found = ask(
        "SELECT n.nspname::text, c.relname::text FROM pg_catalog.pg_class c "
        "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p') "
        "AND n.nspname NOT IN ('information_schema', 'playhead') AND n.nspname !~ '^pg_' "
        "ORDER BY n.nspname = $1, 1, 2 DESC LIMIT 10000",  # Of two, the last one counts.
        (place.schema,),
    )
    with reading():
        existing = {name: f"{schema}.{name}" for schema, name in found}
        return NoTable(place, existing=existing, hint=hint)


def parts_of(name: str, topic: str = "") -> tuple[str | None, str]:
    """Return the schema (or None) and the table; the first dot separates them, never a topic's own dots."""
    head, rest = _first(name)
    schema: str | None = None
    table = head
    if rest is not None:
        # After a schema, dots belong to the table, unless the table is quoted too.
        schema = head
        table, more = _first(rest) if rest.startswith('"') else (rest, None)
        if more is not None:
            raise BadTableName(name, reason="something follows the table")
    found = [each and each.replace("{topic}", topic) for each in (schema, table)]
    for each in found:
        if each is None:
            continue
        length = len(each.encode("utf-8", "replace"))
        if not 0 < length <= _LONGEST_BYTES:
            reason = f"{each!r} has {length} bytes, needed 1 to {_LONGEST_BYTES}"
            raise BadTableName(name, reason=reason)
        if "\0" in each or any("\ud800" <= sign <= "\udfff" for sign in each):
            raise BadTableName(name, reason=f"{each!r} has a character that no name can have")
    return found[0], found[1] or ""


def place_of(ask: Ask, name: str, topic: str = "") -> TableName:
    """Return where the table is, or would be created; without a schema, by the search path."""
    schema, table = parts_of(name, topic)
    # As written, else folded like an unquoted SQL name.
    for wanted in ((schema, table), (schema and schema.lower(), table.lower())):
        # Not to_regclass(), which needs a right on the schema: missing rights are reported together
        # later.
        found = ask(
            "SELECT n.nspname::text, c.relname::text FROM pg_catalog.pg_class c "
            "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relname = $1 "
            "AND (n.nspname = $2 OR $2 = '' AND pg_catalog.pg_table_is_visible(c.oid))",
            (wanted[1], wanted[0] or ""),
        )
        if found:
            schema, table = only_row(found[:1], (str, str))
            return TableName(schema, table)
    if schema is not None:
        return TableName(schema, table)
    (current,) = only_row(ask("SELECT pg_catalog.current_schema()::text", ()), [str | None])
    if current is None:
        raise BadTableName(name, reason="it has no schema, and nor has the search path")
    return TableName(current, table)


def _first(text: str) -> tuple[str, str | None]:
    """Return the first identifier, and what follows its dot."""
    if not text.startswith('"'):
        head, dot, rest = text.partition(".")
        return head, rest if dot else None
    end = 1
    while (end := text.find('"', end)) >= 0 and text[end : end + 2] == '""':
        end += 2
    rest = text[end + 1 :]
    if end < 0 or (rest and not rest.startswith(".")):
        raise BadTableName(text, reason="its quotes do not match")
    return text[1:end].replace('""', '"'), rest[1:] if rest else None
