"""The contract suite for servers on which the statements of a log are played."""

import pickle
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from playhead.errors import Unavailable
from playhead.ledger import Entry
from playhead.record import Slice
from playhead.server import NotExplained, Server
from playhead.target import InUse
from playhead.terms import OtherTerms
from playhead.testing.server_case import (
    WITHIN_S,
    answered,
    begun,
    control_of,
    facts_of,
    is_gone,
    link_to,
    new_id,
    opened_link,
    play,
    transaction,
)
from playhead.testing.target_case import terms

MakeServer = Callable[[], Server]

_FAILS = b"SELECT 1/0"


def exercise_server(make_server: MakeServer, cut: Callable[[], None]) -> None:
    """Check a server against its contract.

    `make_server` returns a description of the same empty database each time, in which tables can be created; `cut`
    breaks all open connections to it.
    """
    for check in (
        _is_a_value,
        _knows_nothing_of_what_was_not_begun,
        _keeps_its_terms,
        _holds_one_run,
        _plays_texts,
        _plays_bound_statements,
        _compares_rows_in_any_order,
        _marks_what_is_committed,
        _knows_what_is_in_doubt,
        _settles,
        _ends_the_connections_of_an_earlier_run,
        _knows_the_fate_of_a_lost_connection,
        _says_who_waits_for_whom,
        _explains_and_executes_nothing,
    ):
        check(make_server())
    _notices_that_it_was_cut_off(make_server(), cut)


def _is_a_value(server: Server) -> None:
    copy = pickle.loads(pickle.dumps(server))  # noqa: S301 - our own bytes
    assert copy == server, "a pickled description is not equal to the original"
    facts = facts_of(server)
    assert facts == replace(facts_of(copy), free_connections=facts.free_connections)
    assert facts.database == server.database
    assert facts.free_connections > 0


def _knows_nothing_of_what_was_not_begun(server: Server) -> None:
    """A query for an unknown replay writes nothing, because a plan may be made by a user with read access only."""
    replay_id = new_id()
    with control_of(server) as control:
        had_marks = control.has_marks()
        assert control.terms(replay_id) is None
        assert not control.entries(replay_id)
        marked = control.marked(replay_id)
        assert not (*marked.last, *marked.in_doubt, *marked.divergent, *marked.notes)
        assert control.has_marks() == had_marks, "the query has created the table of marks"


def _keeps_its_terms(server: Server) -> None:
    replay_id, kept = new_id(), terms()
    for _ in range(2):
        with control_of(server) as control:
            control.prepare(replay_id, kept)
            assert control.has_marks()
    with control_of(server) as control:
        found = control.terms(replay_id)
        assert found is not None
        assert replace(found, places={}, settled={}) == kept
        refused = False
        try:
            control.prepare(replay_id, terms(source="elsewhere"))
        except OtherTerms:
            refused = True
        assert refused, "other terms than those of the ledger were not refused"
        assert control.terms(replay_id) == found, "other terms were written"
        assert control.terms(new_id()) is None


def _holds_one_run(server: Server) -> None:
    replay_id = begun(server)
    with control_of(server) as first, control_of(server) as second:
        first.hold(replay_id)
        second.hold(new_id())
        refused = False
        try:
            second.hold(replay_id)
        except InUse:
            refused = True
        assert refused, "a second run of a replay was accepted"
        first.close()
        with control_of(server) as third:
            third.hold(replay_id)


def _plays_texts(server: Server) -> None:
    table = "text_" + uuid.uuid4().hex[:8]
    with link_to(server) as link:
        assert link.backend > 0
        assert transaction(link) == "none"
        assert link.encoding == ""
        answer = play(link, f"CREATE TABLE {table} (n int PRIMARY KEY, t text)")
        assert answer.sqlstate is None, answer.said
        answer = play(link, f"INSERT INTO {table} SELECT n FROM generate_series(1, 2000) n")
        assert (answer.rows, answer.done) == (2000, 1), answer
        answer = play(link, f"SELECT * FROM {table}; SELECT 1")
        assert (answer.rows, answer.done, answer.checksum) == (2001, 2, None), answer
        answer = play(link, b"SELECT 1; " + _FAILS + b"; SELECT 2")
        assert (answer.sqlstate, answer.done) == ("22012", 1), answer
        assert answer.said
        answer = play(link, f"BEGIN; INSERT INTO {table} VALUES (0)")
        assert transaction(link) == "open"
        play(link, _FAILS)
        assert transaction(link) == "failed"
        play(link, "ROLLBACK")
        assert transaction(link) == "none"
        assert play(link, f"SELECT * FROM {table} WHERE n = 0").rows == 0, "not rolled back"
        assert play(link, "").sqlstate is None, "an empty text is an error"
        play(link, f"DROP TABLE {table}")


def _plays_bound_statements(server: Server) -> None:
    """The statements of one request are one transaction, with the parameters from the log."""
    table = "bound_" + uuid.uuid4().hex[:8]
    with link_to(server) as link:
        play(link, f"CREATE TABLE {table} (n int PRIMARY KEY, t text)")
        insert = f"INSERT INTO {table} VALUES ($1, $2)".encode()
        link.send_bound([(insert, (b"1", "ä".encode()), b"")])
        assert answered(link).sqlstate is None
        link.send_bound([(insert, (b"2", None), b""), (insert, (b"1", b"again"), b"")])
        answer = answered(link)
        assert (answer.sqlstate, answer.done) == ("23505", 1), answer
        link.send_bound([(insert, None, b"put"), (b"", (b"3", b"c"), b"put")])
        answer = answered(link)
        assert answer.sqlstate is None, answer.said
        answer = play(link, f"SELECT * FROM {table} WHERE t = 'ä' OR n > 1 AND t = 'c'")
        assert answer.rows == 2, "a failed request was committed, or has other parameters"
        assert play(link, f"SELECT * FROM {table}").rows == 2
        play(link, f"DROP TABLE {table}")


def _compares_rows_in_any_order(server: Server) -> None:
    def checksum(text: str) -> int | None:
        with opened_link(server, facts_of(server), has_checksums=True) as link:
            return play(link, text).checksum

    rows = "SELECT * FROM (VALUES {}) r (a, b)"
    one = checksum(rows.format("(1, 'x'), (2, NULL)"))
    assert one is not None
    assert checksum(rows.format("(2, NULL), (1, 'x')")) == one
    others = (
        "(1, 'x'), (2, '')",
        "(1, 'x')",
        "(1, 'x'), (2, NULL), (2, NULL)",
        "(1, 'x'), (3, NULL)",
    )
    for other in others:
        assert checksum(rows.format(other)) != one, f"{other} has the same checksum"


def _marks_what_is_committed(server: Server) -> None:
    """A mark exists exactly if its transaction was committed."""
    replay_id = begun(server)
    marks = server.marks(replay_id)
    with link_to(server) as link:
        play(link, f"BEGIN; SELECT 1; {marks.text('a', 3)}; COMMIT")
        play(link, "BEGIN", marks.text("a", 9), "ROLLBACK")
        play(link, marks.text("a", 5, divergent={4: 7, 5: 2}))
        play(link, marks.text("it's a \\ name", 1))
        play(link, server.marks(new_id()).text("b", 1))
    with control_of(server) as control:
        marked = control.marked(replay_id)
        assert marked.last == {"a": 5, "it's a / name": 1}, marked
        assert marked.divergent == {("a", 4): 7, ("a", 5): 2}, marked
        assert not marked.in_doubt
        control.note(replay_id, "something")
        control.note(replay_id, "something")
        marked = control.marked(replay_id)
        assert marked.notes == {"something": 2}
        assert "" not in marked.last


def _knows_what_is_in_doubt(server: Server) -> None:
    """A statement that must run alone has a mark before it and one after it."""
    replay_id = begun(server)
    marks = server.marks(replay_id)
    with link_to(server) as link:
        play(link, marks.text("a", 1, before=True), "SELECT 1", marks.text("a", 1))
        play(link, marks.text("a", 2, before=True))
    with control_of(server) as control:
        marked = control.marked(replay_id)
        assert marked.in_doubt == {("a", 2)}, marked
        assert marked.last == {"a": 1}, marked


def _settles(server: Server) -> None:
    """Settling joins entries and deletes the marks that a resume does not need."""
    replay_id, other = begun(server), begun(server)
    marks = server.marks(replay_id)
    first, second = Entry(Slice("log", 0, 0, 4), 4, 4), Entry(Slice("log", 0, 4, 6), 2, 2)
    with link_to(server) as link:
        play(link, *(marks.text("a", line) for line in (1, 2, 3)))
        play(link, marks.text("a", 4, divergent={4: 7}), marks.text("a", 6))
        play(link, marks.text("b", 7, before=True), marks.text("b", 8))
        play(link, server.marks(other).text("a", 1))
    with control_of(server) as control:
        before = control.marked(replay_id)
        control.settle(replay_id, [first], is_last=False, has_marks=True)
        assert control.marked(replay_id) == before, "a mark that a resume needs is missing"
        control.settle(replay_id, [], ["b"], is_last=False, has_marks=True)
        assert control.marked(replay_id).last == {"a": 6}, "only marks of `b` may be deleted"
        control.settle(replay_id, [second], is_last=True, has_marks=True)
    with control_of(server) as control:
        whole = Entry(Slice("log", 0, 0, 6), 6, 6)
        assert [entry.slice for entry in control.entries(replay_id)] == [whole.slice]
        assert sum(entry.read for entry in control.entries(replay_id)) == whole.read
        marked = control.marked(replay_id)
        found = (*marked.last, *marked.in_doubt, *marked.divergent)
        assert not found, "marks of finished work were kept"
        assert control.marked(other).last == {"a": 1}, "marks of another replay are missing"
        assert not control.entries(other)


def _ends_the_connections_of_an_earlier_run(server: Server) -> None:
    """A statement of an earlier run may still commit; connections of other replays stay open."""
    replay_id, other = begun(server), begun(server)
    with (
        link_to(server) as earlier,
        link_to(server) as another,
        control_of(server) as control,
    ):
        play(earlier, server.marks(replay_id).lock(), "BEGIN")
        play(earlier, server.marks(replay_id).text("a", 1))
        play(another, server.marks(other).lock())
        control.fence(replay_id)
        assert is_gone(earlier), "a connection of an earlier run is still open"
        assert not is_gone(another), "a connection of another replay was ended"
        assert not control.marked(replay_id).last, "uncommitted work has a mark"
        control.fence(replay_id)


def _knows_the_fate_of_a_lost_connection(server: Server) -> None:
    replay_id = begun(server)
    marks = server.marks(replay_id)
    with (
        link_to(server) as link,
        control_of(server) as control,
    ):
        assert control.fate(replay_id, "a", 0) is None
        play(link, marks.text("a", 1), "BEGIN", marks.text("a", 2))
        backend = link.backend
        assert control.fate(replay_id, "a", backend) == 1, "an open transaction counts as committed"
        assert is_gone(link), "fate() has returned before the process ended"
        control.end_backend(backend)


def _says_who_waits_for_whom(server: Server) -> None:
    table = "locks_" + uuid.uuid4().hex[:8]
    with (
        link_to(server) as first,
        link_to(server) as second,
        control_of(server) as control,
    ):
        play(first, f"CREATE TABLE {table} (n int)", f"BEGIN; LOCK TABLE {table}")
        second.send_text(f"INSERT INTO {table} VALUES (1)".encode())
        pids = [first.backend, second.backend]
        until = time.monotonic() + WITHIN_S
        while not (found := control.blockers(pids)):
            assert time.monotonic() < until, "blockers() reports no waiting process"
            time.sleep(0.02)
        assert found == {second.backend: (first.backend,)}, found
        asked = second.cancel()
        while not asked():
            assert time.monotonic() < until, "the server was not asked to cancel"
            time.sleep(0.002)
        assert answered(second).sqlstate == "57014"
        play(first, f"ROLLBACK; DROP TABLE {table}")


def _explains_and_executes_nothing(server: Server) -> None:
    table = "plans_" + uuid.uuid4().hex[:8]
    with (
        link_to(server) as link,
        server.explainer() as explainer,
    ):
        play(link, f"CREATE TABLE {table} (n int)")
        insert = f"INSERT INTO {table} VALUES ($1)".encode()
        assert explainer.plan(insert, (b"1",)).strip()
        if explainer.knows_generic:
            assert explainer.plan(insert, None).strip()
        refused = False
        try:
            explainer.plan(f"TABLE no_{table}".encode(), ())
        except NotExplained:
            refused = True
        assert refused, "plan() accepted a table that does not exist"
        assert explainer.plan(insert, (b"1",)).strip(), "no plan after an error"
        assert play(link, f"SELECT * FROM {table}").rows == 0, (
            "the explained statement was executed"
        )
        play(link, f"DROP TABLE {table}")


def _notices_that_it_was_cut_off(server: Server, cut: Callable[[], None]) -> None:
    """A lost connection is not reopened, because the server may have lost confirmed work."""
    replay_id = begun(server)
    with (
        control_of(server) as control,
        link_to(server) as link,
    ):
        control.hold(replay_id)
        cut()
        lost = 0
        for call in (control.answers, control.answers, lambda: control.entries(replay_id)):
            with suppress(Unavailable):
                call()
                continue
            lost += 1
        assert lost == 3, "a control whose connection was lost has opened a new one"
        assert is_gone(link), "a cut link is still open"
    with control_of(server) as control:
        control.hold(replay_id)
