"""A model of a PostgreSQL database: tables with one unique key, transactions that read what is committed, locks."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import adbc_driver_manager

from simulation.cases import Case, Faults
from simulation.scheduler import Process, Scheduler

Row = dict[str, Any]
Place = tuple[str, str]
_STATUS = adbc_driver_manager.AdbcStatusCode
DEADLOCK, UNIQUE, IN_FAILED, FOREIGN = "40P01", "23505", "25P02", "23503"


def refusal(sqlstate: str, text: str) -> Exception:
    """What the driver raises when the server says no."""
    return adbc_driver_manager.ProgrammingError(
        text,
        status_code=_STATUS.INVALID_ARGUMENT,
        sqlstate=sqlstate,
        details=[("PG_DIAG_MESSAGE_PRIMARY", text.encode())],
    )


def disconnected() -> Exception:
    """What it raises when the server is gone."""
    text = "server closed the connection unexpectedly"
    return adbc_driver_manager.OperationalError(text, status_code=_STATUS.IO)


@dataclass(slots=True, eq=False)
class Table:
    """One table; `kinds` has the type of each column."""

    place: Place
    oid: int
    kinds: dict[str, str]
    key: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    rows: dict[int, Row] = field(default_factory=dict)
    orphans: frozenset[int] = frozenset()
    """Ids that another table does not have; a deferred constraint asks for them."""

    def key_of(self, row: Row) -> tuple[Any, ...]:
        return tuple(row.get(name) for name in self.key)


@dataclass(slots=True, eq=False)
class Transaction:
    """What one connection has begun and not ended."""

    writes: dict[tuple[Table, int], Row | None] = field(default_factory=dict)
    temporary: dict[str, list[Row]] = field(default_factory=dict)
    kinds: dict[str, dict[str, str]] = field(default_factory=dict)
    locks: set[Any] = field(default_factory=set)
    savepoints: list[Any] = field(default_factory=list)
    has_failed: bool = False
    is_immediate: bool = False
    """Whether deferred constraints are asked for with each statement, and not at the end."""

    def snapshot(self) -> Any:
        kept = {name: list(rows) for name, rows in self.temporary.items()}
        return dict(self.writes), kept, dict(self.kinds), self.is_immediate

    def restore(self, snapshot: Any) -> None:
        writes, kept, kinds, self.is_immediate = snapshot
        self.writes, self.kinds = dict(writes), dict(kinds)
        self.temporary = {name: list(rows) for name, rows in kept.items()}


class Database:
    """The server."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.faults = Faults()
        self.tables: dict[Place, Table] = {}
        self.schemas = {"public"}
        self.system = "7000"
        self._locks: dict[Any, Any] = {}
        """Who holds what: a transaction, or a connection."""
        self._waits: dict[Any, Any] = {}

    def make_table(self, case: Case, name: str) -> None:
        """The table that a case writes to; one that is there is dropped."""
        kinds = {
            "id": "int8",
            "v": "text",
            "_timestamp": "timestamptz",
            "_partition": "int4",
            "_offset": "int8",
        }
        key = ("id",) if case.rule else ("_partition", "_offset")
        self.create(("public", name), kinds, key).orphans = case.orphans

    def create(
        self,
        place: Place,
        kinds: dict[str, str],
        key: tuple[str, ...],
        required: tuple[str, ...] = (),
    ) -> Table:
        table = Table(place, 16_384 + self.scheduler.number(), kinds, key, required or key)
        self.tables[place] = table
        return table

    def rows_of_table(self, name: str) -> list[tuple[Any, ...]]:
        """What is committed in the case's table, times in milliseconds."""
        found = self.tables["public", name].rows.values()
        return [
            (
                each["id"],
                each["v"],
                None if each["_timestamp"] is None else each["_timestamp"] // 1_000,
                each["_partition"],
                each["_offset"],
            )
            for each in found
        ]

    # --- locks

    def lock(self, key: Any, owner: Any) -> None:
        """Wait for it; whoever would wait for himself is refused."""
        while (holder := self._locks.get(key)) is not None and holder is not owner:
            seen, each = {owner}, holder
            while each in self._waits:
                if each in seen:
                    break
                seen.add(each)
                each = self._locks.get(self._waits[each])
            if each is owner:
                raise refusal(DEADLOCK, "deadlock detected")
            self._waits[owner] = key
            try:
                self.scheduler.wait(lambda held=holder: self._locks.get(key) is not held, None)
            finally:
                self._waits.pop(owner, None)
        self._locks[key] = owner

    def try_lock(self, key: Any, owner: Any) -> bool:
        return self._locks.setdefault(key, owner) is owner

    def unlock(self, key: Any, owner: Any) -> bool:
        is_theirs = self._locks.get(key) is owner
        if is_theirs:
            del self._locks[key]
        return is_theirs

    def release(self, owner: Any) -> None:
        """All that somebody holds."""
        for key in [key for key, holder in self._locks.items() if holder is owner]:
            del self._locks[key]

    # --- rows

    def visible(self, table: Table, transaction: Transaction) -> Iterator[tuple[int, Row]]:
        """What a statement of the transaction sees."""
        own = {rid: row for (of, rid), row in transaction.writes.items() if of is table}
        for rid, row in table.rows.items():
            if rid not in own:
                yield rid, row
        for rid, found in own.items():
            if found is not None:
                yield rid, found

    def with_key(self, table: Table, transaction: Transaction, row: Row) -> tuple[int, Row] | None:
        """The row of the same key, locked, if there is one."""
        key = table.key_of(row)
        self.lock((table, key), transaction)
        for rid, found in self.visible(table, transaction):
            if table.key_of(found) == key:
                return rid, found
        return None

    def insert(self, table: Table, transaction: Transaction, row: Row) -> None:
        """A new row; one whose key is there is refused."""
        for name in table.required:
            if row.get(name) is None:
                raise refusal("23502", f"null value in column {name}")
        if table.key and self.with_key(table, transaction, row) is not None:
            raise refusal(UNIQUE, "duplicate key value violates unique constraint")
        whole = {name: row.get(name) for name in table.kinds}
        transaction.writes[table, self.scheduler.number()] = whole

    def update(self, table: Table, transaction: Transaction, rid: int, row: Row) -> None:
        transaction.writes[table, rid] = row

    def delete(self, table: Table, transaction: Transaction, rid: int) -> None:
        transaction.writes[table, rid] = None

    def refuse_orphans(self, transaction: Transaction) -> None:
        """What a deferred constraint says of the rows that were written."""
        for (table, _), row in transaction.writes.items():
            if table.orphans and row is not None and row.get("id") in table.orphans:
                raise refusal(FOREIGN, "insert or update violates foreign key constraint")

    def commit(self, transaction: Transaction) -> None:
        for (table, rid), row in transaction.writes.items():
            if row is None:
                table.rows.pop(rid, None)
            else:
                table.rows[rid] = row
        self.release(transaction)


class Link:
    """A connection, with the interface of `playhead.postgres.adbc.ArrowConnection`."""

    def __init__(
        self, base: Database, statements: "Callable[[Link, str, Sequence[Any]], Any]"
    ) -> None:
        self.base, self._statements = base, statements
        self.transaction: Transaction | None = None
        task = base.scheduler.current
        self._process: Process | None = task.process if task is not None else None
        self.is_lost = False
        self._is_gone = False
        if self._process is not None:
            self._process.mourners.append(self._mourn)
        base.scheduler.point()

    @property
    def is_free(self) -> bool:
        if self._is_gone and self.base.scheduler.choices.below(2):
            return False  # its end has arrived; otherwise the next statement finds it out
        return not self.is_lost and self.transaction is None

    def close(self) -> None:
        if self._process is not None and self._process.is_dead:
            return
        if not self.is_lost:
            self._vanish()
        if self._process is not None and self._mourn in self._process.mourners:
            self._process.mourners.remove(self._mourn)

    @contextmanager
    def answering_within(self, _seconds: float, /) -> Iterator[None]:
        """Every answer comes in time here, or its connection is lost."""
        yield

    def ask(self, statement: str, parameters: Sequence[Any]) -> tuple[list[tuple[Any, ...]], int]:
        return self._round_trip(
            lambda: self._executed(lambda: self._statements(self, statement, parameters)),
            is_commit=statement == "COMMIT",
        )

    def copy(self, rows: Any, table: str, schema: str | None) -> None:
        found = rows_of(rows)
        self._round_trip(
            lambda: self._executed(lambda: self._copied(found, table, schema)), is_commit=False
        )

    def _copied(self, rows: list[Row], name: str, schema: str | None) -> tuple[list[Any], int]:
        assert self.transaction is not None
        if schema is None:
            self.transaction.temporary[name].extend(rows)
        else:
            table = self.base.tables.get((schema, name))
            if table is None:
                raise refusal("42P01", f"relation {schema}.{name} does not exist")
            for row in rows:
                self.base.insert(table, self.transaction, row)
        return [], len(rows)

    def _round_trip(self, work: Callable[[], Any], *, is_commit: bool) -> Any:
        base, one = self.base, self.base.scheduler
        one.point()
        if self.is_lost or self._is_gone:
            self.is_lost = True
            raise disconnected()
        if one.choices.happens(base.faults.lost_connection):
            self._cut(work if is_commit else None)
            raise disconnected()
        found = work()
        one.point()
        if is_commit and one.choices.happens(base.faults.lost_connection):
            one.tell("the answer to a COMMIT is lost")
            self.is_lost = True
            self._vanish()
            raise disconnected()
        return found

    def _cut(self, work: Callable[[], Any] | None) -> None:
        """The connection is lost with a statement on its way; the server may still get a COMMIT, later."""
        one = self.base.scheduler
        self.is_lost = True
        one.tell("a connection to the database is lost" + (" with a COMMIT" if work else ""))
        if work is not None and one.choices.below(3) == 1:
            work()
        self._leave_a_ghost()

    def _mourn(self) -> None:
        """Its process was killed."""
        self._leave_a_ghost()

    def _leave_a_ghost(self) -> None:
        """The server learns a little later that nobody is there any more."""
        one = self.base.scheduler
        if one.choices.happens(self.base.faults.ghosts):
            one.at((0.05, 1.0, 20.0)[one.choices.below(3)], self._vanish)
        else:
            self._vanish()

    def _vanish(self) -> None:
        self._is_gone = True
        if self.transaction is not None:
            self.base.release(self.transaction)
            self.transaction = None
        self.base.release(self)

    def _executed(self, work: Callable[[], Any]) -> Any:
        """One statement: all of it, or nothing of it."""
        own = self.transaction
        if own is None:
            own = self.transaction = Transaction()
            try:
                found = work()
                if self.transaction is own and not found[2:]:
                    self.base.commit(own)
                    self.transaction = None
                return found[:2]
            except BaseException:
                self.base.release(own)
                self.transaction = None
                raise
        before = own.snapshot()
        try:
            found = work()
            if own.is_immediate:
                self.base.refuse_orphans(own)
            return found[:2]
        except adbc_driver_manager.Error:
            own.restore(before)
            own.has_failed = True
            raise


def rows_of(table: Any) -> list[Row]:
    """An Arrow table's rows, times as microseconds."""
    import pyarrow as pa

    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        held = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        columns[name] = held.to_pylist()
    names = list(columns)
    return [dict(zip(names, values, strict=True)) for values in zip(*columns.values(), strict=True)]
