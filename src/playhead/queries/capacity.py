"""Finds the highest pace within a limit: plays the stretches of a log faster and faster until one exceeds it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from playhead.config.guards import Consent
from playhead.errors import BadValue, Stopped
from playhead.pace import Pace
from playhead.queries.checks import Check
from playhead.queries.connections import MS
from playhead.queries.helper import Helper
from playhead.queries.player import Player
from playhead.queries.replay import QueryReplay
from playhead.queries.run import QueryRun
from playhead.queries.session import Doing
from playhead.queries.stretches import Ladder, Stretch, StretchList
from playhead.queries.watchdog import Watchdog
from playhead.replay.journal import DONE

_STILL_NS: Final = 1_000 * MS
_BUSY: Final = 0.9


@dataclass(slots=True)
class Capacity:
    """The stretches that were played, and the result."""

    until: Check
    stretches: list[Stretch] = field(default_factory=list)
    ladder: Ladder = field(default_factory=Ladder)
    has_log_ended: bool = False
    """Whether the log ended before the last pace could be tried."""
    most_connections: int = 0

    @property
    def held(self) -> Stretch | None:
        """The stretch with the fastest pace that held."""
        paces = {each.pace: each for each in self.stretches}
        return None if self.ladder.held is None else paces[self.ladder.held]

    def verdict(self) -> str:
        held, broke = self.held, self.ladder.broke
        if held is None:
            why = "no stretch was complete" if broke is None else f"{_shown(broke)} broke the limit"
            ending = (
                "the log ended before a pace held"
                if self.has_log_ended
                else "no slower pace is tried"
            )
            return f"NO PACE HELD: {why}, and {ending}"
        said = f"{_shown(held.pace)} held: {held.per_second:,.0f} statements/s"
        if held.failed:
            said += f", and {held.failed:,} statements FAILED OTHERWISE"
        if broke is None:
            return f"at least {said}; the log ended before the limit broke"
        ending = ", and the log ended before a pace between them was tried"
        return f"{said}; {_shown(broke)} broke the limit" + (ending if self.has_log_ended else "")

    def as_document(self) -> dict[str, Any]:
        held = self.held
        return {
            "verdict": self.verdict(),
            "until": self.until.text,
            "held": None if held is None else _shown(held.pace),
            "statements_per_second": None if held is None else round(held.per_second, 1),
            "broke": None if self.ladder.broke is None else _shown(self.ladder.broke),
            "has_log_ended": self.has_log_ended,
            "most_connections": self.most_connections,
            "stretches": [_row(each) for each in self.stretches],
        }


def _shown(pace: Any) -> str:
    return str(Pace.speed(pace))


def _row(stretch: Stretch) -> dict[str, Any]:
    latency = stretch.latency
    return {
        "pace": _shown(stretch.pace),
        "seconds": round(stretch.seconds, 3),
        "statements": stretch.statements,
        "statements_per_second": round(stretch.per_second, 1),
        **{f"p{percent}_us": latency.percentile_us(percent) for percent in (50, 95, 99)},
        "unsent": stretch.unsent,
        "failed": stretch.failed,
        "player_busy": round(stretch.player_busy, 2),
        "broke": stretch.broke or None,
    }


def line_of(stretch: Stretch) -> str:
    """Return the line of a stretch for a terminal."""
    times = [f"p{percent} {_ms(stretch.latency.percentile_us(percent))}" for percent in (50, 99)]
    parts = [f"{stretch.seconds:.1f} s", f"{stretch.per_second:,.0f} statements/s", *times]
    if stretch.failed:
        parts.append(f"{stretch.failed:,} FAILED OTHERWISE")
    said = f"broke: {stretch.broke}" if stretch.broke else "held"
    if stretch.broke and stretch.player_busy > _BUSY:
        said += f" (the player used {stretch.player_busy:.0%} of a core and may be the bottleneck)"
    return f"  {_shown(stretch.pace):<8} {', '.join(parts)}: {said}"


def _ms(us: int | None) -> str:
    return "unknown" if us is None else f"{us / 1_000:,.2f} ms"


def until_of(text: str) -> Check:
    """Return the limit of --until: a percentile of the latency, above a time."""
    check = Check.parse(text, option="--until")
    if check.percent is None or check.times is not None or check.sign not in (">", ">="):
        raise BadValue("--until", found=text, needed="such as 'p99 > 50ms'")
    return check


@dataclass(slots=True)
class CapacityRun(QueryRun):
    """A run that decides after each stretch how fast the next one is played."""

    capacity: Capacity = field(kw_only=True)
    step_ns: int = field(kw_only=True)
    say: Callable[[str], None] = field(kw_only=True)
    _cpu_s: float = 0.0
    _is_counted: bool = False
    """Whether the statements that were not sent in time have been counted."""

    def _turns(self, player: Player, helper: Helper) -> None:
        dog = Watchdog(player, helper, self.run)
        player.due = due = StretchList(self.tape, player.settling.outcomes, self.step_ns)
        player.settling.answers = due
        while self._goes_on(player, due) and not self.is_stopped():
            player.turn()
            dog.look()
            self._note_progress(player, helper)
        self.capacity.most_connections = player.links.most_seen

    def _goes_on(self, player: Player, due: StretchList) -> bool:
        """End a stretch, and begin the next one; return whether there is more to play."""
        now = time.monotonic_ns()
        if due.is_open:
            if due.is_cut_off:
                self.capacity.has_log_ended = True
                return False
            if not self._is_counted and now >= due.end_ns:
                queues = (session.queue for session in player.sessions.values())
                due.stretch.unsent = sum(sum(map(due.is_of_stretch, queue)) for queue in queues)
                self._is_counted = True
            if now < due.run_out_ns:
                return True
            self._end_stretch(player, due, now)
        if due.stretch.broke and not _is_drained(player, now):
            return True
        pace = self.capacity.ladder.next()
        if pace is not None and due.next is not None:
            due.open(pace)
            self._cpu_s, self._is_counted = time.process_time(), False
            return True
        self.capacity.has_log_ended = pace is not None
        return False

    def _end_stretch(self, player: Player, due: StretchList, now: int) -> None:
        stretch = due.stretch
        for session in player.sessions.values():
            for at, played in session.transaction:
                due.note(at, played)
            if session.doing is Doing.PLAYING and due.is_of_stretch(session.playing):
                stretch.latency.note(late_ns=now - session.sent_ns)
        due.is_open = False
        wall_s = (now - due.start_ns) / 1e9
        stretch.player_busy = (time.process_time() - self._cpu_s) / wall_s
        stretch.judge(self.capacity.until)
        self.capacity.ladder.note(stretch)
        self.capacity.stretches.append(stretch)
        self.say(line_of(stretch))


def _is_drained(player: Player, now: int) -> bool:
    """Return whether the rest of a stretch is answered, or waits for statements that are not due."""
    return not (player.queued or player.flying) or now - player.progress_ns > _STILL_NS


def measure(
    made: QueryReplay,
    until: Check,
    step_ns: int,
    *,
    consent: Consent = None,
    say: Callable[[str], None] = lambda _: None,
) -> Capacity:
    """Play stretches of the log until the limit is between two paces that are close, or the log ends."""
    capacity, journal, replay_id = Capacity(until), made.journal, made.plan.replay_id
    with made.begun(consent) as facts:
        workload = made.read(facts)
        is_stopped = journal.stop_file(replay_id).exists
        rules = made.play_rules(made.server)
        run = CapacityRun(
            replay_id, workload.log, workload.tape, rules, made.server,
            is_stopped=is_stopped, capacity=capacity, step_ns=step_ns, say=say,
        )  # fmt: skip
        run.play()
        if is_stopped():
            count = len(capacity.stretches)
            raise Stopped(
                f"{replay_id} was stopped after {count} stretches, before a pace was found"
            )
        journal.note(replay_id, DONE)
    return capacity
