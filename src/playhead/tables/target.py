"""A target of rows of plain values; of the database, it knows only the SQL that most have in common."""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import chain
from typing import Any, ClassVar

from playhead.errors import PlayheadError, Refused, did_you_mean
from playhead.ledger import Entry
from playhead.note import Note
from playhead.records import Records
from playhead.request import TableRules
from playhead.tables.column_names import fold, refuse_fields, why_no_name
from playhead.tables.columns import METADATA, PLACE
from playhead.tables.json_fields import Row
from playhead.tables.kept_rows import KeptRows
from playhead.tables.ledger import SavedTerms, SqlLedger, SqlReplays, ledger_of, terms_of
from playhead.tables.order_notes import refuse_one_table
from playhead.tables.row_table import RowTable, WrittenRow, new_table, whereto_of
from playhead.tables.sql import RowSession, listed, named
from playhead.tables.writer import RowWriter
from playhead.target import Inspection, InspectRequest, Target, Writer
from playhead.terms import Terms, Whereto
from playhead.written_rows import WrittenRows, changes_since


class RowTarget(Target):
    """A table of a database, or one per topic.

    Columns of new tables have no types. A writer locks the whole database.
    """

    table: str
    rules: TableRules

    # --- what each database does in its own way

    system: ClassVar[str]
    """The name of the database's system."""
    most_columns: ClassVar[int]
    reserved: ClassVar[tuple[str, ...]]
    """Tables whose names begin so are the database's and the ledger's."""

    @property
    @abstractmethod
    def where(self) -> str:
        """Return what to call the database in errors."""

    @abstractmethod
    def make(self) -> None:
        """Make the database if it does not exist."""

    @abstractmethod
    def opened(self, *, writes: bool = False) -> AbstractContextManager[RowSession]:
        """Connect; to read, also to a database that does not exist yet, which is empty."""

    @abstractmethod
    def find(self, session: RowSession, name: str) -> RowTable | None:
        """Return the table of a name as it is now; None if there is none."""

    @abstractmethod
    def names(self, session: RowSession) -> Collection[str]:
        """Return the names of all tables that are there."""

    @abstractmethod
    def marking(self, table: RowTable) -> str:
        """Return the statement that marks a table, so that one created in its place is recognised."""

    @abstractmethod
    def kept_rows(self, session: RowSession, table: RowTable) -> KeptRows:
        """Watch, while a slice is written, which of its rows the table keeps."""

    @abstractmethod
    def refuse_unwritable(self, session: RowSession, table: RowTable) -> None:
        """Refuse a table that cannot be written to under the rules."""

    @abstractmethod
    def count_converted(self, session: RowSession, table: RowTable, rows: Iterable[Row]) -> int:
        """Return in how many rows the types of the table change a value."""

    def has_deferred_keys(self, session: RowSession, table: RowTable) -> bool:  # noqa: ARG002
        """Return whether foreign keys of a table are checked only at the end of a transaction."""
        return False

    def unmet(
        self,
        session: RowSession,  # noqa: ARG002
        table: RowTable,  # noqa: ARG002
        rows: Iterable[WrittenRow],  # noqa: ARG002
    ) -> list[WrittenRow]:
        """Return the rows for which such a key would refuse the transaction."""
        return []

    # --- what they have in common

    def __post_init__(self) -> None:
        for option, is_set in (
            ("--on-conflict newer", self.rules.on_conflict == "newer"),
            ("--version-column", self.rules.version_column is not None),
            ("--tombstones delete", self.rules.tombstones == "delete"),
        ):
            if is_set:
                hint = "use --on-conflict update, --tombstones skip, or a PostgreSQL table"
                raise Refused(f"a {self.system} table cannot do {option}", hint=hint)

    @property
    def is_ordered(self) -> bool:
        # Also without a rule: a unique index and `--on-error skip` keep the first of two rows.
        return True

    def inspect(self, request: InspectRequest, /) -> Inspection:
        created: dict[str, Any] = {}
        tables: dict[str, RowTable] = {}
        notes: list[Note] = []
        together: dict[str, list[str]] = {}
        for topic in request.partitions:
            together.setdefault(fold(self.name(topic)), []).append(topic)
        with self.opened() as session:
            for topic in request.partitions:
                name = self.name(topic)
                its = together[fold(name)]
                if "{topic}" in self.table:
                    refuse_one_table(its, name)
                table = self.find(session, name)
                if table is not None:
                    tables[topic] = table
                    notes += self._checked(session, table, request.of(topic))
                elif self.rules.create:
                    request = request.wider()
                    samples = [records for each in its for records in request.of(each)]
                    document = new_table(name, samples, self.rules)
                    self._refuse_columns(document)
                    created.setdefault(name, document)
                    columns, key = dict.fromkeys(document["columns"], ""), tuple(document["key"])
                    tables[topic] = RowTable(name, columns, key, "", self.rules)
                else:
                    raise self._missing(session, name)
                partitions = sum(request.partitions[each] for each in its)
                notes += tables[topic].notes_of_sharing(its, partitions)
        needs = {"tables": [*created.values()]}
        rows = [row for each in request.shown() for row in tables[each.topic].shown(each)]
        return Inspection(
            self.identity(), tuple(dict.fromkeys(notes)), self.creates(needs), needs, tuple(rows)
        )

    def creates(self, needs: Mapping[str, Any], /) -> tuple[str, ...]:
        return tuple(chain.from_iterable(map(self._creating, needs.get("tables", ()))))

    def terms(self, replay_id: str, /) -> Terms | None:
        with self.opened() as session:
            return self.replays(session).get(replay_id)

    def entries(self, replay_id: str, /) -> Sequence[Entry]:
        with self.opened() as session:
            return self.ledger(session).entries(replay_id)

    def whereto(self, topics: Collection[str], /) -> Mapping[str, Whereto]:
        with self.opened() as session:
            return self._places(session, topics)

    def written_rows(self, entries: Sequence[Entry], /) -> WrittenRows:
        altered: list[str] = []
        unfilled: list[str] = []
        lacks: list[str] = []
        with self.opened() as session:
            for topic in sorted({entry.slice.topic for entry in entries}):
                theirs = [entry for entry in entries if entry.slice.topic == topic]
                if (table := self.find(session, self.name(topic))) is not None:
                    changes, others = changes_since(theirs, table.there, table.name)
                    altered, unfilled = [*altered, *changes], [*unfilled, *others]
                    lacks += table.lacking()
        return WrittenRows((), (), altered, unfilled, lacks)

    def prepare(self, replay_id: str, inspection: Inspection, terms: Terms, /) -> Sequence[Note]:
        self.make()
        with self.opened(writes=True) as session:
            self.ledger(session).own.make()
            self.replays(session).own.make()

            def make() -> None:
                if not self.ledger(session).has_entries(replay_id):
                    for statement in self._unmade(session, inspection.needs, terms.topics):
                        session.run(statement)

            def settle() -> None:
                for topic in terms.topics:
                    table = self.find(session, self.name(topic))
                    if table is not None and not table.mark:
                        session.run(self.marking(table))

            def now(topics: Iterable[str]) -> dict[str, Whereto]:
                return self._places(session, topics)

            return self.replays(session).agree(replay_id, SavedTerms(terms, make, now, settle))

    @contextmanager
    def open(self, replay_id: str, /) -> Iterator[Writer]:
        with self.opened(writes=True) as session:
            yield RowWriter(self, session, replay_id)

    def compares_in_order(self, topics: Sequence[str], /) -> bool:
        with self.opened() as session:
            tables = [self.find(session, self.name(topic)) for topic in topics]
        return any(table is not None and table.keeps_one_of_a_key for table in tables)

    def name(self, topic: str) -> str:
        """Return the name of the table for the records of a topic."""
        name = self.table.replace("{topic}", topic)
        if self._is_reserved(name):
            text = f"{name} is reserved for {self.system} or the ledger"
            raise Refused(text, hint="use another table name")
        return name

    def _is_reserved(self, name: str) -> bool:
        return name.lower().startswith(self.reserved)

    def ledger(self, session: RowSession) -> SqlLedger:
        return SqlLedger(session, ledger_of(session))

    def replays(self, session: RowSession) -> SqlReplays:
        return SqlReplays(session, self.ledger(session), terms_of(session))

    def _places(self, session: RowSession, topics: Iterable[str]) -> dict[str, Whereto]:
        names = {topic: self.name(topic) for topic in topics}
        return {topic: whereto_of(name, self.find(session, name)) for topic, name in names.items()}

    def _unmade(
        self, session: RowSession, needs: Mapping[str, Any], topics: Iterable[str]
    ) -> Iterator[str]:
        """Yield the statements for planned tables that do not exist; refuse a table to which no record goes."""
        wanted = {self.name(topic) for topic in topics}
        for document in needs.get("tables", ()):
            if document["table"] not in wanted:
                text = f"no record goes to table {document['table']} of the plan"
                raise Refused(text, hint="make a new plan")
            if self.find(session, document["table"]) is None:
                yield from self._creating(document)

    def there(self, session: RowSession, topic: str) -> RowTable:
        """Return the table for the records of a topic."""
        table = self.find(session, self.name(topic))
        if table is None:
            raise PlayheadError(f"there is no table {self.name(topic)} in {self.where}")
        return table

    def _missing(self, session: RowSession, name: str) -> Refused:
        hint = "--create creates it, with columns inferred from a sample of the records"
        known = [each for each in self.names(session) if not self._is_reserved(each)]
        near = did_you_mean(name, known)
        text = f"there is no table {name} in {self.where}"
        return Refused(text, hint=f"{near} {hint}" if near else hint)

    def _checked(
        self, session: RowSession, table: RowTable, samples: Sequence[Records]
    ) -> Iterator[Note]:
        """Refuse a table that cannot be written to under the rules; yield notes about it."""
        table.refuse_lacking()
        self.refuse_unwritable(session, table)
        yield from table.notes(samples)
        rows = (row for run in samples for row in table.shown(run))
        if count := self.count_converted(session, table, rows):
            text = f"{count:,} of the sampled records have values that declared types of {table.name} change, as "
            yield Note("target-values-converted", f"{text}007 in an INTEGER column becomes 7")

    def _refuse_columns(self, document: Mapping[str, Any]) -> None:
        """Refuse a new table with columns that the database cannot have."""
        beside = [*filter(None, [self.rules.extra_column]), *METADATA]
        fields = [name for name in document["columns"] if name not in beside]
        known = {fold(name): name for name in beside}

        def why_not(name: str) -> str | None:
            # Names are compared without the case of ASCII letters.
            same = known.setdefault(fold(name), name)
            taken = None if same == name else f"is to {self.system} the same name as {same!r}"
            return why_no_name(name) or taken

        refuse_fields(
            document["table"],
            fields,
            why_not,
            beside=len(beside),
            most=self.most_columns,
            instead="a column for the other fields and --extra-fields COLUMN",
        )

    def _creating(self, document: Mapping[str, Any]) -> Iterator[str]:
        """Yield the statements that create a table of the plan; every name of the plan is quoted."""
        columns, key, name = document["columns"], document["key"], document["table"]
        yield f"CREATE TABLE {named(name)} ({listed(columns)}, PRIMARY KEY ({listed(key)}))"
        if {*PLACE} <= {*columns} and tuple(key) != PLACE:
            # Without it, a comparison would read the whole table for each record.
            index = named(f"playhead_offsets_{name}")
            yield f"CREATE INDEX IF NOT EXISTS {index} ON {named(name)} ({listed(PLACE)})"
