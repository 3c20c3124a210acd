"""Finds the rules by which a table is written, in the ledger of its database."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from playhead.errors import PlayheadError, Refused
from playhead.gaps.lost_from_log import Committed
from playhead.gaps.table_doubts import facts_of_tables, of_present_topics
from playhead.note import Note
from playhead.request import Request
from playhead.source import SourceFacts
from playhead.span import Span
from playhead.target import Target
from playhead.terms import Terms

_OPTIONS = {
    "on_conflict": "--on-conflict",
    "version_column": "--version-column",
    "tombstones": "--tombstones",
}
_CHANGING = ("where", "select")


class OtherRule(Refused):
    """Missing records would be written by another rule than the rows of the table, and leave other rows."""

    def __init__(self, *, who: str, rule: str, given: str) -> None:
        self.who, self.rule, self.given = who, rule, given
        super().__init__(
            f"{who} wrote most rows of this table with --on-conflict {rule}: with {given}, a replay of what is "
            "missing could leave other rows than these records should",
            hint="leave --on-conflict out, and the gaps are filled by the rule of the table",
        )


@dataclass(frozen=True, slots=True)
class WritingRules:
    """The rules of the replay or pipeline that wrote most rows of a table."""

    who: str
    is_endless: bool
    rules: Mapping[str, Any]

    @property
    def on_conflict(self) -> str | None:
        return self.rules.get("on_conflict")

    def adopted(self, request: Request) -> tuple[Request, list[Note]]:
        """Return the request with the rules that it does not say itself, and a note about them.

        A replay with `ignore` may have been careful beside another program, so its rule is not taken for the
        table's. Rules of a writer that leaves other records out, or makes others of them, say nothing here.
        """
        if any(self.rules.get(name) != getattr(request, name) for name in _CHANGING):
            text = (
                f"{self.who} wrote most rows of this table with another --where or --select: records that these leave "
                "out count as missing, unless you pass the same ones"
            )
            return request, [Note("other-transform", text)]
        told = dict[str, Any]()
        is_known = self.on_conflict in (
            "update",
            "newer",
            *(("ignore",) if self.is_endless else ()),
        )
        if is_known and request.on_conflict in (None, self.on_conflict):
            told |= {"on_conflict": self.on_conflict}
            told |= {"version_column": request.version_column or self.rules.get("version_column")}
        if request.tombstones is None and self.rules.get("tombstones"):
            told |= {"tombstones": self.rules["tombstones"]}
        told = {name: value for name, value in told.items() if value != getattr(request, name)}
        if not told:
            return request, []
        words = " ".join(f"{_OPTIONS[name]} {value}" for name, value in told.items())
        text = f"{words}, as {self.who}, which wrote most rows of this table"
        return replace(request, **told), [Note("written-by", text, "info")]


@dataclass(frozen=True, slots=True)
class WrittenTable:
    """What the database tells of how a table is written."""

    writing: WritingRules | None = None
    key: tuple[str, ...] = ()
    """The table's first unique key; empty if the tables of several topics have different ones."""
    notes: Sequence[Note] = ()

    @property
    def first_stays(self) -> bool:
        """Whether the first record of a key stays in the table."""
        return self.writing is not None and self.writing.on_conflict == "ignore"

    def refuse_another_rule(self, request: Request) -> None:
        """Refuse to fill gaps by another rule."""
        given, writing = request.on_conflict, self.writing
        if given and writing and writing.on_conflict not in (None, "error", given):
            raise OtherRule(who=writing.who, rule=str(writing.on_conflict), given=given)


UNKNOWN = WrittenTable()


def written_table(
    target: Target, source: SourceFacts, request: Request
) -> tuple[Request, WrittenTable]:
    """Return the request with the rules by which the table is written, where it says no others, and the table."""
    facts = facts_of_tables(target, sorted(source.topics))
    writing, notes = writing_rules(of_present_topics(target, facts, source)), list[Note]()
    if writing is not None:
        request, notes = writing.adopted(request)
    keys = {tuple(its[0]) for its in facts.keys.values() if its}
    key = keys.pop() if len(keys) == 1 else ()
    if request.tombstones == "delete" and not request.key:
        # Only by their keys is it known which records were deleted.
        request = replace(request, key=key)
    return request, WrittenTable(writing, key, notes)


def writers(committed: Sequence[Committed]) -> list[Committed]:
    """Return the replays and pipelines that may write a whole table.

    Replays of named offsets are left out: they filled gaps, or wrote single records again.
    """
    return [each for each in committed if not _names_offsets(each.terms)]


def writing_rules(committed: Sequence[Committed]) -> WritingRules | None:
    """Return the rules by which most rows were written; None if the ledger does not know."""
    counts: dict[tuple[str, ...], int] = {}
    latest: dict[tuple[str, ...], Committed] = {}
    for each in writers(committed):
        rules = tuple(str(each.terms.rules.get(name)) for name in (*_OPTIONS, *_CHANGING))
        counts[rules] = counts.get(rules, 0) + sum(entry.written for entry in each.entries)
        latest[rules] = each
    most = max(counts, key=lambda rules: counts[rules], default=None)
    if most is None or not counts[most]:
        return None
    its = latest[most]
    who = its.replay_id.partition(".")[2] if its.terms.is_endless else its.replay_id
    name = f"{'pipeline' if its.terms.is_endless else 'replay'} {who}"
    return WritingRules(name, its.terms.is_endless, its.terms.rules)


def _names_offsets(terms: Terms) -> bool:
    try:
        return bool(Span.parse(str(terms.rules.get("span", "start..end"))).offsets)
    except PlayheadError:  # A later version may have other spans.
        return False
