"""Decides how the missing records are written, so that none of them replaces a later one, or leaves an old row."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from playhead.errors import Refused
from playhead.record import Slice, joined_spans
from playhead.request import Request, TableRules
from playhead.span import OffsetSpan, Span
from playhead.tables.columns import OFFSET, PLACE

# Each gap becomes a slice, and so a transaction.
_MOST_REPLAYED = 20_000


@dataclass(frozen=True, slots=True)
class FillRules:
    """The rules of the replay that fills gaps."""

    on_conflict: str | None
    version_column: str | None = None
    tombstones: str | None = None
    only_last: bool = False
    """Whether only the last missing record of each key is replayed: the first one would stay."""

    def words(self) -> str:
        """Return the options that replay a whole span with the same result."""
        if self.only_last:
            return " --on-conflict update, while nothing else writes this table"
        rule = f" --on-conflict {self.on_conflict}" if self.on_conflict else ""
        return f"{rule} --version-column {self.version_column}" if self.version_column else rule


def fill_rules(
    table: TableRules,
    inferred: Callable[[], str | None],
    has_offsets: Callable[[], bool],
    *,
    by_rows: bool,
    first_stays: bool,
) -> FillRules:
    """Return the rules of the replay, by those with which the table is written.

    A record is missing if the row of its key is, or is older. So one row for each key has to come from the missing
    records: under `update` from the last one. A live pipeline may write a later one meanwhile, which stays.
    `by_rows` says that the missing records were looked for by their keys, so that no tombstone is among them, and
    `first_stays` that a replay with `ignore` wrote most rows.
    """
    rule, tombstones = table.on_conflict, table.tombstones
    if by_rows and rule != "newer" and tombstones == "delete":
        tombstones = "skip"
    if rule is None:
        rule = "ignore" if first_stays else inferred()
        only_last = rule == "ignore" and not first_stays
        found = FillRules(rule, table.version_column, tombstones, only_last)
    elif rule != "update" or OFFSET in table.key:
        found = FillRules(rule, table.version_column, tombstones)
    elif has_offsets():
        found = FillRules("newer", OFFSET, tombstones)
    else:
        found = FillRules("ignore", None, tombstones, only_last=True)
    if found.tombstones == "delete" and found.on_conflict != "newer":
        raise Refused(
            "missing tombstones would delete rows of later records",
            hint="pass the key, --key COLS: records whose key a later tombstone has are no gaps then",
        )
    return found


def may_share_keys(key: tuple[str, ...]) -> bool:
    """Whether several records may have one key."""
    return bool(key) and not set(key) <= {*PLACE}


def filling(request: Request, rules: FillRules, missing: Sequence[Slice]) -> Request:
    """Return the request that replays exactly these offsets."""
    spans = joined_spans(missing)
    if not spans:
        raise Refused(
            "nothing is left to replay: each missing record has the key of a tombstone that may have deleted its row",
            hint="compare the whole log, so that these tombstones are in the span, and pass --tombstones as the table "
            "is written",
        )
    if len(spans) > _MOST_REPLAYED:
        raise Refused(
            f"{len(spans):,} gaps would be as many transactions; at most {_MOST_REPLAYED:,} are replayed one by one",
            hint=f"replay the whole span: playhead replay …{rules.words()}",
        )
    offsets = tuple(
        OffsetSpan(each.topic, each.partition, each.from_offset, each.to_offset) for each in spans
    )
    return replace(
        request,
        span=str(Span(offsets=offsets)),
        lateness_ms=0,
        on_conflict=rules.on_conflict,
        version_column=rules.version_column,
        tombstones=rules.tombstones,
        create=False,
    )
