"""Creates a table for records, with columns inferred from a sample."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from playhead import decoding
from playhead.errors import Refused
from playhead.postgres.rows.column_layout import OWN_NAMES
from playhead.postgres.rows.column_types import LONGEST_NAME
from playhead.postgres.rows.python_json import read_object
from playhead.postgres.rows.text_format import Bad, Number
from playhead.postgres.session import TableName
from playhead.records import Records
from playhead.tables.column_names import refuse_fields, shown_name, why_no_name
from playhead.tables.columns import EXTRA, KEY, METADATA, PLACE
from playhead.tables.sql import listed, named
from playhead.target import InspectRequest

MOST_COLUMNS = 1_600
# System columns of every table.
_OF_THE_SERVER = ("tableoid", "xmin", "cmin", "xmax", "cmax", "ctid")

_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)")
# Every whole number up to this one is exact in a double.
_LARGEST_EXACT = 1 << 53
_METADATA = (
    ("_topic", "text"),
    ("_partition", "integer"),
    ("_offset", "bigint"),
    ("_timestamp", "timestamptz"),
)
# A scale belongs to one schema: numbers of another schema would be rounded.
_TYPES: Final = {
    decoding.BOOLEAN: "boolean",
    decoding.INTEGER: "bigint",
    decoding.DOUBLE: "double precision",
    decoding.DECIMAL: "numeric",
    decoding.TEXT: "text",
    decoding.BYTES: "bytea",
    decoding.UUID: "uuid",
    decoding.JSON: "jsonb",
    decoding.INSTANT: "timestamptz",
    decoding.LOCAL_TIME: "timestamp",
    decoding.DATE: "date",
    decoding.CLOCK_TIME: "time",
}
# The allowed types; nothing else of a saved plan enters a statement without quotes.
_KINDS = frozenset((*_TYPES.values(), "integer"))

# The columns of a table for whole values.
KINDS_OF_WHOLE: Final = {
    "string": {decoding.WHOLE: decoding.TEXT},
    "bytes": {decoding.WHOLE: decoding.BYTES},
}


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table to create; its statement is generated when it is needed, and not stored."""

    place: TableName
    columns: tuple[tuple[str, str], ...]
    """Names, and types of ours."""
    key: tuple[str, ...]
    replaces: bool = False
    """Whether it takes the place of an empty one that an earlier replay created."""

    def __post_init__(self) -> None:
        names = [name for name, _ in self.columns]
        texts = (self.place.schema, self.place.name, *names, *self.key)
        kinds = {kind for _, kind in self.columns}
        if not all(map(_is_name, texts)) or kinds - _KINDS:
            raise ValueError(f"a table to be made: found {self.place}, {self.columns}")

    @property
    def primary_key(self) -> tuple[str, ...]:
        return self.key

    @property
    def statement(self) -> str:
        """Return the statement; all names in it are quoted here."""
        columns = ", ".join(f"{named(name)} {kind}" for name, kind in self.columns)
        parts = f"{columns}, PRIMARY KEY ({listed(self.key)})"
        return f"CREATE TABLE IF NOT EXISTS {self.place.quoted} ({parts})"

    @property
    def statements(self) -> tuple[str, ...]:
        """All that is done for it, in order."""
        dropped = (f"DROP TABLE {self.place.quoted}",) if self.replaces else ()
        return (*dropped, self.statement)

    def as_document(self) -> dict[str, Any]:
        place = [self.place.schema, self.place.name]
        columns = [list(each) for each in self.columns]
        document = {"table": place, "columns": columns, "key": list(self.key)}
        return document | ({"replaces": True} if self.replaces else {})

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "NewTable":
        schema, name = document["table"]
        columns = tuple((column, kind) for column, kind in document["columns"])
        replaces = document.get("replaces") is True
        return cls(TableName(schema, name), columns, tuple(document["key"]), replaces)


def kinds_of(look: InspectRequest, topics: Sequence[str]) -> dict[str, str]:
    """Return what schemas say of the fields of several topics; JSON holds what they say differently."""
    found: dict[str, str] = {}
    for topic in topics:
        for name, kind in look.kinds.get(topic, {}).items():
            found[name] = kind if found.get(name, kind) == kind else decoding.JSON
    return found


def table_for(
    place: TableName,
    samples: Iterable[Records],
    key: Sequence[str],
    kinds: Mapping[str, str],
    extra: str | None = None,
    *,
    is_whole: bool = False,
) -> NewTable:
    """Return the table for such records; its key is the requested one, or the record's origin.

    `kinds` is what a schema says of fields; what it does not say is inferred. `extra` is a column for
    the fields that no other one takes. Values that are taken as a whole have no fields.
    """
    runs = list(samples)
    found = {} if is_whole else _fields(value for run in runs for value in run.readable)
    names = [name for name in dict.fromkeys((*kinds, *found)) if name != extra]
    fields = {name: found.get(name, []) for name in names}
    rest = [] if extra is None else [(extra, "jsonb")]
    refuse_fields(
        str(place),
        fields,
        why_not,
        beside=len(_METADATA) + 1 + len(rest),
        most=MOST_COLUMNS,
        instead="a column _extra jsonb for the other fields",
    )
    if extra is not None:
        refuse_extra_name(str(place), extra)
    own = (*(name for name, _ in _METADATA), KEY)
    missing = [name for name in key if name not in (*fields, *own)]
    if missing:
        raise Refused(
            f"cannot create table {place} with key {', '.join(key)}: no sampled record has {', '.join(missing)}",
            hint=f"fields found: {', '.join(fields) or 'none'}",
        )
    columns = [
        (name, _TYPES[kinds[name]] if name in kinds else _type(values))
        for name, values in fields.items()
    ]
    columns += (*rest, *_METADATA)
    columns.append((KEY, _key_type(key for run in runs for key in run.keys)))
    return NewTable(place, tuple(columns), tuple(key) or PLACE)


def _is_name(text: object) -> bool:
    """Return whether it can be a name, uncut; the server's own names are checked with the fields.

    The server would read a statement only up to a NUL, and so another one than is shown.
    """
    return isinstance(text, str) and text != "" and "\0" not in text and length_fits(text)


def _fields(values: Iterable[bytes | None]) -> dict[str, list[Any]]:
    """Return every field of the sampled values in the order of appearance; invalid JSON is skipped."""
    fields: dict[str, list[Any]] = {}
    for value in values:
        try:
            document = read_object(value) if value else {}
        except Bad:
            continue
        for name, held in document.items():
            if name:
                fields.setdefault(name, []).append(held)
    return fields


def _type(values: Sequence[Any]) -> str:
    held = [value for value in values if value is not None]
    kinds = {type(value) for value in held}
    if not kinds:
        return "text"
    if kinds == {bool}:
        return "boolean"
    if kinds == {int}:
        return "bigint" if all(abs(value) < 1 << 62 for value in held) else "numeric"
    if kinds <= {int, Number}:
        return "double precision" if all(map(_is_double, held)) else "numeric"
    if kinds == {str}:
        return "timestamptz" if all(map(_INSTANT.fullmatch, held)) else "text"
    return "jsonb"


def _is_double(held: "int | Number") -> bool:
    """Return whether a double holds the written number exactly; NaN is not a JSON number."""
    if isinstance(held, int):
        return abs(held) <= _LARGEST_EXACT
    try:
        return Decimal(held) == Decimal(repr(float(held)))
    except InvalidOperation:
        return True


def _key_type(keys: Iterable[bytes | None]) -> str:
    try:
        for key in keys:
            (key or b"").decode()
    except UnicodeDecodeError:
        return "bytea"
    return "text"


def refuse_extra_name(table: str, name: str) -> None:
    """Raises where the column for the fields that no other one takes cannot have the name."""
    reason = None if name == EXTRA else why_not(name)
    if reason is not None:
        raise Refused(
            f"no table {table} can be made with --extra-fields {shown_name(name)}: it {reason}",
            hint=f"--extra-fields with another name, such as {EXTRA}",
        )


def why_not(name: str) -> str | None:
    """Return why a name cannot be a column; None if it can."""
    if (reason := why_no_name(name)) is not None:
        return reason
    length = len(name.encode())
    if length > LONGEST_NAME:
        return f"has {length} bytes, but the server cuts names after {LONGEST_NAME}"
    if name in _OF_THE_SERVER:
        return "is a system column of every table"
    if name in METADATA or name == EXTRA:
        return "is a column that Playhead fills"
    if name.startswith(OWN_NAMES):
        return f"begins with {OWN_NAMES!r}, like Playhead's own names"
    return None


def length_fits(name: str) -> bool:
    """Return whether the server keeps the whole name."""
    return len(name.encode("utf-8", "replace")) <= LONGEST_NAME
