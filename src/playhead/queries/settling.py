"""Records the outcome of each statement, and up to which row of the log all statements have one."""

from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain

from playhead.ledger import Entry
from playhead.queries.answers import KeepsAnswers
from playhead.queries.column import Column
from playhead.queries.log import Log
from playhead.queries.outcome import Outcome, Played, Results
from playhead.queries.rules import Earlier
from playhead.queries.sorted_numbers import sorted_numbers
from playhead.queries.tape import Step, Tape
from playhead.queries.transactions import row_line
from playhead.record import Slice
from playhead.source import TopicPartition

NO_STATEMENT = "rows that are no statement"
NO_RECORD = "no record in the log"
_SKIPPED = (Outcome.NOT_REPLAYABLE, Outcome.IN_DOUBT, Outcome.LOST)


@dataclass(slots=True)
class Settling:
    """The outcomes of a tape's statements."""

    tape: Tape
    log: Log
    results: Results = field(default_factory=Results)
    answers: KeepsAnswers | None = None
    outcomes: Column = field(default_factory=lambda: Column("B"))
    left: int = 0
    """Number of statements without an outcome."""
    known_to: int = 0
    """The place before which all statements are on the tape."""
    _order: "array[int]" = field(default_factory=lambda: array("q"))
    """The statements in the order of their rows, without forgotten ones."""
    _reached: int = 0
    """Number of them before the first one without an outcome."""
    counted_rows: int = 0
    _counted: int = 0
    """Number of rows, and of statements in order, in entries that were returned."""

    def grow(self, known_to: int) -> None:
        """Add new statements of the tape; it is complete up to this place now."""
        self.known_to = known_to
        first, end = len(self.outcomes), len(self.tape)
        if first == end:
            return
        self.outcomes.extend(bytes(end - first))
        self.left += end - first
        # Counted statements come before all new ones.
        rest = chain(self._order[self._counted :], range(first, end))
        self._order = array("q", sorted_numbers(rest, self.tape.places.__getitem__))
        self._reached = self._counted = 0

    def forget(self) -> None:
        """Forget statements and rows in entries, up to the first one that is not."""
        rest = self._order[self._counted :]
        before = min(rest, default=len(self.outcomes))
        self.outcomes.forget(before)
        self.tape.forget(before)
        self.log.forget(self.counted_rows)

    def settle(self, at: int, played: Played, step: Step | None = None) -> None:
        """Record the outcome of a statement, once; it is read from the tape if it is not given."""
        if self.outcomes[at]:
            raise ValueError(
                f"statement {at} has two outcomes: {self.outcomes[at]}, {played.outcome}"
            )
        self.outcomes[at] = played.outcome
        self.left -= 1
        step = step or self.tape.step(at)
        self.results.note(step, played, self.tape.queries[step.query])
        if self.answers is not None:
            self.answers.note(at, played)

    def skip(self, at: int, outcome: Outcome) -> None:
        """Record the outcome of a statement that is not played in this run."""
        self.outcomes[at] = outcome
        self.left -= 1
        self.results.counts[outcome] += 1

    def outcome_before(self, at: int, earlier: Earlier) -> Outcome | None:
        """Return the outcome of a statement that this run does not play; None if it does."""
        session = self.tape.sessions[self.tape.session_of[at]]
        line, reason = self.tape.lines[at], self.tape.reason(at)
        if self._is_settled(at, earlier.reached):
            return Outcome.EARLIER
        if reason:
            return Outcome.FILTERED if reason.startswith("filter") else Outcome.NOT_REPLAYABLE
        if (session, line) in earlier.in_doubt:
            self.results.in_doubt.append(
                f"session {session}, line {row_line(line)}: {self.tape.step(at).sql}"
            )
            return Outcome.IN_DOUBT
        if line > earlier.marked.get(session, -1):
            return None
        return earlier.divergent.get((session, line), Outcome.EARLIER)

    def _is_settled(self, at: int, reached: Mapping[TopicPartition, int]) -> bool:
        """Return whether the ledger has the row of a statement."""
        place = self.tape.places[at]
        part = self.log.parts[self.log.part_of[place]]
        return self.log.offset_of[place] < reached.get(part, 0)

    def ahead(self) -> Counter[Outcome]:
        """Return the outcomes that are in no entry yet, because an earlier statement has none."""
        found = (Outcome(self.outcomes[at]) for at in self._order[self._counted :])
        return Counter(each for each in found if each)

    def settled(
        self, rest: Mapping[TopicPartition, Slice], *, is_last: bool = False
    ) -> list[Entry]:
        """Return the next ledger entries: for each partition, the next rows whose statements have outcomes."""
        order, places = self._order, self.tape.places
        while self._reached < len(order) and self.outcomes[order[self._reached]]:
            self._reached += 1
        end = self.known_to
        if self._reached < len(order):
            end = min(end, places[order[self._reached]])
        is_all = end == len(self.log)
        tallies = {place: _Tally(slice_) for place, slice_ in rest.items()}
        self._count_rows(end, tallies)
        self._count_statements(end, tallies)
        self.counted_rows = end
        if is_last and tallies:
            next(iter(tallies.values())).details = self.results.of_the_run()
        return [
            entry for tally in tallies.values() if (entry := tally.entry(is_all=is_all)) is not None
        ]

    def _count_rows(self, end: int, tallies: "Mapping[TopicPartition, _Tally]") -> None:
        by_part = [tallies.get(place) for place in self.log.parts]
        part_of, offset_of = self.log.part_of, self.log.offset_of
        for place in range(self.counted_rows, end):
            tally = by_part[part_of[place]]
            if tally is not None and offset_of[place] >= tally.rest.from_offset:
                tally.rows += 1
                tally.to_offset = max(tally.to_offset, offset_of[place] + 1)

    def _count_statements(self, end: int, tallies: "Mapping[TopicPartition, _Tally]") -> None:
        while self._counted < len(self._order):
            at = self._order[self._counted]
            place = self.tape.places[at]
            if place >= end:
                return
            self._counted += 1
            tally = tallies.get(self.log.parts[self.log.part_of[place]])
            if tally is not None and self.log.offset_of[place] >= tally.rest.from_offset:
                outcome = Outcome(self.outcomes[at])
                tally.statements[outcome] += 1
                # A row can show two acts, such as an error and the cancel that has caused it.
                tally.outcomes[place] = max(outcome, tally.outcomes.get(place, outcome))


@dataclass(slots=True)
class _Tally:
    """The outcomes of a partition's rows."""

    rest: Slice
    rows: int = 0
    to_offset: int = 0
    statements: Counter[Outcome] = field(default_factory=Counter)
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    details: dict[str, int] = field(default_factory=dict)

    def entry(self, *, is_all: bool) -> Entry | None:
        """Return the ledger entry; None if there is nothing new."""
        end = max(self.to_offset, self.rest.to_offset) if is_all else self.to_offset
        if end <= self.rest.from_offset:
            return None
        slice_ = Slice(self.rest.topic, self.rest.partition, self.rest.from_offset, end)
        rows = Counter(self.outcomes.values())
        read, filtered = len(self.outcomes), rows[Outcome.FILTERED]
        skipped = sum(rows[each] for each in _SKIPPED)
        blank = {NO_STATEMENT: self.rows - read, NO_RECORD: len(slice_) - self.rows}
        return Entry(
            slice_,
            read,
            read - filtered - skipped,
            filtered=filtered,
            skipped=skipped,
            details=self.details
            | {each.name.lower(): count for each, count in sorted(self.statements.items())},
            checksum=None,
            absences={reason: count for reason, count in blank.items() if count},
        )
