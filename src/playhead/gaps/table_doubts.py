"""Says what the rows of a table cannot tell: rows that a policy hides, and rows of another topic."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from playhead.errors import Refused
from playhead.gaps.gap import Gaps
from playhead.ledger import Entry, remaining
from playhead.note import Note
from playhead.record import Slice
from playhead.source import SourceFacts
from playhead.target import DescribesTables, TableFacts, Target
from playhead.terms import Terms

ROW_SECURITY = "row-security"
_MOST_NAMED = 3


class HiddenRows(Refused):
    """Rows that only seem to be missing would be written a second time."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"{reason}: a replay would write their records again",
            hint="connect as the owner of the table, or as a user with BYPASSRLS; or compare by the ledger: "
            "--by ledger",
        )


def facts_of_tables(target: Target, topics: Collection[str]) -> TableFacts:
    """Return what the target knows of its tables; of others there is nothing to say."""
    return target.table_facts(topics) if isinstance(target, DescribesTables) else TableFacts()


def policed(facts: TableFacts) -> list[Note]:
    """Return notes on tables whose row security may hide rows."""
    text = "has row security for this user, which may hide rows: some of what seems to be missing may be there"
    return [Note(ROW_SECURITY, f"{table} {text}") for table in facts.policed]


def unkeyed(facts: TableFacts, columns: Sequence[str]) -> list[Note]:
    """Return notes on tables in which several records may have a row by these columns."""
    tables = [
        table
        for table, keys in facts.keys.items()
        if not any(set(key) <= set(columns) for key in keys)
    ]
    text = (
        f"has no unique index over {', '.join(columns)}: several records may have the same values there, and one "
        "row is enough for all of them; a missing one is not found"
    )
    return [Note("unkeyed", f"{table} {text}") for table in tables]


def refuse_hidden_rows(gaps: Gaps) -> None:
    """Refuse to fill gaps that may be rows which a policy hides."""
    for note in gaps.notes:
        if note.code == ROW_SECURITY:
            raise HiddenRows(note.text)


# --- rows of another topic


@dataclass(frozen=True, slots=True)
class _Writer:
    """A replay into the table, and what it has committed of the topics that are compared."""

    replay_id: str
    terms: Terms
    entries: Sequence[Entry]


def of_other_topics(
    target: Target,
    facts: TableFacts,
    source: SourceFacts,
    spans: Sequence[Slice],
    lacking: Sequence[Slice],
    *,
    by_key: bool = False,
) -> tuple[int, list[Note]]:
    """Return how many offsets of the table may be those of other topics of the same names, and notes.

    A topic that was deleted and created again has its offsets from 0 once more. Only a replay of the present
    topic that left no row alone proves that a row is of the present topic. By key, any row of another topic
    may be the one that was found for a record.
    """
    if facts.begun is None:
        return 0, [_UNREADABLE]
    others = {
        replay_id: theirs
        for replay_id, terms in facts.begun.items()
        if (theirs := [topic for topic in source.topics if _is_other(terms, source, topic)])
    }
    if not others:
        return 0, []
    written = [
        each
        for replay_id, theirs in others.items()
        for each in [_writer(target, facts.begun, replay_id, theirs)]
        if any(each.entries)
    ]
    present = [
        entry.slice
        for replay_id, terms in facts.begun.items()
        for entry in target.entries(replay_id)
        if _is_of(terms, source, entry.slice.topic) and not entry.details.get("left_alone")
    ]
    there = remaining(remaining(spans, lacking), present)
    found = [(each, _doubted(there, [each], by_key=by_key)) for each in written]
    notes = _notes([each for each in found if each[1]], source, by_key=by_key)
    return _doubted(there, written, by_key=by_key), list(notes)


def _is_other(terms: Terms, source: SourceFacts, topic: str) -> bool:
    """Whether terms are of another topic of this name; an archive, which has no ids, may be of this one."""
    then, now = terms.topics.get(topic), source.topics[topic].topic_id or ""
    if then is None or bool(then) != bool(now):
        return False
    return then != now or terms.source != source.identity


def _is_of(terms: Terms, source: SourceFacts, topic: str) -> bool:
    return topic in source.topics and topic in terms.topics and not _is_other(terms, source, topic)


def _writer(
    target: Target, begun: Mapping[str, Terms], replay_id: str, topics: Sequence[str]
) -> _Writer:
    entries = [
        each
        for each in target.entries(replay_id)
        if each.slice.topic in topics and each.written > 0
    ]
    return _Writer(replay_id, begun[replay_id], entries)


def _doubted(there: Sequence[Slice], writers: Sequence[_Writer], *, by_key: bool) -> int:
    """Return for how many of these offsets a row may be one of the writers'."""
    entries = [entry for each in writers for entry in each.entries]
    held = sum(map(len, there))
    if by_key:
        return min(held, sum(entry.written for entry in entries))
    return held - sum(map(len, remaining(there, [entry.slice for entry in entries])))


def _notes(
    found: Sequence[tuple[_Writer, int]], source: SourceFacts, *, by_key: bool
) -> Iterator[Note]:
    what = "rows into the table" if by_key else "of the offsets that the table has"
    for each, count in found[:_MOST_NAMED]:
        topic = each.entries[0].slice.topic
        then, now = each.terms.topics[topic], source.topics[topic].topic_id
        which = (
            f"that had the ID {then} and was deleted; the ID is {now} now"
            if then != now
            else f"of the cluster {each.terms.source}; the source is {source.identity}"
        )
        text = (
            f"replay {each.replay_id} wrote {count:,} {what} from another topic {topic}, {which}: whether the "
            "records of the present topic are there is unknown; playhead verify SOURCE TARGET compares the records "
            "themselves, --by ledger counts what replays of the present topic committed"
        )
        yield Note("other-topic", text)
    if len(found) > _MOST_NAMED:
        yield Note("other-topic", f"and {len(found) - _MOST_NAMED} more replays of other topics")


_UNREADABLE = Note(
    "unread-ledger",
    "the ledger of this database cannot be read: whether its rows are of an earlier topic of the same name is "
    "unknown",
    "info",
)
