"""Builds the request for a statement: its text with its mark, in the protocol that the source received."""

from collections.abc import Sequence
from dataclasses import dataclass

from playhead.queries.flags import TIMING, Flag
from playhead.queries.gate import Role
from playhead.queries.outcome import Outcome
from playhead.queries.session import Session
from playhead.queries.tape import CHECK, FORCE, FORCED, Step
from playhead.querylog.logged import UNKNOWN_SQLSTATE
from playhead.querylog.statement import Act
from playhead.server import MarkTexts

Bound = tuple[bytes, Sequence[bytes | None] | None, bytes]


@dataclass(frozen=True, slots=True)
class ToSend:
    """One request, and how many of its statements are from the log."""

    text: bytes = b""
    bound: Sequence[Bound] = ()
    before: int = 0
    """Number of Playhead's steps before those of the log."""
    mark_at: int = -1
    """Number of steps that succeed before the mark; -1 without a mark."""


def marks_with(step: Step, role: Role, session: Session, *, is_aborted: bool) -> bool:
    """Return whether the mark goes into the same transaction as the statement."""
    if is_aborted or not session.is_marked:
        return False
    if step.flags & Flag.ALONE and not _ends_open_transaction(step, session):
        return False
    if role is Role.WRITE and not step.flags & Flag.CONTROLS:
        return True
    return step.commit_at >= 0 and bool(session.has_written or step.flags & Flag.WRITES)


def _ends_open_transaction(step: Step, session: Session) -> bool:
    """Whether a text commits an open transaction; what refuses to share one fails in it with and without a mark."""
    return step.commit_at >= 0 and session.link is not None and session.link.in_transaction


def to_send(step: Step, session: Session, marks: MarkTexts | None, role: Role) -> ToSend:
    """Return the request; the mark is in the transaction that the statement ends or forms."""
    assert session.link is not None  # noqa: S101  only a session with a connection plays
    mark, session.said = None, frozenset()
    if marks is not None and marks_with(step, role, session, is_aborted=session.link.is_aborted):
        divergent = session.divergent()
        session.said = frozenset(divergent)
        if step.expected_error is not None:  # A success would be a divergence.
            divergent |= {step.line: Outcome.ERROR_MISSING}
        mark = marks.text(session.id, step.line, divergent=divergent)
    if step.act is Act.EXECUTE:
        return _bound(step, session, mark)
    return _plain(step, mark)


def _plain(step: Step, mark: str | None) -> ToSend:
    text = step.sql
    if mark is not None and step.commit_at >= 0:
        text = f"{text[: step.commit_at]}{mark};\n{text[step.commit_at :]}"
    elif mark is not None:
        text = f"{text}\n;{mark}"
    if step.flags & Flag.FORCES:
        text = f"{text}\n;{CHECK};{FORCE}"
    if mark is None:
        return ToSend(encoded(text))
    return ToSend(encoded(text), mark_at=step.parts - (step.commit_at >= 0))


def _bound(step: Step, session: Session, mark: str | None) -> ToSend:
    steps: list[Bound] = []
    mark_at = -1
    if mark is not None and step.commit_at >= 0:
        mark_at = 0
        steps.append((mark.encode(), (), b""))
    parameters = [None if each is None else encoded(each) for each in step.parameters or ()]
    name = encoded(step.name)
    if name and session.prepared.get(step.name) != step.sql:
        if step.name in session.prepared:
            quoted = step.name.replace('"', '""')
            steps.append((encoded(f'DEALLOCATE "{quoted}"'), (), b""))
        steps.append((encoded(step.sql), None, name))
    before = len(steps)
    steps.append((encoded(step.sql), parameters, name))
    if mark is not None and step.commit_at < 0:
        mark_at = len(steps)
        steps.append((mark.encode(), (), b""))
    if step.flags & Flag.FORCES:
        steps += [(each.encode(), (), b"") for each in (CHECK, FORCE)]
    return ToSend(bound=steps, before=before, mark_at=mark_at)


def encoded(text: str) -> bytes:
    """Return the bytes of a text of the log, also if it was not UTF-8."""
    return text.encode("utf-8", "surrogateescape")


def outcome_of(
    step: Step, sqlstate: str | None, done: int, before: int
) -> tuple[Outcome, str | None]:
    """Return the outcome, by a comparison of the target's answer with the source."""
    if step.flags & Flag.STANDS_IN:
        return Outcome.NOT_REPLAYABLE, sqlstate
    own = step.parts if step.act is Act.QUERY else 1
    expected = step.expected_error
    is_forced = sqlstate == FORCED and step.flags & Flag.FORCES and done >= own + before
    if is_forced:
        return (Outcome.EXPECTED_ERROR if expected in TIMING else Outcome.ERROR_MISSING), None
    if sqlstate is None and step.flags & Flag.UNDOES:
        return Outcome.EXPECTED_ERROR, None
    if sqlstate is None:
        return (Outcome.ERROR_MISSING if expected else Outcome.REPLAYED), None
    if sqlstate == expected or expected in TIMING or expected == UNKNOWN_SQLSTATE:
        return Outcome.EXPECTED_ERROR, sqlstate
    return Outcome.UNEXPECTED_ERROR, sqlstate
