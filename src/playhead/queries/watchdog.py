"""Keeps a run going: resolves deadlocks with the gate, the fate of lost connections, and server outages."""

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from playhead.queries.connections import MS
from playhead.queries.flags import Flag
from playhead.queries.gate import Role
from playhead.queries.helper import Helper
from playhead.queries.outcome import FORCED_ORDER, STATE_LOST, Outcome
from playhead.queries.player import Player
from playhead.queries.session import Doing, LostSession, Session
from playhead.queries.sql_text import read_sql
from playhead.queries.transactions import row_line

_LOOK_EVERY_NS: Final = 20 * MS
_SLOW_NS: Final = 100 * MS
_STUCK_NS: Final = 300 * MS
_RETRY_NS: Final = 300 * MS
_MOST_LOSSES: Final = 3
_MOST_ACTS: Final = 50
_FEW: Final = 100
_END_PREPARED: Final = (("COMMIT", "PREPARED"), ("ROLLBACK", "PREPARED"))


@dataclass(slots=True)
class Watchdog:
    """Checks a player between its turns."""

    player: Player
    helper: Helper
    run: str
    _looked_ns: int = 0
    _asked: "Future[Mapping[int, tuple[int, ...]]] | None" = None
    _asked_for: int = -1
    """The statement for which the server was asked."""
    _held: dict[int, int] = field(default_factory=dict)
    """For each session that was held outside of a transaction then, its next statement."""
    _acted_for: int = -1
    """The statement for which sessions were rolled back or let go, and how often."""
    _acts: int = 0
    _fates: list[tuple[LostSession, "Future[Any]"]] = field(default_factory=list)

    def look(self) -> None:
        """Run the checks that are due; raises `Unavailable` if the server is unavailable."""
        now = time.monotonic_ns()
        if now - self._looked_ns < _LOOK_EVERY_NS:
            return
        self._looked_ns = now
        self._ask_fates()
        self._hear_fates()
        self._look_at_locks(now)
        if now - self.player.progress_ns > _STUCK_NS:
            self._get_going()

    # --- lost connections

    def _ask_fates(self) -> None:
        """Query whether the transactions of lost sessions were committed."""
        player = self.player
        while player.lost:
            lost = player.lost.popleft()
            self._notice_limit(lost)
            control = self.helper.control
            # Its process has ended if another session has the same process id now.
            backend = 0 if lost.backend in player.links.by_backend else lost.backend
            if lost.doing is Doing.CONNECTING:
                asked = self.helper.ask(control.answers)
            elif player.rules.marks is None:
                asked = self.helper.ask(control.end_backend, backend)
            else:
                asked = self.helper.ask(control.fate, self.run, lost.session.id, backend)
            self._fates.append((lost, asked))

    def _notice_limit(self, lost: LostSession) -> None:
        """Reduce the limit of connections if the server accepts no more."""
        said = lost.reason.reason
        if lost.doing is Doing.CONNECTING and ("too many" in said or "slots are reserved" in said):
            self.player.links.most = max(1, self.player.links.open)

    def _hear_fates(self) -> None:
        waiting = []
        for lost, asked in self._fates:
            if not asked.done():
                waiting.append((lost, asked))
                continue
            line = asked.result()
            self._decide(lost, line)
        self._fates = waiting

    def _decide(self, lost: LostSession, line: int | None) -> None:
        """Record outcomes for committed and doubtful statements, and play the rest again."""
        player, session = self.player, lost.session
        player.progress_ns = time.monotonic_ns()
        if lost.doing is Doing.CONNECTING:
            session.doing = Doing.IDLE
            player.links.later(time.monotonic_ns() + _RETRY_NS, lambda: player.go_on(session))
            return
        player.results.reconnected += 1
        if lost.has_lost_state and session.left:
            player.results.state_lost += 1
            self._note(STATE_LOST)
        player.end_lost(session, dict(self._outcomes(lost, line)))

    def _outcomes(self, lost: LostSession, line: int | None) -> Iterator[tuple[int, Outcome]]:
        session, tape = lost.session, self.player.tape
        steps = [at for at, _ in session.transaction]
        if session.playing >= 0:
            steps.append(session.playing)
            session.losses += lost.doing is Doing.PLAYING
        if lost.doing is Doing.MARKING and session.answer is not None:
            yield (
                session.playing,
                Outcome.REPLAYED,
            )  # It was answered; only its second mark is missing.
            return
        committed = {at for at in steps if line is not None and tape.lines[at] <= line}
        yield from ((at, Outcome.REPLAYED) for at in committed)
        left = [at for at in steps if at not in committed]
        if left and lost.doing is Doing.PLAYING and self._is_in_doubt(session):
            self._name(session, left)
            yield from ((at, Outcome.IN_DOUBT) for at in left)
        elif left and session.losses >= _MOST_LOSSES:
            session.skips = tape.role(left[-1]) is Role.BODY
            session.losses = 0
            yield from ((at, Outcome.LOST) for at in left)

    def _is_in_doubt(self, session: Session) -> bool:
        """Return whether the current statement may have been committed without a mark."""
        step, player = session.step, self.player
        if step is None:
            return False
        if step.flags & Flag.ALONE and session.mark_at < 0:
            return True
        if player.rules.marks is not None and session.is_marked:
            return False
        role = player.tape.role(session.playing)
        return role in (Role.END, Role.WRITE) and bool(
            session.has_written or step.flags & Flag.WRITES
        )

    def _name(self, session: Session, steps: list[int]) -> None:
        for at in steps:
            step = self.player.tape.step(at)
            text = f"session {session.id}, line {row_line(step.line)}: {step.sql}"
            self.player.results.in_doubt.append(text)

    def _note(self, what: str) -> None:
        """Store an incident in the ledger before the run continues, so that later runs count it."""
        if self.player.rules.marks is not None:
            self.helper.ask(self.helper.control.note, self.run, what).result()

    # --- locks

    def _look_at_locks(self, now: int) -> None:
        if self._asked is not None:
            if self._asked.done():
                asked, self._asked = self._asked, None
                self._roll_back(asked.result())
            return
        owner = self._owner()
        if owner is None or owner.doing is not Doing.PLAYING or now - owner.sent_ns < _SLOW_NS:
            return
        backends = [
            number
            for number, session in self.player.links.by_backend.items()
            if session.doing is Doing.PLAYING
        ]
        self._asked_for = owner.playing
        self._held = {
            number: session.queue[0]
            for number, session in self.player.sessions.items()
            if session.is_held and session.queue and session.link is not None
            if not session.link.in_transaction
        }
        self._asked = self.helper.ask(self.helper.control.blockers, backends)

    def _owner(self) -> Session | None:
        """Return the session that all others wait for."""
        number = self.player.owners.get(self.player.first_number())
        return None if number is None else self.player.sessions[number]

    def _roll_back(self, blockers: Mapping[int, tuple[int, ...]]) -> None:
        """Roll back the transactions that the first one waits for, if they wait for it at the gate.

        This also applies to transactions whose continuation the log does not show: on the source, the first one did
        not wait for them.
        """
        player, owner = self.player, self._owner()
        if owner is None or owner.link is None or owner.doing is not Doing.PLAYING:
            return
        if owner.playing != self._asked_for:
            return
        waiting, seen, has_acted = [owner.link.backend], set[int](), False
        while waiting:
            backend = waiting.pop()
            if backend in seen:
                continue
            seen.add(backend)
            waiting += blockers.get(backend, ())
            if not backend and self._let_prepared_end():
                return
            session = player.links.by_backend.get(backend)
            if session is None or session is owner:
                continue
            if not (session.is_held or session.waits_for_log):
                continue
            is_idle = session.link is not None and not session.link.in_transaction
            is_idle = is_idle and bool(session.queue)
            if is_idle and session.queue[0] != self._held.get(session.number):
                continue  # It ended its statement after the server was asked, and may hold nothing now.
            if not has_acted and self._acted_too_often(owner):
                self._give_up_order()
                return
            has_acted = True
            if is_idle:
                # Its lock is that of its session, and on the source only what comes next gave it back.
                player.let_pass(session)
                return
            if owner.playing in player.tape.is_uncertain:
                # The log does not show that it came first, and it did not, because otherwise it would not wait now.
                player.release(player.water.low)
                return
            if session.awaits:
                # On the source it had released the lock, as by ROLLBACK TO, and need not wait for the owner.
                player.release(player.first_number())
                return
            player.results.overtaken += 1
            player.play_again(session, needs=player.water.low + 1)

    def _let_prepared_end(self) -> bool:
        """Let go what leads to COMMIT PREPARED or ROLLBACK PREPARED: only these end what no process holds."""
        player = self.player
        found = [
            (at, each)
            for each in player.sessions.values()
            if each.is_held and not each.is_busy
            for at in islice(each.queue, _FEW)
            if self._ends_prepared(at)
        ]
        if not found:
            return False
        _, session = min(found, key=lambda each: each[0])
        player.let_pass(session)
        return True

    def _ends_prepared(self, at: int) -> bool:
        parts = read_sql(self.player.tape.step(at).sql).parts
        return bool(parts) and parts[0].words[:2] in _END_PREPARED

    def _acted_too_often(self, owner: Session) -> bool:
        """Whether so much was rolled back or let go for one statement that it will not help."""
        self._acts = self._acts + 1 if owner.playing == self._acted_for else 1
        self._acted_for = owner.playing
        return self._acts > _MOST_ACTS

    def _give_up_order(self) -> None:
        player = self.player
        self._acts = 0
        player.results.forced += 1
        self._note(FORCED_ORDER)
        player.release(player.first_number())

    # --- when nothing moves

    def _get_going(self) -> None:
        """If no session can continue, choose one that may."""
        player, owner = self.player, self._owner()
        if player.lost or self._fates or player.due.waits_for_time:
            return
        if player.links.waiting and (player.make_room() or self._free_one(owner)):
            return
        if player.flying or any(
            each.doing is Doing.CONNECTING for each in player.sessions.values()
        ):
            return
        if any(each.is_held for each in player.sessions.values()):
            self._give_up_order()

    def _free_one(self, owner: Session | None) -> bool:
        """Roll back a transaction that waits at the gate, to free its connection for another session."""
        player = self.player
        at_gate = [
            each
            for each in player.sessions.values()
            if each.is_held and each is not owner and each.link is not None and each.transaction
        ]
        if not at_gate:
            return False
        last = max(at_gate, key=lambda each: each.at_gate)
        player.results.overtaken += 1
        player.play_again(last, needs=player.water.low + 1)
        return True
