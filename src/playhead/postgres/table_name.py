"""Finds the table that a name means, as the person's own psql would."""

from collections.abc import Callable, Sequence
from typing import Any

from playhead.errors import Refused
from playhead.postgres.session import Row, TableName

Ask = Callable[[str, Sequence[Any]], Sequence[Row]]
# The server cuts longer ones short, and two topics could come to mean one table.
_LONGEST_BYTES = 63


class BadTableName(Refused):
    """A name that can be no table's."""

    def __init__(self, name: str, *, reason: str) -> None:
        self.name = name
        super().__init__(
            f"{name!r} names no table: {reason}",
            hint='TABLE, SCHEMA.TABLE or "Schema"."Table"; {topic} stands for the topic',
        )


def parts_of(name: str, topic: str = "") -> tuple[str | None, str]:
    """Schema, None when unsaid, and table; the first dot parts them, a topic's own dots never do."""
    head, rest = _first(name)
    schema: str | None = None
    table = head
    if rest is not None:
        # After a schema, dots belong to the table, unless that is quoted too.
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
            reason = f"{each!r} has {length} bytes, and 1 to {_LONGEST_BYTES} are allowed"
            raise BadTableName(name, reason=reason)
        if "\0" in each or any("\ud800" <= sign <= "\udfff" for sign in each):
            raise BadTableName(name, reason=f"{each!r} has a character that no name can have")
    return found[0], found[1] or ""


def place_of(ask: Ask, name: str, topic: str = "") -> TableName:
    """Where the table is, or where it would be made: an unsaid schema is that of the search path."""
    schema, table = parts_of(name, topic)
    # As it stands, else folded as SQL folds what is not quoted.
    for wanted in ((schema, table), (schema and schema.lower(), table.lower())):
        # Not to_regclass(), which wants a right to use the schema: what is missing is said later, at once.
        found = ask(
            "SELECT n.nspname::text, c.relname::text FROM pg_catalog.pg_class c "
            "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relname = $1 "
            "AND (n.nspname = $2 OR $2 = '' AND pg_catalog.pg_table_is_visible(c.oid))",
            (wanted[1], wanted[0] or ""),
        )
        if found:
            return TableName(*found[0])
    if schema is not None:
        return TableName(schema, table)
    [(current,)] = ask("SELECT current_schema()::text", ())
    if current is None:
        raise BadTableName(name, reason="it has no schema, and nor has the search path")
    return TableName(current, table)


def _first(text: str) -> tuple[str, str | None]:
    """The first identifier, and what follows its dot."""
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
