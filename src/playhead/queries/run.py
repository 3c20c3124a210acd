"""Runs a tape on a server until every statement has its outcome, and writes the ledger as it goes."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final

from playhead.errors import Unavailable
from playhead.host.faults import abort_point
from playhead.ledger import Entry, remaining
from playhead.queries.answers import Answers
from playhead.queries.connections import MS
from playhead.queries.helper import Helper
from playhead.queries.log import Log
from playhead.queries.outcome import FORCED_ORDER, STATE_LOST, Outcome, Results
from playhead.queries.player import Player
from playhead.queries.rules import Earlier, PlayRules
from playhead.queries.settling import Settling
from playhead.queries.tape import Tape
from playhead.queries.watchdog import Watchdog
from playhead.record import Slice
from playhead.server import Control, Server
from playhead.source import TopicPartition

_ENTRIES_EVERY_NS: Final = 1_000 * MS
_RETRY_S: Final = 0.3
_MOST_STALLS: Final = 5
"""How often a server may go away without anything settled between."""


@dataclass(slots=True)
class QueryRun:
    """One run of a replay of queries."""

    run: str
    log: Log
    tape: Tape
    rules: PlayRules
    server: Server
    patience_s: float = 120.0
    is_stopped: Callable[[], bool] = lambda: False
    progress: Callable[[int, int], None] = lambda _done, _total: None
    results: Results = field(default_factory=Results)
    answers: Answers | None = None
    _rest: dict[TopicPartition, Slice] = field(default_factory=dict)
    _writing: "tuple[list[Entry], Future[None]] | None" = None
    _wrote_ns: int = 0
    _settled: int = 0
    """Rows that this run has written into the ledger."""

    def play(self) -> bool:
        """Play what earlier runs have not played; return False if it was stopped.

        If the server was away, it begins again with the ledger and the marks. Raises `Unavailable` if the server
        stays away; a later run continues.
        """
        began = time.monotonic()
        stalls, known = 0, -1
        while True:
            try:
                return self._play_once()
            except Unavailable as exc:
                self._writing = None
                stalls = stalls + 1 if self._settled == known else 0
                known = self._settled
                if self.rules.marks is None or stalls >= _MOST_STALLS:
                    raise
                self._await(exc)
                self.results.reconnected += 1
            finally:
                self.results.seconds = time.monotonic() - began

    def _await(self, exc: Unavailable) -> None:
        """Return when the server answers again."""
        until = time.monotonic() + self.patience_s
        while not self.is_stopped():
            control = self.server.control()
            try:
                control.answers()
                return
            except Unavailable:
                if time.monotonic() > until:
                    raise exc from None
                time.sleep(_RETRY_S)
            finally:
                control.close()

    def _play_once(self) -> bool:
        control = self.server.control()
        helper = Helper(control)
        try:
            control.hold(self.run)
            abort_point("queries.prepared")
            settling = Settling(self.tape, self.log, self.results, self.answers)
            player = Player(settling, self.rules, self._earlier(control))
            try:
                self._turns(player, helper)
                self._finish(player, helper)
            finally:
                player.close()
        finally:
            helper.close()
        return player.is_done

    def _earlier(self, control: Control) -> Earlier:
        """Return what earlier runs have done, when none of their connections is open any more."""
        if self.rules.marks is not None:
            control.fence(self.run)
        done = [entry.slice for entry in control.entries(self.run)]
        self._rest = {
            (each.topic, each.partition): each for each in remaining(self.log.slices, done)
        }
        # Entries grow from the front of each partition.
        ends = {(each.topic, each.partition): each.to_offset for each in self.log.slices}
        reached = {
            place: self._rest[place].from_offset if place in self._rest else end
            for place, end in ends.items()
        }
        marked = control.marked(self.run)
        self.results.forced = max(self.results.forced, marked.notes.get(FORCED_ORDER, 0))
        self.results.state_lost = max(self.results.state_lost, marked.notes.get(STATE_LOST, 0))
        divergent = {line: Outcome(outcome) for line, outcome in marked.divergent.items()}
        return Earlier(reached, marked.last, marked.in_doubt, divergent)

    def _turns(self, player: Player, helper: Helper) -> None:
        dog = Watchdog(player, helper, self.run)
        while not player.is_done and not self.is_stopped():
            player.turn()
            dog.look()
            self._note_progress(player, helper)

    def _note_progress(self, player: Player, helper: Helper) -> None:
        """Write ledger entries now and then, in another thread."""
        if self._writing is not None and not self._writing[1].done():
            return
        self._end_writing()
        now = time.monotonic_ns()
        if now - self._wrote_ns < _ENTRIES_EVERY_NS:
            return
        self._wrote_ns = now
        self.progress(len(self.tape) - player.settling.left, len(self.tape))
        entries = player.settling.settled(self._rest)
        if entries and not player.is_done:
            self._writing = entries, helper.ask(self._write, helper.control, entries, is_last=False)

    def _end_writing(self) -> None:
        if self._writing is None:
            return
        (entries, future), self._writing = self._writing, None
        future.result()
        self._settled += sum(len(entry.slice) for entry in entries)
        for each in (entry.slice for entry in entries):
            place = (each.topic, each.partition)
            rest = self._rest.pop(place)
            if each.to_offset < rest.to_offset:
                self._rest[place] = Slice(*place, each.to_offset, rest.to_offset)

    def _write(self, control: Control, entries: Sequence[Entry], *, is_last: bool) -> None:
        has_marks = self.rules.marks is not None
        control.settle(self.run, entries, is_last=is_last, has_marks=has_marks)

    def _finish(self, player: Player, helper: Helper) -> None:
        self._end_writing()
        abort_point("queries.before_last_entries")
        entries = player.settling.settled(self._rest)
        if entries:
            asked = helper.ask(self._write, helper.control, entries, is_last=player.is_done)
            self._writing = entries, asked
            self._end_writing()
        abort_point("queries.after_last_entries")
        self.progress(len(self.tape) - player.settling.left, len(self.tape))
