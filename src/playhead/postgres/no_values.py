"""Refuses a replay whose rows would have no values: no column fits, or there is nothing to infer columns from."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from playhead.errors import Refused
from playhead.note import Note
from playhead.postgres.errors import RightMissing
from playhead.postgres.rows.column_layout import Layout
from playhead.postgres.rows.python_json import Documents, read_object
from playhead.postgres.rows.text_format import Bad
from playhead.postgres.session import Session, TableName
from playhead.records import Records
from playhead.tables.columns import WHOLE
from playhead.target import InspectRequest

_SHOWN = 8
_DECODE_WHOLE = "--decode string takes each value as a whole, --decode avro and others decode it"


@dataclass(slots=True)
class SampledValues:
    """What the sampled values of a topic are."""

    records: int = 0
    tombstones: int = 0
    unreadable: list[str] = field(default_factory=list)
    """Values that are no JSON objects, each with its reason."""
    fields: dict[str, None] = field(default_factory=dict)
    """Names of fields, in the order of their first sight."""

    @classmethod
    def of(cls, samples: Iterable[Records]) -> "SampledValues":
        seen = cls()
        for records in samples:
            seen.records += len(records)
            for offset, value in zip(records.offsets, records.readable, strict=True):
                if value is None:
                    seen.tombstones += 1
                    continue
                try:
                    seen.fields.update(dict.fromkeys(read_object(value)))
                except Bad as bad:
                    place = f"{records.topic}:{records.partition} offset {offset}"
                    seen.unreadable.append(f"{place}: {bad.reason}")
        return seen

    @property
    def values(self) -> int:
        return self.records - self.tombstones

    @property
    def are_all_unreadable(self) -> bool:
        return 0 < self.values == len(self.unreadable)

    @property
    def not_json(self) -> str:
        """How many values are no JSON objects, and the first of them."""
        return (
            f"{len(self.unreadable):,} of {self.values:,} sampled values are not JSON objects; "
            f"the first is {self.unreadable[0]}"
        )


def refuse_nothing_to_infer(
    place: TableName, topics: Sequence[str], samples: Sequence[Records]
) -> None:
    """Return when some sampled value has a field, of which a new table can have a column."""
    seen = SampledValues.of(samples)
    if any(seen.fields):
        return
    table, named = f"no table {place} can be made", _listed(topics)
    if seen.are_all_unreadable:
        raise Refused(f"{table}: {seen.not_json}", hint=_DECODE_WHOLE)
    if not seen.records:
        reason = f"no record of {named} was found from which columns could be inferred"
    elif not seen.values:
        reason = (
            f"the values of all {seen.records:,} sampled records of {named} are null (tombstones)"
        )
    else:
        reason = f"none of the {seen.values:,} sampled values of {named} has a field"
    raise Refused(
        f"{table}: {reason}",
        hint="choose a span and a filter with records that have fields (playhead timeline shows where the "
        "records are); or create the table yourself; --decode none writes metadata only",
    )


def refuse_place(session: Session, place: TableName) -> None:
    """Return when the schema of a new table is there and the user may create tables in it."""
    found = session.rows(
        "SELECT pg_catalog.has_schema_privilege(n.oid, 'CREATE'), current_user::text "
        "FROM pg_catalog.pg_namespace n WHERE n.nspname = $1",
        (place.schema,),
        kinds=(bool, str),
    )
    if not found:
        raise Refused(
            f"no table {place} can be made: there is no schema {place.schema}",
            hint=f'CREATE SCHEMA "{place.schema}"; or name a table of another schema: postgres:SCHEMA.TABLE',
        )
    may_create, user = found[0]
    if not may_create:
        grant = f'GRANT CREATE ON SCHEMA "{place.schema}" TO {user}'
        reason = f"user {user} has no right to create tables in schema {place.schema}"
        raise RightMissing(session.where, reason=reason, grant=grant)


def notes_of_layout(
    layout: Layout, topic: str, decode: str, look: InspectRequest
) -> Iterator[Note]:
    """Return the notes about values and columns; refuse a table that takes nothing of the values."""
    table = layout.table.place
    if decode == "none":
        return
    if not layout.values and layout.extra is None:
        wanted = "a field of a value" if decode == "json" else f"the value ({' or '.join(WHOLE)})"
        raise Refused(
            f"{table} has no column for {wanted}: its rows would lack the values",
            hint=f"ALTER TABLE {table} ADD COLUMN …; --decode none writes metadata only",
        )
    if decode != "json":
        return
    seen = SampledValues.of(look.of(topic))
    if seen.are_all_unreadable and look.ends_on_refusal:
        raise Refused(
            f"values of {topic} cannot be taken apart: {seen.not_json}", hint=_DECODE_WHOLE
        )
    yield from notes_of_values(topic, decode, look)
    has_fields = any(seen.fields) and layout.extra is None
    if has_fields and not (_fits(layout, look.of(topic)) or _fits(layout, look.wider().of(topic))):
        columns = _listed(each.name for each in layout.values)
        raise Refused(
            f"no column of {table} takes a field of the sampled values of {topic}: its rows would lack "
            f"the values. Fields: {_listed(seen.fields)}; columns: {columns}",
            hint="--select gives fields other names; --extra-fields COLUMN stores all in a column of type jsonb",
        )


def notes_of_values(topic: str, decode: str, look: InspectRequest) -> Iterator[Note]:
    """Return a note if some of the sampled values cannot be taken apart."""
    seen = SampledValues.of(look.of(topic)) if decode == "json" else SampledValues()
    if seen.unreadable:
        text = f"{topic}: {seen.not_json}; --on-error applies to such records"
        yield Note("target-values-not-json", text)


def _fits(layout: Layout, samples: Iterable[Records]) -> bool:
    documents = Documents(layout.values)
    for records in samples:
        for value in records.readable:
            try:
                if value is not None and documents.spelling(read_object(value)):
                    return True
            except Bad:
                continue
    return False


def _listed(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return ", ".join(name[:64] for name in listed[:_SHOWN]) + more
