"""The part of a target of rows that is the same for every database: inspection, terms, entries and columns."""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Generic, TypeVar

from playhead.errors import PlayheadError, Refused, did_you_mean
from playhead.ledger import Entry
from playhead.note import Note
from playhead.records import Records
from playhead.request import TableRules
from playhead.tables.compare import RowLedger
from playhead.tables.row_table import RowTable, new_table, whereto_of
from playhead.target import Inspection, InspectRequest, Target
from playhead.terms import Terms, Whereto
from playhead.written_rows import WrittenRows, changes_since

C = TypeVar("C")
T = TypeVar("T", bound=RowTable)


class RowTarget(Target, Generic[C, T]):
    """A table of a database, or one per topic, that takes rows of plain values; C is a connection."""

    table: str
    rules: TableRules

    # --- what each database does in its own way

    @property
    @abstractmethod
    def where(self) -> str:
        """Return what to call the database in errors."""

    @abstractmethod
    def opened(self) -> AbstractContextManager[C]:
        """Connect to read; also to a database that does not exist yet, which is empty."""

    @abstractmethod
    def find(self, connection: C, name: str) -> T | None:
        """Return the table of a name as it is now; None if there is none."""

    @abstractmethod
    def names(self, connection: C) -> Collection[str]:
        """Return the names of the tables that are there, for a hint."""

    @abstractmethod
    def ledger(self, connection: C, replay_id: str) -> RowLedger: ...

    @abstractmethod
    def checked(self, connection: C, table: T, samples: Iterable[Records]) -> Iterator[Note]:
        """Refuse a table that cannot be written to under the rules; yield notes about it."""

    @abstractmethod
    def creating(self, document: Mapping[str, Any]) -> str:
        """Return the statement that creates a table of the plan; every name of the plan is quoted."""

    def refuse_columns(self, document: Mapping[str, Any]) -> None:
        """Refuse a new table with columns that the database cannot have."""

    # --- what they have in common

    def inspect(self, request: InspectRequest, /) -> Inspection:
        created: dict[str, Any] = {}
        tables: dict[str, RowTable] = {}
        notes: list[Note] = []
        with self.opened() as connection:
            for topic in request.partitions:
                name = self.name(topic)
                table = self.find(connection, name)
                if table is not None:
                    tables[topic] = table
                    notes += self.checked(connection, table, request.of(topic))
                elif self.rules.create:
                    request = request.wider()
                    document = new_table(name, request.of(topic), self.rules)
                    self.refuse_columns(document)
                    created.setdefault(name, document)
                    columns, key = dict.fromkeys(document["columns"], ""), tuple(document["key"])
                    tables[topic] = RowTable(name, columns, key, "", self.rules)
                else:
                    raise self._missing(connection, name)
        needs = {"tables": [*created.values()]}
        rows = [row for each in request.shown() for row in tables[each.topic].shown(each)]
        return Inspection(self.identity(), tuple(notes), self.creates(needs), needs, tuple(rows))

    def creates(self, needs: Mapping[str, Any], /) -> tuple[str, ...]:
        return tuple(map(self.creating, needs.get("tables", ())))

    def terms(self, replay_id: str, /) -> Terms | None:
        with self.opened() as connection:
            return self.ledger(connection, replay_id).terms()

    def entries(self, replay_id: str, /) -> Sequence[Entry]:
        with self.opened() as connection:
            return self.ledger(connection, replay_id).entries()

    def whereto(self, topics: Collection[str], /) -> Mapping[str, Whereto]:
        with self.opened() as connection:
            return self.places(connection, topics)

    def written_rows(self, entries: Sequence[Entry], /) -> WrittenRows:
        altered: list[str] = []
        unfilled: list[str] = []
        lacks: list[str] = []
        with self.opened() as connection:
            for topic in sorted({entry.slice.topic for entry in entries}):
                theirs = [entry for entry in entries if entry.slice.topic == topic]
                if (table := self.find(connection, self.name(topic))) is not None:
                    changes, others = changes_since(theirs, table.there, table.name)
                    altered, unfilled = [*altered, *changes], [*unfilled, *others]
                    lacks += table.lacking()
        return WrittenRows((), (), altered, unfilled, lacks)

    def compares_in_order(self, topics: Sequence[str], /) -> bool:
        with self.opened() as connection:
            tables = [self.find(connection, self.name(topic)) for topic in topics]
        return any(table is not None and table.keeps_one_of_a_key for table in tables)

    def name(self, topic: str) -> str:
        """Return the name of the table for the records of a topic."""
        return self.table.replace("{topic}", topic)

    def places(self, connection: C, topics: Iterable[str]) -> dict[str, Whereto]:
        names = {topic: self.name(topic) for topic in topics}
        return {
            topic: whereto_of(name, self.find(connection, name)) for topic, name in names.items()
        }

    def unmade(
        self, connection: C, needs: Mapping[str, Any], topics: Iterable[str]
    ) -> Iterator[str]:
        """Yield the statements for planned tables that do not exist; refuse a table to which no record goes."""
        wanted = {self.name(topic) for topic in topics}
        for document in needs.get("tables", ()):
            if document["table"] not in wanted:
                text = f"no record goes to table {document['table']} of the plan"
                raise Refused(text, hint="make a new plan")
            if self.find(connection, document["table"]) is None:
                yield self.creating(document)

    def there(self, connection: C, topic: str) -> T:
        """Return the table for the records of a topic."""
        table = self.find(connection, self.name(topic))
        if table is None:
            raise PlayheadError(f"there is no table {self.name(topic)} in {self.where}")
        return table

    def _missing(self, connection: C, name: str) -> Refused:
        hint = "--create creates it, with columns inferred from a sample of the records"
        near = did_you_mean(name, self.names(connection))
        text = f"there is no table {name} in {self.where}"
        return Refused(text, hint=f"{near} {hint}" if near else hint)
