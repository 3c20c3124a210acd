"""The target for SQLite: records and the ledger go to tables of one database file."""

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from playhead.errors import Refused
from playhead.host import file_lock, private_files
from playhead.host.faults import abort_point
from playhead.host.paths import state_dir
from playhead.note import Note
from playhead.records import Records
from playhead.request import TableRules
from playhead.sqlite.affinity import count_of
from playhead.sqlite.ledger import Ledger
from playhead.sqlite.session import database_file, named, open_database, transaction
from playhead.sqlite.table import Table, read_table
from playhead.sqlite.writer import SqliteWriter
from playhead.tables.column_names import fold, refuse_fields, why_no_name
from playhead.tables.columns import METADATA
from playhead.tables.target import RowTarget
from playhead.target import Inspection, InUse, Writer
from playhead.terms import Terms, agreed, without_terms

_RESERVED = ("sqlite_", "playhead_")
"""Tables whose names begin so are SQLite's and the ledger's."""

# SQLite has 2,000, and comparing needs some beside those of the table.
_MOST_COLUMNS = 1_990


@dataclass(frozen=True)
class SqliteTarget(RowTarget[sqlite3.Connection, Table]):
    """A table of a database file, or one table per topic; its columns select the fields of a
    record.

    Ordering: rows have no order. With the rule `update`, the slices of one partition are committed in
    offset order, so that the last record of a key stays.
    Idempotence: with a key and `ignore` or `update`, writing a record again does not change the table.
    Without a rule, records are appended, and a record that a unique index refuses falls under the error
    rule. A slice of one replay is committed only once.
    Delivery: exactly once: the rows of a slice and its ledger entry are one transaction of one file.
    """

    file: str
    table: str
    rules: TableRules = field(default_factory=TableRules)

    def __post_init__(self) -> None:
        for option, is_set in (
            ("--on-conflict newer", self.rules.on_conflict == "newer"),
            ("--version-column", self.rules.version_column is not None),
            ("--tombstones delete", self.rules.tombstones == "delete"),
        ):
            if is_set:
                hint = "use --on-conflict update, --tombstones skip, or a PostgreSQL table"
                raise Refused(f"a SQLite table cannot do {option}", hint=hint)

    @property
    def is_ordered(self) -> bool:
        # Also without a rule: a unique index and `--on-error skip` keep the first of two rows.
        return True

    def identity(self) -> str:
        return f"sqlite:{database_file(self.file)}"

    def prepare(self, replay_id: str, inspection: Inspection, terms: Terms, /) -> Sequence[Note]:
        file = database_file(self.file)
        if not file.exists():
            # Only for a new file: closing a file that SQLite has open would release its locks.
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            private_files.touch(file)
            abort_point("sqlite.file_made")
        with open_database(file) as connection, transaction(connection):
            ledger = Ledger(connection, replay_id)
            ledger.make()
            kept, has_entries = ledger.terms(), bool(ledger.entries())
            if kept is not None:
                now = replace(terms, places=self.places(connection, kept.places))
                agreed(replay_id, kept, now)
            if not has_entries and (kept is None or kept.is_endless):
                for statement in self.unmade(connection, inspection.needs, terms.topics):
                    connection.execute(statement)
            for topic in terms.topics:
                table = self.find(connection, self.name(topic))
                if table is not None and not table.mark:
                    connection.execute(table.marking())
            wanted = replace(terms, places=self.places(connection, terms.topics))
            ledger.keep(agreed(replay_id, kept, wanted))
            abort_point("sqlite.terms_written")
        abort_point("sqlite.terms_committed")
        return (without_terms(replay_id),) if has_entries and kept is None else ()

    @contextmanager
    def hold(self, replay_id: str, /) -> Iterator[None]:
        name = hashlib.sha256(f"{self.identity()} {replay_id}".encode()).hexdigest()
        lock = private_files.folder(state_dir() / "sqlite") / f"{name}.lock"
        with file_lock.held(lock, lambda holder: InUse(replay_id, where=holder)):
            yield

    @contextmanager
    def open(self, replay_id: str, /) -> Iterator[Writer]:
        with open_database(database_file(self.file)) as connection:
            yield SqliteWriter(Ledger(connection, replay_id), partial(self.there, connection))

    # --- what `RowTarget` asks of SQLite

    @property
    def where(self) -> str:
        return self.file

    @contextmanager
    def opened(self) -> Iterator[sqlite3.Connection]:
        """Open the database; if the file is missing, an empty one in memory, so that inspecting creates nothing."""
        file = database_file(self.file)
        with open_database(file, "rw" if file.exists() else "memory") as connection:
            yield connection

    def name(self, topic: str) -> str:
        name = super().name(topic)
        if name.lower().startswith(_RESERVED):
            text = f"{name} is reserved for SQLite or the ledger"
            raise Refused(text, hint="use another table name")
        return name

    def find(self, connection: sqlite3.Connection, name: str) -> Table | None:
        return read_table(connection, name, self.rules)

    def names(self, connection: sqlite3.Connection) -> list[str]:
        statement = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        names = [name for (name,) in connection.execute(statement)]
        return [name for name in names if not name.lower().startswith(_RESERVED)]

    def ledger(self, connection: sqlite3.Connection, replay_id: str) -> Ledger:
        return Ledger(connection, replay_id)

    def checked(
        self, connection: sqlite3.Connection, table: Table, samples: Iterable[Records]
    ) -> Iterator[Note]:
        table.refuse_unwritable(connection)
        yield from table.notes(samples)
        rows = (row for run in samples for row in table.shown(run))
        if count := count_of(connection, table.name, rows):
            text = f"{count:,} of the sampled records have values that declared types of {table.name} change, as "
            yield Note("target-values-converted", f"{text}007 in an INTEGER column becomes 7")

    def refuse_columns(self, document: Mapping[str, Any]) -> None:
        beside = [*filter(None, [self.rules.extra_column]), *METADATA]
        fields = [name for name in document["columns"] if name not in beside]
        known = {fold(name): name for name in beside}

        def why_not(name: str) -> str | None:
            # SQLite compares names without the case of ASCII letters.
            same = known.setdefault(fold(name), name)
            taken = None if same == name else f"is to SQLite the same name as {same!r}"
            return why_no_name(name) or taken

        refuse_fields(
            document["table"],
            fields,
            why_not,
            beside=len(beside),
            most=_MOST_COLUMNS,
            instead="a column for the other fields and --extra-fields COLUMN",
        )

    def creating(self, document: Mapping[str, Any]) -> str:
        columns, key = (", ".join(map(named, document[each])) for each in ("columns", "key"))
        return f"CREATE TABLE {named(document['table'])} ({columns}, PRIMARY KEY ({key}))"
