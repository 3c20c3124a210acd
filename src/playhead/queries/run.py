"""Runs a tape on a server until every statement has its outcome, and writes the ledger meanwhile."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final

from playhead.errors import Unavailable
from playhead.host.faults import abort_point
from playhead.ledger import Entry
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
from playhead.server import Control, MarkUnreadable, Server
from playhead.source import TopicPartition

_ENTRIES_EVERY_NS: Final = 1_000 * MS
_RETRY_S: Final = 0.3
_MOST_STALLS: Final = 5
"""How often a server may become unavailable without progress in between."""


@dataclass(slots=True)
class QueryRun:
    """One run of a query replay."""

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
    written: dict[TopicPartition, int] = field(default_factory=dict)
    """For each partition, the offset up to which the ledger is complete."""
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    """For each partition, the offset up to which it is on the tape."""
    ahead: Counter[Outcome] = field(default_factory=Counter)
    """After the run, the outcomes of statements that are not in the ledger yet."""
    _ended: list[str] = field(default_factory=list)
    """Sessions that are completely in the ledger, whose marks are not needed any more."""
    _writing: "tuple[list[Entry], Future[None]] | None" = None
    _wrote_ns: int = 0
    _settled: int = 0
    """Rows that this run has written into the ledger."""

    def play(self) -> bool:
        """Play the statements that earlier runs have not played; return False if the run was stopped.

        If the server was unavailable, continue from the ledger and the marks. Raises `Unavailable` if the server
        stays unavailable; a later run continues.
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
            player = self._player(self._earlier(control))
            try:
                self._turns(player, helper)
                self._finish(player, helper)
            finally:
                player.close()
        finally:
            helper.close()
        return player.is_done

    def _player(self, earlier: Earlier) -> Player:
        settling = Settling(self.tape, self.log, self.results, self.answers)
        player = Player(settling, self.rules, earlier)
        self.ends = {(each.topic, each.partition): each.to_offset for each in self.log.slices}
        settling.grow(len(self.log))
        player.extend(range(len(self.tape)))
        return player

    def _earlier(self, control: Control) -> Earlier:
        """Return the progress of earlier runs, after all their connections are closed."""
        if self.rules.marks is not None:
            control.fence(self.run)
        self.written = {(each.topic, each.partition): each.from_offset for each in self.log.slices}
        # Entries grow from the front of each partition.
        for each in (entry.slice for entry in control.entries(self.run)):
            place = (each.topic, each.partition)
            self.written[place] = max(each.to_offset, self.written.get(place, 0))
        marked = control.marked(self.run)
        self.results.forced = max(self.results.forced, marked.notes.get(FORCED_ORDER, 0))
        self.results.state_lost = max(self.results.state_lost, marked.notes.get(STATE_LOST, 0))
        divergent = _outcomes(marked.divergent)
        return Earlier(dict(self.written), marked.last, marked.in_doubt, divergent)

    def _turns(self, player: Player, helper: Helper) -> None:
        dog = Watchdog(player, helper, self.run)
        while not player.is_done and not self.is_stopped():
            player.turn()
            dog.look()
            self._note_progress(player, helper)

    def _note_progress(self, player: Player, helper: Helper) -> None:
        """Write ledger entries at intervals, in another thread."""
        if player.is_done or (self._writing is not None and not self._writing[1].done()):
            return
        self._end_writing()
        now = time.monotonic_ns()
        if now - self._wrote_ns < _ENTRIES_EVERY_NS:
            return
        self._wrote_ns = now
        self._tell(player)
        entries = player.settling.settled(self._rest())
        if entries:
            self._writing = entries, helper.ask(self._write, helper.control, entries, is_last=False)

    def _end_writing(self) -> None:
        if self._writing is None:
            return
        (entries, future), self._writing = self._writing, None
        future.result()
        self._settled += sum(len(entry.slice) for entry in entries)
        for each in (entry.slice for entry in entries):
            self.written[each.topic, each.partition] = each.to_offset

    def _rest(self) -> dict[TopicPartition, Slice]:
        """Return the part of each partition that is on the tape and not in the ledger."""
        starts = self.written
        return {
            place: Slice(*place, starts[place], end)
            for place, end in self.ends.items()
            if starts[place] < end
        }

    def _write(self, control: Control, entries: Sequence[Entry], *, is_last: bool) -> None:
        has_marks = self.rules.marks is not None
        ended, self._ended = self._ended, []
        control.settle(self.run, entries, ended, is_last=is_last, has_marks=has_marks)

    def _finish(self, player: Player, helper: Helper) -> None:
        self._end_writing()
        abort_point("queries.before_last_entries")
        entries = player.settling.settled(self._rest(), is_last=player.is_done)
        if entries:
            asked = helper.ask(self._write, helper.control, entries, is_last=player.is_done)
            self._writing = entries, asked
            self._end_writing()
        abort_point("queries.after_last_entries")
        self.ahead = player.settling.ahead()
        self._tell(player)

    def _tell(self, player: Player) -> None:
        """Report the progress; called every second, and at the end."""
        self.progress(len(self.tape) - player.settling.left, len(self.tape))


def _outcomes(marked: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], Outcome]:
    known = {each.value: each for each in Outcome}
    for (session, line), outcome in marked.items():
        if outcome not in known:
            raise MarkUnreadable(session=session, said=f"{line}:{outcome}")
    return {place: known[outcome] for place, outcome in marked.items()}
