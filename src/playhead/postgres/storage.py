"""Where rows lie: entries name it, so that rows that vanish with a partition or by TRUNCATE are noticed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from playhead.ledger import ALSO_REMOVED, UNREADABLE, Entry, LedgerUnreadable
from playhead.postgres.errors import TableChanged
from playhead.postgres.open_table import WriteRules
from playhead.postgres.session import Session
from playhead.postgres.table import Table, read_table
from playhead.postgres.table_name import place_of
from playhead.postgres.terms import Replays
from playhead.written_rows import WrittenRows, changes_since

_STORAGE = "storage"
"""In an entry's details: the table or the partitions that have its rows, and the file of each."""
_Files = dict[int, set[int]]


def storage_of(session: Session, table: Table) -> dict[str, dict[str, int]]:
    """Return, for the details of an entry, where this transaction has written rows."""
    # Rows of a foreign partition are not counted, nor any rows without track_counts.
    is_written = (
        "WHERE pg_catalog.pg_stat_get_xact_tuples_inserted(o.oid) > 0 "
        "OR pg_catalog.pg_stat_get_xact_tuples_updated(o.oid) > 0 "
        "OR pg_catalog.pg_relation_filenode(o.oid) IS NULL "
        "OR NOT pg_catalog.current_setting('track_counts')::bool"
    )
    files = _files(session, table, is_written if table.kind == "p" else "")
    return {_STORAGE: {str(oid): file for oid, file in files}}


def foreign_partitions(session: Session, table: Table) -> list[str]:
    """Return the partitions on other servers, which commit before this one and on their own."""
    if table.kind != "p":
        return []
    found = session.rows(
        "SELECT p.relid::text FROM pg_catalog.pg_partition_tree($1::int8::oid) p "
        "JOIN pg_catalog.pg_class c ON c.oid = p.relid WHERE c.relkind = 'f' ORDER BY 1",
        (table.oid,),
        kinds=[str],
    )
    return [name for (name,) in found]


@contextmanager
def unemptied(session: Session, table: Table) -> Iterator[None]:
    """Refuse if triggers truncate, drop or rewrite what has the rows, which counts as no deletion."""
    if not table.may_drop_rows:
        yield
        return
    before = _files(session, table)
    yield
    if not set(before) <= set(_files(session, table)):
        reason = (
            "a trigger truncated, dropped or rewrote it, or a partition, while a slice was written"
        )
        raise TableChanged(str(table.place), reason=reason)


def written_rows(
    session: Session,
    name: str,
    entries: Sequence[Entry],
    rules_of: Callable[[Table], WriteRules],
    replays_of: Callable[[Session], Replays],
) -> WrittenRows:
    """Return what says that rows of the entries are gone, may be gone, or lost their columns."""
    tables: dict[Table, list[Entry]] = {}
    for topic in sorted({entry.slice.topic for entry in entries}):
        table = read_table(session.run, place_of(session.run, name, topic))
        if table is not None:
            tables.setdefault(table, []).extend(e for e in entries if e.slice.topic == topic)
    lost: list[str] = []
    doubtful: list[str] = []
    altered: list[str] = []
    unfilled: list[str] = []
    lacks: list[str] = []
    for table, theirs in tables.items():
        columns = {each.name: each.there for each in table.columns if each.is_ours}
        changes, others = changes_since(theirs, columns, str(table.place))
        altered, unfilled = [*altered, *changes], [*unfilled, *others]
        lacks += rules_of(table).lacking(table)
        then, now = _written(theirs, table), dict(_files(session, table))
        if foreign := foreign_partitions(session, table):
            doubtful.append(
                f"{', '.join(foreign)} of {table.place} is on another server, which commits on its own: "
                "a failure between the two commits leaves rows there twice"
            )
        if gone := sorted(then.keys() - now.keys()):
            oids = ", ".join(map(str, gone))
            lost.append(f"{table.place} no longer has its partition of oid {oids}")
        is_rewritten = any(files != {now[oid]} for oid, files in then.items() if oid in now)
        if not is_rewritten and table.persistence != "u":
            continue
        why = "was rewritten or truncated" if is_rewritten else "is unlogged"
        least = sum(
            _count(each, "inserted") - _count(each, "deleted") - _count(each, ALSO_REMOVED)
            for each in theirs
        )
        found = None if table.has_row_security else _rows(session, table)
        if found is not None and found < least:
            lost.append(f"{table.place} {why}, and has {found:,} rows, of {least:,} written")
        elif is_rewritten:
            doubtful.append(f"{table.place} {why} after rows were committed")
        elif found != least or len(replays_of(session).begun_with(table.place, table.oid)) > 1:
            # A crash may have emptied it, and others may have written since, perhaps just as many.
            doubtful.append(f"{table.place} {why}, and has rows of others too")
    return WrittenRows(lost, doubtful, altered, unfilled, lacks)


def _files(session: Session, table: Table, condition: str = "") -> list[tuple[int, int]]:
    """Return the table, or its partitions, each with its file; only TRUNCATE and rewriting change that."""
    leaves = f"SELECT {table.oid}::oid AS oid"
    if table.kind == "p":
        leaves = (
            f"SELECT relid::oid AS oid FROM pg_catalog.pg_partition_tree({table.oid}::oid) "  # noqa: S608
            "WHERE isleaf"
        )
    found = session.rows(
        "SELECT o.oid::int8, coalesce(pg_catalog.pg_relation_filenode(o.oid), 0)::int8 "  # noqa: S608
        f"FROM ({leaves}) o {condition} ORDER BY 1",
        kinds=(int, int),
    )
    return [(oid, file) for oid, file in found]


def _written(entries: Iterable[Entry], table: Table) -> _Files:
    files: _Files = {}
    try:
        for entry in entries:
            for oid, file in entry.details.get(_STORAGE, {}).items():
                files.setdefault(int(oid), set()).add(file)
    except UNREADABLE as exc:
        raise LedgerUnreadable(f"the ledger of {table.place}", f"{_STORAGE}: {exc}") from exc
    return files


def _count(entry: Entry, name: str) -> int:
    return int(entry.details.get(name, 0))


def _rows(session: Session, table: Table) -> int:
    only = "ONLY " if table.kind == "r" else ""
    counted = f"SELECT pg_catalog.count(*)::int8 FROM {only}{table.place.quoted}"  # noqa: S608
    return int(session.one(counted, kinds=[int])[0])
