"""One table that a writer has open: its layout and rules, and whether they still hold."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from playhead.account import Account
from playhead.extra_fields import ExtraFields
from playhead.postgres.errors import TableChanged
from playhead.postgres.merge_sql import REPLACING, MergeSql, Rule
from playhead.postgres.rows.column_layout import Layout, has_place
from playhead.postgres.rows.decode import Decoded, Decoder, Refusals
from playhead.postgres.rows.text_format import Bad
from playhead.postgres.session import Session, TableName
from playhead.postgres.table import DETERMINISTIC, Column, Table, read_table
from playhead.records import Records
from playhead.tables.columns import OFFSET, PLACE
from playhead.written_rows import lacking

if TYPE_CHECKING:
    from playhead.postgres.stage.latest_records import Latest

# Types whose keys are equal exactly if their bytes are, unless a modifier or a collation makes them equal.
_BYTEWISE = ("bool", "int2", "int4", "int8", "text", "varchar", "uuid", "date", "timestamptz")


@dataclass(frozen=True, slots=True)
class WriteRules:
    """The rules for conflicts and for null values."""

    key: tuple[str, ...] = ()
    rule: Rule | None = None
    version: str = ""
    tombstones: str | None = None
    decode: str = "json"
    refuses_left_out: bool = False
    """Whether records are refused that have fields which no column takes."""
    stays: Rule | None = None
    """If records are only looked for: the rule by which the rows of older ones may stay."""
    stays_by: str = ""
    """The column with the time that `stays` compares under `newer`; none where no times are compared."""

    @property
    def is_ordered(self) -> bool:
        """Whether it matters which of two slices of one partition is committed first."""
        return depends_on_order(self.rule, self.tombstones, self.key)

    def lacking(self, table: Table) -> list[str]:
        """Return what the table lacks now, without which a row cannot be looked up by its key."""
        if not self.is_keyed:
            return []
        key = (*self.key, self.version) if self.key and self.version else self.key
        return lacking(str(table.place), key, [column.name for column in table.columns])

    @property
    def is_keyed(self) -> bool:
        """Whether rows are identified by keys."""
        return self.rule in ("ignore", "newer", "update") or self.tombstones == "delete"


def depends_on_order(rule: Rule | None, tombstones: str | None, key: Sequence[str] | None) -> bool:
    """Return whether the final table depends on the order of two records of one partition."""
    if tombstones == "delete":
        return True
    # Two records of one partition have different offsets, so that their keys differ.
    return rule is not None and OFFSET not in (key or ())


class OpenTable:
    """A table's layout and rules, with their decoder."""

    def __init__(self, layout: Layout, habits: WriteRules, *, only_by_stage: bool = False) -> None:
        self.layout, self.habits, self._only_by_stage = layout, habits, only_by_stage
        self.latest: Latest | None = None
        """Under `newer`: the latest record of each key, if rows do not tell."""
        self.is_agreed = True
        """Whether the database has terms of the replay, so that it is the one in which the replay began."""
        always = (*habits.key, *((habits.version,) if habits.version else ()))
        never_null = habits.key if habits.is_keyed else ()
        minded = minded_columns(layout, habits)
        if habits.rule in REPLACING and layout.extra is not None:
            always = (
                *always,
                layout.extra.name,
            )  # The column for all other fields, also when it is empty.
        self._decoder = Decoder(
            layout,
            habits.decode,
            always=always,
            never_null=never_null,
            minded=minded,
            refuses_left_out=habits.refuses_left_out,
        )
        self._required = [
            each.name
            for each in layout.table.columns
            if each.is_ours and each.is_required and each.default is None
        ]

    @property
    def place(self) -> TableName:
        return self.layout.table.place

    def decode(self, records: Records, account: Account) -> Decoded:
        """Decode the records; refuse those that cannot be rows, including tombstones without a rule."""
        habit = self.habits.tombstones
        are_rows = habit == "null" or self.habits.decode == "none"
        refusals = Refusals(records, account)
        decoded = self._decoder.decode(records, refusals, nulls_are_rows=are_rows)
        if habit is None:
            for index in decoded.tombstones:
                refusals.add(index, _TOMBSTONE)
        names = {each.name for each in decoded.fields}
        missing = [name for name in self._required if name not in names]
        if not missing or not decoded.rows:
            return decoded
        bad = Bad("null", f"nothing for column {missing[0]}, which must not be null")
        unwritten = set(decoded.tombstones)
        for index in range(len(records)):
            if index not in unwritten:
                refusals.add(index, bad)
        return Decoded(decoded.fields, decoded.ready.slice(0, 0), None, decoded.tombstones)

    def count_skipped(self, decoded: Decoded) -> int:
        """Return how many tombstones leave nothing to look for; without a rule, they are refused."""
        return len(decoded.tombstones) if self.habits.tombstones is not None else 0

    def may_go_directly(self, decoded: Decoded) -> bool:
        """Return whether these rows can be copied into the table directly."""
        if self._only_by_stage or decoded.loose is not None:
            return False
        if decoded.tombstones and self.habits.tombstones == "delete":
            return False
        return all(
            each.route is not None
            and not (
                each.column.is_required
                and each.column.default is not None
                and rows.column(each.name).null_count
            )
            for fields, rows in decoded.by_form()
            for each in fields
        )

    def may_go_apart(self, decoded: Decoded, merge: MergeSql) -> bool:
        """Return whether rows without conflicts can be copied directly, although others have conflicts."""
        is_rule = self.habits.rule in ("ignore", "newer", "update")
        return is_rule and merge.is_distinct and self.may_go_directly(decoded)

    def merge(self, decoded: Decoded) -> MergeSql:
        habits = self.habits
        key = habits.key if habits.is_keyed or habits.rule == "error" else ()
        is_distinct = bool(key) and decoded.loose is None and self._are_distinct(key, decoded.ready)
        names = {each.name for each in self.layout.metadata}
        is_partitioned = self.layout.table.kind == "p"
        return MergeSql(
            self.place,
            decoded.fields,
            key,
            habits.rule,
            habits.version,
            is_distinct,
            is_partitioned,
            decoded.forms,
            tuple(name for name in PLACE if name in names) if has_place(self.layout) else (),
        )

    def _are_distinct(self, key: Sequence[str], ready: Any) -> bool:
        """Return whether certainly no two rows have one key; the server's own sort costs more."""
        columns = [self.layout.table.column(name) for name in key]
        if not all(each is not None and _keeps_bytes(each, ready) for each in columns):
            return False
        if len(key) == 1:  # A grouping costs ten times as much for the few rows of a live pipeline.
            return len(ready.column(key[0]).unique()) == len(ready)
        keys = ready.select(list(key))
        return bool(keys.group_by(list(key), use_threads=False).aggregate([]).num_rows == len(keys))

    def remarks(self, decoded: Decoded, account: Account) -> dict[str, Any]:
        """Return what an entry records beside the counts of rows."""
        found = len(decoded.tombstones)
        habit = self.habits.tombstones
        refused = account.refused_offsets
        remarks = {
            name: count
            for name, offsets in decoded.altered.items()
            if (count := sum(each not in refused for each in offsets))
        }
        if found and habit in ("skip", "delete"):
            remarks["tombstones_skipped" if habit == "skip" else "tombstones"] = found
        return remarks | left_out(decoded, account).as_details()

    def refuse_attached(self, session: Session) -> None:
        """Refuse a partition with triggers that was attached in spite of the lock, after `refuse_change`."""
        if self.layout.table.kind == "p":
            self._refuse_drops(read_table(session.run, self.place))

    def _refuse_drops(self, now: Table | None) -> None:
        known = self.layout.table
        if now is None:
            return
        if (
            now.may_drop_rows > known.may_drop_rows
            or now.cascades > known.cascades
            or now.may_write_elsewhere > known.may_write_elsewhere
        ):
            reason = "it now has a trigger, a rule or a foreign key that may drop rows"
            raise TableChanged(str(known.place), reason=reason)
        if now.has_row_security > known.has_row_security:
            reason = "row security now applies to this user, whose rows it may hide"
            raise TableChanged(str(known.place), reason=reason)

    def refuse_change(self, session: Session) -> None:
        """Lock the table until the transaction ends; refuse a changed one."""
        known = self.layout.table
        session.run(f"LOCK TABLE {known.place.quoted} IN ROW EXCLUSIVE MODE")
        now = read_table(session.run, known.place)
        self._refuse_drops(now)
        if now is None or now.oid != known.oid:
            raise TableChanged(str(known.place), reason="it was dropped, or created again")
        for column in known.columns:
            found = now.column(column.name)
            if found is None:
                raise TableChanged(str(known.place), reason=f"column {column.name} is gone")
            if found.number != column.number:
                reason = f"column {column.name} was dropped and added again"
                raise TableChanged(str(known.place), reason=reason)
            if (found.type, found.made_of) != (column.type, column.made_of):
                reason = f"column {column.name} was {column.type} and is now {found.type}"
                raise TableChanged(str(known.place), reason=reason)
            if found != column:
                reason = (
                    f"column {column.name} has another default or collation, or became NOT NULL"
                )
                raise TableChanged(str(known.place), reason=reason)
        if self.habits.is_keyed and not now.has_key(self.habits.key):
            reason = f"its unique index on ({', '.join(self.habits.key)}) is gone"
            raise TableChanged(str(known.place), reason=reason)


def _keeps_bytes(column: Column, ready: Any) -> bool:
    """Return whether values of different bytes are different values in the column."""
    if column.base not in _BYTEWISE or column.collation not in DETERMINISTIC:
        return False
    if column.base_modifier == -1:
        return True
    if column.base != "varchar":
        return False  # timestamptz(0) rounds.
    # Only from a text that is too long are blanks cut.
    longest = pc.max(pc.utf8_length(ready.column(column.name))).as_py() or 0
    return bool(longest <= column.base_modifier - 4)


def left_out(decoded: Decoded, account: Account) -> ExtraFields:
    """The fields that no column takes, of the records that are not refused."""
    refused = account.refused_offsets
    return ExtraFields.counted(
        names for offset, names in decoded.left_out.items() if offset not in refused
    )


def minded_columns(layout: Layout, habits: WriteRules) -> set[str]:
    """Return the columns for which it matters whether a record names them."""
    if habits.rule in REPLACING:
        return {each.name for each in layout.values} - {*habits.key, habits.version}
    return {each.name for each in layout.values if each.column.default is not None}


def copied(decoded: Decoded) -> list[Any]:
    """Return rows that are ready, grouped by their columns."""
    return [rows.select([each.name for each in fields]) for fields, rows in decoded.by_form()]


_TOMBSTONE = Bad(
    "tombstone",
    "its value is null (a tombstone), and no rule was given (--tombstones delete, skip or null)",
)
