"""The target for SQLite: records and the ledger go to tables of one database file."""

import hashlib
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from playhead.errors import PlayheadError, Refused, did_you_mean
from playhead.host import file_lock, private_files
from playhead.host.faults import abort_point
from playhead.host.paths import state_dir
from playhead.ledger import Entry
from playhead.note import Note
from playhead.records import Records
from playhead.request import TableRules
from playhead.sqlite.affinity import count_of
from playhead.sqlite.ledger import Ledger
from playhead.sqlite.session import database_file, open_database, transaction
from playhead.sqlite.table import RESERVED, Table, creating, new_table, read_table, table_names
from playhead.sqlite.writer import SqliteWriter
from playhead.target import Inspection, InspectRequest, InUse, Target, Writer
from playhead.terms import Terms, Whereto, agreed, without_terms
from playhead.written_rows import WrittenRows, changes_since


@dataclass(frozen=True)
class SqliteTarget(Target):
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

    def inspect(self, request: InspectRequest, /) -> Inspection:
        created: dict[str, Any] = {}
        tables: dict[str, Table] = {}
        notes: list[Note] = []
        with self._opened() as connection:
            for topic in request.partitions:
                name, table = self._name(topic), self._find(connection, topic)
                if table is not None:
                    table.refuse_unwritable(connection)
                    notes += table.notes(request.of(topic))
                    notes += self._converted(connection, table, request.of(topic))
                elif self.rules.create:
                    request = request.wider()
                    document = new_table(name, request.of(topic), self.rules)
                    created.setdefault(name, document)
                    columns = dict.fromkeys(document["columns"], "")
                    table = Table(name, columns, tuple(document["key"]), "", self.rules)
                else:
                    hint = "--create creates it, with columns inferred from a sample of the records"
                    near = did_you_mean(name, table_names(connection))
                    text = f"there is no table {name} in {self.file}"
                    raise Refused(text, hint=f"{near} {hint}" if near else hint)
                tables[topic] = table
        needs = {"tables": [*created.values()]}
        rows = [row for each in request.shown() for row in tables[each.topic].shown(each)]
        return Inspection(self.identity(), tuple(notes), self.creates(needs), needs, tuple(rows))

    def creates(self, needs: Mapping[str, Any], /) -> tuple[str, ...]:
        return tuple(map(creating, needs.get("tables", ())))

    def preview(self, records: Records, /) -> Sequence[Mapping[str, Any]]:
        values = [value and value.decode(errors="replace") for value in records.readable]
        numbered = zip(records.offsets, values, strict=True)
        return [{"_offset": offset, "value": value} for offset, value in numbered]

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
            agreed_terms, has_entries = ledger.terms(), bool(ledger.entries())
            if agreed_terms is not None:
                agreed(
                    replay_id,
                    agreed_terms,
                    replace(terms, places=self._places(connection, agreed_terms.places)),
                )
            if not has_entries and (agreed_terms is None or agreed_terms.is_endless):
                self._make_tables(connection, inspection.needs, terms.topics)
            for topic in terms.topics:
                table = self._find(connection, topic)
                if table is not None and not table.mark:
                    connection.execute(table.marking())
            wanted = replace(terms, places=self._places(connection, terms.topics))
            ledger.keep(
                wanted.begun() if agreed_terms is None else agreed(replay_id, agreed_terms, wanted)
            )
            abort_point("sqlite.terms_written")
        abort_point("sqlite.terms_committed")
        return (without_terms(replay_id),) if has_entries and agreed_terms is None else ()

    def terms(self, replay_id: str, /) -> Terms | None:
        with self._opened() as connection:
            return Ledger(connection, replay_id).terms()

    def whereto(self, topics: Collection[str], /) -> Mapping[str, Whereto]:
        with self._opened() as connection:
            return self._places(connection, topics)

    @contextmanager
    def hold(self, replay_id: str, /) -> Iterator[None]:
        name = hashlib.sha256(f"{self.identity()} {replay_id}".encode()).hexdigest()
        lock = private_files.folder(state_dir() / "sqlite") / f"{name}.lock"
        with file_lock.held(lock, lambda holder: InUse(replay_id, where=holder)):
            yield

    def entries(self, replay_id: str, /) -> Sequence[Entry]:
        with self._opened() as connection:
            return Ledger(connection, replay_id).entries()

    def written_rows(self, entries: Sequence[Entry], /) -> WrittenRows:
        altered: list[str] = []
        unfilled: list[str] = []
        lacks: list[str] = []
        with self._opened() as connection:
            for topic in sorted({entry.slice.topic for entry in entries}):
                theirs = [entry for entry in entries if entry.slice.topic == topic]
                if (table := self._find(connection, topic)) is not None:
                    changes, others = changes_since(theirs, table.there, table.name)
                    altered, unfilled = [*altered, *changes], [*unfilled, *others]
                    lacks += table.lacking()
        return WrittenRows((), (), altered, unfilled, lacks)

    def compares_in_order(self, topics: Sequence[str], /) -> bool:
        with self._opened() as connection:
            tables = [self._find(connection, topic) for topic in topics]
        return any(table is not None and table.keeps_one_of_a_key for table in tables)

    @contextmanager
    def open(self, replay_id: str, /) -> Iterator[Writer]:
        with open_database(database_file(self.file)) as connection:

            def look_up(topic: str) -> tuple[Table, Whereto]:
                table = self._find(connection, topic)
                if table is None:
                    raise PlayheadError(f"there is no table {self._name(topic)} in {self.file}")
                return table, _whereto(table.name, table)

            yield SqliteWriter(Ledger(connection, replay_id), look_up)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """Open the database; if the file is missing, an empty one in memory, so that inspecting creates nothing."""
        file = database_file(self.file)
        with open_database(file, "rw" if file.exists() else "memory") as connection:
            yield connection

    def _converted(
        self, connection: sqlite3.Connection, table: Table, samples: Iterable[Records]
    ) -> Iterator[Note]:
        """Yield a note if declared types of the table change sampled values."""
        rows = (row for run in samples for row in table.shown(run))
        if count := count_of(connection, table.name, rows):
            text = f"{count:,} of the sampled records have values that declared types of {table.name} change, as "
            yield Note("target-values-converted", f"{text}007 in an INTEGER column becomes 7")

    def _name(self, topic: str) -> str:
        name = self.table.replace("{topic}", topic)
        if name.lower().startswith(RESERVED):
            raise Refused(
                f"{name} is reserved for SQLite or the ledger", hint="use another table name"
            )
        return name

    def _find(self, connection: sqlite3.Connection, topic: str) -> Table | None:
        return read_table(connection, self._name(topic), self.rules)

    def _places(self, connection: sqlite3.Connection, topics: Iterable[str]) -> dict[str, Whereto]:
        return {
            topic: _whereto(self._name(topic), self._find(connection, topic)) for topic in topics
        }

    def _make_tables(
        self, connection: sqlite3.Connection, needs: Mapping[str, Any], topics: Iterable[str]
    ) -> None:
        """Create the planned tables; refuse a plan with a table to which no record goes."""
        wanted = {self._name(topic) for topic in topics}
        for document in needs.get("tables", ()):
            if document["table"] not in wanted:
                raise Refused(
                    f"no record goes to table {document['table']} of the plan",
                    hint="make a new plan",
                )
            if read_table(connection, document["table"], self.rules) is None:
                connection.execute(creating(document))


def _whereto(name: str, table: Table | None) -> Whereto:
    return Whereto(f"table {name}", "" if table is None else table.mark or "no mark")
