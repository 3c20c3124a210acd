"""Tells the keys of records and tombstones, so that those of one key are found in different slices."""

from collections.abc import Sequence

from playhead.account import Account, ErrorRule
from playhead.inventory import KeysOf
from playhead.ledger import Entry
from playhead.postgres.merge_sql import EXPECTED, GONE, named
from playhead.postgres.open_table import OpenTable
from playhead.postgres.rows.decode import ORDER
from playhead.postgres.session import CopySession
from playhead.postgres.stage.stage import Stage
from playhead.postgres.table import Column
from playhead.records import Records
from playhead.target import SliceComparison

# Equal values of these types can have different texts, and have the same hash.
_LOOKS_DIFFERENT = (
    "numeric",
    "float4",
    "float8",
    "bpchar",
    "citext",
    "interval",
    "timetz",
    "jsonb",
)


def keys_of_records(
    session: CopySession, table: OpenTable, entry: Entry, whole: Records, of: KeysOf
) -> SliceComparison:
    """Return the keys of a slice's records that can be rows, or of its tombstones.

    The server reads them, so that texts which it takes for equal values are one key. A transaction that is rolled
    back holds them.
    """
    nothing = SliceComparison(entry.slice, 0, 0, "", "")
    if of == "tombstones":
        whole = whole.pick([n for n, value in enumerate(whole.values) if value is None])
        if not len(whole):
            return nothing
    account = Account(entry.slice, ErrorRule("skip"))
    decoded = table.decode(whole, account)
    if not (decoded.tombstones if of == "tombstones" else decoded.rows):
        return nothing
    with session.undone():
        stage = Stage(session, table, decoded, whole, account)
        stage.fill()
        source = GONE
        if of == "records":
            stage.expect()
            source = EXPECTED
        key = [each.column for each in table.layout.fields if each.name in table.habits.key]
        statement = f"SELECT e.{named(ORDER)}, {_number(key)} FROM {source} e ORDER BY 1"  # noqa: S608
        found = session.rows(statement, kinds=(int, int | None))
    times = dict(zip(whole.offsets, whole.timestamps_ms, strict=True))
    keys = tuple((offset, number, times[offset]) for offset, number in found)
    return SliceComparison(entry.slice, 0, 0, "", "", keys=keys)


def _number(key: Sequence[Column]) -> str:
    """Return SQL for a number that equal keys share, and null if part of the key is."""
    names = [f"e.{named(each.name)}" for each in key]
    is_null = " OR ".join(f"{name} IS NULL" for name in names)
    row = f"ROW({', '.join(names)})"
    number = f"pg_catalog.hashtextextended({row}::text, 0)"
    if any(each.base in _LOOKS_DIFFERENT or each.collation for each in key):
        number = f"pg_catalog.hash_record_extended({row}, 0)"  # Since PostgreSQL 14.
    return f"CASE WHEN NOT ({is_null}) THEN {number} END"
