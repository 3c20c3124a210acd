"""One table that a writer has open: what goes where, by which rule, and whether it is still so."""

from dataclasses import dataclass
from typing import Any

from playhead.account import Account
from playhead.postgres.conflict import Merge, Rule
from playhead.postgres.decode import ORDER, Decoded, Decoder
from playhead.postgres.failures import TableChanged
from playhead.postgres.layout import Layout
from playhead.postgres.session import Place, Session
from playhead.postgres.table import read_table
from playhead.records import Records


@dataclass(frozen=True, slots=True)
class Habits:
    """What an operator has said about writing: the rule for conflicts, and for values that are null."""

    key: tuple[str, ...] | None = None
    rule: Rule | None = None
    version: str | None = None
    tombstones: str | None = None
    decode: str = "json"


class OpenTable:
    """A table's layout and habits, and the decoder that belongs to them."""

    not_columns = (ORDER,)

    def __init__(self, layout: Layout, habits: Habits) -> None:
        self.layout, self.habits = layout, habits
        self._decoder = Decoder(layout, habits.decode, habits.key or ())

    @property
    def place(self) -> Place:
        return self.layout.table.place

    def decode(self, records: Records, account: Account) -> Decoded:
        """The records as rows; tombstones as the operator said."""
        habit = self.habits.tombstones
        decoded = self._decoder.decode(
            records, account, nulls_are_rows=habit == "null" or self.habits.decode == "none"
        )
        if habit is None:
            for index in decoded.tombstones:
                account.refuse(
                    records.record(index),
                    kind="tombstone",
                    reason="its value is null, a tombstone, and nobody said what that means "
                    "(--tombstones delete, skip or null)",
                )
        return decoded

    def may_go_directly(self, decoded: Decoded) -> bool:
        """Whether these rows can be copied into the table as they are."""
        if decoded.loose is not None or (decoded.tombstones and self.habits.tombstones == "delete"):
            return False
        return all(field.wire is not None for field in decoded.fields)

    def merge(self, decoded: Decoded) -> Merge:
        habits = self.habits
        return Merge(self.place, decoded.fields, habits.key, habits.rule, habits.version)

    def remarks(self, decoded: Decoded) -> dict[str, Any]:
        if self.habits.tombstones == "skip" and decoded.tombstones:
            return {"tombstones_skipped": len(decoded.tombstones)}
        return {}

    def refuse_change(self, session: Session) -> None:
        """Keep the table as it is until the transaction ends; refuse when it is no longer what it was."""
        known = self.layout.table
        session.run(f"LOCK TABLE {known.place.quoted} IN ROW EXCLUSIVE MODE")
        now = read_table(session.run, known.place)
        if now is None or now.oid != known.oid:
            raise TableChanged(str(known.place), reason="it was dropped, or made again")
        for column in known.columns:
            found = now.column(column.name)
            if found is None:
                raise TableChanged(str(known.place), reason=f"column {column.name} is gone")
            if found != column:
                raise TableChanged(
                    str(known.place),
                    reason=f"column {column.name} was {column.type} and is {found.type}"
                    if found.type != column.type
                    else f"column {column.name} has other constraints",
                )
