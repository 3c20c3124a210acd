"""A connection that never blocks its thread: libpq on a selector, for thousands of sessions in one loop."""

import marshal
import os
import select
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any, Final

import psycopg
from psycopg import conninfo, generators, pq
from psycopg.waiting import Ready, Wait

from playhead import secrets
from playhead.errors import UsageError
from playhead.host.threads import call_within
from playhead.postgres.bounded_connection import AnswerTooLarge, Arrived, bounded_login, received
from playhead.postgres.server import APPLICATION, checked, why_not_connected
from playhead.postgres.service_file import service_of
from playhead.server import LOST, Answer, Link, LinkLost

_CONNECT_WITHIN_S: Final = 10
_CANCEL_WITHIN_S: Final = 10
_STEP: Final = "a step of connecting"
_CHUNK_ROWS: Final = 512
_MOST_BYTES: Final = 512 << 20
"""As much may arrive before libpq has that number of rows, or a whole answer in a pipeline. It keeps them."""
_COPY: Final = (pq.ExecStatus.COPY_IN, pq.ExecStatus.COPY_OUT)
_ROWS: Final = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.SINGLE_TUPLE, pq.ExecStatus.TUPLES_CHUNK)
_FAILED: Final = (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE)
_LONGEST_SAID: Final = 10_000
"""Bytes of an error text that are kept: a server may send a gigabyte."""
_MARSHAL: Final = 2
"""The last version in which equal values have equal bytes."""
_NO_TIMEOUTS: Final = (
    # A transaction may wait at the gate for longer than the server lets it, and a session for its next statement.
    (0, "idle_in_transaction_session_timeout"),
    (14, "idle_session_timeout"),
    (17, "transaction_timeout"),
)


def address_of(url: str, *, major: int) -> bytes:
    """Return what libpq needs to connect there; refuse an address that it would misread.

    `major` is the server's version, because a server refuses settings that it does not know.
    """
    given = one_server(url)
    defaults = {"connect_timeout": str(_CONNECT_WITHIN_S), "application_name": APPLICATION}
    known = [name for version, name in _NO_TIMEOUTS if version <= major]
    defaults["options"] = " ".join(f"-c {name}=0" for name in known)
    return conninfo.make_conninfo("", **(defaults | given)).encode()


def one_server(url: str) -> dict[str, Any]:
    """Return the options of an address; refuse several hosts, between which sessions would be spread."""
    given = checked(url)
    of_service = service_of(given) or {}
    for key, variable in (("host", "PGHOST"), ("hostaddr", "PGHOSTADDR")):
        found = str(given.get(key) or of_service.get(key) or os.environ.get(variable) or "")
        if "," in found:
            raise UsageError(
                f"queries are played on one server, and {key} names several: {found}",
                hint="name one server; --beside takes a second one",
            )
    return given


def database_of(url: str) -> str:
    """Return the database of an address, as libpq understands it."""
    given = one_server(url)
    defaults = {each.keyword: each.val for each in pq.Conninfo.get_defaults()}
    user = given.get("user") or (defaults.get(b"user") or b"").decode()
    return str(given.get("dbname") or (defaults.get(b"dbname") or b"").decode() or user)


class QueryLink(Link):
    """One connection; every call returns at once."""

    def __init__(self, address: bytes, *, has_checksums: bool = False) -> None:
        self._pg: pq.abc.PGconn
        """Only once it is open."""
        # Unlike PGconn.connect_poll, it lets other threads run.
        self._connecting = bounded_login(generators.connect(address.decode()))
        self._waits_for = Wait.W
        self._is_open = self._is_left = False
        """Whether it is open, and whether a thread that was left behind is still connecting."""
        self._checksum = 0 if has_checksums else None
        self._answer = Answer(checksum=self._checksum)
        self._pipelined = 0
        self._arrived: Arrived | None = None
        """What has come since the last rows, while their successors are not complete."""
        self._is_copying = False
        """Whether rows of COPY TO are still to come."""
        self.backend = 0
        self.fileno: int = -1
        self._step(None)

    # --- opening and closing

    def go_on_connecting(self) -> bool:
        """Take the next step; return whether the connection is open."""
        self._step(Ready.RW)
        return self._is_open

    def _step(self, ready: Ready | None) -> None:
        # In a thread: a server can keep libpq computing in this call, for hours.
        try:
            opened = call_within(lambda: self._send(ready), _CONNECT_WITHIN_S, name=_STEP)
        except TimeoutError as exc:
            self._is_left = True
            raise LinkLost(str(exc)) from exc
        except psycopg.Error as exc:
            raise LinkLost(why_not_connected(exc, "")) from exc
        if opened is not None:
            self._pg, self._is_open = opened, True
            self.fileno = self._pg.socket
            self._pg.notice_handler = _ignored
            self.backend = self._pg.backend_pid

    def _send(self, ready: Ready | None) -> pq.abc.PGconn | None:
        """Take one step of libpq; return the connection when it is open."""
        try:
            steps = self._connecting
            self.fileno, self._waits_for = next(steps) if ready is None else steps.send(ready)
        except StopIteration as end:
            opened: pq.abc.PGconn = end.value
            return opened
        return None

    @property
    def wants_to_write(self) -> bool:
        """While connecting: whether to wait until it can be written."""
        return not self._is_open and self._waits_for == Wait.W

    def close(self) -> None:
        with suppress(psycopg.Error):
            if self._is_open:
                self._pg.finish()
            elif not self._is_left:
                self._connecting.close()

    def cancel(self) -> Callable[[], bool]:
        try:
            return _CancelRequest(self._pg.cancel_conn())
        except psycopg.NotSupportedError:  # A libpq before 17 can only wait for it.
            with suppress(psycopg.Error):
                self._pg.get_cancel().cancel()
            return lambda: True

    # --- what the session is in

    @property
    def in_transaction(self) -> bool:
        status = self._pg.transaction_status
        return status in (pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR)

    @property
    def encoding(self) -> str:
        """The encoding that the server takes our texts for, if it is not that of the database; else empty.

        A log has texts in the encoding of the database, whatever the clients had.
        """
        client = self._pg.parameter_status(b"client_encoding")
        server = self._pg.parameter_status(b"server_encoding")
        return "" if client == server or server is None else server.decode()

    @property
    def is_aborted(self) -> bool:
        return self._pg.transaction_status == pq.TransactionStatus.INERROR

    # --- sending

    def send_text(self, text: bytes) -> bool:
        """Send by the simple protocol; return whether all was sent."""
        try:
            self._pg.send_query(text)
            self._pg.set_chunked_rows_mode(_CHUNK_ROWS)
        except psycopg.Error as exc:
            raise self._lost() from exc
        return self.flush()

    def send_bound(
        self,
        steps: Sequence[tuple[bytes, Sequence[bytes | None] | None, bytes]],
    ) -> bool:
        """Send by the extended protocol, as one implicit transaction: text, parameters, prepared name of each.

        A step without parameters prepares its text under its name.
        """
        try:
            if len(steps) > 1:
                self._pg.enter_pipeline_mode()
            for text, parameters, name in steps:
                self._send_step(text, parameters, name)
            if len(steps) > 1:
                self._pg.pipeline_sync()
                self._pipelined = len(steps)
            else:
                self._pg.set_chunked_rows_mode(_CHUNK_ROWS)
        except psycopg.Error as exc:
            raise self._lost() from exc
        return self.flush()

    def _send_step(
        self, text: bytes, parameters: Sequence[bytes | None] | None, name: bytes
    ) -> None:
        if parameters is None:
            self._pg.send_prepare(name, text)
        elif name:
            self._pg.send_query_prepared(name, parameters)
        else:
            self._pg.send_query_params(text, parameters)

    def flush(self) -> bool:
        """Return whether everything was sent; otherwise wait until it can be written."""
        try:
            return self._pg.flush() == 0
        except psycopg.Error as exc:
            raise self._lost() from exc

    # --- receiving

    def receive(self) -> Answer | None:
        """Read what has arrived; return the answer when it is complete."""
        try:
            if self._arrived is not None:
                self._arrived.refuse_more(self.fileno, Ready.R)
            self._pg.consume_input()
            while self._pg.notifies():
                pass  # libpq would keep them, and they are not used.
            while self._has_read_copy() and not self._pg.is_busy():
                result = self._pg.get_result()
                if result is None:
                    if self._pipelined:
                        self._pipelined -= 1  # The end of one step; the next one follows.
                        if self._pipelined >= 0:
                            continue
                    return self._finished()
                if result.status == pq.ExecStatus.PIPELINE_SYNC:
                    self._pipelined = 0
                    self._pg.exit_pipeline_mode()
                    return self._finished()
                self._take(result)
        except psycopg.Error as exc:
            raise self._lost() from exc
        except AnswerTooLarge as exc:
            raise LinkLost(str(exc)) from exc
        if self._arrived is None:
            self._arrived = Arrived(
                _MOST_BYTES, "bytes without an end", before=received(self.fileno)
            )
        return None

    def _finished(self) -> Answer:
        self._arrived = None
        answer, self._answer = self._answer, Answer(checksum=self._checksum)
        if self._pg.status == pq.ConnStatus.BAD:
            raise self._lost(answer)
        return answer

    def _take(self, result: pq.abc.PGresult) -> None:
        status, answer = result.status, self._answer
        self._arrived = None
        if status in _ROWS:
            answer.rows += result.ntuples
            if self._checksum is not None:
                for row in range(result.ntuples):
                    _add_row(answer, *(result.get_value(row, at) for at in range(result.nfields)))
            answer.done += status == pq.ExecStatus.TUPLES_OK
            answer.results += status == pq.ExecStatus.TUPLES_OK
        elif status == pq.ExecStatus.COMMAND_OK:
            answer.rows += result.command_tuples or 0
            answer.done += 1
        elif status in _FAILED:
            state = result.error_field(pq.DiagnosticField.SQLSTATE)
            if answer.sqlstate is None:
                answer.sqlstate = state.decode() if state else LOST
                said = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY)
                whole = said or result.error_message
                text = whole.decode("utf-8", "replace")
                answer.said = secrets.redacted_start(text, _LONGEST_SAID)
        elif status in _COPY:
            self._copy(status)

    def _copy(self, status: int) -> None:
        if status == pq.ExecStatus.COPY_IN:
            self._pg.put_copy_end(b"the log does not contain the data of COPY")
            self._pg.flush()
            return
        self._is_copying = True

    def _has_read_copy(self) -> bool:
        """Read the rows of COPY TO that have arrived; return whether no more are to come."""
        while self._is_copying:
            size, row = self._pg.get_copy_data(1)
            if not size:
                return False
            self._is_copying, self._arrived = size > 0, None
            if self._is_copying:
                _add_row(self._answer, bytes(row))
            else:
                self._answer.results += 1
        return True

    def _lost(self, answer: Answer | None = None) -> LinkLost:
        said = self._pg.get_error_message()
        state = answer.sqlstate if answer is not None else None
        return LinkLost(secrets.redact(said.strip().splitlines()[0]) if said.strip() else "", state)


def _add_row(answer: Answer, *values: bytes | None) -> None:
    """Add a row to the checksum: a sum, so that rows in another order have the same, and rows twice another."""
    if answer.checksum is not None:
        row = marshal.dumps((answer.results, *values), _MARSHAL)
        digest = int.from_bytes(blake2b(row, digest_size=8).digest(), "big")
        answer.checksum = (answer.checksum + digest) % (1 << 64)


class _CancelRequest:
    """A connection that asks the server to cancel what a session runs."""

    def __init__(self, asking: pq.abc.PGcancelConn) -> None:
        self._asking = asking
        self._status: int = pq.PollingStatus.WRITING
        self._deadline = time.monotonic() + _CANCEL_WITHIN_S
        with suppress(psycopg.Error):
            asking.start()

    def __call__(self) -> bool:
        """Take the next step if it can be taken without waiting; return whether there is none left."""
        try:
            is_writing = self._status == pq.PollingStatus.WRITING
            ready = select.poll()
            ready.register(self._asking.socket, select.POLLOUT if is_writing else select.POLLIN)
            if ready.poll(0):
                self._status = self._asking.poll()
            elif time.monotonic() > self._deadline:
                self._status = pq.PollingStatus.FAILED
        except psycopg.Error:  # The server does not answer; what was to be canceled plays on.
            self._status = pq.PollingStatus.FAILED
        if self._status not in (pq.PollingStatus.OK, pq.PollingStatus.FAILED):
            return False
        self._asking.finish()
        return True


def _ignored(_: pq.abc.PGresult) -> None:
    """Drop a notice: libpq would print it."""
