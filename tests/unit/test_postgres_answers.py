"""Answers of a server that no PostgreSQL gives are an error that names the server, and no fault of Playhead's."""

import struct
from collections.abc import Callable
from contextlib import closing
from types import SimpleNamespace
from typing import Any, cast

import pytest

from playhead.ledger import LedgerUnreadable
from playhead.postgres.answers import AnswerMisformed, NoPostgres, only_row, reading, rows_of
from playhead.postgres.compare_rows import Judgement
from playhead.postgres.errors import DataError, StatementRefused
from playhead.postgres.find_missing import MissingRows
from playhead.postgres.replay_server import PostgresControl
from playhead.postgres.session import CopySession, answers_of, open_session
from playhead.postgres.stage.stage import Stage
from playhead.postgres.storage import foreign_partitions
from playhead.postgres.table import read_table
from playhead.postgres.table_name import TableName, no_table, place_of
from playhead.record import Slice
from playhead.tables.ledger import OtherReplays, SqlLedger, SqlReplays
from playhead.terms import UnknownTerms
from tests.lying_server import LyingServer, message, ready

_BINARY = 1
_TYPES = {bytes: 17, int: 20, str: 25, None: 25}


def answer(*values: bytes | int | str | None, name: bytes = b"a", form: int = _BINARY) -> bytes:
    """An answer to a statement of the extended protocol, with one row."""
    columns, cells = b"", b""
    for value in values:
        kind = _TYPES[None if value is None else type(value)]
        columns += name + b"\0" + struct.pack(">ihihih", 0, 0, kind, -1, -1, form)
        data = (
            b"\xff"
            if value is None
            else struct.pack(">q", value)
            if isinstance(value, int)
            else value.encode()
            if isinstance(value, str)
            else value
        )
        cells += struct.pack(">i", -1) if value is None else struct.pack(">i", len(data)) + data
    count = struct.pack(">h", len(values))
    rows = message(b"D", count + cells) if values else b""
    return (
        message(b"1", b"")
        + message(b"2", b"")
        + message(b"T", count + columns)
        + rows
        + message(b"C", b"SELECT 1\0")
        + ready(b"I")
    )


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (answer("UTC", b"\xff"), "a value of the type bytes"),
        (answer("UTC", None), "a value of the type NoneType"),
        (answer("UTC", "12"), "a value of the type str"),
        (answer(), "0 rows"),
        (answer("UTC", 1, name=b"\xff"), "UnicodeDecodeError"),
        (answer("UTC", 1, form=0), "ValueError"),
        (answer("UTC", 1, form=7), "ValueError"),
    ],
    ids=["bytes", "null", "a text", "no row", "a name", "as text", "no form"],
)
def test_a_session_that_is_answered_nonsense_is_an_error_of_ours(first: bytes, reason: str) -> None:
    with (
        LyingServer(first) as server,
        pytest.raises(NoPostgres, match="does not answer as PostgreSQL does") as caught,
        open_session(server.url, grant=""),
    ):
        pass
    assert reason in caught.value.reason
    assert "password" not in str(caught.value)


def test_what_is_read_in_a_session_is_said_with_its_server() -> None:
    begun = [answer("UTC", 7), answer(160_000, "1s", 7)]
    with (
        LyingServer(*begun, answer(None, None)) as server,
        pytest.raises(NoPostgres, match=r"127\.0\.0\.1.*NoneType"),
        open_session(server.url, grant="") as session,
    ):
        place_of(session.run, "orders")


@pytest.mark.parametrize(
    ("rows", "kinds"),
    [
        ([], [int]),
        ([(1,), (1,)], [int]),
        ([(1, 2)], [int]),
        ([(1,)], (int, str)),
        ([(None,)], [int]),
        ([("a", True, None)], (str, bool, ...)),
        ([("a", "b")], (..., int)),
        ([()], (..., int)),
    ],
)
def test_a_row_of_another_form_is_refused(rows: list[tuple[Any, ...]], kinds: Any) -> None:
    with pytest.raises(AnswerMisformed):
        only_row(rows, kinds)


@pytest.mark.parametrize(
    ("row", "kinds"),
    [
        ((1, "a"), (int, str)),
        ((None,), [int | None]),
        (("a", True, False), (str, bool, ...)),
        (("a", True), (str, bool, ...)),
        ((1,), (int, ...)),
        (("a", None, 7), (..., int)),
    ],
)
def test_a_row_of_its_form_is_returned(row: tuple[Any, ...], kinds: Any) -> None:
    assert only_row([row], kinds) == row


_OF_A_TABLE = (7, "r", "p", "public", "orders", *[False] * 6)


@pytest.mark.parametrize(
    "answers",
    [
        [[(7,)]],
        [[_OF_A_TABLE], [(None,) * 12]],
        [[_OF_A_TABLE], [], [(None, True, True)]],
        [[_OF_A_TABLE], [], [("{", True, True)]],
        [[_OF_A_TABLE], [], [(b"\xff", True, True)]],
    ],
)
def test_a_table_that_is_described_in_another_form_is_refused(answers: list[Any]) -> None:
    said = iter(answers)
    with pytest.raises(AnswerMisformed):
        read_table(lambda _statement, _parameters: next(said, []), TableName("public", "orders"))


def test_names_that_are_none_are_refused() -> None:
    with pytest.raises(AnswerMisformed):
        no_table(lambda _statement, _parameters: [(None, None)], TableName("a", "b"), hint="")


def test_errors_of_ours_and_of_the_driver_pass() -> None:
    with pytest.raises(ZeroDivisionError), reading(ArithmeticError):
        raise ZeroDivisionError
    with pytest.raises(NoPostgres), reading():
        raise NoPostgres("there", reason="nothing")
    with pytest.raises(MemoryError), reading():
        raise MemoryError


@pytest.mark.parametrize(
    ("rows", "kinds"),
    [
        ([(1,), ("1",)], [int]),
        ([(1, "a"), (1,)], (int, str)),
        ([("same",), ("else",)], [frozenset({"same"})]),
        ([([],)], [frozenset({"same"})]),
    ],
)
def test_each_row_of_a_list_has_its_form(rows: list[tuple[Any, ...]], kinds: Any) -> None:
    assert rows_of(rows[:1] if rows[0][0] else [], kinds) is not None
    with pytest.raises(AnswerMisformed):
        rows_of(rows, kinds)


def answering(*rows: tuple[Any, ...]) -> Any:
    """A session whose server answers every statement with these rows."""
    session = CopySession.__new__(CopySession)
    session._link = cast("Any", SimpleNamespace(ask=lambda *_: ([*rows], 1), is_lost=False))
    session.where, session._grant = "there", ""
    return session


_OF_A_SLICE = (0, 1, 0, 0, 1, "5", "5")


def rows_compared(session: Any) -> Any:
    return SimpleNamespace(_session=session, _rows=SimpleNamespace(places=[("orders", 0)]))


def offsets_missing(session: Any) -> Any:
    return SimpleNamespace(
        _session=session, _table=SimpleNamespace(place=SimpleNamespace(quoted="t"))
    )


LISTS: dict[str, tuple[Callable[[Any], Any], tuple[Any, ...]]] = {
    "tallies": (lambda it: Judgement._tallies(rows_compared(it)), _OF_A_SLICE),
    "shown": (lambda it: Judgement._shown(rows_compared(it)), (7, "changed", "", None, 1)),
    "missing": (lambda it: MissingRows._without(offsets_missing(it), "a", "b"), (7,)),
    "partitions": (
        lambda it: foreign_partitions(it, cast("Any", SimpleNamespace(kind="p", oid=7))),
        ("orders_1",),
    ),
}


@pytest.mark.parametrize(("read", "row"), LISTS.values(), ids=LISTS)
def test_a_list_of_another_form_is_an_error_of_ours(
    read: Callable[[Any], Any], row: tuple[Any, ...]
) -> None:
    """As `verify` and the writers of a replay read them."""
    assert read(answering(row))
    for at in range(len(row)):
        changed = [*row]
        changed[at] = b"\xff"
        for lie in (tuple(changed), row[:at], (*row, 1)):
            with pytest.raises((NoPostgres, AnswerMisformed)):
                read(answering(lie))


def test_a_checksum_that_is_no_number_is_an_error_of_ours() -> None:
    with pytest.raises(AnswerMisformed):
        Judgement._tallies(rows_compared(answering((*_OF_A_SLICE[:-1], "five"))))


def test_a_refused_offset_that_was_not_sent_is_an_error_of_ours() -> None:
    stage = cast("Any", SimpleNamespace(_indexes={7: 0}))
    with pytest.raises(AnswerMisformed):
        Stage._refuse(stage, 8, "23502", "null")


def test_a_value_that_is_refused_where_none_was_sent_is_an_error_of_ours() -> None:
    with (
        pytest.raises(StatementRefused, match="out of range"),
        answers_of("postgresql://there/db"),
    ):
        raise DataError("22003", "out of range")


_BEGUN = [answer("UTC", 7), answer(160_000, "1s", 7)]


@pytest.mark.parametrize("lie", [(b"7", "8"), (7, "8,x"), (7, 8), (7,)])
def test_who_blocks_whom_is_read_with_care(lie: tuple[Any, ...]) -> None:
    with (
        LyingServer(*_BEGUN, answer(*lie)) as server,
        closing(PostgresControl(server.url)) as control,
        pytest.raises(NoPostgres),
    ):
        control.blockers([7])


@pytest.mark.parametrize("row", [(), ("a",), (1, 2, 3), (None, None)])
def test_rows_of_a_ledger_that_are_none_are_refused(row: tuple[Any, ...]) -> None:
    session, slice_ = answering(row), Slice("orders", 0, 0, 7)
    own = cast("Any", SimpleNamespace(exists=lambda: True, quoted="l"))
    ledger = SqlLedger(session, own)
    for read in (
        lambda: ledger.entries("r"),
        lambda: ledger._last("r", slice_),
        lambda: SqlReplays(session, ledger, own).get("r"),
    ):
        with pytest.raises((LedgerUnreadable, UnknownTerms)):
            read()
    if len(row) != len(("replay", "topic")):
        with pytest.raises(LedgerUnreadable):
            OtherReplays(session, own, "r").beside(slice_)
