"""Finds out why offsets of a topic gave no record, from the log itself."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from confluent_kafka import KafkaError

from playhead.absence import Blank, Explained, total, within
from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import MissingPiece, Unavailable
from playhead.kafka.admin.answer_fields import BadAnswer
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.offsets import bounds_of
from playhead.kafka.read.consumer import PartitionConsumer
from playhead.kafka.read.facts import settings_of
from playhead.kafka.read.log_heads import Head, Heads, open_heads
from playhead.record import Slice
from playhead.source import OutOfBounds, TopicPartition

MARKER = "markers of transactions"
ABORTED = "records of aborted transactions"
COMPACTED = "compacted away"
ONCE_COMPACTED = "compacted away earlier, or lost: the topic is not compacted now"
"""The reason if record batches lack records of a topic that keeps all of them, by its settings."""
NOT_SHOWN = "shown by no client, as markers are"
"""The reason if the log cannot be read directly, because only the client can log in."""

_ONE_PACKAGE = 1
_MANY_BYTES = 1 << 20
# Blanks closer than this are looked up together, with what lies between them.
_CLOSE_OFFSETS = 200
_EMPTY_ANSWERS = 3
_ANSWERS_BEHIND = 4
"""How far the ends of aborted transactions are looked for behind the blanks."""


class RecordsNotGiven(Unavailable):
    """The log holds records that the client did not return; reading them again may succeed."""

    def __init__(self, place: TopicPartition, blank: Blank) -> None:
        self.place, self.blank = place, blank
        super().__init__(
            f"{place[0]}:{place[1]}: the client returned no record at offsets {blank[0]} to "
            f"{blank[1] - 1}, but the log holds some",
            hint="nothing of that slice was committed; it is read again",
        )


class LogExplainer:
    """Reads the log's record batches at blanks; see `playhead.absence.Explainer`."""

    def __init__(self, connection: KafkaConnection, *, timeout_s: float) -> None:
        self._connection, self._timeout_s = connection, timeout_s
        self._heads = open_heads(connection, timeout_s=timeout_s)
        self._compacted: dict[str, bool] = {}

    def close(self) -> None:
        self._heads.close()

    def explain(self, place: TopicPartition, blanks: Sequence[Blank], /) -> Explained:
        """Read the log; if only the client can log in, use two further clients instead."""
        try:
            return self._looked(place, blanks)
        except MissingPiece:
            return self._asked(place, blanks)

    def _looked(self, place: TopicPartition, blanks: Sequence[Blank]) -> Explained:
        """Read one record batch for a single blank, mostly a marker; else everything from the first blank on."""
        search = _Search(place, blanks)
        stretches = list(_stretches(blanks))
        for most_bytes in (_ONE_PACKAGE, _MANY_BYTES):
            alone = [each for each in stretches if (len(each) == 1) == (most_bytes == _ONE_PACKAGE)]
            starts = [each[0][0] for each in alone]
            answers = self._heads.look(place, starts, most_bytes=most_bytes)
            for stretch, answer in zip(alone, answers, strict=True):
                self._follow(search, stretch[0][0], stretch[-1][1], answer)
        return self._explained(search)

    def _follow(self, search: "_Search", start: int, end: int, answer: Heads) -> None:
        """Continue from answer to answer until the end is reached."""
        at, empty = start, 0
        while True:
            if answer.is_gone:
                raise self._out_of_bounds(search.place, at, end)
            reached = search.note(at, end, answer)
            if reached >= end:
                self._look_behind(search, answer)
                return
            empty = empty + 1 if reached == at else 0
            if empty == _EMPTY_ANSWERS:
                search.note_nothing(at, end)
                return
            at = reached
            [answer] = self._heads.look(search.place, [at], most_bytes=_MANY_BYTES)

    def _look_behind(self, search: "_Search", answer: Heads) -> None:
        """Look for the ends of aborted transactions behind a stretch, but not through all of a long one."""
        while search.begun and search.answers_behind and answer.heads:
            search.answers_behind -= 1
            at = answer.heads[-1].end
            [answer] = self._heads.look(search.place, [at], most_bytes=_MANY_BYTES)
            search.note_ends(answer)
        search.begun.clear()

    def _explained(self, search: "_Search") -> Explained:
        absences = {reason: count for reason, count in search.absences.items() if count}
        if not (search.nothing or COMPACTED in absences):
            return Explained(absences)
        is_compacted = self._is_compacted(search.place[0])
        if search.nothing and not (search.shows_compaction or is_compacted):
            return Explained(absences, tuple(sorted(search.nothing)))
        gone = absences.pop(COMPACTED, 0) + total(search.nothing)
        return Explained({**absences, (COMPACTED if is_compacted else ONCE_COMPACTED): gone})

    def _asked(self, place: TopicPartition, blanks: Sequence[Blank]) -> Explained:
        """Compare two clients: a record shown now was not returned; one shown only uncommitted was aborted."""
        absences: dict[str, int] = {}
        for stretch in _stretches(blanks):
            blank = {at for start, end in stretch for at in range(start, end)}
            between = stretch[0][0], stretch[-1][1]
            given = blank & self._shown(place, between, "read_committed")
            if given:
                raise RecordsNotGiven(place, (min(given), min(given) + 1))
            aborted = len(blank & self._shown(place, between, "read_uncommitted"))
            absences[ABORTED] = absences.get(ABORTED, 0) + aborted
            absences[NOT_SHOWN] = absences.get(NOT_SHOWN, 0) + len(blank) - aborted
        return Explained({reason: count for reason, count in absences.items() if count})

    def _shown(self, place: TopicPartition, blank: Blank, isolation: str) -> set[int]:
        """Return the offsets at which a separate client returns a record."""
        consumer = PartitionConsumer(
            self._connection, patience_s=self._timeout_s, isolation=isolation
        )
        shown: set[int] = set()
        purpose = f"looking into {place[0]}:{place[1]}"
        with closing(consumer):
            consumer.assign({place: blank[0]})
            reached = blank[0]
            while reached < blank[1]:
                for each in consumer.poll_or_fail(purpose):
                    error = each.error()
                    if error is not None and error.code() != KafkaError._PARTITION_EOF:
                        consumer.refuse_permanent(error, purpose)
                        continue
                    if error is None:
                        shown.add(each.offset())
                    reached = max(reached, each.offset() + (error is None))
        return shown

    def _is_compacted(self, topic: str) -> bool:
        if topic not in self._compacted:
            with Admin(self._connection, timeout_s=self._timeout_s) as admin:
                settings = settings_of(admin, [topic])[topic] or {}
            policies = settings.get("cleanup.policy", "delete").split(",")
            self._compacted[topic] = "compact" in policies
        return self._compacted[topic]

    def _out_of_bounds(self, place: TopicPartition, at: int, end: int) -> OutOfBounds:
        with Admin(self._connection, timeout_s=self._timeout_s) as admin:
            held = bounds_of(admin, [place])[place]
        return OutOfBounds(Slice(*place, at, end), held)


@dataclass(slots=True)
class _Search:
    """What the record batches say about the blanks of one slice."""

    place: TopicPartition
    blanks: Sequence[Blank]
    absences: dict[str, int] = field(default_factory=dict)
    nothing: list[Blank] = field(default_factory=list)
    """The blanks without any record batch."""
    shows_compaction: bool = False
    """Whether the log holds a record batch that has lost records."""
    begun: dict[int, int] = field(default_factory=dict)
    """Of transactions that the broker lists as aborted, and whose end was not seen: producer and first offset."""
    answers_behind: int = _ANSWERS_BEHIND

    def note(self, start: int, end: int, answer: Heads) -> int:
        """Count the blanks from start to end as far as the answer goes; return how far that is."""
        self.note_ends(answer)
        at = start
        for head, is_aborted in answer.with_fate():
            if head.end <= at:
                continue
            if head.first > at:
                self.note_nothing(at, min(head.first, end))
            if head.first >= end:
                return end
            self._note_package(max(at, head.first), min(head.end, end), head, is_aborted)
            at = head.end
        return at

    def note_ends(self, answer: Heads) -> None:
        """Raise if a transaction that the broker lists as aborted ends with the marker of a commit.

        The client believes the list, and leaves its records out.
        """
        for head, is_aborted in answer.with_fate():
            if is_aborted:
                self.begun.setdefault(head.producer, head.first)
            elif head.is_marker and head.count:
                first = self.begun.pop(head.producer, None)
                if first is not None and not head.is_abort:
                    raise BadAnswer(
                        f"{self.place[0]}:{self.place[1]} has offset {first} in the list of aborted "
                        f"transactions, but its transaction was committed at offset {head.first}"
                    )

    def note_nothing(self, start: int, end: int) -> None:
        """Note that no record batch holds these offsets."""
        self.nothing += within(self.blanks, start, end)

    def _note_package(self, start: int, end: int, head: Head, is_aborted: bool) -> None:
        found = list(within(self.blanks, start, end))
        if head.count < head.end - head.first and not head.is_marker:
            self.shows_compaction = True
        if not found:
            return
        if head.is_marker:
            reason = MARKER
        elif is_aborted:
            reason = ABORTED
        elif self._lacks_no_more(head):
            reason = COMPACTED
        else:
            raise RecordsNotGiven(self.place, found[0])
        self.absences[reason] = self.absences.get(reason, 0) + total(found)

    def _lacks_no_more(self, head: Head) -> bool:
        """Return whether the reader found as many records in a record batch as compaction has left."""
        absent = total(within(self.blanks, head.first, head.end))
        return absent <= head.end - head.first - head.count


def _stretches(blanks: Iterable[Blank]) -> Iterator[list[Blank]]:
    """Join blanks that are close to each other."""
    stretch: list[Blank] = []
    for blank in blanks:
        if stretch and blank[0] - stretch[-1][1] >= _CLOSE_OFFSETS:
            yield stretch
            stretch = []
        stretch.append(blank)
    if stretch:
        yield stretch
