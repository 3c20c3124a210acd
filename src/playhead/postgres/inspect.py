"""Inspects a table before a replay: what is refused, and what is worth a note."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from playhead.errors import NoSuchColumn, Refused
from playhead.extra_fields import ExtraFields
from playhead.json_objects import FIELDS_REPEATED, REPEATED
from playhead.note import Note
from playhead.postgres.errors import RightMissing
from playhead.postgres.merge_sql import REPLACING
from playhead.postgres.open_table import WriteRules
from playhead.postgres.rows.altered_values import CUT, ROUNDED, alterations_of_text
from playhead.postgres.rows.column_layout import Layout, has_place
from playhead.postgres.rows.metadata_columns import altered_metadata, bytes_text
from playhead.postgres.rows.python_json import Documents, objects_of, read_object
from playhead.postgres.rows.text_format import Bad
from playhead.postgres.session import Session
from playhead.postgres.stage.kept_rows import count_deletions
from playhead.postgres.storage import foreign_partitions
from playhead.postgres.table import Table
from playhead.records import Records
from playhead.tables.columns import TIMESTAMP, TOPIC

_SHOWN = 8
_TIMES = ("timestamp", "timestamptz")


@dataclass(frozen=True)
class Subject:
    """A table, its layout, and sample records."""

    topic: str
    layout: Layout
    habits: WriteRules
    samples: Sequence[Records]
    others: Sequence[str] = ()
    """Other topics that go to the same table."""

    @property
    def table(self) -> Table:
        return self.layout.table

    @cached_property
    def documents(self) -> Sequence[dict[str, object]]:
        """The values of the samples that are JSON objects."""
        return objects_of(self.samples)


def refuse(session: Session, subject: Subject) -> None:
    """Refuse what cannot work, before anything is written."""
    _refuse_replica(session)
    _refuse_kind(subject.table)
    _refuse_missing_privileges(session, subject)
    _refuse_unknown_key(subject)
    _refuse_habits_without_key(subject)
    _refuse_unfilled(subject)
    table = subject.table
    may_remove = subject.habits.tombstones == "delete" or subject.habits.rule in REPLACING
    if table.may_drop_rows or (table.cascades and may_remove):
        with session.transaction():
            count_deletions(session, table)


def notes(session: Session, subject: Subject) -> Iterator[Note]:
    """Yield notes, most of them about what happens to a value's fields."""
    yield from _notes_of_fields(subject)
    yield from _notes_of_table(subject)
    yield from _notes_of_foreign(session, subject.table)
    yield from _notes_of_session(session, subject)
    yield from _notes_of_rows(session, subject)


def _refuse_replica(session: Session) -> None:
    if session.run("SELECT pg_catalog.pg_is_in_recovery()") == [(True,)]:
        raise Refused(
            f"PostgreSQL at {session.where} is a replica, which is read-only",
            hint="use the primary server",
        )


def _refuse_kind(table: Table) -> None:
    kinds = {"v": "a view", "m": "a materialized view", "f": "a foreign table"}
    kind = kinds.get(table.kind)
    if table.kind not in ("r", "p"):
        raise Refused(
            f"{table.place} is {kind or 'not a table'}; rows can be committed only to tables",
            hint="use the table itself",
        )


def _refuse_missing_privileges(session: Session, subject: Subject) -> None:
    habits, table = subject.habits, subject.table
    needed = ["INSERT", "SELECT"]
    needed += ["UPDATE"] if habits.rule in ("newer", "update") else []
    needed += ["DELETE"] if habits.tombstones == "delete" else []
    user, has_usage, *has = session.one(
        "SELECT current_user::text, pg_catalog.has_schema_privilege($1, 'USAGE'), "
        + ", ".join(f"pg_catalog.has_table_privilege($2::int8::oid, '{each}')" for each in needed),
        (table.place.schema, table.oid),
        kinds=(str, bool, ...),
    )
    missing = [each for each, is_there in zip(needed, has, strict=True) if not is_there]
    if missing or not has_usage:
        grants = [f"GRANT {', '.join(missing)} ON {table.place} TO {user}"] if missing else []
        grants += [] if has_usage else [f"GRANT USAGE ON SCHEMA {table.place.schema} TO {user}"]
        lacking = ", ".join([*missing, *([] if has_usage else ["USAGE of its schema"])])
        reason = f"user {user} lacks the right {lacking} on {table.place}"
        raise RightMissing(session.where, reason=reason, grant="; ".join(grants))


def _refuse_unknown_key(subject: Subject) -> None:
    """Refuse it also without a rule: what the user thinks of the table is wrong."""
    for name in subject.habits.key:
        _need_column("--key", name, subject.table)


def _need_column(option: str, name: str, table: Table) -> None:
    if table.column(name) is None:
        known = [each.name for each in table.columns]
        raise NoSuchColumn(option, name, table=str(table.place), known=known)


def _refuse_habits_without_key(subject: Subject) -> None:
    habits, table = subject.habits, subject.table
    if not habits.is_keyed:
        return
    is_rule = habits.rule in ("ignore", "newer", "update")
    what = f"the rule {habits.rule}" if is_rule else "--tombstones delete"
    if not habits.key or not table.has_key(habits.key):
        columns = ", ".join(habits.key) or "COLUMNS"
        raise Refused(
            f"{what} needs a unique key on ({columns}), but {table.place} has none",
            hint=f"CREATE UNIQUE INDEX ON {table.place} ({columns}); {_keys_of(table)}",
        )
    for name in habits.key:
        column = table.column(name)
        if column is not None and not column.is_ours:
            raise Refused(
                f"{what} identifies rows by {name}, which the server itself fills in {table.place}",
                hint=f"use --key with columns that records fill; {_keys_of(table)}",
            )
    if habits.rule == "newer":
        _refuse_version(subject)


def _refuse_version(subject: Subject) -> None:
    version, table = subject.habits.version, subject.table
    if version != TIMESTAMP:
        _need_column("--version-column", version, table)
    column = table.column(version)
    if column is None:
        raise Refused(
            f"the rule newer compares {version}, but {table.place} has no such column",
            hint="name a column with --version-column, or add _timestamp timestamptz to the table",
        )
    is_time = version == TIMESTAMP and column.base in _TIMES
    has_version = is_time or version == TIMESTAMP
    if not {"delete": is_time, "null": has_version}.get(subject.habits.tombstones or "", True):
        raise Refused(
            f"a tombstone has no {version}, so that newer cannot compare it with a row",
            hint="use --version-column _timestamp, of type timestamptz, or --tombstones skip",
        )
    says_topic = has_place(subject.layout) and table.column(TOPIC) is not None
    if subject.others and not says_topic:
        raise Refused(
            f"records of {_listed([subject.topic, *subject.others])} go to {table.place}, "
            f"whose rows do not name their record: of two with one {version}, newer cannot "
            "find the later one",
            hint=f"ALTER TABLE {table.place} ADD _topic text, ADD _partition int, ADD _offset "
            "bigint; or write {topic} in the table's name to get a table per topic",
        )


def _keys_of(table: Table) -> str:
    keys = "; ".join(f"({', '.join(each.columns)})" for each in table.keys)
    return f"its unique keys: {keys}" if keys else "it has no unique keys"


def refuse_extra_column(layout: Layout, name: str | None) -> None:
    """Return when the column that was named for the fields that no other one takes is there."""
    if name is None or (layout.extra is not None and layout.extra.name == name):
        return
    place = layout.table.place
    column = layout.table.column(name)
    what = "no column of that name" if column is None else f"it as {column.type}"
    raise Refused(
        f"--extra-fields {name} needs a column {name} of type jsonb or json, and {place} has {what}",
        hint=f"ALTER TABLE {place} ADD COLUMN {name} jsonb; or --extra-fields note, which counts them",
    )


def _refuse_unfilled(subject: Subject) -> None:
    unfilled = [name for name in _unfilled(subject) if _is_required(subject.table, name)]
    if unfilled:
        raise Refused(
            f"nothing fills {_listed(unfilled)} of {subject.table.place}, which must not be "
            f"null: no sampled record of {subject.topic} has such a field",
            hint=f"fields found: {_listed(_fields_found(subject)) or 'none'}; name one with "
            "--select, or set a default",
        )


def _is_required(table: Table, name: str) -> bool:
    column = table.column(name)
    return column is not None and column.is_required and column.default is None


def _unfilled(subject: Subject) -> list[str]:
    """Return value columns that no sampled record fills; without samples, none."""
    layout = subject.layout
    if not any(value is not None for run in subject.samples for value in run.readable):
        return []
    if subject.habits.decode != "json":
        taken = {each.name for each in layout.fields}
        return [
            each.name for each in layout.table.columns if each.is_ours and each.name not in taken
        ]
    found: set[str] = set()
    documents = Documents(layout.values)
    for document in subject.documents:
        try:
            spelling = documents.spelling(document)
        except Bad:
            continue
        found.update(name for name, field in spelling.items() if document[field] is not None)
    return [each.name for each in layout.values if each.name not in found]


def _extra_fields(subject: Subject) -> ExtraFields:
    """The fields of the sampled records that no column of their own takes."""
    documents = Documents(subject.layout.values)
    names: list[tuple[str, ...]] = []
    for document in subject.documents:
        with suppress(Bad):
            names.append(documents.left_out(document))
    return ExtraFields.counted(names)


def _fields_found(subject: Subject) -> list[str]:
    return list(dict.fromkeys(name for each in subject.documents for name in each))


def _notes_of_fields(subject: Subject) -> Iterator[Note]:
    table, layout = subject.table, subject.layout
    if subject.habits.decode == "json":
        extra = _extra_fields(subject)
        if extra.records and layout.extra is None:
            becomes = "refused" if subject.habits.refuses_left_out else "left out"
            text = f"{table.place} has no column for fields of {extra.records:,} of the sampled records, "
            text += (
                f"which are {becomes}: {extra.text}; --extra-fields COLUMN keeps them in a column "
            )
            yield Note(
                "target-fields-left-out", f"{text}of type jsonb (_extra is one without being named)"
            )
        elif extra.records and layout.extra is not None:
            text = f"fields of the values go to {layout.extra.name}: {extra.text}"
            yield Note("target-fields-kept", text, "info")
    yield from _notes_of_alterations(subject)
    unfilled = _unfilled(subject)
    if unfilled:
        text = f"no sampled record fills {_listed(unfilled)} of {table.place}: default or null"
        yield Note("target-columns-unfilled", text)
    tombstones = sum(value is None for run in subject.samples for value in run.readable)
    if tombstones and subject.habits.tombstones is None and subject.habits.decode != "none":
        text = f"{tombstones} of the sampled records are tombstones (their value is null), "
        more = "which are refused; choose --tombstones delete, skip or null"
        yield Note("target-tombstones", text + more)


def _notes_of_alterations(subject: Subject) -> Iterator[Note]:
    documents = Documents(subject.layout.values, subject.layout.extra)
    counts: Counter[str] = Counter()
    for run in subject.samples:
        altered: list[set[str]] = [set() for _ in run.offsets]
        for index, found in altered_metadata(subject.layout.metadata, run):
            altered[index] |= {*found}
        for each, value in zip(altered, run.readable, strict=True):
            counts.update(each | _alterations_of_value(subject, documents, value))
    place = subject.table.place
    if counts[ROUNDED]:
        text = (
            f"{counts[ROUNDED]} of the sampled records have numbers or times with more digits than "
        )
        yield Note("target-values-rounded", f"{text}their columns in {place}: they are rounded")
    if counts[CUT]:
        text = f"{counts[CUT]} of the sampled records have a zone, a date or a time of day that their columns in "
        yield Note("target-values-cut", f"{text}{place} do not keep")
    if counts[REPEATED]:
        text = (
            f"{counts[REPEATED]} of the sampled records have two fields of one name: the last one "
        )
        yield Note(FIELDS_REPEATED, f"{text}counts; a column of type json keeps both")
    own = [each.name for each in subject.layout.values if each.column.may_alter_inside]
    if own:
        text = f"what the server rounds or cuts inside of the values of {_listed(own)} is not counted: "
        yield Note("target-values-not-checked", f"{text}their types are not PostgreSQL's own")


def _alterations_of_value(subject: Subject, documents: Documents, value: bytes | None) -> set[str]:
    found = set[str]()
    with suppress(Bad):
        if value is not None and subject.habits.decode == "json":
            found = documents.alterations(read_object(value))
        elif value is not None:
            for each in subject.layout.values:
                found |= alterations_of_text(each.column, bytes_text(value, "the value"))
    return found


def _notes_of_table(subject: Subject) -> Iterator[Note]:
    table, place = subject.table, subject.table.place
    if table.has_triggers:
        text = (
            f"{place} has triggers: writing is slower, rows that they drop or delete are not counted as "
            "written, and only `playhead verify` shows values that they change"
        )
        yield Note("target-triggers", text)
    if table.persistence == "u":
        text = f"{place} is unlogged: a crash of the server empties it, but the ledger still says "
        yield Note("target-unlogged", f"{text}that its rows were committed")
    if table.kind == "p":
        text = f"{place} is partitioned; a record that no partition accepts is refused"
        yield Note("target-partitioned", text, "info")
    if table.has_row_security:
        text = f"{place} has row security for this user: rows are staged, which is slower"
        yield Note("target-row-security", text, "info")
    servers = [each.name for each in table.columns if not each.is_ours]
    if servers:
        text = f"the server itself fills {_listed(servers)} of {place}"
        yield Note("target-filled-by-server", text, "info")


def _notes_of_session(session: Session, subject: Subject) -> Iterator[Note]:
    """Return a note for a role whose rows are not checked: not changed here, since only a superuser may."""
    statement = "SELECT pg_catalog.current_setting('session_replication_role')"
    (role,) = session.one(statement, kinds=[str])
    if role == "replica":
        text = f"session_replication_role of this user is replica: rows of {subject.table.place} are written "
        text += "without its foreign keys and triggers"
        yield Note("target-unchecked", text)


def _notes_of_foreign(session: Session, table: Table) -> Iterator[Note]:
    if foreign := foreign_partitions(session, table):
        text = f"{_listed(foreign)} of {table.place} is on another server, which commits on its own: rows that go "
        text += "there are not written exactly once; a failure between the two commits leaves them twice"
        yield Note("target-foreign-partition", text)


def _notes_of_rows(session: Session, subject: Subject) -> Iterator[Note]:
    table, rule = subject.table, subject.habits.rule
    statement = f"SELECT EXISTS (SELECT FROM {table.place.quoted})"  # noqa: S608 - quoted
    (has_rows,) = session.one(statement, kinds=[bool])
    if has_rows and rule is None:
        text = f"{table.place} has rows already"
        if table.keys:
            text += "; a record with the key of an existing row ends the replay: choose a rule with --on-conflict"
        yield Note("target-not-empty", text, "warn" if table.keys else "info")
    if not table.keys:
        text = f"{table.place} has no unique key: another replay of these records adds them again"
        yield Note("target-no-key", text)


def _listed(names: Sequence[str] | dict[str, None]) -> str:
    found = list(names)
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more
