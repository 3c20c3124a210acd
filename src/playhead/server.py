"""The contract of every server on which the statements of a log are played: its ledger, its marks, its connections.

A target takes records, and commits them with their ledger entries. On a server, sessions of a log commit
whenever the log says so, so its ledger cannot have an entry in each of their transactions: each has a *mark*
instead, and a ledger entry says that every row of a slice has been dealt with.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, Protocol

from playhead.errors import PlayheadError
from playhead.ledger import Entry
from playhead.target import KnowsReplays
from playhead.terms import Terms

LOST: Final = "08006"
"""The SQLSTATE of a connection that was lost."""


class MarkUnreadable(PlayheadError):
    """A mark has a text that Playhead does not write; every user of the target can write marks."""

    def __init__(self, *, session: str, said: str) -> None:
        self.session, self.said = session, said
        super().__init__(
            f"a mark of session {session!r:.100} cannot be read: {said!r:.100}",
            hint="another user of the target has written it: delete that row of playhead_ledger.marks, and "
            "play on a server that only the replay uses",
        )


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What a plan says of the server."""

    identifier: str
    """The system identifier, which a server has in common with its copies."""
    version: str
    database: str
    user: str
    free_connections: int
    subscriptions: tuple[str, ...]
    foreign_servers: tuple[str, ...]
    is_standby: bool
    log_folder: str
    """Where the server writes its logs; empty if this user may not know."""
    has_escapes: bool
    """Whether standard_conforming_strings is off for sessions like those of the replay."""
    rights: tuple[str, ...] = ()
    """What this user may do beyond its databases, in the server's own words."""


@dataclass(frozen=True, slots=True)
class Marked:
    """What the marks of a replay say."""

    last: Mapping[str, int]
    """The last line of each session that was played."""
    in_doubt: frozenset[tuple[str, int]]
    """What was begun alone, and not marked as done."""
    divergent: Mapping[tuple[str, int], int]
    """Lines before marks that did not do what they did on the source, with their outcomes."""
    notes: Mapping[str, int]
    """What happened to the whole replay, by name."""


@dataclass(slots=True)
class Answer:
    """What the server said to one request."""

    rows: int = 0
    sqlstate: str | None = None
    """That of its error; None without one."""
    said: str = ""
    done: int = 0
    """How many statements of the request succeeded."""
    checksum: int | None = None
    """That of its rows, in any order; None if it was not asked for."""
    results: int = 0
    """How many of its results have rows, or could have."""


class LinkLost(Exception):
    """The connection does not exist any more."""

    def __init__(self, reason: str, sqlstate: str | None = None) -> None:
        self.reason, self.sqlstate = reason, sqlstate
        super().__init__(reason)


class NotExplained(Exception):
    """The server gave no plan."""


class BackendStays(PlayheadError):
    """A process that serves a lost connection, or one of an earlier run, does not end."""

    def __init__(self, *backends: int) -> None:
        self.backends = backends
        pids = ", ".join(map(str, backends))
        super().__init__(
            f"processes {pids} of the target serve connections that are gone, and do not end",
            hint="they end when their statements end; then run the same command again",
        )


class Link(Protocol):
    """A connection for one session of a log. No call waits; a lost connection raises `LinkLost`."""

    fileno: int
    """What to wait for; it may change while the connection is opened."""
    backend: int
    """The process that serves it, once it is open."""

    def go_on_connecting(self) -> bool:
        """Take the next step; return whether the connection is open."""
        ...

    @property
    def wants_to_write(self) -> bool:
        """While connecting: whether to wait until it can be written."""
        ...

    def close(self) -> None: ...

    def cancel(self) -> Callable[[], bool]:
        """Begin to ask the server to cancel what runs, which may come too late.

        The result takes the next step, and returns whether the server was asked, or cannot be; call it again
        after a moment if not.
        """
        ...

    @property
    def in_transaction(self) -> bool: ...

    @property
    def is_aborted(self) -> bool:
        """Whether the open transaction has failed."""
        ...

    @property
    def encoding(self) -> str:
        """The encoding of the database, if the server takes texts for another encoding; else empty."""
        ...

    def send_text(self, text: bytes, /) -> bool:
        """Send a text of one or more statements; return whether all was sent."""
        ...

    def send_bound(
        self, steps: Sequence[tuple[bytes, Sequence[bytes | None] | None, bytes]], /
    ) -> bool:
        """Send statements as one implicit transaction: text, parameters, prepared name of each.

        A step without parameters prepares its text under its name.
        """
        ...

    def flush(self) -> bool:
        """Return whether everything was sent; otherwise wait until it can be written."""
        ...

    def receive(self) -> Answer | None:
        """Read what has arrived; return the answer when it is complete."""
        ...


class MarkTexts(Protocol):
    """The statements that the sessions of one replay play beside those of the log."""

    def text(
        self,
        session: str,
        line: int,
        *,
        before: bool = False,
        divergent: Mapping[int, int] | None = None,
    ) -> str:
        """Return the statement of a mark; `before` one that must run alone, which may then stay in doubt.

        A mark also covers the lines before it, so it names those of them that did not do what they did on the
        source.
        """
        ...

    def lock(self) -> str:
        """Return the statement by which a later run knows whether this connection is still open."""
        ...

    def refused(self, reason: str, /) -> PlayheadError:
        """Return the error of a session that may not write its marks: a resume could play its statements twice."""
        ...


class Explainer(Protocol):
    """A connection that asks for plans, and executes nothing."""

    @property
    def knows_generic(self) -> bool:
        """Whether it can plan a statement without its values."""
        ...

    def plan(self, text: bytes, parameters: Sequence[bytes | None] | None, /) -> str:
        """Return the plan of one statement with its values; without parameters, of one that has `$n` for values.

        Raises `NotExplained` if the server has none.
        """
        ...


class Control(KnowsReplays, Protocol):
    """One connection of our own, which belongs to one thread, and is opened by the first call.

    When it is lost, every later call raises `Unavailable`: a server that crashed may have lost what it had
    confirmed, so a run must begin again with the ledger and the marks.
    """

    def close(self) -> None: ...

    def facts(self) -> ServerFacts: ...

    def answers(self) -> None:
        """Return if the server answers."""
        ...

    def has_marks(self) -> bool:
        """Whether marks can be written."""
        ...

    def prepare(self, replay_id: str, terms: Terms, /) -> None:
        """Create the ledger and the place of the marks, which every session of the log may write.

        Writes the terms of a replay that begins, and refuses other terms of one that was begun.
        """
        ...

    def hold(self, replay_id: str, /) -> None:
        """Keep other runs of the same replay out while this connection is open; raise `InUse` if one is active."""
        ...

    def fence(self, replay_id: str, /) -> None:
        """Return when no session of an earlier run is connected; end those that are."""
        ...

    def marked(self, replay_id: str, /) -> Marked:
        """Return what the marks of a replay say; nothing without a place for them."""
        ...

    def note(self, replay_id: str, what: str, /) -> None:
        """Note for a later run what happened to the whole of this one."""
        ...

    def settle(
        self,
        replay_id: str,
        entries: Sequence[Entry],
        ended: Sequence[str] = (),
        /,
        *,
        is_last: bool,
        has_marks: bool,
    ) -> None:
        """Write ledger entries, and drop the marks that later ones of their sessions replace; all of them at last.

        `ended` are sessions of which the ledger has everything: their marks are dropped too.
        """
        ...

    def end_backend(self, backend: int, /) -> None:
        """Return when the process that served a lost connection has ended; raise `BackendStays` if it does not."""
        ...

    def fate(self, replay_id: str, session: str, backend: int, /) -> int | None:
        """Return the last line of a session that is marked, after its lost connection has ended."""
        ...

    def blockers(self, backends: Sequence[int], /) -> Mapping[int, tuple[int, ...]]:
        """Return, for each of these processes that waits for a lock, which processes it waits for."""
        ...


class Server(Protocol):
    """A server on which statements are played. A picklable description, like a target; equal ones are one server.

    `playhead.testing.server_contract` is the suite of tests that each implementation must pass.
    """

    @property
    def database(self) -> str:
        """The database in which the statements are played."""
        ...

    def control(self) -> Control:
        """Return a connection of our own, without connecting yet."""
        ...

    def linker(self, facts: ServerFacts, /, *, has_checksums: bool) -> Callable[[], Link]:
        """Return a function that begins to open a connection for a session; refuse an address that it misreads."""
        ...

    def marks(self, replay_id: str, /) -> MarkTexts: ...

    def explainer(self) -> AbstractContextManager[Explainer]: ...
