"""Says what the rows of a table cannot tell: rows that a policy hides, and rows of another topic."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from playhead.errors import Refused
from playhead.gaps.gap import Gaps
from playhead.gaps.lost_from_log import Committed
from playhead.inventory import DescribesTables, TableFacts
from playhead.ledger import Entry, remaining
from playhead.note import Note
from playhead.record import Slice
from playhead.source import SourceFacts, TopicPartition
from playhead.target import Target
from playhead.terms import Terms, Whereto

ROW_SECURITY = "row-security"
_MOST_NAMED = 3
_WITHOUT_ROW = ("left_alone", "tombstones", "tombstones_skipped")
"""In an entry's details: records that count as written, and have no row."""


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
    """A replay of another topic into the table, and the slices of the compared topic that its rows look like."""

    replay_id: str
    terms: Terms
    topic: str
    entries: Sequence[Entry]


def of_other_topics(
    target: Target,
    facts: TableFacts,
    source: SourceFacts,
    there: Sequence[Slice],
    committed: Sequence[Committed],
    *,
    by_key: bool = False,
) -> tuple[int, list[Note]]:
    """Return how many of the offsets that are there may be those of other topics of the same names, and notes.

    A topic that was deleted and created again has its offsets from 0 once more. In a table without a column for
    the topic, rows of any topic look like those of the compared one. Only a replay of the present topic that
    wrote a row for each record proves that a row is of the present topic. By key, any row of another topic of the same
    name may be the one that was found for a record.
    """
    if facts.begun is None:
        return 0, [_UNREADABLE]
    others = [
        (replay_id, terms, topic, topic)
        for replay_id, terms in facts.begun.items()
        for topic in source.topics
        if _is_other(terms, source, topic)
    ]
    if not by_key:
        others += _into_untold(facts.begun, facts.untold)
    found = _entries_of(target, {replay_id for replay_id, *_ in others})
    written = [each for other in others if (each := _writer(found, *other)).entries]
    if not written:
        return 0, []
    present = [entry.slice for each in committed for entry in each.entries if _has_all_rows(entry)]
    there = remaining(there, present)
    doubted = [(each, _doubted(there, [each], by_key=by_key)) for each in written]
    notes = _notes([each for each in doubted if each[1]], source, by_key=by_key)
    return _doubted(there, written, by_key=by_key), list(notes)


def of_present_topics(target: Target, facts: TableFacts, source: SourceFacts) -> list[Committed]:
    """Return what each replay of the present topics has committed to these tables."""
    begun = {
        replay_id: terms
        for replay_id, terms in (facts.begun or {}).items()
        if any(_is_of(terms, source, topic) for topic in terms.topics)
    }
    found = _entries_of(target, begun)
    return [
        Committed(each, terms, [e for e in found[each] if _is_of(terms, source, e.slice.topic)])
        for each, terms in begun.items()
    ]


def not_reached(committed: Sequence[Committed], missing: Sequence[Slice]) -> list[Note]:
    """Return notes on pipelines that have not reached missing offsets, and would write them a second time.

    A pipeline with a rule for conflicts meets the rows of a replay as it meets any others.
    """
    text = (
        "pipeline {} has not reached {:,} of these offsets and will write them itself: if a replay fills "
        "them first, a topic or a table without a key gets these records twice, and in a table with a key the "
        "pipeline stops"
    )
    left = {each.replay_id.partition(".")[2]: _beyond(each, missing) for each in committed}
    return [Note("not-reached", text.format(*each)) for each in left.items() if each[1]]


def _beyond(pipeline: Committed, missing: Sequence[Slice]) -> int:
    """Return how many offsets are beyond what a pipeline has committed; none for a replay, which has an end."""
    if not pipeline.terms.is_endless or pipeline.terms.rules.get("on_conflict"):
        return 0
    ends: dict[TopicPartition, int] = {}
    for slice_ in (entry.slice for entry in pipeline.entries):
        ends[slice_.place] = max(slice_.to_offset, ends.get(slice_.place, 0))
    ahead = [each for each in missing if each.place in ends]
    return sum(max(0, each.to_offset - max(each.from_offset, ends[each.place])) for each in ahead)


def _entries_of(target: Target, replay_ids: Collection[str]) -> Mapping[str, Sequence[Entry]]:
    """Return what replays have committed; only a target that describes its tables knows of any."""
    return target.entries_of(replay_ids) if isinstance(target, DescribesTables) else {}


def _is_other(terms: Terms, source: SourceFacts, topic: str) -> bool:
    """Whether terms are of another topic of this name; an archive, which has no ids, may be of this one."""
    then, now = terms.topics.get(topic), source.topics[topic].topic_id or ""
    if then is None or bool(then) != bool(now):
        return False
    return then != now or terms.source != source.identity


def _is_of(terms: Terms, source: SourceFacts, topic: str) -> bool:
    return topic in source.topics and topic in terms.topics and not _is_other(terms, source, topic)


def _has_all_rows(entry: Entry) -> bool:
    """Whether each record of the slice has a row of its own, so that no earlier row stays for it."""
    return entry.written == entry.read and not any(map(entry.details.get, _WITHOUT_ROW))


def _into_untold(
    begun: Mapping[str, Terms], untold: Mapping[str, Whereto]
) -> Iterator[tuple[str, Terms, str, str]]:
    """Yield the replays of topics of other names into tables without a column for the topic."""
    for topic, table in untold.items():
        for replay_id, terms in begun.items():
            for theirs, place in terms.places.items():
                if place == table and theirs != topic:
                    yield replay_id, terms, theirs, topic


def _writer(
    found: Mapping[str, Sequence[Entry]], replay_id: str, terms: Terms, theirs: str, topic: str
) -> _Writer:
    entries = [
        replace(each, slice=replace(each.slice, topic=topic))
        for each in found[replay_id]
        if each.slice.topic == theirs and each.written > 0
    ]
    return _Writer(replay_id, terms, theirs, entries)


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
        text = (
            f"replay {each.replay_id} wrote {count:,} {what} from another topic {each.topic}, "
            f"{_which(each, source)}: whether the "
            "records of the present topic are there is unknown; playhead verify SOURCE TARGET compares the records "
            "themselves, --by ledger counts what replays of the present topic committed"
        )
        yield Note("other-topic", text)
    if len(found) > _MOST_NAMED:
        yield Note("other-topic", f"and {len(found) - _MOST_NAMED} more replays of other topics")


def _which(writer: _Writer, source: SourceFacts) -> str:
    if writer.topic != writer.entries[0].slice.topic:
        return "and the table has no column _topic"
    then, now = writer.terms.topics[writer.topic], source.topics[writer.topic].topic_id
    if then != now:
        return f"that had the ID {then} and was deleted; the ID is {now} now"
    return f"of the cluster {writer.terms.source}; the source is {source.identity}"


_UNREADABLE = Note(
    "unread-ledger",
    "the ledger of this database cannot be read: whether its rows are of another topic is unknown",
    "info",
)
