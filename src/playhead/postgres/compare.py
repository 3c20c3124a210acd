"""Holds what a commit should have left in a table against what the table has now."""

from collections.abc import Sequence
from typing import Any

from playhead.account import Account, ErrorRule
from playhead.ledger import Entry
from playhead.postgres.conflict import AT, EXPECTED, GONE, REPLACING, literal, named
from playhead.postgres.decode import ORDER
from playhead.postgres.forms import FORM
from playhead.postgres.layout import OFFSET, PARTITION, TOPIC, Field
from playhead.postgres.ledger import Ledger
from playhead.postgres.session import Session
from playhead.postgres.staging import Stage
from playhead.postgres.tables import OpenTable
from playhead.records import Records
from playhead.target import Difference, Findings

_HELD = "playhead_held"
_PLACE = (TOPIC, PARTITION, OFFSET)
_SHOWN = 20
_MODULUS = 1 << 64
_ORDER = named(ORDER)


class Comparison:
    """One slice, in temporary tables of a transaction that is rolled back.

    Rows are told apart by their key where the rule for conflicts goes by it, else by the record's
    place, else by all that they hold. A row that a later record has replaced, as the rule wants it,
    is no difference; nor is one that is gone where a later slice of the replay had tombstones, because
    which keys those deleted is known to nobody any more.
    """

    def __init__(
        self, session: Session, ledger: Ledger, replay_id: str, table: OpenTable, entry: Entry
    ) -> None:
        self._session, self._table, self._entry = session, table, entry
        self._others = ledger.others(replay_id, entry.slice)

    def findings(self, whole: Records) -> Findings:
        """What is the same, and what is not."""
        account = Account(self._entry.slice, ErrorRule("skip"))
        refused = set(self._entry.details.get("refused", ()))
        kept = [i for i, offset in enumerate(whole.offsets) if offset not in refused]
        written = whole if len(kept) == len(whole) else whole.pick(kept)
        decoded = self._table.decode(written, account)
        with self._session.undone():
            stage = Stage(self._session, self._table, decoded, written, account)
            stage.fill()
            stage.expect()
            return self._compared(stage)

    def _compared(self, stage: Stage) -> Findings:
        fields = stage.merge.fields
        by = self._by(fields, stage.merge.key)
        if by:
            self._session.run(self._held_by(by, fields, stage.merge.forms))
            again = self._session.run(self._back_again(stage)) if stage.has_tombstones else []
        else:
            always = [each for each in fields if all(each in form for form in stage.merge.forms)]
            self._session.run(self._held_by_all(always))
            again = []
        [(expected, found, wanted_sum, held_sum)] = self._session.run(_SUMS)
        [(different,)] = self._session.run(f"SELECT count(*) FROM {_HELD} WHERE what IS NOT NULL")  # noqa: S608
        shown = self._session.run(
            f"SELECT o, what, columns FROM {_HELD} WHERE what IS NOT NULL ORDER BY o LIMIT {_SHOWN}"  # noqa: S608
        )
        differences = [self._difference(*row) for row in (*shown, *again)][:_SHOWN]
        return Findings(
            self._entry.slice,
            expected,
            found,
            f"{int(wanted_sum) % _MODULUS:016x}",
            f"{int(held_sum) % _MODULUS:016x}",
            tuple(differences),
            different + len(again),
        )

    def _by(self, fields: Sequence[Field], key: Sequence[str]) -> Sequence[str]:
        """The columns by which a row is found again; none when only by all of it."""
        names = {each.name for each in fields}
        if self._table.habits.is_keyed and key and set(key) <= names:
            return key
        choices = [_PLACE, *(each.columns for each in self._table.layout.table.keys)]
        possible = (each for each in choices if set(each) <= names)
        return next((each for each in possible if self._is_filled(each)), ())

    def _is_filled(self, by: Sequence[str]) -> bool:
        """Whether all rows have these columns: by null, or by a default that came instead, none is found."""
        conditions = " OR ".join(f"{named(name)} IS NULL" for name in by)
        return self._session.run(f"SELECT EXISTS (SELECT FROM {EXPECTED} WHERE {conditions})") == [  # noqa: S608
            (False,)
        ]

    def _held_by(
        self, by: Sequence[str], fields: Sequence[Field], forms: Sequence[Sequence[Field]]
    ) -> str:
        same = " AND ".join(f"t.{named(name)} = e.{named(name)}" for name in by)
        may_be_gone = _sql(self._others.deleted)
        compared = (
            f"SELECT e.{_ORDER} AS o, {_wanted(fields, forms)} AS wanted, "  # noqa: S608
            f"{_text(fields, 't')} AS held, "
            f"t.{named(by[0])} IS NOT NULL AS is_there, {may_be_gone} AS may_be_gone, "
            f"row_number() OVER (PARTITION BY e.{_ORDER}) AS n, "
            f"coalesce({self._excuse(fields)}, false) AS is_excused, {_differing(fields, forms)} AS columns "
            f"FROM {EXPECTED} e LEFT JOIN {self._table.place.quoted} t ON {same}"
        )
        return (
            f"CREATE TEMPORARY TABLE {_HELD} ON COMMIT DROP AS SELECT o, wanted, n, columns, "  # noqa: S608
            "CASE WHEN is_excused OR NOT is_there AND may_be_gone THEN wanted "
            "WHEN is_there THEN held END AS held, "
            "CASE WHEN NOT is_there THEN CASE WHEN NOT may_be_gone THEN 'missing' END "
            "WHEN n > 1 THEN 'extra' "
            "WHEN wanted <> held AND NOT is_excused THEN 'changed' END AS what "
            f"FROM ({compared}) c"
        )

    def _excuse(self, fields: Sequence[Field]) -> str:
        """When a row that differs is one that the rule lets be there."""
        habits = self._table.habits
        has_place = set(_PLACE) <= {each.name for each in fields}
        is_another = f"{_place('t')} IS DISTINCT FROM {_place('e')}"
        if habits.rule == "ignore":
            # A later tombstone may have made room for a later record.
            may_be = self._entry.details.get("left_alone") or self._others.deleted
            return (is_another if has_place else "true") if may_be else "false"
        if habits.rule not in REPLACING:
            return "false"
        excuses = []
        if habits.rule == "newer":
            version = named(habits.version)
            excuses.append(f"t.{version} > e.{version}")
        if has_place:
            topic, partition, offset = map(named, _PLACE)
            here = f"(t.{topic}, t.{partition}) = (e.{topic}, e.{partition})"
            excuses.append(f"NOT ({here} AND t.{offset} <= e.{offset})")
        else:
            excuses.append(_sql(self._others.replaced))
        return f"({' OR '.join(excuses)})"

    def _held_by_all(self, fields: Sequence[Field]) -> str:
        wanted, held = _text(fields, "e"), _text(fields, "t")
        numbers = f"row_number() OVER (PARTITION BY {wanted} ORDER BY e.{_ORDER})"
        return (
            f"CREATE TEMPORARY TABLE {_HELD} ON COMMIT DROP AS SELECT o, wanted, 1 AS n, "  # noqa: S608
            "NULL::text AS columns, CASE WHEN n <= coalesce(many, 0) THEN wanted END AS held, "
            "CASE WHEN n > coalesce(many, 0) THEN 'missing' END AS what "
            f"FROM (SELECT e.{_ORDER} AS o, {wanted} AS wanted, {numbers} AS n FROM {EXPECTED} e) w "
            f"LEFT JOIN (SELECT {held} AS held, count(*) AS many FROM {self._table.place.quoted} t "
            "GROUP BY 1) h ON h.held = w.wanted"
        )

    def _back_again(self, stage: Stage) -> str:
        """Rows of keys that tombstones had the last word on."""
        merge = stage.merge
        same = " AND ".join(f"t.{named(name)} = g.{named(name)}" for name in merge.key)
        staged = " AND ".join(f"e.{named(name)} = g.{named(name)}" for name in merge.key)
        names = {each.name for each in self._table.layout.fields}
        later = []
        if merge.rule == "newer":
            later.append(f"t.{named(merge.version)} > g.{named(AT)}")
        if set(_PLACE) <= names:
            topic, partition = literal(self._entry.slice.topic), self._entry.slice.partition
            here = f"(t.{named(TOPIC)}, t.{named(PARTITION)}) = ({topic}, {partition})"
            later.append(f"NOT ({here} AND t.{named(OFFSET)} < g.{_ORDER})")
        else:
            later.append(_sql(self._others.wrote))
        is_later = " OR ".join(later)
        return (
            f"SELECT max(g.{_ORDER}), 'extra', NULL::text FROM {GONE} g "  # noqa: S608
            f"JOIN {self._table.place.quoted} t ON {same} "
            f"WHERE NOT coalesce({is_later}, false) "
            f"AND NOT EXISTS (SELECT FROM {EXPECTED} e WHERE {staged}) "
            f"GROUP BY {', '.join(f'g.{named(name)}' for name in merge.key)} ORDER BY 1"
        )

    def _difference(self, offset: int, what: Any, columns: str | None) -> Difference:
        texts = {
            "missing": f"no row in {self._table.place}",
            "extra": f"more rows in {self._table.place} than there should be",
            "changed": f"other values in {self._table.place}: {columns}",
        }
        slice_ = self._entry.slice
        return Difference(what, slice_.topic, slice_.partition, offset, texts[what])


# Sums, because they do not depend on an order, and count what is there twice.
_SUMS = f"""
SELECT count(*) FILTER (WHERE n = 1), count(*) FILTER (WHERE held IS NOT NULL),
       coalesce(sum(hashtextextended(wanted, 0)::numeric) FILTER (WHERE n = 1), 0)::text,
       coalesce(sum(hashtextextended(held, 0)::numeric), 0)::text
FROM {_HELD}
"""  # noqa: S608 - ours


def _text(fields: Sequence[Field], alias: str) -> str:
    """A row as one text."""
    return f"ROW({', '.join(f'{alias}.{named(each.name)}' for each in fields)})::text"


def _wanted(fields: Sequence[Field], forms: Sequence[Sequence[Field]]) -> str:
    """The row that is expected; what its record does not name is as the table has it."""
    columns = []
    for each in fields:
        here, there = f"e.{named(each.name)}", f"t.{named(each.name)}"
        # What may not be null may have got a default, which the other side knows.
        is_given = each.column.is_required and each.column.default is not None
        column = f"coalesce({here}, {there})" if is_given else here
        names = _names(each, forms)
        columns.append(f"CASE WHEN {names} THEN {column} ELSE {there} END" if names else column)
    return f"ROW({', '.join(columns)})::text"


def _names(field: Field, forms: Sequence[Sequence[Field]]) -> str:
    """The condition that an expected row's record names the column; empty when all do."""
    numbers = [str(number) for number, form in enumerate(forms) if field in form]
    if len(numbers) == len(forms):
        return ""
    return f"e.{named(FORM)} IN ({', '.join(numbers)})" if numbers else "false"


def _place(alias: str) -> str:
    return f"({', '.join(f'{alias}.{named(name)}' for name in _PLACE)})"


def _sql(truth: bool) -> str:
    return "true" if truth else "false"


def _differing(fields: Sequence[Field], forms: Sequence[Sequence[Field]]) -> str:
    """The names of columns in which two rows differ."""
    cases = ", ".join(
        f"CASE WHEN {_names(each, forms) or 'true'} AND "
        f"e.{named(each.name)}::text IS DISTINCT FROM t.{named(each.name)}::text "
        f"THEN {literal(each.name)} END"
        for each in fields
    )
    return f"concat_ws(', ', {cases})"
