"""Compares the answers of two servers to the same statements: the target, and the server of --beside.

Both play the whole log, one after the other, so that they do not slow each other down. Two answers are equal if
both failed with the same SQLSTATE, or both succeeded with the same number of rows and the same checksum. The
checksum does not depend on the order of the rows.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from playhead.errors import Refused
from playhead.queries.answers import Answers
from playhead.queries.flags import TIMING
from playhead.queries.outcome import Results
from playhead.queries.tape import Tape
from playhead.querylog.statement import Act
from playhead.server import Server
from playhead.target import InUse

_MOST: Final = 20
SQLSTATE: Final = "SQLSTATE"
ROW_COUNT: Final = "number of rows"
ROWS: Final = "rows"


@dataclass(frozen=True, slots=True)
class Played:
    """The results of a run on one server."""

    results: Results
    answers: Answers
    outcomes: Mapping[str, int]
    """Counts of outcomes by name, from the ledger."""


@dataclass(slots=True)
class Difference:
    """The statements of one query whose answers differ in one way."""

    query: str
    what: str
    beside: str
    """The answer of the server of --beside to the first of them."""
    target: str
    statement: str
    """The session and the line of the first of them."""
    count: int = 0


@dataclass(slots=True)
class Comparison:
    """The comparison of the answers of two servers."""

    other: Played
    compared: int = 0
    differing: int = 0
    only_beside: int = 0
    """Differing statements with the same result on the target as on the source."""
    unknown: int = 0
    """Statements with an unknown answer: an interrupted run played them, or the answer was lost."""
    canceled: int = 0
    """Statements that failed on the source for a reason that depends on timing."""
    differences: dict[tuple[int, str], Difference] = field(default_factory=dict)

    def first(self) -> list[Difference]:
        """Return the differences that concern the most statements."""
        return sorted(self.differences.values(), key=lambda each: -each.count)[:_MOST]

    def as_document(self) -> dict[str, Any]:
        return {
            "compared": self.compared,
            "differing": self.differing,
            "unknown": self.unknown,
            "canceled": self.canceled,
            "seconds": round(self.other.results.seconds, 3),
            "outcomes": dict(sorted(self.other.outcomes.items())),
            "differences": [asdict(each) for each in self.first()],
        }


def compare(tape: Tape, target: Answers, other: Played) -> Comparison:
    """Compare the answers to all statements that were to be played."""
    found = Comparison(other)
    for at in range(len(tape)):
        if tape.reasons[at]:
            continue
        step = tape.step(at)
        if step.act not in (Act.QUERY, Act.EXECUTE):
            continue
        if step.expected_error in TIMING:
            found.canceled += 1
        elif not (target.is_known(at) and other.answers.is_known(at)):
            found.unknown += 1
        else:
            found.compared += 1
            here, there = _shown(target, at), _shown(other.answers, at)
            if here != there:
                _note(found, tape, at, here, there)
                found.only_beside += at not in target.divergent
    return found


Shown = tuple[str | None, int, int]
"""An SQLSTATE, a number of rows, a checksum."""


def _shown(answers: Answers, at: int) -> Shown:
    state = answers.sqlstates.get(at)
    # The number of rows sent before an error depends on the server's query plan.
    return (state, 0, 0) if state else (None, answers.rows[at], answers.checksums[at])


def _note(found: Comparison, tape: Tape, at: int, here: Shown, there: Shown) -> None:
    step = tape.step(at)
    what = SQLSTATE if here[0] != there[0] else ROW_COUNT if here[1] != there[1] else ROWS
    found.differing += 1
    difference = found.differences.get((step.query, what))
    if difference is None:
        place = f"session {tape.sessions[step.session]}, line {step.line}"
        query, beside, target = tape.queries[step.query], _text(what, there), _text(what, here)
        difference = Difference(query, what, beside, target, place)
        found.differences[step.query, what] = difference
    difference.count += 1


def _text(what: str, shown: Shown) -> str:
    state, rows, _ = shown
    # Not the checksum, because the values of a short answer can be guessed from it.
    return (state or "no error") if what == SQLSTATE else f"{rows:,} rows"


def refuse_one_server(server: Server, beside: Server, run: str) -> None:
    """Refuse two descriptions that lead to the same database of the same server.

    A copy of a server has the same identifier, so a lock is taken through one and looked up through the other.
    """
    name = f"{run} beside"
    target, other = server.control(), beside.control()
    try:
        target.hold(name)
        other.hold(name)
    except InUse:
        raise Refused(
            "--to and --beside are the same database of the same server",
            hint="give --beside a second server that was restored from the same base",
        ) from None
    finally:
        target.close()
        other.close()
