"""Asks a table which offsets it has, in one pass that groups them into bitmap words, with any indexes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from playhead.errors import Refused
from playhead.inventory import HeldOffsets
from playhead.offset_bitmap import BITS, BitmapWords, pieces
from playhead.postgres.answers import reading
from playhead.postgres.merge_sql import Rule, named
from playhead.postgres.rows.column_types import INTEGERS, TIMES
from playhead.postgres.session import Session, literal, open_session
from playhead.postgres.session import TableName as TablePlace
from playhead.postgres.table import DETERMINISTIC, Table, read_table
from playhead.postgres.table_name import no_table, place_of
from playhead.record import Slice
from playhead.tables.columns import OFFSET, PARTITION, TIMESTAMP, TOPIC

# With more spans, reading everything between the first and the last is cheaper.
_MOST_SPANS = 32
# More runs mean that the table was never meant to have every record.
_MOST_RUNS = 1_000_000
# There are few words compared with rows, but the server cannot estimate that: by default it may
# sort all rows in one process.
_SETTINGS = """
SELECT pg_catalog.set_config(name, wanted, true) FROM pg_catalog.pg_settings JOIN (VALUES
    ('enable_sort', 'off'), ('enable_incremental_sort', 'off'), ('parallel_tuple_cost', '0'),
    ('work_mem', '256MB')
) ours (name, wanted) USING (name)
"""
_SHIFT, _MASK = BITS.bit_length() - 1, BITS - 1


class NoOffsets(Refused):
    """A table whose rows do not say which record they are from."""

    def __init__(self, table: str, *, missing: Sequence[str], key: Sequence[str] = ()) -> None:
        self.table, self.missing = table, tuple(missing)
        super().__init__(
            f"{table} lacks {' and '.join(missing)}: its rows do not say which offsets they are from",
            hint=f"compare by the rows' own columns: --by key --key {','.join(key) or 'COLS'}; or by "
            "the ledger: --by ledger; for rows to come: ALTER TABLE … ADD _partition int, ADD "
            "_offset bigint",
        )


class TooManyGaps(Refused):
    """The missing offsets are too many separate runs."""

    def __init__(self, table: str) -> None:
        self.table = table
        super().__init__(
            f"more than {_MOST_RUNS:,} separate gaps in {table}: it was probably never meant to hold every record",
            hint="give a shorter span; if only some records were written (--where, "
            "compaction by key), compare rows: --by key --key COLS",
        )


def held_offsets(
    url: str, table: str, spans: Sequence[Slice], until_ms: int | None = None
) -> HeldOffsets:
    """Which of the spans' offsets are there, of records older than `until_ms`; refuses a table that
    cannot tell."""
    by_topic: dict[str, list[Slice]] = {}
    for span in spans:
        by_topic.setdefault(span.topic, []).append(span)
    found = HeldOffsets()
    with open_session(url, grant=f"GRANT SELECT ON {table} TO this_user") as session:
        places = {topic: place_of(session.run, table, topic) for topic in by_topic}
        for topic, its in by_topic.items():
            asked = _Asked(session, _read(session, places[topic]), topic, until_ms)
            if asked.is_untold:
                _refuse_shared(asked.table, [t for t, at in places.items() if at == places[topic]])
                found.untold.append(str(places[topic]))
            asked.ask(its, found)
            # A scan of all rows, needed only if something is missing.
            if found.count(topic) < sum(map(len, its)) and asked.has_unplaced():
                found.unplaced.append(str(places[topic]))
    return found


def has_offsets(url: str, table: str, topics: Sequence[str]) -> bool:
    """Return whether the rows of all these tables say which offsets they are from."""
    with open_session(url, grant=f"GRANT SELECT ON {table} TO this_user") as session:
        places = {place_of(session.run, table, topic) for topic in topics}
        return not any(_lacking(_read(session, place)) for place in places)


def columns_there(
    url: str, table: str, topics: Sequence[str], wanted: Sequence[str]
) -> tuple[str, ...]:
    """Return the wanted columns that all these tables have."""
    with open_session(url, grant=f"GRANT SELECT ON {table} TO this_user") as session:
        tables = [_read(session, place_of(session.run, table, topic)) for topic in topics]
    return tuple(name for name in wanted if all(each.column(name) for each in tables))


def gentle_rule(url: str, table: str, topics: Sequence[str], key: Sequence[str]) -> Rule | None:
    """Return the conflict rule under which a missing record never replaces a later one.

    None if nothing identifies rows, so that records are appended.
    """
    with open_session(url, grant=f"GRANT SELECT ON {table} TO this_user") as session:
        tables = [_read(session, place_of(session.run, table, topic)) for topic in topics]
    rules = {_rule(each, tuple(key)) for each in tables}
    return rules.pop() if len(rules) == 1 else "ignore"


def _rule(table: Table, key: tuple[str, ...]) -> Rule | None:
    by = key or table.primary_key
    if not by or not table.has_key(by):
        return None
    columns = [table.column(name) for name in by]
    if not all(each is not None and each.is_ours for each in columns):
        return None
    stamp = table.column(TIMESTAMP)
    is_place = set(by) <= {TOPIC, PARTITION, OFFSET}
    return "newer" if stamp is not None and stamp.base in TIMES and not is_place else "ignore"


def _read(session: Session, place: TablePlace) -> Table:
    table = read_table(session.run, place)
    if table is None:
        raise no_table(session.run, place, hint="was anything replayed into it yet?")
    return table


def _lacking(table: Table) -> list[str]:
    return [name for name in (PARTITION, OFFSET) if table.column(name) is None]


def _refuse_shared(table: Table, topics: Sequence[str]) -> None:
    if len(topics) > 1:
        raise Refused(
            f"{table.place} lacks {TOPIC}: rows of {', '.join(topics)} cannot be distinguished",
            hint="compare one topic at a time if the table has one topic; otherwise add a column _topic text",
        )


@dataclass(frozen=True, slots=True)
class _Asked:
    session: Session
    table: Table
    topic: str
    until_ms: int | None = None

    def __post_init__(self) -> None:
        if lacking := _lacking(self.table):
            key = self.table.primary_key or ()
            raise NoOffsets(str(self.table.place), missing=lacking, key=key)

    @property
    def is_untold(self) -> bool:
        return self.table.column(TOPIC) is None

    def ask(self, spans: Sequence[Slice], found: HeldOffsets) -> None:
        """Add the offsets that exist."""
        with self.session.transaction():
            self.session.run(_SETTINGS)
            rows = self.session.run(self._statement(spans))
        if len(rows) > _MOST_RUNS:
            raise TooManyGaps(str(self.table.place))
        with reading():
            for partition, first, end, bits, count in rows:
                place = (self.topic, int(partition))
                words = BitmapWords(int(first), int(end), int(bits))
                found.words.setdefault(place, []).append(words)
                found.rows += int(count)
        if sum(map(pieces, found.words.values())) > _MOST_RUNS:
            raise TooManyGaps(str(self.table.place))

    def _statement(self, spans: Sequence[Slice]) -> str:
        """Return words with their bits; consecutive equal words are one row.

        Words combine bits and are not sums: two rows of one offset must not count as two offsets.
        """
        partition, offset = self._number(PARTITION), self._number(OFFSET)
        words = (
            f"SELECT {partition} AS p, {offset} >> {_SHIFT} AS w, "  # noqa: S608 - quoted names
            f"pg_catalog.bit_or(1::int8 << ({offset}::int8 & {_MASK}::int8)::int4) AS bits, pg_catalog.count(*) AS n "
            f"FROM {self.table.place.quoted} WHERE {self._where(spans)} GROUP BY 1, 2"
        )
        runs = (
            "SELECT p, w, bits, n, w - pg_catalog.row_number() OVER (PARTITION BY p, bits ORDER BY w) AS run "  # noqa: S608
            f"FROM ({words}) words"
        )
        return (
            "SELECT p::int8, pg_catalog.min(w)::int8, (pg_catalog.max(w) + 1)::int8, bits::int8, "  # noqa: S608
            f"pg_catalog.sum(n)::int8 FROM ({runs}) runs GROUP BY p, bits, run ORDER BY 1, 2 LIMIT {_MOST_RUNS + 1}"
        )

    def _where(self, spans: Sequence[Slice]) -> str:
        conditions = [*self._of_topic(), *self._older()]
        if len(spans) <= _MOST_SPANS:
            conditions.append(f"({' OR '.join(map(self._inside, spans))})")
        else:
            column = self._number(OFFSET)
            least = min(each.from_offset for each in spans)
            most = max(each.to_offset for each in spans)
            conditions.append(f"{column} >= {least} AND {column} < {most}")
            partitions = ", ".join(str(each) for each in sorted({span.partition for span in spans}))
            conditions.append(f"{self._number(PARTITION)} IN ({partitions})")
        return " AND ".join(conditions)

    def _inside(self, span: Slice) -> str:
        partition, offset = self._number(PARTITION), self._number(OFFSET)
        return (
            f"{partition} = {span.partition} "
            f"AND {offset} >= {span.from_offset} AND {offset} < {span.to_offset}"
        )

    def _number(self, name: str) -> str:
        column = self.table.column(name)
        is_number = column is not None and column.base in INTEGERS
        # Without a cast, so that an index can be used.
        return named(name) if is_number else f"{named(name)}::text::int8"

    def _of_topic(self) -> Iterator[str]:
        column = self.table.column(TOPIC)
        if column is None:
            return
        its_rows = f"{named(TOPIC)}::text = {literal(self.topic)}"
        yield its_rows
        if column.collation not in DETERMINISTIC:
            # Its collation may take other names for equal. Only by the condition above, an index is used.
            yield f'{its_rows} COLLATE "C"'

    def _older(self) -> Iterator[str]:
        if self.until_ms is None:
            return
        column = self.table.column(TIMESTAMP)
        base = column.base if column is not None else None
        instant = f"pg_catalog.to_timestamp({self.until_ms}::numeric / 1000.0)"
        if base == "timestamptz":
            yield f"{named(TIMESTAMP)} < {instant}"
        elif base == "timestamp":  # rows have UTC in it
            yield f"{named(TIMESTAMP)} < {instant} AT TIME ZONE 'UTC'"
        elif base == "int8":
            yield f"{named(TIMESTAMP)} < {self.until_ms}"
        else:
            yield "false"

    def has_unplaced(self) -> bool:
        """Return whether some rows have no offset: their records are unknown."""
        columns = [self.table.column(name) for name in (PARTITION, OFFSET)]
        unsure = [each.name for each in columns if each is not None and not each.is_required]
        if not unsure:
            return False
        conditions = " OR ".join(f"{named(name)} IS NULL" for name in unsure)
        statement = f"SELECT EXISTS (SELECT FROM {self.table.place.quoted} WHERE {conditions})"  # noqa: S608
        return bool(self.session.one(statement, kinds=[bool])[0])
