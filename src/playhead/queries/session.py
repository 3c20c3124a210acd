"""One session of the log while it is played: its queue, its connection, and its open transaction."""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum

from playhead.queries.flags import Flag
from playhead.queries.gate import Role
from playhead.queries.outcome import NAMED, Outcome, Played
from playhead.queries.settings import Settings
from playhead.queries.tape import Step
from playhead.server import Link, LinkLost


class Doing(Enum):
    """The state of a session."""

    IDLE = "idle"
    """Idle, or waiting at the gate or for its next statement."""
    WAITING = "waiting"
    """Waiting until it may open a connection."""
    CONNECTING = "connecting"
    PREPARING = "preparing"
    """Its new connection gets the settings of the old one."""
    PLAYING = "playing"
    MARKING = "marking"
    """A mark is written before or after a statement that runs alone."""
    ROLLING_BACK = "rolling back"
    LOST = "lost"
    """Its connection is lost, and it is unknown yet whether its transaction was committed."""
    PAUSED = "paused"


@dataclass(slots=True)
class Session:
    """A session of the log."""

    number: int
    id: str
    left: int
    """Number of its statements without an outcome, or not played yet."""
    queue: deque[int] = field(default_factory=deque)
    """The statements that are due."""
    doing: Doing = Doing.IDLE
    link: Link | None = None
    playing: int = -1
    """The statement being played; -1 if none."""
    step: Step | None = None
    registered: int = -1
    """The file descriptor that the loop waits for; -1 if none."""
    sent_ns: int = 0
    unsaid: dict[int, Outcome] = field(default_factory=dict)
    """Lines with another result than on the source, which no mark contains yet."""
    said: frozenset[int] = frozenset()
    """The lines that the mark of the last request contains."""
    transaction: list[tuple[int, Played]] = field(default_factory=list)
    """The statements of the open transaction, which have no outcome before it ends."""
    settings: Settings = field(default_factory=Settings)
    was_aborted: bool = False
    """Whether its transaction had failed when the last statement was sent."""
    texts: list[str] = field(default_factory=list)
    """Texts to send first on a new connection."""
    named: dict[str, str] = field(default_factory=dict)
    """Texts of statements that were prepared by the protocol, by name."""
    prepared: dict[str, str] = field(default_factory=dict)
    """Names of prepared statements on its connection."""
    has_written: bool = False
    """Whether the open transaction may have changed something."""
    is_sticky: bool = False
    """Whether its connection has state that a new one would lack."""
    is_marked: bool = True
    """Whether marks can be written in it."""
    passes: int = -1
    """A statement that may go although the gate is closed; -1 for none."""
    needs: int = 0
    """The need that the gate must reach before the transaction is played again."""
    at_gate: int = 0
    """The need that it waits for; 0 if none."""
    awaits: int = 0
    """Number of statements inside transactions that it awaits before it ends its own; 0 if none."""
    awaits_reads: int = 0
    """Number of reads outside of transactions that it awaits before it changes the schema; 0 if none."""
    attempts: int = 0
    """Number of times that its transaction was played again."""
    losses: int = 0
    """Number of times that its connection was lost at the same statement."""
    is_withdrawn: bool = False
    """Whether its transaction is rolled back because its end cannot be played."""
    is_over: bool = False
    """Whether it has no more statements."""
    last_place: int = 0
    """The place of its last known row."""
    skips: bool = False
    """Whether the rest of its transaction cannot be played."""
    mark_at: int = -1
    """Number of statements of the last request that succeed before its mark; -1 without a mark."""
    before: int = 0
    """Number of Playhead's statements in the request before those of the log."""
    is_writing: bool = False
    """Whether the last request is not sent completely."""
    is_canceling: bool = False
    """Whether the server is being asked to cancel what it runs."""
    answer: Played | None = None
    """The outcome of the current statement."""
    idle_since_ns: int = 0

    @property
    def is_held(self) -> bool:
        """Whether it waits for other sessions."""
        return bool(self.at_gate or self.awaits or self.awaits_reads)

    def go_free(self) -> None:
        """Note that it waits for no other session."""
        self.at_gate = self.awaits = self.awaits_reads = 0

    @property
    def is_busy(self) -> bool:
        return self.doing is not Doing.IDLE

    def divergent(self) -> dict[int, Outcome]:
        """Return the lines that the next mark must name."""
        played = [*self.transaction, *([(-1, self.answer)] if self.answer is not None else [])]
        open_ = {each.line: each.outcome for _, each in played if each.outcome in NAMED}
        return self.unsaid | open_

    def was_marked(self) -> None:
        """Note that the last mark was committed."""
        for line in self.said:
            self.unsaid.pop(line, None)

    def note_earlier(self, step: Step, role: Role) -> None:
        """Note the settings of a statement of an earlier run, if its transaction was committed."""
        if step.expected_error is not None:
            self.was_aborted |= role is Role.BODY
        else:
            self.settings.note(step.changes)
            self.was_aborted &= not any(each.kind == "back" for each in step.changes)
            self.is_sticky |= bool(step.flags & Flag.STICKY)
            self.note_names(step)
        if role in (Role.END, Role.READ, Role.WRITE):
            is_rollback = role is Role.END and step.commit_at < 0
            self.settings.end(is_undone=self.was_aborted or is_rollback)
            self.was_aborted = False

    def note_names(self, step: Step) -> None:
        """Note the statements that it has prepared by the protocol, or dropped."""
        if step.name:
            self.named[step.name] = step.sql
        for change in step.changes:
            is_all = change.kind == "discard" or (change.kind, change.name) == ("deallocate", "all")
            gone = list(self.named) if is_all else [change.name] * (change.kind == "deallocate")
            for name in gone:
                self.named.pop(name, None)
                self.prepared.pop(name, None)

    def was_prepared(self, step: Step) -> bool:
        """Return whether a statement drops a prepared statement of an earlier connection."""
        return any(each.kind == "deallocate" and each.name in self.named for each in step.changes)

    @property
    def waits_for_log(self) -> bool:
        """Return whether it has a transaction open, and its next statement is not known yet."""
        return not self.left and self.link is not None and self.link.in_transaction

    @property
    def can_pause(self) -> bool:
        """Return whether its connection can be closed and reopened without a difference."""
        link = self.link
        if link is None or self.is_busy or self.is_sticky:
            return False
        return not link.in_transaction


@dataclass(frozen=True, slots=True)
class LostSession:
    """A session that has lost its connection."""

    session: Session
    doing: Doing
    """Its state at that time."""
    backend: int
    """The server's process id; 0 if there was none."""
    reason: LinkLost
    has_lost_state: bool = False
    """Whether it had state that a new connection lacks: temporary tables, cursors, locks."""
