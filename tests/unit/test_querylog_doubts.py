"""What a log leaves open: crashes, other languages, sessions with one id, first rows that are missing."""

import pytest

from playhead.querylog.counts import RowOutcome
from playhead.querylog.logged import UNKNOWN_SQLSTATE
from playhead.querylog.rows import LogRow
from playhead.querylog.statement import Act
from playhead.querylog.statements import StatementReader
from tests.unit.test_querylog_statements import read, row

START = LogRow(9_000_000, "postmaster.1", "LOG", "starting PostgreSQL 18.1 on a machine", 1)


@pytest.mark.parametrize(
    ("texts", "cannot"),
    [
        (["INSERT INTO t VALUES (1)"], "not-ended"),
        (["BEGIN", "INSERT INTO t VALUES (1)", "COMMIT"], "not-ended"),
        # The crash has rolled it back, whether it had ended or not.
        (["BEGIN", "INSERT INTO t VALUES (1)"], None),
        (["BEGIN", "INSERT INTO t VALUES (1)", "ROLLBACK"], None),
        (["SELECT 1"], None),
    ],
)
@pytest.mark.parametrize("has_durations", [False, True])
def test_what_a_crash_may_have_cut_off_is_not_played(
    texts: list[str], cannot: str | None, *, has_durations: bool
) -> None:
    rows, reader = [], StatementReader()
    for text in texts:
        tag = "idle in transaction" if rows else "idle"
        rows.append(row(f"statement: {text}", len(rows) + 1, tag=tag))
        if has_durations and text != texts[-1]:
            rows.append(row("duration: 1.000 ms", len(rows) + 1, tag=""))
    found = [each for given in (*rows, START) for each in reader.read(given)]
    assert [each.unplayable for each in found if each.sql][-1] == cannot
    assert found[-1].act is Act.DISCONNECT


def test_what_ran_before_a_shutdown_has_ended() -> None:
    reader = StatementReader()
    reader.read(row("statement: INSERT INTO t VALUES (1)", 1))
    found = reader.read(START._replace(message="shutting down"))
    found += reader.read(START._replace(line=2))
    assert [each.unplayable for each in found] == [None, None]


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("canceling statement due to user request", "57014"),
        ("deadlock detected", "40P01"),
        ("division by zero", UNKNOWN_SQLSTATE),
    ],
)
def test_errors_of_the_moment_are_known_without_their_sqlstate(message: str, code: str) -> None:
    text = "INSERT INTO t VALUES (1)"
    error = row(message, 1, severity="ERROR", query=text, tag="INSERT", sqlstate=None)
    found, _ = read(error)
    assert [each.expected_error for each in found if each.sql] == [code]


def session_of(second: int) -> str:
    return f"{second:x}.1f"


@pytest.mark.parametrize(
    ("first_line", "other_first", "lost"),
    [(1, 1, 0), (4, 1, 3), (2, 1, 1), (2, 2, 0), (4, 2, 2)],
)
def test_the_first_rows_of_a_session_that_began_within_the_log_are_missed(
    first_line: int, other_first: int, lost: int
) -> None:
    """A topic of one database lacks the first row of each connection; then one is not missed."""
    at = 1_700_000_000
    text = "duration: 1.000 ms  statement: SELECT 1"
    one = row(text, other_first, session=session_of(at), time_us=at * 1_000_000 + 5)
    two = row(text, first_line, session=session_of(at + 2), time_us=(at + 3) * 1_000_000)
    before = row(text, 9, session=session_of(at - 9), time_us=(at + 4) * 1_000_000)
    _, reader = read(one, two, before)
    assert reader.counts.lost == lost


def test_two_sessions_with_one_id_are_not_taken_for_one() -> None:
    """Two servers whose logs are in one topic; a row that was sent twice has the same time and text."""
    text = "duration: 1.000 ms  statement: INSERT INTO t VALUES ({})"
    mine = [row(text.format(at), at, time_us=at * 1_000) for at in (1, 2, 3)]
    other = [row(text.format(9 + at), at, time_us=4_000 + at) for at in (1, 2)]
    earlier = row(text.format(7), 2, time_us=2_000)
    _, reader = read(*mine, *mine[:2], *other, earlier)
    assert reader.counts.rows[RowOutcome.DUPLICATE] == 2
    assert reader.counts.rows[RowOutcome.OTHER_SESSION] == 3


def test_a_row_of_which_nothing_is_kept_is_known_by_its_time() -> None:
    text = "duration: 1.000 ms  statement: SELECT 1"
    mine = [row(text, at, time_us=at * 1_000) for at in range(1, 5_000)]
    _, reader = read(*mine, mine[0], row(text, 1, time_us=9_000_000))
    assert reader.counts.rows[RowOutcome.DUPLICATE] == 1
    assert reader.counts.rows[RowOutcome.OTHER_SESSION] == 1


@pytest.mark.parametrize(
    "message",
    [
        "Anweisung: INSERT INTO t VALUES (1)",
        "Dauer: 0.123 ms  Anweisung: COMMIT",
        "Ausführen <unnamed>: SELECT 1",
        "durée : 0.123 ms, instruction : COMMIT",
        "duración: 0.123 ms  sentencia: COMMIT",
        "istruzione: COMMIT",
        "durata: 0.123 ms",
        "文: COMMIT",
        "期間: 0.123 ミリ秒  文: COMMIT",
        "duração: 0.123 ms  comando: COMMIT",
        "a word of some language: 0.123 ms",
        "Verbindung autorisiert: Benutzer=app",
    ],
)
def test_statements_of_another_language_under_the_same_severity(message: str) -> None:
    """German, French, Spanish, Italian and Japanese servers write LOG as English ones do."""
    _, reader = read(row(message, 1))
    assert reader.counts.rows == {RowOutcome.ANOTHER_LANGUAGE: 1}
    # A function may raise what it likes.
    _, reader = read(row(message, 1, context="PL/pgSQL function f() line 1 at RAISE"))
    assert reader.counts.rows == {RowOutcome.NO_STATEMENT: 1}


@pytest.mark.parametrize(
    "message",
    [
        "checkpoint complete: wrote 3 buffers (0.0%); write=0.123 s",
        "process 4 still waiting for ShareLock on transaction 7 after 1000.123 ms",
        "temporary file: path base/pgsql_tmp, size 14",
    ],
)
def test_other_english_rows_are_in_no_other_language(message: str) -> None:
    _, reader = read(row(message, 1))
    assert reader.counts.rows == {RowOutcome.NO_STATEMENT: 1}
