"""The target for PostgreSQL: records and the ledger go to tables of one database."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from playhead.errors import Refused, Unavailable
from playhead.inventory import HeldOffsets, KeysOf, TableFacts
from playhead.ledger import Entry
from playhead.note import Note
from playhead.postgres import no_values, offsets_held, storage
from playhead.postgres.create_table import KINDS_OF_WHOLE, NewTable, kinds_of, table_for
from playhead.postgres.empty_shell import EmptyShells
from playhead.postgres.inspect import Subject, refuse, refuse_extra_column
from playhead.postgres.inspect import notes as inspection_notes
from playhead.postgres.ledger import DEFAULT, Ledger
from playhead.postgres.merge_sql import Rule
from playhead.postgres.open_table import OpenTable, WriteRules, depends_on_order
from playhead.postgres.order_notes import order_notes
from playhead.postgres.rows.column_layout import Layout, layout_of
from playhead.postgres.rows.record_key import refuse_own_place
from playhead.postgres.session import Session, TableName, open_copy_session, open_session
from playhead.postgres.shown_rows import rows_of_layout, rows_of_new_table
from playhead.postgres.stage.latest_records import RIGHTS, Latest, is_needed, not_remembered
from playhead.postgres.table import Table, read_table
from playhead.postgres.table_facts import facts_of
from playhead.postgres.table_name import no_table, parts_of, place_of
from playhead.postgres.terms import Replays, identity_of, places, whereto
from playhead.postgres.writer import PostgresWriter, needs_all_slices
from playhead.record import Slice
from playhead.records import Records
from playhead.request import EXTRA_FIELDS_RULES
from playhead.tables.columns import EXTRA
from playhead.tables.ledger import SavedTerms
from playhead.tables.order_notes import refuse_one_table
from playhead.target import Inspection, InspectRequest, InUse, Target
from playhead.terms import Terms, Whereto, refuse_other_place
from playhead.written_rows import WrittenRows


@dataclass(frozen=True)
class PostgresTarget(Target):
    """A table, or one per topic; its columns are the schema and select the fields of a record.

    Ordering: rows of a table have no order. If several records have one key, the conflict rule decides which
    one stays. Slices of one partition are committed in offset order wherever that matters; those of several
    partitions are not.
    Idempotence: with a rule (`ignore`, `newer`, `update`) and a key, writing a record again does not change
    the table. Without a rule, records are appended, and an existing row ends the replay. A slice of one replay
    is committed only once.
    Delivery: exactly once: the rows of a slice and its ledger entry are one transaction, and a slice that the
    ledger has is refused.
    """

    url: str = field(repr=False)
    table: str
    key: tuple[str, ...] | None = None
    on_conflict: Rule | None = None
    version_column: str | None = None
    tombstones: str | None = None
    decode: str = "json"
    create: bool = False
    extra_fields: str | None = None
    """For fields that no column takes: `note` counts them, `fail` refuses them, else the column that keeps them."""
    ledger_table: str = str(DEFAULT)
    is_endless: bool = False
    """Whether slices are joined as they arrive, as for a live pipeline."""
    known_by: tuple[str, ...] = ()  # If set, `compare` only looks for a row with these values.
    tells: KeysOf | None = None  # If set, it only tells these values, of records or of tombstones.
    first_stays: bool = False  # Whether older rows from other partitions count for it.

    def for_live(self) -> "PostgresTarget":
        return replace(self, is_endless=True)

    @property
    def is_ordered(self) -> bool:
        return depends_on_order(self.on_conflict, self.tombstones, self.key)

    def inspect(self, look: InspectRequest, /) -> Inspection:
        tables: dict[TableName, NewTable] = {}
        notes: list[Note] = []
        layouts: dict[TableName, Layout] = {}
        with self._session() as session:
            places = {topic: place_of(session.run, self.table, topic) for topic in look.partitions}
            together: dict[TableName, list[str]] = {}
            for topic, place in places.items():
                together.setdefault(place, []).append(topic)
            for topic, place in places.items():
                its = together[place]
                if "{topic}" in self.table:
                    refuse_one_table(its, str(place))
                table = read_table(session.run, place)
                shells = self._shells(session)
                may_replace = self.create and not self.is_endless
                is_shell = may_replace and table is not None and shells.makers(table) is not None
                if (self.create and table is None) or is_shell:
                    look = look.wider()
                    wanted = tables.get(place) or self._new_table(session, place, its, look)
                    if table is None or shells.is_other(table, wanted):
                        tables[place] = replace(wanted, replaces=table is not None)
                        notes += no_values.notes_of_values(topic, self.decode, look)
                        continue
                if table is not None:
                    layout = layouts[place] = self._layout(table)
                    refuse_extra_column(layout, self._extra_column)
                    notes += no_values.notes_of_layout(layout, topic, self.decode, look)
                    others = [each for each in its if each != topic]
                    subject = Subject(topic, layout, self._habits(table), look.of(topic), others)
                    refuse(session, subject)
                    latest = self._latest(session, "", layout, subject.habits)
                    if latest is not None:
                        latest.own.refuse_unusable(RIGHTS)
                    notes += inspection_notes(session, subject)
                else:
                    hint = "--create creates it, with columns inferred from a sample of the records"
                    raise no_table(session.run, place, hint=hint)
            for place, its in together.items():
                habits = self._habits(layouts[place].table if place in layouts else tables[place])
                notes += order_notes(habits, its, look, layouts.get(place))
            # A live pipeline also joins entries, and adds new topics to its terms.
            rights = ["SELECT", "INSERT", *(["UPDATE"] if self.is_endless else [])]
            self._ledger(session).own.refuse_unusable(rights)
            self._replays(session).own.refuse_unusable(rights)
            needs = {"tables": [each.as_document() for each in tables.values()]}
            rows = [
                row
                for records in look.shown()
                for row in self._shown_rows(records, layouts, tables, places[records.topic])
            ]
            told = tuple(dict.fromkeys(notes))
            return Inspection(identity_of(session), told, self.creates(needs), needs, tuple(rows))

    def _new_table(
        self, session: Session, place: TableName, topics: Sequence[str], look: InspectRequest
    ) -> NewTable:
        """The table to create for such records; refused where it would have no column for values."""
        no_values.refuse_place(session, place)
        samples = [records for topic in topics for records in look.of(topic)]
        kinds = kinds_of(look, topics) or KINDS_OF_WHOLE.get(self.decode, {})
        if self.decode == "json" and self._extra_column is None and not kinds:
            no_values.refuse_nothing_to_infer(place, topics, samples)
        extra, is_whole = self._extra_column, self.decode != "json"
        return table_for(place, samples, self.key or (), kinds, extra, is_whole=is_whole)

    def _shells(self, session: Session) -> EmptyShells:
        held_as = self._held_as("{}")
        return EmptyShells(session, self._ledger(session), self._replays(session), held_as)

    def _held_as(self, replay_id: str) -> str:
        """The name of the lock that a running replay holds."""
        return f"playhead replay {replay_id} in {self.ledger_table}"

    def _shown_rows(
        self,
        records: Records,
        layouts: Mapping[TableName, Layout],
        made: Mapping[TableName, NewTable],
        place: TableName,
    ) -> Iterator[Mapping[str, Any]]:
        if place in layouts:
            return rows_of_layout(records, layouts[place], self.decode)
        return rows_of_new_table(records, made[place], self.decode, self._extra_column)

    def creates(self, needs: Mapping[str, Any], /) -> tuple[str, ...]:
        return tuple(each for table in _new_tables(needs) for each in table.statements)

    def _habits(self, table: Table | NewTable) -> WriteRules:
        rule = self.on_conflict
        if self.known_by:
            by = "" if self.first_stays else self.version_column or "_timestamp"
            tombstones = "delete" if self.tells == "tombstones" else "skip"
            return WriteRules(self.known_by, None, "", tombstones, self.decode, False, rule, by)
        needs_key = rule is not None or self.tombstones == "delete"
        key = self.key or (table.primary_key or () if needs_key else ())
        version = (self.version_column or "_timestamp") if rule == "newer" else ""
        refuses = self.extra_fields == "fail"
        refuse_own_place(key, self.tombstones)
        return WriteRules(key, rule, version, self.tombstones, self.decode, refuses)

    @property
    def _extra_column(self) -> str | None:
        """The column that was named for the fields that no other one takes."""
        return None if self.extra_fields in EXTRA_FIELDS_RULES else self.extra_fields

    def _layout(self, table: Table) -> Layout:
        return layout_of(table, self.decode, self._extra_column or EXTRA)

    def _ledger(self, session: Session) -> Ledger:
        return Ledger(session, self._ledger_place)

    def _replays(self, session: Session) -> Replays:
        return Replays(session, self._ledger(session), self._ledger_place)

    @property
    def _ledger_place(self) -> TableName:
        schema, name = parts_of(self.ledger_table)
        return TableName(schema or "public", name)

    def identity(self) -> str:
        with self._session() as session:
            return identity_of(session)

    def prepare(self, replay_id: str, inspection: Inspection, terms: Terms, /) -> Sequence[Note]:
        with self._session() as session:
            replays = self._replays(session)
            self._ledger(session).own.make()
            replays.own.make()
            tables = {topic: place_of(session.run, self.table, topic) for topic in terms.topics}
            made = self._made(session, replay_id, inspection.needs, tables.values())

            def make() -> None:
                for table in made:
                    if table.replaces:
                        self._shells(session).drop(table.place)
                    session.run(table.statement)

            def now(topics: Iterable[str]) -> dict[str, Whereto]:
                return places(session, {each: tables[each] for each in topics if each in tables})

            agreed = replays.agree(replay_id, SavedTerms(terms, make, now))
            return (*agreed, *self._not_remembered(session, replay_id, set(tables.values())))

    def _made(
        self,
        session: Session,
        replay_id: str,
        needs: Mapping[str, Any],
        tables: Iterable[TableName],
    ) -> Sequence[NewTable]:
        """The tables to create, and only such as the records go to."""
        wanted = set(tables)
        if needs.get("statements"):
            self._refuse_unmade(session, replay_id, wanted)
        others = [each.place for each in _new_tables(needs) if each.place not in wanted]
        if others:
            raise Refused(
                f"the plan of {replay_id} would create table {others[0]}, but no record goes there",
                hint="make a new plan",
            )
        return _new_tables(needs)

    def _refuse_unmade(self, session: Session, replay_id: str, tables: Iterable[TableName]) -> None:
        """Refuse a plan of an earlier version with statements of its own, which are not run."""
        is_begun = self._replays(session).get(replay_id) is not None
        if is_begun or self._ledger(session).has_entries(replay_id):
            return
        for place in tables:
            if read_table(session.run, place) is None:
                raise Refused(
                    f"there is no table {place}, and the plan of {replay_id} is from an "
                    "earlier version: its statements are not run",
                    hint="run the same command with another --id or --plan FILE to make a new plan",
                )

    def terms(self, replay_id: str, /) -> Terms | None:
        with self._session() as session:
            return self._replays(session).get(replay_id)

    def whereto(self, topics: Collection[str], /) -> Mapping[str, Whereto]:
        with self._session() as session:
            tables = {topic: place_of(session.run, self.table, topic) for topic in topics}
            return places(session, tables)

    @contextmanager
    def hold(self, replay_id: str, /) -> Iterator[None]:
        with self._session() as session, session.locked(self._held_as(replay_id)) as mine:
            if not mine:
                where = f"another process holds its lock in the database at {session.where}"
                raise InUse(replay_id, where=where)
            yield

    def entries(self, replay_id: str, /) -> Sequence[Entry]:
        with self._session() as session:
            return self._ledger(session).entries(replay_id)

    def written_rows(self, entries: Sequence[Entry], /) -> WrittenRows:
        with self._session() as session:
            return storage.written_rows(session, self.table, entries, self._habits, self._replays)

    @contextmanager
    def watch(self, replay_id: str, /) -> Iterator[Callable[[], Sequence[Entry]]]:
        """Keep one connection for all reads, because connecting takes longer than reading."""
        with ExitStack() as stack:
            ledgers: list[Ledger] = []

            def entries() -> Sequence[Entry]:
                if not ledgers:
                    ledgers.append(self._ledger(stack.enter_context(self._session())))
                try:
                    return ledgers[0].entries(replay_id)
                except Unavailable:
                    ledgers.clear()
                    stack.close()
                    raise

            yield entries

    def compares_in_order(self, topics: Sequence[str], /) -> bool:
        if self.known_by:
            return False
        with self._session() as session:
            return any(needs_all_slices(self._open_table(session, each)) for each in topics)

    def held_offsets(
        self, spans: Sequence[Slice], /, *, until_ms: int | None = None
    ) -> HeldOffsets:
        return offsets_held.held_offsets(self.url, self.table, spans, until_ms)

    def has_offsets(self, topics: Sequence[str], /) -> bool:
        return offsets_held.has_offsets(self.url, self.table, topics)

    def columns_there(self, topics: Sequence[str], wanted: Sequence[str], /) -> tuple[str, ...]:
        return offsets_held.columns_there(self.url, self.table, topics, wanted)

    def safest_conflict_rule(self, topics: Sequence[str], key: Sequence[str], /) -> Rule | None:
        return offsets_held.gentle_rule(self.url, self.table, topics, key)

    def table_facts(self, topics: Collection[str], /) -> TableFacts:
        with self._session() as session:
            return facts_of(session, self.table, topics, self._replays(session))

    def entries_of(self, replay_ids: Collection[str], /) -> Mapping[str, Sequence[Entry]]:
        with self._session() as session:
            ledger = self._ledger(session)
            return {each: ledger.entries(each) for each in replay_ids}

    def known_by_columns(
        self, columns: tuple[str, ...], tells: KeysOf | None = None, /, *, first_stays: bool = False
    ) -> Target:
        return replace(self, known_by=columns, tells=tells, first_stays=first_stays)

    @contextmanager
    def open(self, replay_id: str, /) -> Iterator[PostgresWriter]:
        with open_copy_session(self.url, grant=self._grant) as session:
            tables: dict[str, OpenTable] = {}

            def table_of(topic: str) -> OpenTable:
                if topic not in tables:
                    opened = self._open_table(session, topic)
                    self._refuse_other(session, replay_id, topic, opened)
                    opened.latest = self._latest(session, replay_id, opened.layout, opened.habits)
                    tables[topic] = opened
                return tables[topic]

            ledger = self._ledger(session)
            yield PostgresWriter(session, ledger, replay_id, table_of, self.known_by, self.tells)

    def _latest(
        self, session: Session, replay_id: str, layout: Layout, habits: WriteRules
    ) -> Latest | None:
        if not is_needed(layout, habits):
            return None
        return Latest(session, self._ledger_place, layout, habits, replay_id)

    def _not_remembered(
        self, session: Session, replay_id: str, tables: Iterable[TableName]
    ) -> Iterator[Note]:
        """Return a note for a replay that an earlier version began, without remembered keys under `newer`."""
        if self.on_conflict != "newer" or not self._ledger(session).has_entries(replay_id):
            return
        for table in filter(None, (read_table(session.run, each) for each in tables)):
            layout = self._layout(table)
            latest = self._latest(session, replay_id, layout, self._habits(table))
            if latest is not None and not latest.exists():
                yield not_remembered(table.place)

    def _open_table(self, session: Session, topic: str) -> OpenTable:
        place = place_of(session.run, self.table, topic)
        table = read_table(session.run, place)
        if table is None:
            hint = "was it dropped or renamed? a new replay with --create makes it again"
            raise no_table(session.run, place, hint=hint)
        layout = self._layout(table)
        # COPY ignores row security policies and rules, and does not report rows that a trigger
        # dropped.
        only_by_stage = table.has_row_security or table.may_drop_rows
        return OpenTable(layout, self._habits(table), only_by_stage=only_by_stage)

    def _refuse_other(
        self, session: Session, replay_id: str, topic: str, opened: OpenTable
    ) -> None:
        """Refuse a table that is not the one with which the replay began; `known_by` compares without a replay."""
        if self.known_by:
            return
        terms = self._replays(session).get(replay_id)
        opened.is_agreed = terms is not None
        table = opened.layout.table
        refuse_other_place(replay_id, terms, topic, whereto(table.place, table.oid))

    def _session(self) -> AbstractContextManager[Session]:
        return open_session(self.url, grant=self._grant)

    @property
    def _grant(self) -> str:
        return f"GRANT INSERT, SELECT ON {self.table} TO this_user"


def _new_tables(needs: Mapping[str, Any]) -> list[NewTable]:
    return [NewTable.from_document(each) for each in needs.get("tables", ())]
